/// @file
/// Chapter 06 as the harness sees it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "sizes.cuh"
#include "wmma.cuh"

namespace fa {
using namespace ch06;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

// --- the variants: a kernel each, and how it cuts the problem ---------------------------------------

template <template <int> class Layout, bool kQInRegisters, class Exp, class Sizes = LessonSizes>
struct MmaStep : Sizes {
  template <class T, int d>
  using Tile = MmaTiles<T, d, Layout, kQInRegisters, Exp>;
  template <class Tile>
  static auto kernel() {
    return mma_attention<Tile>;
  }
};
using Mma = MmaStep<RowMajor, false, NaturalExp>;
using PaddedRows = MmaStep<Padded, false, NaturalExp>;
using SwizzledRows = MmaStep<Swizzled, false, NaturalExp>;
using QInRegisters = MmaStep<Swizzled, true, NaturalExp>;
using Exp2 = MmaStep<Swizzled, true, FoldedExp2, AllSizes>;

struct Wmma : LessonSizes {
  template <class T, int d>
  using Tile = WmmaTiles<T, d, RowMajor>;
  template <class Tile>
  static auto kernel() {
    return wmma_attention<Tile>;
  }
};

template <std::size_t kCount, class T>
constexpr bool contains(const std::array<T, kCount>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

template <class Choice, DType kType>
void launch_as(const Args& a, cudaStream_t stream) {
  using T = std::conditional_t<kType == DType::kFloat16, __half, __nv_bfloat16>;
  with_head_dim(a.head_dim, [&](auto d) {
    if constexpr (contains(Choice::kHeadDims, int(d)) && contains(Choice::kTypes, kType)) {
      using Tile = typename Choice::template Tile<T, d>;
      const dim3 grid(unsigned((a.seq_q + Tile::Br - 1) / Tile::Br), unsigned(a.heads / a.kv_heads),
                      unsigned(a.batch) * unsigned(a.kv_heads));
      launch(Choice::template kernel<Tile>(), grid, Tile::kThreads, Tile::kSharedBytes, stream, a.as<T>());
    }
  });
}

template <class Choice>
void launch_step(const Args& a, cudaStream_t stream) {
  if (a.dtype == DType::kFloat16) return launch_as<Choice, DType::kFloat16>(a, stream);
  return launch_as<Choice, DType::kBFloat16>(a, stream);
}

// --- what they ask of HBM -------------------------------------------------------------------------

/// Q is read and O written once, in 16 bits. Of K and V each block reads the keys that its last query sees.
Traffic traffic_of(const Shape& shape, int Br) {
  std::int64_t keys = 0;  // that the blocks of a head read
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    keys += shape.visible_keys(std::min(first + Br, shape.seq_q) - 1);
  }
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t row = heads * shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t rows = shape.seq_q;
  return {.tensors = {{"q", {.read_bytes = row * rows}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = row * keys}},
                      {"o", {.write_bytes = row * rows}},
                      {"lse", {.write_bytes = heads * rows * std::int64_t(sizeof(float))}}}};
}

template <class Choice>
Step step(const char* name, const char* summary) {
  return Step{
      .name = name,
      .summary = summary,
      .launch = launch_step<Choice>,
      .traffic =
          [](const Shape& shape) { return traffic_of(shape, Choice::template Tile<__nv_bfloat16, 64>::Br); },
      .refuse = [](const Shape& shape) -> std::optional<std::string> {
        return refuse_unless(shape, {Choice::kHeadDims.begin(), Choice::kHeadDims.end()},
                             {Choice::kTypes.begin(), Choice::kTypes.end()});
      }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "06_tensor_core_mma",
      .title = "Tensor cores: the products as mma of 16-bit fragments",
      .variants = {
          step<Wmma>("wmma", "the portable nvcuda::wmma: S and P pass through shared memory"),
          step<Mma>("mma", "fragments in registers: S never leaves them; tiles row after row"),
          step<PaddedRows>("padded", "16 bytes between the rows of a tile"),
          step<SwizzledRows>("swizzled", "no padding: 16-byte chunks of a row change places by XOR"),
          step<QInRegisters>("q_in_registers", "Q is loaded into fragments once, not for every key tile"),
          step<Exp2>("exp2", "exp(x) as 2^x, log2 e folded into the scale"),
      }};
}

}  // namespace fa
