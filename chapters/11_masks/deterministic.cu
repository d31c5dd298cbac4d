#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "08_backward/arguments.cuh"
#include "attention/dispatch.cuh"
#include "backward_bytes.hpp"
#include "deterministic.cuh"
#include "deterministic.hpp"
#include "device/launch.cuh"
#include "forward_bytes.hpp"
#include "list_buffers.hpp"
#include "problem.cuh"
#include "sizes.cuh"

namespace fa::ch11 {
namespace {

using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

const ListBuffers kKeyTilesOfDq = {"dq_key_tile_counts", "dq_key_tiles", "dq_key_tile_order"};

/// Calls f(std::type_identity<Keys>()) with the tiles of dK and dV: small ones where the large ones do not fit.
template <class T, int d, class F>
auto with_key_tiles(F f) {
  using Large = KeyGradientTiles<T, d>;
  return with_tiles_that_fit<Large, std::conditional_t<(d > 64), SmallKeyGradientTiles<T, d>, Large>>(f);
}

/// The same for a shape, with the tiles of dQ: f(std::type_identity<Queries>(), std::type_identity<Keys>()). The sizes of tiles do
/// not depend on the type.
template <class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<AllSizes>(shape.head_dim, [&](auto d) {
    return with_key_tiles<__nv_bfloat16, d>(
        [&](auto keys) { return f(std::type_identity<QueryGradientTiles<__nv_bfloat16, d>>(), keys); });
  });
}

/// First dQ, which leaves delta for dK and dV.
void launch_gradients(const Args& a, cudaStream_t stream) {
  with_compiled<AllSizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const Backward<T> b = ch08::backward_of<T>(a);
    const Masks masks = masks_of(a);
    using Queries = QueryGradientTiles<T, d>;
    const TileLists keys_of_queries =
        make_lists<KeysOfQueries<Queries>>(kKeyTilesOfDq, a, Queries::kBlocksPerSm, stream);
    launch(listed_query_gradients<Queries>, unsigned(keys_of_queries.rows * a.batch * a.heads),
           Queries::kThreads, Queries::kSharedBytes, stream, b, masks, keys_of_queries);
    with_key_tiles<T, d>([&]<class Keys>(std::type_identity<Keys>) {
      const TileLists queries_of_keys =
          make_lists<QueriesOfKeys<Keys>>(kOrderedQueryTiles, a, Keys::kBlocksPerSm, stream);
      with_dense(is_dense<Keys>(a), [&](auto dense) {
        using Rows = std::conditional_t<decltype(dense)::value, Dense<Keys>, Keys>;
        launch(listed_key_gradients<Rows>, unsigned(queries_of_keys.rows * a.batch * a.kv_heads),
               Keys::kThreads, Keys::kSharedBytes, stream, b, masks, queries_of_keys);
      });
    });
  });
}

Traffic traffic(const Shape& shape) {
  return with_tiles_for(
      shape, [&]<class Queries, class Keys>(std::type_identity<Queries>, std::type_identity<Keys>) {
        Traffic traffic =
            backward::Bytes<Keys>(shape, backward::Finds::kListed, kOrderedQueryTiles).of_key_tiles();
        Traffic of_dq = ForwardBytes<Queries>(shape).traffic(Finds::kListed, kKeyTilesOfDq);
        // A forward pass writes O and LSE. This kernel reads them.
        auto& of = of_dq.tensors;
        std::swap(of["o"].read_bytes, of["o"].write_bytes);
        std::swap(of["lse"].read_bytes, of["lse"].write_bytes);
        of["do"] = {.read_bytes = of["q"].read_bytes};
        of["dq"] = {.write_bytes = of["q"].read_bytes};
        of["delta"] = {.write_bytes = of["lse"].read_bytes};
        return sum(traffic, of_dq);
      });
}

std::vector<TensorSpec> workspace(const Shape& shape) {
  return with_tiles_for(
      shape, [&]<class Queries, class Keys>(std::type_identity<Queries>, std::type_identity<Keys>) {
        std::vector<TensorSpec> specs = {{.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}}};
        const ForwardBytes<Queries> queries(shape);
        add_specs(specs, kKeyTilesOfDq, queries.lists(), queries.most_listed());
        const backward::Bytes<Keys> keys(shape, backward::Finds::kListed, kOrderedQueryTiles);
        add_specs(specs, kOrderedQueryTiles, keys.lists(), keys.most_listed());
        return specs;
      });
}

}  // namespace

Pass deterministic::backward() {
  return {.launch = launch_gradients,
          .traffic = traffic,
          .workspace = workspace,
          .shared_bytes = [](const Shape& shape) {
            return with_tiles_for(
                shape, []<class Queries, class Keys>(std::type_identity<Queries>, std::type_identity<Keys>) {
                  return std::size_t(std::max(Queries::kSharedBytes, Keys::kSharedBytes));
                });
          }};
}

}  // namespace fa::ch11
