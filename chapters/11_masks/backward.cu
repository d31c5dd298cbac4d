#include "backward.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "08_backward/arguments.cuh"
#include "08_backward/fp32.cuh"
#include "attention/dispatch.cuh"
#include "backward.cuh"
#include "bytes.hpp"
#include "device/launch.cuh"
#include "list_buffers.hpp"
#include "list_tiles.cuh"
#include "problem.cuh"
#include "sizes.cuh"

namespace fa::ch11 {
namespace {

using namespace ch08;
using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

// --- the variants: a kernel, how it finds its tiles, and the sizes it is compiled for ----------------------

template <class T, int d>
using LargeTiles = FusedTiles<T, d, 2, Float4Sums>;
template <class T, int d>
using SmallTiles = SmallFusedTiles<T, d, 2, Float4Sums>;

// Kernels that visit the tiles they find themselves.
struct MaskedEverywhere {
  using Sizes = LessonSizes;
  using Mods = NoMods;
  static constexpr Finds kFinds = Finds::kAllTiles;
  template <class Tile>
  static constexpr auto kKernel = masked_gradients<Tile>;
};
struct SkipEmpty {
  using Sizes = LessonSizes;
  using Mods = NoMods;
  static constexpr Finds kFinds = Finds::kVisible;
  template <class Tile>
  static constexpr auto kKernel = skipping_gradients<Tile>;
};
struct ThreeKinds {
  using Sizes = LessonSizes;
  using Mods = NoMods;
  static constexpr Finds kFinds = Finds::kVisible;
  template <class Tile>
  static constexpr auto kKernel = three_kinds_gradients<Tile>;
};
/// The tiles of lists.
/// @tparam kBlocks  for a pattern of blocks alone: no list names a partial tile, and tiles fit blocks
template <class AnyMods, bool kBlocks = false>
struct Sparse {
  static constexpr bool kOnlyBlocks = kBlocks;
  using Sizes = AllSizes;
  using Mods = AnyMods;
  static constexpr Finds kFinds = Finds::kListed;
};

/// The buffers of a kernel's lists.
template <class Kernel>
const ListBuffers& lists_of() {
  return Kernel::Mods::kLongestFirst ? kOrderedQueryTiles : kQueryTiles;
}

/// Calls f(std::type_identity<Tile>()) with the tiles of a variant: the small ones for blocks of 64, whose
/// tiles have 64 keys, and where the large ones do not fit. @param size_of_blocks  64 or 128
template <class Kernel, class T, int d, class F>
auto with_tiles([[maybe_unused]] std::int64_t size_of_blocks, F f) {
  if constexpr (requires { requires Kernel::kOnlyBlocks; }) {
    if (size_of_blocks == SmallTiles<T, d>::Bc) return f(std::type_identity<SmallTiles<T, d>>());
  }
  return with_tiles_that_fit<LargeTiles<T, d>,
                             std::conditional_t<(d > 64), SmallTiles<T, d>, LargeTiles<T, d>>>(f);
}

/// The same for a shape. The sizes of tiles do not depend on the type.
template <class Kernel, class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<typename Kernel::Sizes>(shape.head_dim, [&](auto d) {
    return with_tiles<Kernel, __nv_bfloat16, d>(shape.block_mask ? shape.block_mask->size : 0, f);
  });
}

// --- launches ----------------------------------------------------------------------------------------------

template <class T>
Backward<T> gradients_of(const Args& a) {
  Backward<T> b = ch08::backward_of<T>(a);
  b.dq_sum = a.buffer<float>("dq_sum");
  return b;
}

template <class Kernel>
void launch_gradients(const Args& a, cudaStream_t stream) {
  with_compiled<typename Kernel::Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_tiles<Kernel, T, d>(a.size_of_blocks, [&]<class Tile>(std::type_identity<Tile>) {
      const Backward<T> b = gradients_of<T>(a);
      const std::size_t heads = std::size_t(a.batch) * std::size_t(a.heads);
      const unsigned query_tiles = unsigned(((a.seq_q - 1) / Tile::Br + 1) * heads);
      using OfDelta = DeltaRows<T, d>;
      launch(compute_delta<T, d>, blocks_for(heads * std::size_t(a.seq_q), OfDelta::kRowsOfBlock),
             OfDelta::kThreads, 0, stream, b);
      const std::size_t sums = std::size_t(query_tiles) * Tile::Br * std::size_t(a.head_dim) / 4;
      launch(fill_with_zeros, blocks_for(sums, 256), 256, 0, stream, b.dq_sum, sums);
      const Masks masks = masks_of(a);
      const std::int64_t kv_heads = a.batch * a.kv_heads;
      const dim3 blocks = unsigned(tiles(a.seq_k, Tile::Bc) * kv_heads);
      with_dense(is_dense<Tile>(a), [&](auto dense) {
        using Rows = std::conditional_t<decltype(dense)::value, Dense<Tile>, Tile>;
        if constexpr (Kernel::kFinds == Finds::kListed) {
          using Mods = typename Kernel::Mods;
          const BlockMask lists = make_lists<QueriesOfKeys<Tile>>(lists_of<Kernel>(), a, stream);
          launch(sparse_gradients<Rows, Mods>,
                 lists.order ? grid_of_rows(lists, kv_heads, Tile::kBlocksPerSm) : blocks, Tile::kThreads,
                 Tile::kSharedBytes, stream, b, masks, lists, bind<Mods>(a));
        } else {
          launch(Kernel::template kKernel<Rows>, blocks, Tile::kThreads, Tile::kSharedBytes, stream, b,
                 masks);
        }
      });
      Backward<T> sums_of = b;
      sums_of.scale *= a.dropout.scale;
      launch(convert_dq<Tile>, query_tiles, Tile::kThreads, 0, stream, sums_of);
    });
  });
}

