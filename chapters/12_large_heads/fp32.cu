/// @file
/// The launches of fp32. chapter.cu does not contain these kernels.
#include "fp32.hpp"

#include <cstdint>
#include <type_traits>

#include "device/launch.cuh"
#include "pair_fp32.cuh"
#include "split.cuh"
#include "tensor_maps.cuh"

namespace fa::ch12 {
namespace {

template <bool kLogarithm>
void launch_split(const SplitTensor& t, cudaStream_t stream) {
  const std::int64_t rows = std::int64_t(t.batch) * t.heads * t.padded_rows;
  launch(split_rows<kLogarithm>, unsigned((rows + kRowsOfBlock - 1) / kRowsOfBlock), 32 * kRowsOfBlock, 0,
         stream, t);
}

}  // namespace

void launch_pairs_of_fp32(const Args& args, cudaStream_t stream) {
  with_split_tiles(args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
    const auto a = args.as<float>();
    const int keys = int(padded_keys(a.seq_k));
    const SplitTensor q = {a.q,
                           a.q_strides,
                           args.buffer<__half>("q_halves"),
                           args.buffer<float>("q_exponents"),
                           a.batch,
                           a.heads,
                           a.seq_q,
                           a.seq_q,
                           a.head_dim};
    const SplitTensor k = {a.k,
                           a.k_strides,
                           args.buffer<__half>("k_halves"),
                           args.buffer<float>("k_exponents"),
                           a.batch,
                           a.kv_heads,
                           a.seq_k,
                           keys,
                           a.head_dim};
    const SplitTensor v = {a.v,
                           a.v_strides,
                           args.buffer<__half>("v_halves"),
                           args.buffer<float>("v_exponents"),
                           a.batch,
                           a.kv_heads,
                           a.seq_k,
                           keys,
                           a.head_dim_v};
    launch_split<false>(q, stream);
    launch_split<false>(k, stream);
    launch_split<true>(v, stream);
    const PairSizes sizes = split_sizes<Tile>(a.head_dim, kSharedBytesOfHopper);
    launch_clusters(split_attention<Tile>, 2, blocks<Tile>(args), Tile::kThreads,
                    split_shared_bytes<Tile>(sizes), stream, a,
                    split_maps<Tile>(a, q.halves, k.halves, v.halves),
                    SplitExponents{q.exponents, k.exponents, v.exponents, keys}, sizes);
  });
}

}  // namespace fa::ch12
