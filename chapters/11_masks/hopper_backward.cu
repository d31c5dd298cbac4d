#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "10_hopper_backward/arguments.cuh"
#include "10_hopper_backward/prepare.cuh"
#include "10_hopper_backward/sizes.cuh"
#include "10_hopper_backward/tensor_maps.cuh"
#include "attention/dispatch.cuh"
#include "bytes.hpp"
#include "device/divisor.cuh"
#include "device/launch.cuh"
#include "hopper.hpp"
#include "hopper_backward.cuh"
#include "list_buffers.hpp"
#include "list_tiles.cuh"
#include "problem.cuh"
#include "sizes.cuh"

namespace fa::ch11 {
namespace {

using namespace ch10;
using namespace hopper;
using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

/// For with_tile() of chapter 10.
struct Listed {
  template <class T, int d>
  using Tile = KeyTiles<T, d>;
  static constexpr bool kHasSums = true;
};

/// Calls f(std::type_identity<Tile>()) with the tiles for a shape. Their sizes do not depend on the type.
template <class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<AllSizes>(shape.head_dim,
                                 [&](auto d) { return f(std::type_identity<KeyTiles<__nv_bfloat16, d>>()); });
}

template <class Tile>
Backward<typename Tile::T> gradients_of(const Args& a) {
  Backward<typename Tile::T> b = ch10::backward_of<typename Tile::T>(a, Tile::Br);
  b.dq_sum = a.buffer<float>("dq_sum");
  return b;
}

void launch_backward(const Args& a, cudaStream_t stream) {
  with_tile<Listed, AllSizes>(a.dtype, a.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::T;
    const Backward<T> b = gradients_of<Tile>(a);
    require_alignment("dq", b.dq);
    const TensorMaps maps = key_tile_maps<Tile>(b, a.buffer<T>("dk"), a.buffer<T>("dv"));
    const int heads = b.batch * b.heads;

    using P = Prepare<T, Tile::kCols>;
    const int blocks = int(tiles(b.padded_queries, P::kRowsOfBlock));
    launch(prepare_rows<T, Tile::kCols, Tile::kPads>, unsigned(blocks * heads), P::kThreads, 0, stream, b,
           BlocksOfHeads{Divisor(blocks), Divisor(b.heads)});

    const Masks masks = masks_of(a);
    const BlockMask lists = make_lists<QueriesOfKeys<KeyTiles<T, Tile::kHeadDim>>>(kQueryTiles, a, stream);
    launch(listed_gradients<Tile>, unsigned(lists.rows * b.batch * b.kv_heads), Tile::kThreads,
           sizeof(ListedKeyTileMemory<Tile>), stream, b, maps, masks, lists);

    const int query_tiles = b.padded_queries / Tile::Br;
    launch(convert_dq<Tile>, unsigned(query_tiles * heads), 128 * Tile::kConsumers, 0, stream, b,
           BlocksOfHeads{Divisor(query_tiles), Divisor(b.heads)});
  });
}

template <class Tile>
Traffic traffic(const Shape& shape) {
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
  return traffic;
}

template <class Tile>
std::vector<TensorSpec> workspace(const Shape& shape) {
  const std::int64_t rows = tiles(shape.seq_k, Tile::Bc), cols = tiles(shape.seq_q, Tile::Br);
  const std::int64_t lists = masks_of(shape).lists(int(shape.batch)) * rows, padded = cols * Tile::Br;
  std::vector<TensorSpec> specs = {
      {.name = "log2_sum", .shape = {shape.batch, shape.heads, padded}},
      {.name = "delta", .shape = {shape.batch, shape.heads, padded}},
      {.name = "dq_sum", .shape = {shape.batch, shape.heads, padded, shape.head_dim}}};
  add_specs(specs, kQueryTiles, lists, cols);
  return specs;
}

}  // namespace

Pass hopper::backward() {
  return {.launch = launch_backward,
          .traffic =
              [](const Shape& shape) {
                return with_tiles_for(
                    shape, [&]<class Tile>(std::type_identity<Tile>) { return traffic<Tile>(shape); });
              },
          .workspace =
              [](const Shape& shape) {
                return with_tiles_for(
                    shape, [&]<class Tile>(std::type_identity<Tile>) { return workspace<Tile>(shape); });
              },
          .shared_bytes =
              [](const Shape& shape) {
                return with_tiles_for(shape, []<class Tile>(std::type_identity<Tile>) {
                  return sizeof(ListedKeyTileMemory<Tile>);
                });
              }};
}

}  // namespace fa::ch11