template <class Kernel>
Traffic traffic(const Shape& shape) {
  return with_tiles_for<Kernel>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    return backward_traffic<Tile>(shape, Kernel::kFinds, lists_of<Kernel>());
  });
}

template <class Kernel>
std::vector<TensorSpec> workspace(const Shape& shape) {
  return with_tiles_for<Kernel>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    std::vector<TensorSpec> specs = {
        {.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}},
        {.name = "dq_sum", .shape = {rows_of_sums<Tile>(shape), shape.head_dim}},
    };
    if (Kernel::kFinds == Finds::kListed) add_specs<QueriesOfKeys<Tile>>(specs, lists_of<Kernel>(), shape);
    return specs;
  });
}

template <class Kernel>
Pass pass() {
  return {.launch = launch_gradients<Kernel>,
          .traffic = traffic<Kernel>,
          .workspace = workspace<Kernel>,
          .shared_bytes =
              [](const Shape& shape) {
                return with_tiles_for<Kernel>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                  return std::size_t(Tile::kSharedBytes);
                });
              },
          .refuse = [](const Shape& shape) -> std::optional<Refusal> {
            if (Kernel::kFinds != Finds::kListed) return std::nullopt;
            return with_tiles_for<Kernel>(shape, [&]<class Tile>(std::type_identity<Tile>) {
              return refuse_more_rows(lists_of<Kernel>(), "--seq-k", shape.seq_k, Tile::Bc);
            });
          }};
}

}  // namespace

Pass backward::masked_everywhere() { return pass<MaskedEverywhere>(); }
Pass backward::skip_empty() { return pass<SkipEmpty>(); }
Pass backward::three_kinds() { return pass<ThreeKinds>(); }
Pass backward::compressed() { return pass<Sparse<NoMods>>(); }
Pass backward::block_sparse() { return pass<Sparse<NoMods, true>>(); }
Pass backward::dropout() { return pass<Sparse<Mods<NoScoreMods, WithDropout>>>(); }
Pass backward::scores() { return pass<Sparse<Mods<ScoreMods, NoDropout>>>(); }

}  // namespace fa::ch11
