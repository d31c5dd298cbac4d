/// @file
/// The launches of `one_kernel` and `paged`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "attention/launch.hpp"
#include "launch.cuh"

namespace fa::ch14 {

void launch_one_kernel(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_tiles_of_rows<T, d>(decoding<T>(args).rows, [&]<class Tile>(std::type_identity<Tile>) {
      launch_merging<Tile, Ring>(args, Contiguous{cache_maps<Tile>(args)}, stream);
    });
  });
}

void launch_paged(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_tiles_of_rows<T, d>(decoding<T>(args).rows, [&]<class Tile>(std::type_identity<Tile>) {
      if (args.block_table == nullptr) {
        launch_fastest<Tile>(args, Contiguous{cache_maps<Tile>(args)}, stream);
      } else {
        launch_fastest<Tile>(args, paged_cache<Tile>(args), stream);
      }
    });
  });
}

}  // namespace fa::ch14
