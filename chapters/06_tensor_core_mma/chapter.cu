/// @file
/// Chapter 06 as the harness sees it.
#include <optional>
#include <string>
#include <type_traits>

#include "attention/launch.hpp"
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

// --- the variants: the tiles of each -----------------------------------------------------------------

template <class T, int d>
using Wmma = WmmaTiles<T, d, RowMajor>;
template <class T, int d>
using Mma = MmaTiles<T, d, RowMajor, false, NaturalExp>;
template <class T, int d>
using PaddedRows = MmaTiles<T, d, Padded, false, NaturalExp>;
template <class T, int d>
using SwizzledRows = MmaTiles<T, d, Swizzled, false, NaturalExp>;
template <class T, int d>
using QInRegisters = MmaTiles<T, d, Swizzled, true, NaturalExp>;
template <class T, int d>
using Exp2 = MmaTiles<T, d, Swizzled, true, FoldedExp2>;

/// Nothing if the kernels are compiled for the shape and the grid has room for its heads, otherwise what
/// would be valid.
template <class Sizes>
std::optional<Refusal> refuse_shape(const Shape& shape) {
  const std::string most = ": this variant takes at most " + std::to_string(kMostBlocksInYOrZ);
  if (shape.heads / shape.kv_heads > kMostBlocksInYOrZ) {
    return Refusal::variant("--heads is " + std::to_string(shape.heads) + most + " for each of --kv-heads");
  }
  if (shape.batch * shape.kv_heads > kMostBlocksInYOrZ) {
    return Refusal::variant("--batch " + std::to_string(shape.batch) + " times --kv-heads " +
                            std::to_string(shape.kv_heads) + most);
  }
  return refuse_unless_compiled<Sizes>(shape);
}

/// A variant with a block for each query tile of a head.
/// @param kernel_of  takes tiles by value, returns their kernel
template <template <class, int> class Tiles, class Sizes = LessonSizes, class KernelOf>
Step step(const char* name, const char* summary, KernelOf kernel_of) {
  return Step{
      .name = name,
      .summary = summary,
      .launch =
          [=](const Args& a, cudaStream_t stream) {
            select<Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
              using Tile = Tiles<T, d>;
              const dim3 grid(blocks_for(a.seq_q, Tile::Br), unsigned(a.heads / a.kv_heads),
                              unsigned(a.batch * a.kv_heads));
              launch_tiles<Tile>(kernel_of(Tile()), grid, stream, a.as<T>());
            });
          },
      .traffic = [](const Shape& shape) { return attention_traffic(shape, Tiles<__nv_bfloat16, 64>::Br); },
      .refuse = refuse_shape<Sizes>,
      .needs =
          [](const Shape& shape) {
            return select<Sizes>(shape.dtype, shape.head_dim, []<class T>(std::type_identity<T>, auto d) {
              return DeviceNeeds{.shared_bytes = Tiles<T, d>::kSharedBytes, .compute_capability = 80};
            });
          }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "06_tensor_core_mma",
      .title = "Tensor cores: matrix products on 16-bit fragments",
      .variants = {
          step<Wmma>("wmma", "the portable nvcuda::wmma: S and P pass through shared memory",
                     [](auto tiles) { return wmma_attention<decltype(tiles)>; }),
          step<Mma>("mma", "S stays in registers, as fragments; tiles are stored row after row",
                    [](auto tiles) { return mma_attention<decltype(tiles)>; }),
          step<PaddedRows>("padded", "16 bytes of padding after each row of a tile",
                           [](auto tiles) { return mma_attention<decltype(tiles)>; }),
          step<SwizzledRows>("swizzled", "no padding: XOR permutes the 16-byte chunks of a row",
                             [](auto tiles) { return mma_attention<decltype(tiles)>; }),
          step<QInRegisters>("q_in_registers", "loads the fragments of Q once instead of for every key tile",
                             [](auto tiles) { return mma_attention<decltype(tiles)>; }),
          step<Exp2, AllSizes>("exp2", "computes exp(x) as 2^y, with log2 e folded into the scale",
                               [](auto tiles) { return mma_attention<decltype(tiles)>; }),
      }};
}

}  // namespace fa
