/// @file
/// The launches of `one_block_a_head`, `packed_heads` and `split_keys`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "attention/launch.hpp"
#include "launch.cuh"

namespace fa::ch14 {

void launch_one_block_a_head(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    Decoding<T> a = decoding<T>(args);
    const auto cache = cache_pointers<T>(args, args.heads / args.kv_heads);
    a.kv_heads = args.heads, a.rows = args.seq_q;
    with_warp_tiles<d, Staged<T, d>::template Tile>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
      const Granules granules = granules_of<Tile>(a, 0);
      launch(block_a_head_decoding<Tile, CachePointers<T>>, unsigned(a.batch * granules.heads),
             Tile::kThreads, sizeof(SharedTiles<Tile>), stream, a, granules, cache);
    });
  });
}

void launch_packed_heads(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const Decoding<T> a = decoding<T>(args);
    with_warp_tiles<d, Staged<T, d>::template Tile>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
      const Granules granules = granules_of<Tile>(a, 0);
      launch(block_a_head_decoding<Tile, CachePointers<T>>, unsigned(a.batch * granules.heads),
             Tile::kThreads, sizeof(SharedTiles<Tile>), stream, a, granules, cache_pointers<T>(args, 1));
    });
  });
}

void launch_split_keys(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const Decoding<T> a = decoding<T>(args);
    with_warp_tiles<d, Staged<T, d>::template Tile>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
      const Granules granules = granules_of<Tile>(a, 0);
      const int splits = splits_of<Tile>(granules, args.splits);
      launch(split_keys_decoding<Tile, CachePointers<T>>, unsigned(a.batch * granules.heads * splits),
             Tile::kThreads, sizeof(SharedTiles<Tile>), stream, a, granules, cache_pointers<T>(args, 1),
             workspace(args), splits);
      launch_merge_splits<Tile>(a, granules, workspace(args), splits, stream);
    });
  });
}

}  // namespace fa::ch14
