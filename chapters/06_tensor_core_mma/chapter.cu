/// @file
/// Chapter 06 as the harness sees it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

// --- the variants: how each cuts the problem, for an element type and a head dimension ------------------

struct Mma {
  template <class T, int d>
  using Tile = MmaTiles<T, d, RowMajor, false, NaturalExp>;
};
struct PaddedRows {
  template <class T, int d>
  using Tile = MmaTiles<T, d, Padded, false, NaturalExp>;
};
struct SwizzledRows {
  template <class T, int d>
  using Tile = MmaTiles<T, d, Swizzled, false, NaturalExp>;
};
struct QInRegisters {
  template <class T, int d>
  using Tile = MmaTiles<T, d, Swizzled, true, NaturalExp>;
};
struct Exp2 {
  template <class T, int d>
  using Tile = MmaTiles<T, d, Swizzled, true, FoldedExp2>;
};

/// What a variant is compiled for. The steps on the way are for what the lesson shows, which keeps the build short.
struct Supported {
  std::vector<std::int64_t> head_dims;
  std::vector<DType> dtypes;
};
template <class Step>
Supported supported_by() {
  return {{64, 128}, {DType::kBFloat16}};
}
template <>
Supported supported_by<Exp2>() {
  return {{32, 64, 128}, {DType::kFloat16, DType::kBFloat16}};
}

template <class Tile>
void launch_tile(const Args& a, cudaStream_t stream) {
  const dim3 grid((a.seq_q + Tile::Br - 1) / Tile::Br, a.batch * a.heads);
  const std::size_t shared_bytes = sizeof(typename Tile::T) * Tile::kElements;
  launch(mma_attention<Tile>, grid, Tile::kThreads, shared_bytes, stream, a.as<typename Tile::T>());
}

template <class Step>
void launch_step(const Args& a, cudaStream_t stream) {
  switch (a.head_dim) {
    case 64: return launch_tile<typename Step::template Tile<__nv_bfloat16, 64>>(a, stream);
    case 128: return launch_tile<typename Step::template Tile<__nv_bfloat16, 128>>(a, stream);
  }
  throw std::invalid_argument("no kernel for head_dim " + std::to_string(a.head_dim));
}

template <class T>
void launch_exp2_as(const Args& a, cudaStream_t stream) {
  switch (a.head_dim) {
    case 32: return launch_tile<Exp2::Tile<T, 32>>(a, stream);
    case 64: return launch_tile<Exp2::Tile<T, 64>>(a, stream);
    case 128: return launch_tile<Exp2::Tile<T, 128>>(a, stream);
  }
  throw std::invalid_argument("no kernel for head_dim " + std::to_string(a.head_dim));
}
template <>
void launch_step<Exp2>(const Args& a, cudaStream_t stream) {
  return a.dtype == DType::kFloat16 ? launch_exp2_as<__half>(a, stream)
                                    : launch_exp2_as<__nv_bfloat16>(a, stream);
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
  return Step{.name = name,
              .summary = summary,
              .launch = launch_step<Choice>,
              .traffic = [](const Shape& shape) {
                return traffic_of(shape, Choice::template Tile<__nv_bfloat16, 64>::Br);
              },
              .refuse = [](const Shape& shape) -> std::optional<std::string> {
                const Supported supported = supported_by<Choice>();
                return refuse_unless(shape, supported.head_dims, supported.dtypes);
              }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "06_tensor_core_mma",
      .title = "Tensor cores: the products as mma of 16-bit fragments",
      .variants = {
          step<Mma>("mma", "fragments in registers: S never leaves them; tiles row after row"),
          step<PaddedRows>("padded", "16 bytes between the rows of a tile"),
          step<SwizzledRows>("swizzled", "no padding: 16-byte chunks of a row change places by XOR"),
          step<QInRegisters>("q_in_registers", "Q is loaded into fragments once, not for every key tile"),
          step<Exp2>("exp2", "exp(x) as 2^x, log2 e folded into the scale"),
      }};
}

}  // namespace fa
