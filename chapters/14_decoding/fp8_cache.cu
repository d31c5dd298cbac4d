/// @file
/// The launch of `fp8_cache`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "attention/launch.hpp"
#include "launch.cuh"

namespace fa::ch14 {

void launch_fp8_cache(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_warp_tiles<d, Fp8Tiles<T, d>::template Tile>(
        decoding<T>(args).rows, [&]<class Tile>(std::type_identity<Tile>) {
          if (args.block_table == nullptr) {
            launch_fastest<Tile>(args, Contiguous{cache_maps<Tile>(args)}, stream);
          } else {
            launch_fastest<Tile>(args, paged_cache<Tile>(args), stream);
          }
        });
  });
}

}  // namespace fa::ch14
