/// @file
/// The last kernels of chapters 07 and 08.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "07_multi_stage/kernel.cuh"
#include "08_backward/arguments.cuh"
#include "08_backward/fp32.cuh"
#include "08_backward/tensor_cores.cuh"
#include "attend.hpp"
#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "sizes.cuh"

namespace fa::ch13 {
namespace {

using Args = Engine::Args;
using Shape = AttentionShape;

constexpr std::int64_t kFloat = sizeof(float);

// --- forward -----------------------------------------------------------------------------------------------

/// Calls f with chapter 07's tiles for a head dimension, passed as a type in std::type_identity.
template <class T, int d, bool kDense = false, class F>
auto with_forward_tiles(F f) {
  using Choices = ch07::FinalChoices<d>;
  using Tiles = ch07::MultiStageTiles<T, d, Choices, kDense>;
  if constexpr (requires { typename Choices::WhereItFits; }) {
    return with_tiles_that_fit<ch07::MultiStageTiles<T, d, typename Choices::WhereItFits, kDense>, Tiles>(f);
  } else {
    return f(std::type_identity<Tiles>());
  }
}

void forward(const Args& a, cudaStream_t stream) {
  select<Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_forward_tiles<T, d>([&]<class Tile>(std::type_identity<Tile>) {
      launch_tiles<Tile>(ch07::masked_first_attention<Tile>, blocks_of_queries(a, Tile::Br), stream,
                         a.as<T>());
    });
  });
}

std::vector<TensorSpec> forward_workspace(const Shape&) { return {}; }

Traffic forward_traffic(const Shape& shape) {
  return select<Sizes>(shape.dtype, shape.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    return with_forward_tiles<T, d>(
        [&]<class Tile>(std::type_identity<Tile>) { return attention_traffic(shape, Tile::Br); });
  });
}

// --- backward ----------------------------------------------------------------------------------------------

template <class T, int d>
using LargeTiles = ch08::FusedTiles<T, d, 2, ch08::Float4Sums>;
template <class T, int d>
using SmallTiles =
    std::conditional_t<(d > 64), ch08::SmallFusedTiles<T, d, 2, ch08::Float4Sums>, LargeTiles<T, d>>;

template <class F>
auto with_backward_tiles(DType dtype, std::int64_t head_dim, const F& f) {
  return select<Sizes>(dtype, head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    return with_tiles_that_fit<LargeTiles<T, d>, SmallTiles<T, d>>(f);
  });
}

void backward(const Args& a, cudaStream_t stream) {
  with_backward_tiles(a.dtype, a.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::T;
    ch08::Backward<T> b = ch08::backward_of<T>(a);
    b.dq_sum = a.buffer<float>("dq_sum");

    using Rows = ch08::DeltaRows<T, Tile::kHeadDim>;
    const auto rows = std::size_t(a.batch) * std::size_t(a.heads) * std::size_t(a.seq_q);
    const unsigned query_tiles = blocks_of_queries(a, Tile::Br);
    launch(ch08::compute_delta<T, Tile::kHeadDim>, blocks_for(rows, Rows::kRowsOfBlock), Rows::kThreads, 0,
           stream, b);
    const std::size_t sums = std::size_t(query_tiles) * Tile::Br * std::size_t(a.head_dim);
    launch(ch08::fill_with_zeros, blocks_for(sums / 4, 256), 256, 0, stream, b.dq_sum, sums / 4);
    launch_tiles<Tile>(ch08::mma_pipelined_gradients<Tile>, blocks_of_keys(a, Tile::Bc), stream, b);
    launch(ch08::convert_dq<Tile>, query_tiles, Tile::kThreads, 0, stream, b);
  });
}

std::vector<TensorSpec> backward_workspace(const Shape& shape) {
  return with_backward_tiles(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    return std::vector<TensorSpec>{
        {.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}},
        {.name = "dq_sum",
         .shape = {shape.batch, shape.heads, tiles(shape.seq_q, Tile::Br) * Tile::Br, shape.head_dim}}};
  });
}

Traffic backward_traffic(const Shape& shape) {
  return with_backward_tiles(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
    const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype)),
                       sum = shape.head_dim * kFloat;
    const std::int64_t q = heads * shape.seq_q, kv = kv_heads * shape.seq_k * row;
    const std::int64_t rows_read = heads * shape.queries_of_key_tiles(Tile::Br, Tile::Bc);
    const std::int64_t padded = heads * tiles(shape.seq_q, Tile::Br) * Tile::Br;
    const std::int64_t added = rows_read + tiles(shape.seq_k, Tile::Bc) * (padded - q);
    return Traffic{.tensors = {
                       {"o", {.read_bytes = q * row}},
                       {"do", {.read_bytes = (q + rows_read) * row}},
                       {"delta", {.read_bytes = rows_read * kFloat, .write_bytes = q * kFloat}},
                       {"lse", {.read_bytes = rows_read * kFloat}},
                       {"q", {.read_bytes = rows_read * row}},
                       {"k", {.read_bytes = kv}},
                       {"v", {.read_bytes = kv}},
                       {"dk", {.write_bytes = kv}},
                       {"dv", {.write_bytes = kv}},
                       {"dq_sum", {.read_bytes = (added + q) * sum, .write_bytes = (padded + added) * sum}},
                       {"dq", {.write_bytes = q * row}},
                   }};
  });
}

DeviceNeeds needs(const Shape& shape) {
  const auto bytes = []<class Tile>(std::type_identity<Tile>) { return shared_bytes_of<Tile>(); };
  const std::size_t forward =
      select<Sizes>(shape.dtype, shape.head_dim,
                    [&]<class T>(std::type_identity<T>, auto d) { return with_forward_tiles<T, d>(bytes); });
  const std::size_t backward = with_backward_tiles(shape.dtype, shape.head_dim, bytes);
  return {.shared_bytes = std::max(forward, backward), .compute_capability = 80};
}

}  // namespace

const Engine kMmaEngine = {.chapters = "07, 08",
                           .forward = forward,
                           .backward = backward,
                           .forward_workspace = forward_workspace,
                           .backward_workspace = backward_workspace,
                           .forward_traffic = forward_traffic,
                           .backward_traffic = backward_traffic,
                           .refuse = refuse_unless_compiled<Sizes>,
                           .needs = needs};

const Engine& engine_of_device() { return compute_capability() == 90 ? kHopperEngine : kMmaEngine; }

}  // namespace fa::ch13
