#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "09_hopper/tensor_maps.cuh"
#include "attention/dispatch.cuh"
#include "bytes.hpp"
#include "device/launch.cuh"
#include "hopper.cuh"
#include "hopper.hpp"
#include "list_buffers.hpp"
#include "list_tiles.cuh"
#include "problem.cuh"
#include "sizes.cuh"

namespace fa::ch11 {
namespace {

using namespace ch09;
using namespace hopper;
using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

template <class T, int d>
using ForwardTiles = HopperTiles<T, d, ListedChoices<d>>;

/// Calls f(std::type_identity<Tile>()) with the tiles for a shape. Their sizes do not depend on the type.
template <class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<AllSizes>(
      shape.head_dim, [&](auto d) { return f(std::type_identity<ForwardTiles<__nv_bfloat16, d>>()); });
}

void launch_forward(const Args& a, cudaStream_t stream) {
  with_compiled<AllSizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    using Tile = ForwardTiles<T, d>;
    const Masks masks = masks_of(a);
    const BlockMask lists = make_lists<KeysOfQueries<Tile>>(kKeyTiles, a, stream);
    const auto attention = a.as<T>();
    int* counter = a.buffer<int>("queue");
    FA_CUDA_CHECK(cudaMemsetAsync(counter, 0, sizeof(int), stream));
    const unsigned blocks = unsigned(std::min(multiprocessors(), query_tiles<Tile>(attention)));
    launch(listed_attention<Tile>, blocks, Tile::kThreads, sizeof(ListedTilesMemory<Tile>), stream, attention,
           tensor_maps<Tile>(attention, Tile::Br), masks, lists, counter);
  });
}

template <class Tile>
Traffic traffic(const Shape& shape) {
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
  return traffic;
}

template <class Tile>
std::vector<TensorSpec> workspace(const Shape& shape) {
  const std::int64_t rows = (shape.seq_q - 1) / Tile::Br + 1, cols = (shape.seq_k - 1) / Tile::Bc + 1;
  const std::int64_t lists = masks_of(shape).lists(int(shape.batch)) * rows;
  std::vector<TensorSpec> specs = {{.name = "queue", .shape = {1}, .dtype = DType::kInt32}};
  add_specs(specs, kKeyTiles, lists, cols);
  return specs;
}

}  // namespace

Pass hopper::forward() {
  return {.launch = launch_forward,
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
                  return sizeof(ListedTilesMemory<Tile>);
                });
              }};
}

}  // namespace fa::ch11
