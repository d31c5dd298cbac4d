/// @file
/// The last kernels of chapters 09 and 10.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "09_hopper/kernel.cuh"
#include "09_hopper/ping_pong.cuh"
#include "09_hopper/sizes.cuh"
#include "09_hopper/tensor_maps.cuh"
#include "09_hopper/traffic.cuh"
#include "10_hopper_backward/arguments.cuh"
#include "10_hopper_backward/kernel.cuh"
#include "10_hopper_backward/prepare.cuh"
#include "10_hopper_backward/sizes.cuh"
#include "10_hopper_backward/tensor_maps.cuh"
#include "attend.hpp"
#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "sizes.cuh"

namespace fa::ch13 {
namespace {

using Args = Engine::Args;
using Shape = AttentionShape;

constexpr std::int64_t kFloat = sizeof(float), kInt = sizeof(int);

// --- forward -----------------------------------------------------------------------------------------------

struct Forward {
  template <class T, int d>
  using Tile = ch09::HopperTiles<T, d, ch09::FinalChoices<d>>;
};

void forward(const Args& a, cudaStream_t stream) {
  ch10::with_tile<Forward, Sizes>(a.dtype, a.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    const auto attention = a.as<typename Tile::T>();
    int* counter = a.buffer<int>("queue");
    FA_CUDA_CHECK(cudaMemsetAsync(counter, 0, sizeof *counter, stream));
    const int blocks = std::min(multiprocessors(), ch09::query_tiles<Tile>(attention));
    launch(ch09::gapless_attention<Tile>, unsigned(blocks), Tile::kThreads, sizeof(ch09::SharedTiles<Tile>),
           stream, attention, ch09::tensor_maps<Tile>(attention, Tile::Br), counter, nullptr);
  });
}

std::vector<TensorSpec> forward_workspace(const Shape&) {
  return {{.name = "queue", .shape = {1}, .dtype = DType::kInt32}};
}

Traffic forward_traffic(const Shape& shape) {
  return ch10::with_tile<Forward, Sizes>(
      shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
        Traffic traffic = ch09::traffic_of<Tile>(shape);
        const std::int64_t queue = shape.batch * shape.heads * tiles(shape.seq_q, Tile::Br) * kInt;
        traffic.tensors["queue"] = {.read_bytes = queue, .write_bytes = queue};
        return traffic;
      });
}

// --- backward ----------------------------------------------------------------------------------------------

struct Backward {
  template <class T, int d>
  using Tile = ch10::KeyTiles<T, d>;
  static constexpr bool kHasSums = true;
};

/// `overlapped` for wide heads, `decoupled` for narrow ones.
template <class Tile>
auto gradients_kernel() {
  if constexpr (Tile::kHeadDim == 128) {
    return ch10::overlapped_gradients<Tile>;
  } else {
    return ch10::decoupled_gradients<Tile>;
  }
}

void backward(const Args& a, cudaStream_t stream) {
  ch10::with_tile<Backward, Sizes>(a.dtype, a.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::T;
    ch10::Backward<T> b = ch10::backward_of<T>(a, Tile::Br);
    b.dq_sum = a.buffer<float>("dq_sum");
    ch10::require_alignment("dq", b.dq);

    using P = ch10::Prepare<T, Tile::kCols>;
    const int rows = int(tiles(b.padded_queries, P::kRowsOfBlock));
    launch(b.head_dim == Tile::kCols ? ch10::prepare_rows<T, Tile::kCols, false>
                                     : ch10::prepare_rows<T, Tile::kCols, true>,
           unsigned(rows * b.batch * b.heads), P::kThreads, 0, stream, b,
           ch10::BlocksOfHeads{Divisor(rows), Divisor(b.heads)});
    launch(gradients_kernel<Tile>(), unsigned(tiles(b.seq_k, Tile::Bc) * b.batch * b.kv_heads),
           Tile::kThreads, sizeof(ch10::KeyTileMemory<Tile>), stream, b,
           ch10::key_tile_maps<Tile>(b, a.buffer<T>("dk"), a.buffer<T>("dv")));
    const int query_tiles = b.padded_queries / Tile::Br;
    launch(ch10::convert_dq<Tile>, unsigned(query_tiles * b.batch * b.heads), 128 * Tile::kConsumers, 0,
           stream, b, ch10::BlocksOfHeads{Divisor(query_tiles), Divisor(b.heads)});
  });
}

std::vector<TensorSpec> backward_workspace(const Shape& shape) {
  std::vector<TensorSpec> specs;
  ch10::with_tile<Backward, Sizes>(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    const std::int64_t padded = tiles(shape.seq_q, Tile::Br) * Tile::Br;
    for (const char* of_rows : {"log2_sum", "delta"})
      specs.push_back({.name = of_rows, .shape = {shape.batch, shape.heads, padded}});
    specs.push_back({.name = "dq_sum", .shape = {shape.batch, shape.heads, padded, shape.head_dim}});
  });
  return specs;
}

Traffic backward_traffic(const Shape& shape) {
  Traffic traffic;
  ch10::with_tile<Backward, Sizes>(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
    const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
    const std::int64_t padded = tiles(shape.seq_q, Tile::Br) * Tile::Br;
    // A key tile visits the queries that see one of its keys, and the padding after the last one.
    const std::int64_t rows_read = shape.queries_of_key_tiles(Tile::Br, Tile::Bc);
    const std::int64_t visited = rows_read + tiles(shape.seq_k, Tile::Bc) * (padded - shape.seq_q);
    const std::int64_t sums = heads * (padded + visited) * shape.head_dim * kFloat;
    traffic.tensors = {
        {"o", {.read_bytes = heads * shape.seq_q * row}},
        {"lse", {.read_bytes = heads * shape.seq_q * kFloat}},
        {"log2_sum", {.read_bytes = heads * visited * kFloat, .write_bytes = heads * padded * kFloat}},
        {"delta", {.read_bytes = heads * visited * kFloat, .write_bytes = heads * padded * kFloat}},
        {"q", {.read_bytes = heads * rows_read * row}},
        {"do", {.read_bytes = heads * (shape.seq_q + rows_read) * row}},
        {"k", {.read_bytes = kv_heads * shape.seq_k * row}},
        {"v", {.read_bytes = kv_heads * shape.seq_k * row}},
        {"dk", {.write_bytes = kv_heads * shape.seq_k * row}},
        {"dv", {.write_bytes = kv_heads * shape.seq_k * row}},
        {"dq_sum", {.read_bytes = sums, .write_bytes = sums}},
        {"dq", {.write_bytes = heads * shape.seq_q * row}},
    };
  });
  return traffic;
}

DeviceNeeds needs(const Shape& shape) {
  DeviceNeeds needs{.compute_capability = 90, .exactly = true};
  ch10::with_tile<Forward, Sizes>(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    needs.shared_bytes = sizeof(ch09::SharedTiles<Tile>);
  });
  ch10::with_tile<Backward, Sizes>(shape.dtype, shape.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
    needs.shared_bytes = std::max(needs.shared_bytes, sizeof(ch10::KeyTileMemory<Tile>));
  });
  return needs;
}

}  // namespace

const Engine kHopperEngine = {.chapters = "09, 10",
                              .forward = forward,
                              .backward = backward,
                              .forward_workspace = forward_workspace,
                              .backward_workspace = backward_workspace,
                              .forward_traffic = forward_traffic,
                              .backward_traffic = backward_traffic,
                              .refuse = refuse_unless_compiled<Sizes>,
                              .needs = needs};

}  // namespace fa::ch13
