/// @file
/// Chapter 05 as the harness sees it.
#include <type_traits>

#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "outer_products.cuh"

namespace fa {
using namespace ch05;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

// The policies of the variants, by head dimension. Each changes one thing.
template <int d>
using SlicedK = Sliced<SmallTiles<d>, SmallTiles<d>::kWarps>;
template <int d>
using SlicedQ = Sliced<SmallTiles<d>, 1>;
template <int d>
using OuterProducts = RegisterTiles<SmallTiles<d>, 1>;
template <int d>
using LargeOuterProducts = RegisterTiles<LargeTiles<d>, 1>;
template <int d>
using RegisterTiled = RegisterTiles<LargeTiles<d>, 2>;
template <int d>
using SmallRegisterTiled = RegisterTiles<SmallTiles<d>, 2>;

/// `register_tiled` takes any strides, and every multiple of 8; the steps that lead to it take dense tensors.
struct AllSizes : PowersOfTwo {
  static constexpr bool kPads = true;
};

/// A variant with one block per query tile of each head of each batch.
///
/// @tparam Smaller   the policy for devices whose shared memory is too small for Tile
/// @param kernel_of  takes a policy by value, returns its kernel
template <template <int> class Tile, template <int> class Smaller = Tile, class Sizes = PowersOfTwo,
          class KernelOf>
Step step(const char* name, const char* summary, KernelOf kernel_of) {
  return Step{
      .name = name,
      .summary = summary,
      .launch =
          [kernel_of](const Args& a, cudaStream_t stream) {
            const bool no_gaps = are_dense(a, {"q", "k", "v", "o"});
            select<Sizes>(a.dtype, a.head_dim, no_gaps, [&](auto, auto d, auto dense) {
              with_tiles_that_fit<Tile<d>, Smaller<d>>([&]<class Tiles>(std::type_identity<Tiles>) {
                using Policy = std::conditional_t<dense || !pads<Sizes>(), Tiles, AnyRows<Tiles>>;
                launch_tiles<Policy>(kernel_of(Policy()), blocks_of_queries(a, Policy::Br), stream,
                                     a.as<float>());
              });
            });
          },
      .traffic =
          [](const Shape& shape) {
            return select<Sizes>(shape.dtype, shape.head_dim, [&](auto, auto d) {
              return with_tiles_that_fit<Tile<d>, Smaller<d>>([&]<class Tiles>(std::type_identity<Tiles>) {
                return attention_traffic(shape, Tiles::Br);
              });
            });
          },
      .refuse = refuse_unless_compiled<Sizes>,
      .takes_strides = pads<Sizes>(),
      .needs =
          [](const Shape& shape) {
            return select<Sizes>(shape.dtype, shape.head_dim, [](auto, auto d) {
              return with_tiles_that_fit<Tile<d>, Smaller<d>>([]<class Tiles>(std::type_identity<Tiles>) {
                return DeviceNeeds{.shared_bytes = shared_bytes_of<Tiles>()};
              });
            });
          }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "05_loop_swapped_v2",
      .title = "FlashAttention v2: queries and their O stay on the chip, keys stream past",
      .variants = {
          step<SlicedK>("sliced_k", "warps split the keys of a tile, so all of them share every row",
                        [](auto tile) { return sliced_k_attention<decltype(tile)>; }),
          step<SlicedQ>("sliced_q", "warps split the queries, so no row is shared",
                        [](auto tile) { return sliced_q_attention<decltype(tile)>; }),
          step<OuterProducts>("outer_products",
                              "lanes add up outer products in registers: rows by keys, rows by columns",
                              [](auto tile) { return outer_products_attention<decltype(tile)>; }),
          step<LargeOuterProducts>("large_tiles", "128 queries per tile, so K and V are read less often",
                                   [](auto tile) { return outer_products_attention<decltype(tile)>; }),
          step<RegisterTiled, SmallRegisterTiled, AllSizes>(
              "register_tiled", "prefetches the next slice and line while the lanes multiply",
              [](auto tile) { return register_tiled_attention<decltype(tile)>; }),
      }};
}

}  // namespace fa
