#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "05_loop_swapped_v2/outer_products.cuh"
#include "07_multi_stage/kernel.cuh"
#include "attention/launch.hpp"
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

/// Each kernel runs all smaller multiples of 8 as well.
struct AllSizes : Fp32Sizes {
  static constexpr std::array kTypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
};

/// Calls f with an element type and its tiles for a head dimension, passed as types in std::type_identity.
/// Returns what it returns.
template <class F>
auto with_tiles(DType dtype, std::int64_t head_dim, const F& f) {
  return select<AllSizes>(dtype, head_dim, [&]<class T>(std::type_identity<T> type, auto d) {
    if constexpr (std::is_same_v<T, float>) {
      return with_tiles_that_fit<Fp32Tiles<d>, SmallFp32Tiles<d>>([&](auto tile) { return f(type, tile); });
    } else {
      return f(type, std::type_identity<MultiStageTiles<T, d>>());
    }
  });
}

template <class T, class Tile>
constexpr auto kernel() {
  if constexpr (std::is_same_v<T, float>) {
    return register_tiled_attention<Tile>;
  } else {
    return masked_first_attention<Tile>;
  }
}

}  // namespace

std::vector<TensorSpec> forward::workspace(const AttentionShape& shape) {
  return AttentionForward::outputs(shape);
}

Traffic forward::traffic(const AttentionShape& shape) {
  return with_tiles(shape.dtype, shape.head_dim, [&]<class Tile>(auto, std::type_identity<Tile>) {
    return attention_traffic(shape, Tile::Br);
  });
}

std::size_t forward::shared_bytes(const AttentionShape& shape) {
  return with_tiles(shape.dtype, shape.head_dim,
                    []<class Tile>(auto, std::type_identity<Tile>) { return shared_bytes_of<Tile>(); });
}

void forward::launch(const AttentionBackward::Args& args, cudaStream_t stream) {
  with_tiles(args.dtype, args.head_dim,
             [&]<class T, class Tile>(std::type_identity<T>, std::type_identity<Tile>) {
               launch_tiles<Tile>(kernel<T, Tile>(), blocks_of_queries(args, Tile::Br), stream, args.as<T>());
             });
}

}  // namespace fa::ch08
