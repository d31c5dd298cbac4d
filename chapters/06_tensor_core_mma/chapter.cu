/// @file
/// Chapter 06 as the harness sees it.
#include <optional>
#include <string>
#include <type_traits>

#include "attention/dispatch.cuh"
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

// --- the variants: the kernel of each, and how it divides the problem -------------------------------

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

template <class Choice>
void launch_step(const Args& a, cudaStream_t stream) {
  with_compiled<Choice>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    using Tile = typename Choice::template Tile<T, d>;
    const dim3 grid(unsigned((a.seq_q + Tile::Br - 1) / Tile::Br), unsigned(a.heads / a.kv_heads),
                    unsigned(a.batch) * unsigned(a.kv_heads));
    launch(Choice::template kernel<Tile>(), grid, Tile::kThreads, Tile::kSharedBytes, stream, a.as<T>());
  });
}

/// Nothing if the kernels are compiled for the shape and the grid has room for its heads, otherwise what
/// would be valid.
template <class Choice>
std::optional<Refusal> refuse_shape(const Shape& shape) {
  const std::string most = ": this variant takes at most " + std::to_string(kMostBlocksInYOrZ);
  if (shape.heads / shape.kv_heads > kMostBlocksInYOrZ) {
    return Refusal::variant("--heads is " + std::to_string(shape.heads) + most + " for each of --kv-heads");
  }
  if (shape.batch * shape.kv_heads > kMostBlocksInYOrZ) {
    return Refusal::variant("--batch " + std::to_string(shape.batch) + " times --kv-heads " +
                            std::to_string(shape.kv_heads) + most);
  }
  return refuse_unless_compiled<Choice>(shape);
}

template <class Choice>
Step step(const char* name, const char* summary) {
  return Step{.name = name,
              .summary = summary,
              .launch = launch_step<Choice>,
              .traffic =
                  [](const Shape& shape) {
                    return attention_traffic(shape, Choice::template Tile<__nv_bfloat16, 64>::Br);
                  },
              .refuse = refuse_shape<Choice>,
              .needs =
                  [](const Shape& shape) {
                    DeviceNeeds needs{.compute_capability = 80};
                    with_compiled<Choice>(shape.dtype, shape.head_dim,
                                          [&]<class T>(std::type_identity<T>, auto d) {
                                            needs.shared_bytes = Choice::template Tile<T, d>::kSharedBytes;
                                          });
                    return needs;
                  }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "06_tensor_core_mma",
      .title = "Tensor cores: matrix products on 16-bit fragments",
      .variants = {
          step<Wmma>("wmma", "the portable nvcuda::wmma: S and P pass through shared memory"),
          step<Mma>("mma", "S stays in registers, as fragments; tiles are stored row after row"),
          step<PaddedRows>("padded", "16 bytes of padding after each row of a tile"),
          step<SwizzledRows>("swizzled", "no padding: XOR permutes the 16-byte chunks of a row"),
          step<QInRegisters>("q_in_registers", "loads the fragments of Q once instead of for every key tile"),
          step<Exp2>("exp2", "computes exp(x) as 2^y, with log2 e folded into the scale"),
      }};
}

}  // namespace fa
