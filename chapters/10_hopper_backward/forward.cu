#include "forward.cuh"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "09_hopper/kernel.cuh"
#include "09_hopper/tensor_maps.cuh"
#include "09_hopper/traffic.cuh"
#include "device/launch.cuh"
#include "sizes.cuh"

namespace fa::ch10 {
namespace {

struct Specialised {
  template <class T, int d>
  using Tile = ch09::HopperTiles<T, d, ch09::Specialised<d>>;
  template <class T>
  using NarrowTile = ch09::HopperTiles<T, ch09::NarrowValueSizes::kHeadDims.back(), ch09::NarrowValues>;
};

}  // namespace

std::vector<TensorSpec> forward::workspace(const AttentionShape& shape) {
  return AttentionForward::outputs(shape);
}

Traffic forward::traffic(const AttentionShape& shape) {
  Traffic traffic;
  with_tile<Specialised, AllSizes>(
      shape, [&]<class Tile>(std::type_identity<Tile>) { traffic = ch09::traffic_of<Tile>(shape); });
  return traffic;
}

std::size_t forward::shared_bytes(const AttentionShape& shape) {
  std::size_t bytes = 0;
  with_tile<Specialised, AllSizes>(
      shape, [&]<class Tile>(std::type_identity<Tile>) { bytes = sizeof(ch09::SharedTiles<Tile>); });
  return bytes;
}

void forward::launch(const AttentionBackward::Args& args, cudaStream_t stream) {
  with_tile<Specialised, AllSizes>(args, [&]<class Tile>(std::type_identity<Tile>) {
    const auto attention = args.as<typename Tile::T>();
    fa::launch(ch09::specialised_attention<Tile>, unsigned(ch09::query_tiles<Tile>(attention)),
               Tile::kThreads, sizeof(ch09::SharedTiles<Tile>), stream, attention,
               ch09::tensor_maps<Tile>(attention, Tile::Br));
  });
}

}  // namespace fa::ch10
