/// @file
/// The launches of the backward pass. chapter.cu does not contain these kernels.
#include "backward.hpp"

#include <stdexcept>
#include <type_traits>

#include "attention/launch.hpp"
#include "backward_pair.cuh"
#include "device/launch.cuh"
#include "tensor_maps.cuh"

namespace fa::ch12 {
namespace {

template <class T>
void launch_backward_of(const Args& args, cudaStream_t stream) {
  Backward::with_tiles<T>(args.head_dim, args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
    if constexpr (is_compiled_for<Backward, Tile>()) {
      PairBackward<T> a;
      static_cast<Attention<T>&>(a) = args.as<T>();
      a.d_o = args.buffer<T>("do");
      a.dq = args.buffer<T>("dq");
      a.log2_sum = args.buffer<float>("log2_sum");
      a.delta = args.buffer<float>("delta");
      a.dq_sum = args.buffer<float>("dq_sum");
      a.padded_queries = int(padded_queries(a.seq_q));
      a.do_strides = args.strides.at("do");
      a.dq_strides = args.strides.at("dq");
      const BackwardSizes sizes = backward_sizes<Tile>(a.head_dim, a.head_dim_v, kSharedBytesOfHopper);
      const int panels = sizes.panels[0];
      const unsigned rows = unsigned(a.batch * a.heads) * unsigned(a.padded_queries);
      launch(prepare_backward<T>, rows / kRowsOfPrepare, 32 * kRowsOfPrepare, 0, stream, a, panels);
      const unsigned pairs = unsigned(a.batch * a.kv_heads) * unsigned((a.seq_k - 1) / Tile::Bc + 1);
      launch_clusters(pair_gradients<Tile>, 2, 2 * pairs, Tile::kThreads, backward_shared_bytes<Tile>(sizes),
                      stream, a,
                      backward_maps<Tile>(a, args.buffer<T>("dk"), args.strides.at("dk"),
                                          args.buffer<T>("dv"), args.strides.at("dv")),
                      sizes);
      launch(finish_dq<T>, rows / 64 * unsigned(panels), 128, 0, stream, a, panels);
    } else {
      throw std::invalid_argument("no kernel for these widths");
    }
  });
}

}  // namespace

void launch_backward(const Args& args, cudaStream_t stream) {
  select(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) == 2) launch_backward_of<T>(args, stream);
  });
}

}  // namespace fa::ch12
