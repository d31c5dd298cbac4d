/// @file
/// Both passes of `hopper`.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "09_hopper/tensor_maps.cuh"
#include "10_hopper_backward/arguments.cuh"
#include "10_hopper_backward/prepare.cuh"
#include "10_hopper_backward/sizes.cuh"
#include "10_hopper_backward/tensor_maps.cuh"
#include "attention/launch.hpp"
#include "bytes.hpp"
#include "device/divisor.cuh"
#include "device/launch.cuh"
#include "hopper.cuh"
#include "hopper_backward.cuh"
#include "launch.hpp"
#include "list_tiles.cuh"

namespace fa::ch11 {
namespace {

using namespace hopper;

// --- forward -----------------------------------------------------------------------------------------------

template <class T, int d>
using ForwardTiles = ch09::HopperTiles<T, d, ListedChoices<d>>;

void launch_forward(const Args& a, cudaStream_t stream) {
  select<AllSizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    using Tile = ForwardTiles<T, d>;
    const BlockMask lists = make_lists<KeysOfQueries<Tile>>(kKeyTiles, a, stream);
    const auto attention = a.as<T>();
    int* counter = a.buffer<int>("queue");
    FA_CUDA_CHECK(cudaMemsetAsync(counter, 0, sizeof(int), stream));
    const unsigned blocks = unsigned(std::min(multiprocessors(), ch09::query_tiles<Tile>(attention)));
    const auto launch_with = [&]<class Sinks>(const Sinks& sinks) {
      launch(listed_attention<Tile, Sinks>, blocks, Tile::kThreads, sizeof(ListedTilesMemory<Tile>), stream,
             attention, ch09::tensor_maps<Tile>(attention, Tile::Br), masks_of(a), lists, counter, sinks);
    };
    a.sinks ? launch_with(sinks_of(a)) : launch_with(NoSinks());
  });
}

template <class Tile>
Traffic traffic_of_forward(const Shape& shape) {
  using Of = KeysOfQueries<Tile>;
  const Masks masks = masks_of(shape);
  const int rows = Of::rows(masks), lists = masks.lists(int(shape.batch));
  const std::int64_t heads = shape.batch * shape.heads, heads_of_list = heads / lists;
  std::int64_t keys = 0, visited = 0, partial = 0, query_tiles_read = 0,
               queries = 0;  // of a head of each list
  int query_tile = 0;
  for (const RowOfTiles& row : rows_of_tiles<Of>(masks, shape.batch)) {
    const int first_query = query_tile++ % rows * Tile::Br;
    if (row.visited() == 0) continue;
    keys += row.tokens(Tile::Bc, masks.seq_k);
    visited += row.visited();
    partial += row.count('p');
    ++query_tiles_read;
    queries += std::min(Tile::Br, masks.seq_q - first_query);
  }
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype)), q = heads * shape.seq_q;
  const std::int64_t query_tiles = heads * rows, all_lists = std::int64_t(lists) * rows;
  Traffic traffic;
  auto& of = traffic.tensors;
  of["q"] = {.read_bytes = queries * heads_of_list * row};
  for (const char* name : {"k", "v"}) of[name] = {.read_bytes = keys * heads_of_list * row};
  of["o"] = {.write_bytes = q * row};
  of["lse"] = {.write_bytes = q * 4};
  of["queue"] = {.read_bytes = 4 * query_tiles, .write_bytes = 4 * query_tiles};
  // Both counts of a row: the producer reads them, and the warp that handles query tiles that see nothing.
  const ListReads reads = {.listed = 0, .tiles = visited * heads_of_list, .counts = 2 * 2 * query_tiles};
  add_lists(traffic, kKeyTiles, lists, rows, visited, reads);
  add_masks(traffic, masks, all_lists + query_tiles_read * heads_of_list,
            all_lists + partial * heads_of_list);
  // A warp reads its head's sink for each query tile: each warp of the consumers, or the one of the producer.
  const std::int64_t visits = query_tiles_read * heads_of_list;
  add_sinks(traffic, shape, visits * 4 * Tile::kConsumers + query_tiles - visits);
  return traffic;
}

template <class Tile>
Pass::Needs needs_of_forward(const Shape& shape) {
  Pass::Needs needs{.shared_bytes = sizeof(ListedTilesMemory<Tile>),
                    .workspace = {{.name = "queue", .shape = {1}, .dtype = DType::kInt32}}};
  add_specs<KeysOfQueries<Tile>>(needs.workspace, kKeyTiles, shape);
  return needs;
}

// --- backward ----------------------------------------------------------------------------------------------

/// For with_tile() of chapter 10.
struct Listed {
  template <class T, int d>
  using Tile = ch10::KeyTiles<T, d>;
  static constexpr bool kHasSums = true;
};

void launch_backward(const Args& a, cudaStream_t stream) {
  ch10::with_tile<Listed, AllSizes>(a.dtype, a.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::T;
    ch10::Backward<T> b = ch10::backward_of<T>(a, Tile::Br);
    b.dq_sum = a.buffer<float>("dq_sum");
    ch10::require_alignment("dq", b.dq);
    const auto maps = ch10::key_tile_maps<Tile>(b, a.buffer<T>("dk"), a.buffer<T>("dv"));
    const int heads = b.batch * b.heads;

    using P = ch10::Prepare<T, Tile::kCols>;
    const int blocks = int(tiles(b.padded_queries, P::kRowsOfBlock));
    launch(ch10::prepare_rows<T, Tile::kCols, Tile::kPads>, unsigned(blocks * heads), P::kThreads, 0, stream,
           b, ch10::BlocksOfHeads{Divisor(blocks), Divisor(b.heads)});

    using Unpadded = ch10::KeyTiles<T, Tile::kHeadDim>;
    const BlockMask lists = make_lists<QueriesOfKeys<Unpadded>>(kQueryTiles, a, stream);
    launch(listed_gradients<Tile>, unsigned(lists.rows * b.batch * b.kv_heads), Tile::kThreads,
           sizeof(ListedKeyTileMemory<Tile>), stream, b, maps, masks_of(a), lists);

    launch_sink_gradients(a, b.padded_queries, stream);
    const int query_tiles = b.padded_queries / Tile::Br;
    launch(ch10::convert_dq<Tile>, unsigned(query_tiles * heads), 128 * Tile::kConsumers, 0, stream, b,
           ch10::BlocksOfHeads{Divisor(query_tiles), Divisor(b.heads)});
  });
}

