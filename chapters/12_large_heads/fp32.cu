/// @file
/// The launches of fp32. chapter.cu does not contain these kernels.
#include "fp32.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "device/launch.cuh"
#include "pair_fp32.cuh"
#include "split_rows.cuh"
#include "tensor_maps.cuh"

namespace fa::ch12 {

void launch_pairs_of_fp32(const Args& args, cudaStream_t stream) {
  with_split_tiles(args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
    const auto a = args.as<float>();
    const int keys = int(padded_keys(a.seq_k));
    const auto split = [&](const std::string& name, const float* from, const Strides& strides, int heads,
                           int rows, int padded_rows, int cols) {
      return SplitTensor{from,
                         strides,
                         args.buffer<__half>(name + "_halves"),
                         args.buffer<float>(name + "_exponents"),
                         name == "v",
                         a.batch,
                         heads,
                         rows,
                         padded_rows,
                         cols};
    };
    const SplitTensors tensors = {{split("q", a.q, a.q_strides, a.heads, a.seq_q, a.seq_q, a.head_dim),
                                   split("k", a.k, a.k_strides, a.kv_heads, a.seq_k, keys, a.head_dim),
                                   split("v", a.v, a.v_strides, a.kv_heads, a.seq_k, keys, a.head_dim_v)}};
    const std::int64_t most_rows =
        a.batch * std::max(std::int64_t(a.heads) * a.seq_q, std::int64_t(a.kv_heads) * keys);
    launch(split_rows, dim3(unsigned((most_rows + kRowsOfBlock - 1) / kRowsOfBlock), 3), 32 * kRowsOfBlock, 0,
           stream, tensors);
    const auto& [q, k, v] = tensors.qkv;
    const PairSizes sizes = split_sizes<Tile>(a.head_dim, kSharedBytesOfHopper);
    launch_clusters(split_attention<Tile>, 2, blocks<Tile>(args), Tile::kThreads,
                    split_shared_bytes<Tile>(sizes), stream, a,
                    split_maps<Tile>(a, q.halves, k.halves, v.halves),
                    SplitExponents{q.exponents, k.exponents, v.exponents, keys}, sizes);
  });
}

}  // namespace fa::ch12
