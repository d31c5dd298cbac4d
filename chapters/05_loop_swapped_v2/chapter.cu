/// @file
/// Chapter 05 as the harness sees it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention/dispatch.cuh"
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

/// The steps that lead to `register_tiled` take dense tensors.
struct LessonSizes : PowersOfTwo {
  static constexpr std::array kTypes = {DType::kFloat32};
};
/// `register_tiled` takes any strides, and every multiple of 8.
struct AllSizes : LessonSizes {
  static constexpr bool kPads = true;
};

/// Calls f(Tile<d>()) with the width d of the kernel that computes head_dim, or f(Smaller<d>()) on a device
/// whose shared memory is too small for that.
template <class Sizes, template <int> class Tile, template <int> class Smaller, class F>
auto with_tiles(std::int64_t head_dim, F f) {
  return with_head_dim<Sizes>(head_dim, [&](auto d) {
    return with_tiles_that_fit<Tile<d>, Smaller<d>>(
        [&]<class Fitting>(std::type_identity<Fitting>) { return f(Fitting()); });
  });
}

/// Calls f(Policy()), or f(AnyRows<Policy>()) if the variant takes any tensors and these are not dense.
template <class Sizes, class Policy, class F>
void with_rows_of(const Args& a, F f) {
  if constexpr (pads<Sizes>()) {
    bool is_dense = a.head_dim == Policy::kHeadDim;
    for (const char* name : {"q", "k", "v", "o"})
      is_dense = is_dense && a.strides.at(name).row == Policy::kHeadDim;
    with_dense(is_dense,
               [&](auto dense) { f(std::conditional_t<decltype(dense)::value, Policy, AnyRows<Policy>>()); });
  } else {
    f(Policy());
  }
}

/// A variant with one block per query tile of each head of each batch.
///
/// @tparam Smaller   the policy for devices whose shared memory is too small for Tile
/// @param kernel_of  takes a policy by value, returns its kernel
template <template <int> class Tile, template <int> class Smaller = Tile, class Sizes = LessonSizes,
          class KernelOf>
Step step(const char* name, const char* summary, KernelOf kernel_of) {
  return Step{.name = name,
              .summary = summary,
              .launch =
                  [kernel_of](const Args& a, cudaStream_t stream) {
                    with_tiles<Sizes, Tile, Smaller>(a.head_dim, [&](auto tiles_that_fit) {
                      with_rows_of<Sizes, decltype(tiles_that_fit)>(a, [&](auto policy) {
                        using Policy = decltype(policy);
                        const unsigned tiles = unsigned((a.seq_q - 1) / Policy::Br + 1);
                        launch(kernel_of(policy), tiles * unsigned(a.batch) * unsigned(a.heads),
                               Policy::kThreads, shared_bytes_of<Policy>(), stream, a.as<float>());
                      });
                    });
                  },
              .traffic =
                  [](const Shape& shape) {
                    return with_tiles<Sizes, Tile, Smaller>(shape.head_dim, [&](auto policy) {
                      return attention_traffic(shape, decltype(policy)::Br);
                    });
                  },
              .refuse = refuse_unless_compiled<Sizes>,
              .takes_strides = pads<Sizes>(),
              .needs =
                  [](const Shape& shape) {
                    return with_tiles<Sizes, Tile, Smaller>(shape.head_dim, [](auto policy) {
                      return DeviceNeeds{.shared_bytes = shared_bytes_of<decltype(policy)>()};
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