template <class Tile>
Traffic traffic_of_backward(const Shape& shape) {
  using Of = QueriesOfKeys<Tile>;
  const Masks masks = masks_of(shape);
  const int rows = Of::rows(masks), cols = Of::most(masks), lists = masks.lists(int(shape.batch));
  const std::int64_t heads = shape.batch * shape.heads, group = shape.heads / shape.kv_heads;
  const std::int64_t heads_of_list = heads / lists;
  std::int64_t listed = 0, queries = 0, partial = 0;  // of a head of each list
  const std::vector<RowOfTiles> of_lists = rows_of_tiles<Of>(masks, shape.batch);
  for (const RowOfTiles& row : of_lists) {
    listed += row.visited();
    queries += row.tokens(Tile::Br, masks.seq_q) * heads_of_list;
    partial += row.count('p');
  }
  std::int64_t keys = 0, counts = 0;  // what the blocks read
  for (int kv_head = 0; kv_head < shape.batch * shape.kv_heads; ++kv_head) {
    for (int row = 0; row < rows; ++row) {
      bool visits = false;
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        visits |= of_lists[std::size_t(masks.list_of(int(head)) * rows + row)].visited() > 0;
      counts += visits ? 3 * group : group;
      if (visits) keys += std::min(Tile::Bc, masks.seq_k - row * Tile::Bc);
    }
  }

  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype)), q = heads * shape.seq_q;
  const std::int64_t kv = shape.batch * shape.kv_heads * shape.seq_k, padded = heads * cols * Tile::Br;
  const std::int64_t all_lists = std::int64_t(lists) * rows, blocks = shape.batch * shape.kv_heads * rows;
  const std::int64_t tiles = listed * heads_of_list;
  const std::int64_t visited = tiles * Tile::Br, sums = (padded + visited) * shape.head_dim * 4;
  Traffic traffic;
  auto& of = traffic.tensors;
  of["o"] = {.read_bytes = q * row};
  of["lse"] = {.read_bytes = q * 4};
  for (const char* name : {"log2_sum", "delta"})
    of[name] = {.read_bytes = visited * 4, .write_bytes = padded * 4};
  of["q"] = {.read_bytes = queries * row};
  of["do"] = {.read_bytes = (q + queries) * row};
  for (const char* name : {"k", "v"}) of[name] = {.read_bytes = keys * row};
  for (const char* name : {"dk", "dv"}) of[name] = {.write_bytes = kv * row};
  of["dq"] = {.write_bytes = q * row};
  of["dq_sum"] = {.read_bytes = sums, .write_bytes = sums};  // set to zero before, read by the conversion
  const ListReads reads = {.listed = 0, .tiles = tiles, .counts = 2 * counts};
  add_lists(traffic, kQueryTiles, lists, rows, listed, reads);
  add_masks(traffic, masks, all_lists + blocks, all_lists + partial * heads_of_list);
  add_sink_gradients(traffic, shape);
  return traffic;
}

template <class Tile>
Pass::Needs needs_of_backward(const Shape& shape) {
  const std::int64_t padded = tiles(shape.seq_q, Tile::Br) * Tile::Br;
  Pass::Needs needs{
      .shared_bytes = sizeof(ListedKeyTileMemory<Tile>),
      .workspace = {{.name = "log2_sum", .shape = {shape.batch, shape.heads, padded}},
                    {.name = "delta", .shape = {shape.batch, shape.heads, padded}},
                    {.name = "dq_sum", .shape = {shape.batch, shape.heads, padded, shape.head_dim}}}};
  add_specs<QueriesOfKeys<Tile>>(needs.workspace, kQueryTiles, shape);
  return needs;
}

/// Calls f(std::type_identity<Tile>()) with the tiles for a shape. Their sizes do not depend on the type.
template <template <class, int> class Tiles, class F>
auto with_tiles_for(const Shape& shape, const F& f) {
  return select<AllSizes>(shape.dtype, shape.head_dim,
                          [&](auto, auto d) { return f(std::type_identity<Tiles<__nv_bfloat16, d>>()); });
}

}  // namespace

Pass hopper_forward() {
  return {.launch = launch_forward,
          .traffic =
              [](const Shape& shape) {
                return with_tiles_for<ForwardTiles>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                  return traffic_of_forward<Tile>(shape);
                });
              },
          .needs =
              [](const Shape& shape) {
                return with_tiles_for<ForwardTiles>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                  return needs_of_forward<Tile>(shape);
                });
              }};
}

Pass hopper_backward() {
  return {.launch = launch_backward,
          .traffic =
              [](const Shape& shape) {
                return with_tiles_for<ch10::KeyTiles>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                  return traffic_of_backward<Tile>(shape);
                });
              },
          .needs =
              [](const Shape& shape) {
                return with_tiles_for<ch10::KeyTiles>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                  return needs_of_backward<Tile>(shape);
                });
              }};
}

}  // namespace fa::ch11
