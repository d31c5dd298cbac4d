#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "08_backward/arguments.cuh"
#include "attention/dispatch.cuh"
#include "bytes.hpp"
#include "deterministic.cuh"
#include "deterministic.hpp"
#include "device/launch.cuh"
#include "list_buffers.hpp"
#include "problem.cuh"
#include "sizes.cuh"

namespace fa::ch11 {
namespace {

using namespace ch08;
using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

const ListBuffers kKeyTilesOfDq = {"dq_query_rows", "dq_key_tiles", "dq_query_row_order"};

template <class T, int d, class Keys>
using TilesWith = ListedGradientTiles<QueryGradientTiles<T, d>, Keys>;

/// Calls f(std::type_identity<Tile>()): with small key tiles where the large ones do not fit.
template <class T, int d, class F>
auto with_tiles(F f) {
  using Large = TilesWith<T, d, KeyGradientTiles<T, d>>;
  using Small = TilesWith<T, d, SmallKeyGradientTiles<T, d>>;
  return with_tiles_that_fit<Large, std::conditional_t<(d > 64), Small, Large>>(f);
}

/// The same for a shape. The sizes of tiles do not depend on the type.
template <class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<AllSizes>(shape.head_dim, [&](auto d) { return with_tiles<__nv_bfloat16, d>(f); });
}

void launch_gradients(const Args& a, cudaStream_t stream) {
  with_compiled<AllSizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_tiles<T, d>([&]<class Tile>(std::type_identity<Tile>) {
      using Queries = typename Tile::Queries;
      using Keys = typename Tile::Keys;
      const Backward<T> b = ch08::backward_of<T>(a);
      const std::size_t rows = std::size_t(a.batch * a.heads * a.seq_q);
      launch(mark_missing, unsigned((rows - 1) / 256 + 1), 256, 0, stream, b.delta, rows);
      const auto key_lists = lists_in<KeysOfQueries<Queries>>(kKeyTilesOfDq, a);
      const auto query_lists = lists_in<QueriesOfKeys<Keys>>(kOrderedQueryTiles, a);
      make_lists(a, stream, key_lists, query_lists);
      with_dense(is_dense<Keys>(a), [&](auto dense) {
        using Rows = std::conditional_t<decltype(dense)::value, Dense<Keys>, Keys>;
        using WithRows = ListedGradientTiles<Queries, Rows>;
        const unsigned blocks = blocks_of_head<Tile>(int(a.heads / a.kv_heads), key_lists, query_lists);
        launch(deterministic_gradients<WithRows>,
               dim3(blocks, unsigned(a.batch * a.kv_heads) + Tile::kHeadsAhead), Tile::kThreads,
               Tile::kSharedBytes, stream, b, masks_of(a), key_lists, query_lists);
      });
    });
  });
}

Traffic traffic(const Shape& shape) {
  return with_tiles_for(shape, [&]<class Tile>(std::type_identity<Tile>) {
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

std::vector<TensorSpec> workspace(const Shape& shape) {
  return with_tiles_for(shape, [&]<class Tile>(std::type_identity<Tile>) {
    std::vector<TensorSpec> specs = {{.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}}};
    add_specs<KeysOfQueries<typename Tile::Queries>>(specs, kKeyTilesOfDq, shape);
    add_specs<QueriesOfKeys<typename Tile::Keys>>(specs, kOrderedQueryTiles, shape);
    return specs;
  });
}

}  // namespace

Pass deterministic::backward() {
  return {.launch = launch_gradients,
          .traffic = traffic,
          .workspace = workspace,
          .shared_bytes =
              [](const Shape& shape) {
                return with_tiles_for(shape, []<class Tile>(std::type_identity<Tile>) {
                  return std::size_t(Tile::kSharedBytes);
                });
              },
          .refuse = [](const Shape& shape) -> std::optional<Refusal> {
            return with_tiles_for(shape, [&]<class Tile>(std::type_identity<Tile>) -> std::optional<Refusal> {
              const std::int64_t most = kMostBlocksInYOrZ - Tile::kHeadsAhead;
              if (shape.batch * shape.kv_heads <= most) return std::nullopt;
              return Refusal::variant("--batch " + std::to_string(shape.batch) + " times --kv-heads " +
                                      std::to_string(shape.kv_heads) + ": this variant takes at most " +
                                      std::to_string(most) + " with --backward");
            });
          }};
}

}  // namespace fa::ch11
