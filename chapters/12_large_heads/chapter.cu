/// @file
/// Chapter 12 as the harness sees it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/dispatch.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "pair.cuh"
#include "pair_tiles.cuh"
#include "tensor_maps.cuh"

namespace fa {
using namespace ch12;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr std::int64_t kMostCols = 1024;

/// Nothing if both widths are multiples of 8 up to 1024 and the type is one of those given.
template <DType... kTypes>
std::optional<std::string> refuse_others(const Shape& shape) {
  if (auto reason = refuse_unless_padded(shape, kMostCols, {kTypes...})) return reason;
  const std::int64_t cols = shape.value_dim();
  if (cols % 8 == 0 && cols <= kMostCols) return std::nullopt;
  return "--head-dim-v is " + std::to_string(cols) + ": must be a multiple of 8 up to " +
         std::to_string(kMostCols);
}

// --- pairs of blocks ------------------------------------------------------------------------------------------

constexpr int kFewestSlots = 4;

/// Calls f(std::type_identity<Tile>()) with the tiles of the pair kernel for these widths: with 128 queries if there is room for
/// them, otherwise with 64.
template <class T, class F>
auto with_pair_tiles(std::int64_t head_dim, std::int64_t head_dim_v, F f) {
  constexpr int kMostColsOfTwo = 640;  // of Q; with 128 queries, these are 160 KiB
  if (head_dim <= kMostColsOfTwo) {
    if (head_dim_v <= 128) return f(std::type_identity<PairTiles<T, 2, 64>>());
    if (head_dim_v <= 256) return f(std::type_identity<PairTiles<T, 2, 128>>());
    if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 2, 256>>());
  }
  if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 1, 128>>());
  return f(std::type_identity<PairTiles<T, 1, 256>>());
}

constexpr std::size_t kSharedBytesOfHopper = 232448;

Step cluster() {
  return {
      .name = "cluster",
      .summary = "two blocks share P: each has half of the keys and half of the columns of O",
      .launch =
          [](const Args& args, cudaStream_t stream) {
            with_type(args.dtype, [&]<class T>(std::type_identity<T>) {
              if constexpr (sizeof(T) == 2) {
                with_pair_tiles<T>(args.head_dim, args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
                  const auto a = args.as<T>();
                  const PairSizes sizes = pair_sizes<Tile>(a.head_dim, kSharedBytesOfHopper);
                  const unsigned tiles = unsigned((a.seq_q - 1) / Tile::Br + 1) * unsigned(a.batch * a.heads);
                  launch_clusters(pair_attention<Tile>, 2, 2 * tiles, Tile::kThreads,
                                  shared_bytes<Tile>(sizes), stream, a, pair_maps<Tile>(a), sizes);
                });
              }
            });
          },
      .traffic =
          [](const Shape& shape) {
            return with_pair_tiles<__half>(
                shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
                  const std::int64_t heads = shape.batch * shape.heads, element = 2;
                  std::int64_t keys = 0;
                  for (std::int64_t first = 0; first < shape.seq_q; first += Tile::Br) {
                    const std::int64_t seen = shape.visible_keys(std::min(first + Tile::Br, shape.seq_q) - 1);
                    keys += std::min(shape.seq_k,
                                     std::max<std::int64_t>(1, (seen + Tile::Bc - 1) / Tile::Bc) * Tile::Bc);
                  }
                  const std::int64_t row = heads * shape.head_dim * element;
                  const std::int64_t v_row = heads * shape.value_dim() * element;
                  return Traffic{
                      .tensors = {
                          {"q", {.read_bytes = 2 * row * shape.seq_q}},
                          {"k", {.read_bytes = row * keys}},
                          {"v", {.read_bytes = v_row * keys}},
                          {"o", {.write_bytes = v_row * shape.seq_q}},
                          {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
                });
          },
      .refuse = refuse_others<DType::kFloat16, DType::kBFloat16>,
      .takes_strides = true,
      .takes_other_widths = true,
      .needs =
          [](const Shape& shape) {
            return with_pair_tiles<__half>(
                shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
                  const PairSizes sizes = pair_sizes<Tile>(int(shape.head_dim), kSharedBytesOfHopper);
                  return DeviceNeeds{
                      .shared_bytes = shared_bytes<Tile>(sizes), .compute_capability = 90, .exactly = true};
                });
          }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{.name = "12_large_heads",
                                   .title = "Large heads: what stays on the chip when a row does not fit",
                                   .variants = {cluster()}};
}

}  // namespace fa
