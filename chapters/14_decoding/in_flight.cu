/// @file
/// The launches of `in_flight` and `balanced`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "attention/launch.hpp"
#include "launch.cuh"

namespace fa::ch14 {

void launch_in_flight(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const Decoding<T> a = decoding<T>(args);
    with_tiles_of_rows<T, d>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
      const Granules granules = granules_of<Tile>(a, 0);
      const int splits = splits_of<Tile>(granules, args.splits);
      launch(in_flight_decoding<Tile, Ring, Contiguous>, unsigned(a.batch * granules.heads * splits),
             Tile::kThreads, sizeof(SharedTiles<Tile>), stream, a, granules,
             Contiguous{cache_maps<Tile>(args)}, workspace(args), splits);
      launch_merge_splits<Tile>(a, granules, workspace(args), splits, stream);
    });
  });
}

void launch_balanced(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const Decoding<T> a = decoding<T>(args);
    with_tiles_of_rows<T, d>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
      const Granules granules = balanced_granules<Tile>(a, args.splits);
      launch(balanced_decoding<Tile, Ring, Contiguous>, unsigned(granules.blocks), Tile::kThreads,
             sizeof(SharedTiles<Tile>), stream, a, granules, Contiguous{cache_maps<Tile>(args)},
             workspace(args));
      launch(merge_balanced<Tile::kRows, Tile::kHeadDim, T>,
             unsigned(granules.batch * granules.heads) * blocks_for(Tile::kRows * Tile::kHeadDim / 4, 128),
             128, 0, stream, a, granules, workspace(args));
    });
  });
}

}  // namespace fa::ch14
