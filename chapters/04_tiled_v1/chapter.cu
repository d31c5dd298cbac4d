/// @file
/// Chapter 04 as the harness sees it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"

namespace fa {
using namespace ch04;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

/// The tiles of a variant for one head dimension.
struct Tiles {
  int Br;                    ///< queries per tile
  int Bc;                    ///< keys per tile
  std::size_t shared_bytes;  ///< per block
};

/// A block takes a head of a batch.
unsigned heads_of(const Args& a) { return unsigned(a.batch) * unsigned(a.heads); }

// --- thread_per_row and cooperative ---------------------------------------------------------------

template <int kPad>
Tiles row_tiles(const Shape& shape) {
  return select<PowersOfTwo>(shape.dtype, shape.head_dim, [](auto, auto d) {
    using Tile = RowTiles<d, kPad>;
    return Tiles{Tile::Br, Tile::Bc, shared_bytes_of<Tile>()};
  });
}

constexpr int kUnpadded = 0, kPadded = 1;

void launch_thread_per_row(const Args& a, cudaStream_t stream) {
  select<PowersOfTwo>(a.dtype, a.head_dim, [&](auto, auto d) {
    using Tile = RowTiles<d, kUnpadded>;
    launch(thread_per_row_attention<Tile>, heads_of(a), Tile::Br, shared_bytes_of<Tile>(), stream,
           a.as<float>(), a.buffer<float>("m"), a.buffer<float>("l"));
  });
}

void launch_cooperative(const Args& a, cudaStream_t stream) {
  select<PowersOfTwo>(a.dtype, a.head_dim, [&](auto, auto d) {
    using Tile = RowTiles<d, kPadded>;
    launch(cooperative_attention<Tile>, heads_of(a), Tile::Br, shared_bytes_of<Tile>(), stream, a.as<float>(),
           a.buffer<float>("m"), a.buffer<float>("l"));
  });
}

// --- warp_per_rows --------------------------------------------------------------------------------

constexpr int kAsManyAsFit = std::numeric_limits<int>::max();

/// With fewer warps, for devices whose shared memory is too small for those of WarpTiles.
template <int d>
struct SmallWarpTiles : WarpTiles<d> {
  static constexpr int kWarps = 512 / d;
  static constexpr int kThreads = 32 * kWarps;
};

/// Floats of shared memory for key tiles of `keys` keys.
template <class Tile>
constexpr int floats_for(int keys) {
  return Tile::kWarps * Tile::kFloatsPerWarp + keys * Tile::kFloatsPerKey;
}

/// Calls f(Tile()) with the tiles that fit when a key tile has the keys of one step.
template <class F>
auto select_warp_tiles(DType dtype, std::int64_t head_dim, const F& f) {
  return select<PowersOfTwo>(dtype, head_dim, [&](auto, auto d) {
    constexpr std::size_t kSmallest = sizeof(float) * floats_for<WarpTiles<d>>(WarpTiles<d>::kStepKeys);
    return kSmallest <= shared_bytes_limit() ? f(WarpTiles<d>()) : f(SmallWarpTiles<d>());
  });
}

/// A key tile of `wanted` keys, or of as many as fit into shared memory (the paper's M), but of at least one
/// step.
template <class Tile>
Tiles warp_tiles(int wanted) {
  const int fit = (int(shared_bytes_limit() / sizeof(float)) - floats_for<Tile>(0)) / Tile::kFloatsPerKey;
  const int keys = std::max(1, std::min(wanted, fit) / Tile::kStepKeys) * Tile::kStepKeys;
  return {Tile::Br, keys, sizeof(float) * floats_for<Tile>(keys)};
}

template <int kWantedKeys>
Tiles warp_tiles_for(const Shape& shape) {
  return select_warp_tiles(shape.dtype, shape.head_dim,
                           [](auto tile) { return warp_tiles<decltype(tile)>(kWantedKeys); });
}

template <int kWantedKeys>
void launch_warp_per_rows(const Args& a, cudaStream_t stream) {
  select_warp_tiles(a.dtype, a.head_dim, [&](auto tile) {
    using Tile = decltype(tile);
    const Tiles tiles = warp_tiles<Tile>(kWantedKeys);
    launch(warp_per_rows_attention<Tile>, heads_of(a), Tile::kThreads, tiles.shared_bytes, stream,
           a.as<float>(), a.buffer<float>("m"), a.buffer<float>("l"), tiles.Bc);
  });
}

// --- HBM traffic, work space, limits --------------------------------------------------------------

/// Each head of Q reads K and V once. For each key tile, a row reads q, and reads and writes o, m and l; for
/// the first tile it only writes these. LSE reads m and l once more. Even a row that sees no key takes part
/// in the first tile.
Traffic traffic_of(const Shape& shape, const Tiles& tiles) {
  const std::int64_t rows_read =  // over all key tiles
      shape.queries_of_key_tiles(tiles.Br, tiles.Bc) + shape.seq_q - shape.queries_of_key_tile(0, tiles.Br);
  const std::int64_t number =
      shape.batch * shape.heads * std::int64_t(sizeof(float));  // bytes of one element per head
  const std::int64_t row = number * shape.head_dim, rows = shape.seq_q;
  const TensorTraffic statistics = {.read_bytes = number * rows_read, .write_bytes = number * rows_read};
  return {.tensors = {{"q", {.read_bytes = row * rows_read}},
                      {"k", {.read_bytes = row * shape.seq_k}},
                      {"v", {.read_bytes = row * shape.seq_k}},
                      {"o", {.read_bytes = row * (rows_read - rows), .write_bytes = row * rows_read}},
                      {"m", statistics},
                      {"l", statistics},
                      {"lse", {.write_bytes = number * rows}}}};
}

std::vector<TensorSpec> statistics_of_rows(const Shape& shape) {
  return {{.name = "m", .shape = {shape.batch, shape.heads, shape.seq_q}},
          {.name = "l", .shape = {shape.batch, shape.heads, shape.seq_q}}};
}

/// A variant whose tiles depend on the head dimension and determine its traffic and its shared memory.
Step step(const char* name, const char* summary, void (*launch)(const Args&, cudaStream_t),
          Tiles (*tiles_for)(const Shape&)) {
  return Step{
      .name = name,
      .summary = summary,
      .launch = launch,
      .traffic = [=](const Shape& shape) { return traffic_of(shape, tiles_for(shape)); },
      .refuse = refuse_unless_compiled<PowersOfTwo>,
      .needs = [=](const Shape& shape) { return DeviceNeeds{.shared_bytes = tiles_for(shape).shared_bytes}; },
      .workspace = statistics_of_rows};
}

/// warp_per_rows with key tiles of kWantedKeys keys, or of as many as fit.
template <int kWantedKeys>
Step warp_step(const char* name, const char* summary) {
  return step(name, summary, launch_warp_per_rows<kWantedKeys>, warp_tiles_for<kWantedKeys>);
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "04_tiled_v1",
      .title = "FlashAttention v1: key tiles stay on the chip, queries pass by",
      .variants = {
          step("thread_per_row", "tiles of 32 x 32, a thread per query row: a warp touches 32 rows at once",
               launch_thread_per_row, row_tiles<kUnpadded>),
          step("cooperative", "all threads load and store tiles together, rows padded by one float",
               launch_cooperative, row_tiles<kPadded>),
          warp_step<32>("warp_per_rows", "a warp per 8 rows: scores and output in registers, 8 or 16 warps"),
          warp_step<64>("bc_64", "key tiles of 64 keys: Q and O are read half as often"),
          warp_step<128>("bc_128", "key tiles of 128 keys, or of as many as fit into shared memory"),
          warp_step<kAsManyAsFit>("bc_max", "key tiles as large as shared memory allows"),
      }};
}

}  // namespace fa
