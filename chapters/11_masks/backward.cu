/// @file
/// The backward pass of all variants but `hopper`.
#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "08_backward/arguments.cuh"
#include "08_backward/fp32.cuh"
#include "attention/launch.hpp"
#include "backward.cuh"
#include "bytes.hpp"
#include "deterministic.cuh"
#include "device/launch.cuh"
#include "launch.hpp"
#include "list_tiles.cuh"

namespace fa::ch11 {
namespace {

using namespace ch08;

/// Those whose rows must have no gaps for tiles that are Dense: the copied ones.
constexpr std::initializer_list<const char*> kCopied = {"q", "k", "v", "do"};

// --- steps: dQ by atomic additions -------------------------------------------------------------------------

template <class T, int d>
using LargeTiles = FusedTiles<T, d, 2, Float4Sums>;
template <class T, int d>
using SmallTiles = SmallFusedTiles<T, d, 2, Float4Sums>;

template <class Tile>
constexpr auto kernel_of(MaskedEverywhere) {
  return masked_gradients<Tile>;
}
template <class Tile>
constexpr auto kernel_of(SkipEmpty) {
  return skipping_gradients<Tile>;
}
template <class Tile>
constexpr auto kernel_of(ThreeKinds) {
  return three_kinds_gradients<Tile>;
}

/// The buffers of a step's lists.
template <class Step>
const ListBuffers& lists_of() {
  return Step::Mods::kLongestFirst ? kOrderedQueryTiles : kQueryTiles;
}

/// Calls f(std::type_identity<Tile>()) with a step's tiles: the small ones for blocks of 64, whose tiles have
/// 64 keys, and where the large ones do not fit. Returns what it returns.
/// @param size_of_blocks  64 or 128
template <class Step, class T, int d, class F>
auto with_tiles([[maybe_unused]] std::int64_t size_of_blocks, const F& f) {
  if constexpr (Step::Mods::kOnlyFullTiles) {
    if (size_of_blocks == SmallTiles<T, d>::Bc) return f(std::type_identity<SmallTiles<T, d>>());
  }
  return with_tiles_that_fit<LargeTiles<T, d>,
                             std::conditional_t<(d > 64), SmallTiles<T, d>, LargeTiles<T, d>>>(f);
}

/// The same for a shape. The sizes of tiles do not depend on the type.
template <class Step, class F>
auto with_tiles_for(const Shape& shape, const F& f) {
  return select<typename Step::Sizes>(shape.dtype, shape.head_dim, [&](auto, auto d) {
    return with_tiles<Step, __nv_bfloat16, d>(shape.block_mask ? shape.block_mask->size : 0, f);
  });
}

template <class Step>
void launch_gradients(const Args& a, cudaStream_t stream) {
  // The kernel of `compressed` computes a pattern as well: tiles fit the blocks, and no list names a partial
  // one.
  using Mods = std::conditional_t<Step::Mods::kOnlyFullTiles, NoMods, typename Step::Mods>;
  const bool no_gaps = are_dense(a, kCopied);
  const auto launch_of = [&]<class T>(std::type_identity<T>, auto d, auto dense) {
    with_tiles<Step, T, d>(a.size_of_blocks, [&]<class Tile>(std::type_identity<Tile>) {
      Backward<T> b = backward_of<T>(a);
      b.dq_sum = a.buffer<float>("dq_sum");
      const unsigned query_tiles = blocks_of_queries(a, Tile::Br);
      using OfDelta = DeltaRows<T, d>;
      launch(compute_delta<T, d>,
             blocks_for(std::int64_t(a.batch) * a.heads * a.seq_q, OfDelta::kRowsOfBlock), OfDelta::kThreads,
             0, stream, b);
      const std::size_t sums = std::size_t(query_tiles) * Tile::Br * std::size_t(a.head_dim) / 4;
      launch(fill_with_zeros, blocks_for(sums, 256), 256, 0, stream, b.dq_sum, sums);
      const Masks masks = masks_of(a);
      using Rows = std::conditional_t<dense, Dense<Tile>, Tile>;
      if constexpr (Step::kFinds == Finds::kListed) {
        const BlockMask lists = make_lists<QueriesOfKeys<Tile>>(lists_of<Step>(), a, stream);
        launch_tiles<Rows>(sparse_gradients<Rows, Mods>, grid_of<Tile>(lists, a.batch * a.kv_heads), stream,
                           b, masks, lists, bind<Mods>(a));
      } else {
        launch_tiles<Rows>(kernel_of<Rows>(Step()), blocks_of_keys(a, Tile::Bc), stream, b, masks);
      }
      launch_sink_gradients(a, a.seq_q, stream);
      b.scale *= a.dropout.scale;
      launch(convert_dq<Tile>, query_tiles, Tile::kThreads, 0, stream, b);
    });
  };
  select<typename Step::Sizes>(a.dtype, a.head_dim, no_gaps, launch_of);
}

template <class Step>
Traffic traffic_of(const Shape& shape) {
  return with_tiles_for<Step>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    return backward_traffic<Tile>(shape, Step::kFinds, lists_of<Step>());
  });
}

template <class Step>
Pass::Needs needs_of(const Shape& shape) {
  return with_tiles_for<Step>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    Pass::Needs needs{
        .shared_bytes = Tile::kSharedBytes,
        .workspace = {{.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}},
                      {.name = "dq_sum", .shape = {rows_of_sums<Tile>(shape), shape.head_dim}}}};
    if (Step::kFinds == Finds::kListed) {
      add_specs<QueriesOfKeys<Tile>>(needs.workspace, lists_of<Step>(), shape);
      needs.refusal = refuse_more_rows(lists_of<Step>(), "--seq-k", shape.seq_k, Tile::Bc);
    }
    return needs;
  });
}

