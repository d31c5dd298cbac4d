#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "05_loop_swapped_v2/outer_products.cuh"
#include "07_multi_stage/kernel.cuh"
#include "attention/dispatch.cuh"
#include "device/launch.cuh"
#include "forward.cuh"
#include "sizes.cuh"

namespace fa::ch08 {
namespace {

using namespace ch05;
using namespace ch07;

template <int d>
using Fp32Tiles = AnyRows<RegisterTiles<LargeTiles<d>, 2>>;
template <int d>
using SmallFp32Tiles = AnyRows<RegisterTiles<SmallTiles<d>, 2>>;

/// Calls f(Tile()) with the tiles for an element type and a head dimension.
template <class F>
void with_tiles(DType dtype, std::int64_t head_dim, F f) {
  if (dtype == DType::kFloat32) {
    with_compiled<Fp32Sizes>(dtype, head_dim, [&]<class T>(std::type_identity<T>, auto d) {
      with_tiles_that_fit<Fp32Tiles<d>, SmallFp32Tiles<d>>(
          [&]<class Tile>(std::type_identity<Tile>) { f(Tile()); });
    });
  } else {
    with_compiled<MmaSizes>(dtype, head_dim,
                            [&]<class T>(std::type_identity<T>, auto d) { f(MultiStageTiles<T, d>()); });
  }
}

template <class Tiles>
void launch_tiles(AnyRows<Tiles>, const AttentionBackward::Args& args, unsigned blocks, cudaStream_t stream) {
  using Tile = AnyRows<Tiles>;
  launch(register_tiled_attention<Tile>, blocks, Tile::kThreads, sizeof(float) * Tile::kFloats, stream,
         args.as<float>());
}

template <class T, int d>
void launch_tiles(MultiStageTiles<T, d>, const AttentionBackward::Args& args, unsigned blocks,
                  cudaStream_t stream) {
  using Tile = MultiStageTiles<T, d>;
  launch(masked_first_attention<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, stream, args.as<T>());
}

}  // namespace

std::vector<TensorSpec> forward::workspace(const AttentionShape& shape) {
  return AttentionForward::outputs(shape);
}

Traffic forward::traffic(const AttentionShape& shape) {
  std::int64_t Br = 0;
  with_tiles(shape.dtype, shape.head_dim, [&](auto tile) { Br = decltype(tile)::Br; });
  return attention_traffic(shape, Br);
}

std::size_t forward::shared_bytes(const AttentionShape& shape) {
  std::size_t bytes = 0;
  with_tiles(shape.dtype, shape.head_dim, [&](auto tile) { bytes = shared_bytes_of<decltype(tile)>(); });
  return bytes;
}

void forward::launch(const AttentionBackward::Args& args, cudaStream_t stream) {
  with_tiles(args.dtype, args.head_dim, [&](auto tile) {
    const unsigned tiles = unsigned((args.seq_q - 1) / decltype(tile)::Br + 1);
    launch_tiles(tile, args, tiles * unsigned(args.batch) * unsigned(args.heads), stream);
  });
}

}  // namespace fa::ch08
