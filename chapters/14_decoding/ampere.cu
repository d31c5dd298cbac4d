/// @file
/// The launch of `ampere`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "attention/launch.hpp"
#include "launch.cuh"

namespace fa::ch14 {

void launch_ampere(const DecodingAttention::Args& args, cudaStream_t stream) {
  select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_warp_tiles<d, CpAsync<T, d>::template Tile>(
        decoding<T>(args).rows, [&]<class Tile>(std::type_identity<Tile>) {
          launch_merging<Tile, CpAsyncRing>(args, cache_pointers<T>(args, 1), stream);
        });
  });
}

}  // namespace fa::ch14