template <class Step>
constexpr Pass kPass = {
    .launch = launch_gradients<Step>, .traffic = traffic_of<Step>, .needs = needs_of<Step>};

template <class... Mods>
Pass pass_of(std::type_index step, std::type_identity<std::tuple<Mods...>>) {
  const std::map<std::type_index, Pass> passes = {{typeid(MaskedEverywhere), kPass<MaskedEverywhere>},
                                                  {typeid(SkipEmpty), kPass<SkipEmpty>},
                                                  {typeid(ThreeKinds), kPass<ThreeKinds>},
                                                  {typeid(Sparse<Mods>), kPass<Sparse<Mods>>}...};
  return passes.at(step);
}

// --- deterministic -----------------------------------------------------------------------------------------

const ListBuffers kKeyTilesOfDq = {"dq_query_rows", "dq_key_tiles", "dq_query_row_order"};

template <class T, int d, class Keys>
using TilesWith = ListedGradientTiles<QueryGradientTiles<T, d>, Keys>;

/// Calls f(std::type_identity<Tile>()): with small key tiles where the large ones do not fit.
template <class T, int d, class F>
auto with_both_tiles(const F& f) {
  using Large = TilesWith<T, d, KeyGradientTiles<T, d>>;
  using Small = TilesWith<T, d, SmallKeyGradientTiles<T, d>>;
  return with_tiles_that_fit<Large, std::conditional_t<(d > 64), Small, Large>>(f);
}

/// The same for a shape. The sizes of tiles do not depend on the type.
template <class F>
auto with_both_tiles_for(const Shape& shape, const F& f) {
  return select<AllSizes>(shape.dtype, shape.head_dim,
                          [&](auto, auto d) { return with_both_tiles<__nv_bfloat16, d>(f); });
}

void launch_deterministic(const Args& a, cudaStream_t stream) {
  const bool no_gaps = are_dense(a, kCopied);
  const auto launch_of = [&]<class T>(std::type_identity<T>, auto d, auto dense) {
    with_both_tiles<T, d>([&]<class Tile>(std::type_identity<Tile>) {
      using Queries = typename Tile::Queries;
      using Keys = typename Tile::Keys;
      const Backward<T> b = backward_of<T>(a);
      const std::size_t rows = std::size_t(a.batch * a.heads * a.seq_q);
      launch(mark_missing, blocks_for(rows, 256), 256, 0, stream, b.delta, rows);
      const auto key_lists = lists_in<KeysOfQueries<Queries>>(kKeyTilesOfDq, a);
      const auto query_lists = lists_in<QueriesOfKeys<Keys>>(kOrderedQueryTiles, a);
      make_lists(a, stream, key_lists, query_lists);
      using WithRows = ListedGradientTiles<Queries, std::conditional_t<dense, Dense<Keys>, Keys>>;
      const unsigned blocks = blocks_of_head<Tile>(int(a.heads / a.kv_heads), key_lists, query_lists);
      launch_tiles<WithRows>(deterministic_gradients<WithRows>,
                             dim3(blocks, unsigned(a.batch * a.kv_heads) + Tile::kHeadsAhead), stream, b,
                             masks_of(a), key_lists, query_lists);
      launch_sink_gradients(a, a.seq_q, stream);
    });
  };
  select<AllSizes>(a.dtype, a.head_dim, no_gaps, launch_of);
}

Traffic traffic_of_deterministic(const Shape& shape) {
  return with_both_tiles_for(shape, [&]<class Tile>(std::type_identity<Tile>) {
    Traffic traffic = key_tile_traffic<typename Tile::Keys>(shape, Finds::kListed, kOrderedQueryTiles);
    // A forward pass writes O and LSE. The blocks with query tiles read them, and write dQ.
    Traffic of_dq = forward_traffic<typename Tile::Queries>(shape, Finds::kListed, kKeyTilesOfDq);
    auto& of = of_dq.tensors;
    of["dq"] = of.at("o");
    of["o"] = of["do"] = of.at("q");
    of["lse"].write_bytes = 0;
    of["delta"] = {.write_bytes = 2 * of["lse"].read_bytes};  // a mark, then the value
    return sum(traffic, of_dq);
  });
}

Pass::Needs needs_of_deterministic(const Shape& shape) {
  return with_both_tiles_for(shape, [&]<class Tile>(std::type_identity<Tile>) {
    Pass::Needs needs{.shared_bytes = Tile::kSharedBytes,
                      .workspace = {{.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}}}};
    add_specs<KeysOfQueries<typename Tile::Queries>>(needs.workspace, kKeyTilesOfDq, shape);
    add_specs<QueriesOfKeys<typename Tile::Keys>>(needs.workspace, kOrderedQueryTiles, shape);
    const std::int64_t most = kMostBlocksInYOrZ - Tile::kHeadsAhead;
    if (shape.batch * shape.kv_heads > most) {
      needs.refusal = Refusal::variant("--batch " + std::to_string(shape.batch) + " times --kv-heads " +
                                       std::to_string(shape.kv_heads) + ": this variant takes at most " +
                                       std::to_string(most) + " with --backward");
    }
    return needs;
  });
}

}  // namespace

Pass backward(std::type_index step) { return pass_of(step, std::type_identity<AllMods>()); }

Pass deterministic_backward() {
  return {
      .launch = launch_deterministic, .traffic = traffic_of_deterministic, .needs = needs_of_deterministic};
}

}  // namespace fa::ch11
