#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "05_loop_swapped_v2/kernel.cuh"
#include "07_multi_stage/kernel.cuh"
#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "forward.cuh"

namespace fa::ch08 {
namespace {

using namespace ch05;
using namespace ch07;

template <int d>
using Fp32Tiles = RegisterTiles<LargeTiles<d>, true>;

/// Calls f with the tiles of a head dimension and an element type: f(Tile()).
template <class F>
auto with_tiles(std::int64_t head_dim, DType dtype, F f) {
  return with_head_dim(head_dim, [&](auto dim) {
    constexpr int d = decltype(dim)::value;
    if constexpr (d <= 128) {
      if (dtype == DType::kFloat32) return f(Fp32Tiles<d>());
      if (dtype == DType::kFloat16) return f(MultiStageTiles<__half, d>());
      return f(MultiStageTiles<__nv_bfloat16, d>());
    } else {
      throw std::invalid_argument("no forward pass for this head_dim");
      return f(Fp32Tiles<128>());  // says what f returns
    }
  });
}

template <class Tiles, bool kAhead>
void launch_tiles(RegisterTiles<Tiles, kAhead>, const AttentionBackward::Args& args, unsigned blocks,
                  cudaStream_t stream) {
  using Tile = RegisterTiles<Tiles, kAhead>;
  launch(register_tiled_attention<Tile>, blocks, Tile::kThreads, sizeof(float) * Tile::kFloats, stream,
         args.as<float>());
}

template <class T, int d>
void launch_tiles(MultiStageTiles<T, d>, const AttentionBackward::Args& args, unsigned blocks,
                  cudaStream_t stream) {
  using Tile = MultiStageTiles<T, d>;
  launch(multi_stage_attention<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, stream, args.as<T>());
}

}  // namespace

std::vector<TensorSpec> forward::workspace(const AttentionShape& shape) {
  const std::vector<std::int64_t> rows = {shape.batch, shape.heads, shape.seq_q};
  return {{.name = "o", .shape = {rows[0], rows[1], rows[2], shape.head_dim}, .dtype = shape.dtype},
          {.name = "lse", .shape = rows}};
}

Traffic forward::traffic(const AttentionShape& shape) {
  const std::int64_t Br =
      with_tiles(shape.head_dim, shape.dtype, [](auto tile) { return decltype(tile)::Br; });
  std::int64_t keys = 0;  // that the blocks of a head read
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    keys += shape.visible_keys(std::min(first + Br, shape.seq_q) - 1);
  }
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t row = heads * shape.head_dim * std::int64_t(size_of(shape.dtype));
  return {.tensors = {{"q", {.read_bytes = row * shape.seq_q}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = row * keys}},
                      {"o", {.write_bytes = row * shape.seq_q}},
                      {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
}

void forward::launch(const AttentionBackward::Args& args, cudaStream_t stream) {
  with_tiles(args.head_dim, args.dtype, [&](auto tile) {
    const unsigned tiles = unsigned((args.seq_q - 1) / decltype(tile)::Br + 1);
    launch_tiles(tile, args, tiles * unsigned(args.batch) * unsigned(args.heads), stream);
  });
}

}  // namespace fa::ch08
