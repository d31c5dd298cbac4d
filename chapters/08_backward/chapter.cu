/// @file
/// Chapter 08 as the harness sees it.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "arguments.cuh"
#include "attention/launch.hpp"
#include "baselines/standard_attention.hpp"
#include "device/launch.cuh"
#include "forward.cuh"
#include "fp32.cuh"
#include "harness/chapter.hpp"
#include "query_gradients.cuh"
#include "sizes.cuh"
#include "tensor_cores.cuh"

namespace fa {
using namespace ch08;
namespace {

using Shape = AttentionBackward::Shape;
using Args = AttentionBackward::Args;
using Step = Variant<AttentionBackward>;  // each variant below names it: g++ 12 rejects bare braces

constexpr std::int64_t kFloat = sizeof(float);

template <class T, int d>
void launch_delta(const Backward<T>& b, cudaStream_t stream) {
  using Rows = DeltaRows<T, d>;
  const std::size_t rows = std::size_t(b.batch) * std::size_t(b.heads) * std::size_t(b.seq_q);
  launch(compute_delta<T, d>, blocks_for(rows, Rows::kRowsOfBlock), Rows::kThreads, 0, stream, b);
}

// --- the tiles of each variant, large, and small for devices with less shared memory --------------------

template <class T, int d>
using LargeFp32 = Fp32Tiles<d>;
template <class T, int d>
using SmallFp32 = std::conditional_t<(d > 32 && d <= 128), SmallFp32Tiles<d>, LargeFp32<T, d>>;

template <class T, int d>
using LargeKeys = KeyGradientTiles<T, d>;
template <class T, int d>
using SmallKeys = std::conditional_t<(d > 64), SmallKeyGradientTiles<T, d>, LargeKeys<T, d>>;

template <class T, int d>
using LargeQueries = MmaQueryTiles<T, d>;
template <class T, int d>
using SmallQueries = std::conditional_t<(d > 128), MmaQueryTiles<T, d, 64>, LargeQueries<T, d>>;

template <class T, int d>
using LargeFused = FusedTiles<T, d, 1, ElementSums>;
template <class T, int d>
using SmallFused = std::conditional_t<(d > 64), SmallFusedTiles<T, d, 1, ElementSums>, LargeFused<T, d>>;

template <class T, int d>
using LargePipelined = FusedTiles<T, d, 2, Float4Sums>;
template <class T, int d>
using SmallPipelined =
    std::conditional_t<(d > 64), SmallFusedTiles<T, d, 2, Float4Sums>, LargePipelined<T, d>>;

/// Calls f with the tiles that fit, passed as a type in std::type_identity. Returns what it returns.
template <class Sizes, template <class, int> class Large, template <class, int> class Small, class F>
auto with_tiles(DType dtype, std::int64_t head_dim, const F& f) {
  return select<Sizes>(dtype, head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    return with_tiles_that_fit<Large<T, d>, Small<T, d>>(f);
  });
}

/// The same, with tiles for tensors without gaps if those that are named have none.
template <class Sizes, template <class, int> class Large, template <class, int> class Small, class F>
void with_tiles(const Args& a, std::initializer_list<const char*> names, const F& f) {
  const bool no_gaps = are_dense(a, names);
  select<Sizes>(a.dtype, a.head_dim, no_gaps, [&]<class T>(std::type_identity<T>, auto d, auto dense) {
    with_tiles_that_fit<Large<T, d>, Small<T, d>>([&]<class Tile>(std::type_identity<Tile>) {
      f(std::type_identity<std::conditional_t<dense, Dense<Tile>, Tile>>());
    });
  });
}

/// What the host must know about tiles.
struct TileSizes {
  std::int64_t Br = 0, Bc = 0;
  std::size_t shared_bytes = 0;  ///< of a block
};
template <class Sizes, template <class, int> class Large, template <class, int> class Small>
TileSizes tiles_for(const Shape& shape) {
  return with_tiles<Sizes, Large, Small>(
      shape.dtype, shape.head_dim, []<class Tile>(std::type_identity<Tile>) {
        return TileSizes{.Br = Tile::Br, .Bc = Tile::Bc, .shared_bytes = shared_bytes_of<Tile>()};
      });
}
TileSizes fp32_tiles(const Shape& shape) { return tiles_for<Fp32Sizes, LargeFp32, SmallFp32>(shape); }
TileSizes key_tiles(const Shape& shape) { return tiles_for<MmaSizes, LargeKeys, SmallKeys>(shape); }
TileSizes query_tiles(const Shape& shape) { return tiles_for<MmaSizes, LargeQueries, SmallQueries>(shape); }
TileSizes fused_tiles(const Shape& shape) { return tiles_for<MmaSizes, LargeFused, SmallFused>(shape); }
TileSizes pipelined_tiles(const Shape& shape) {
  return tiles_for<MmaSizes, LargePipelined, SmallPipelined>(shape);
}

// --- fp32 ---------------------------------------------------------------------------------------------

constexpr std::initializer_list<const char*> kAll = {"q", "k", "v", "do", "dq", "dk", "dv"};

void launch_fp32_two_kernels(const Args& a, cudaStream_t stream) {
  const Backward<float> b = backward_of<float>(a);
  with_tiles<Fp32Sizes, LargeFp32, SmallFp32>(a, kAll, [&]<class Tile>(std::type_identity<Tile>) {
    launch_delta<float, Tile::kHeadDim>(b, stream);
    launch_tiles<Tile>(key_gradients<Tile>, blocks_of_keys(a, Tile::Bc), stream, b);
    launch_tiles<Tile>(query_gradients<Tile>, blocks_of_queries(a, Tile::Br), stream, b);
  });
}

void launch_fp32_fused(const Args& a, cudaStream_t stream) {
  const Backward<float> b = backward_of<float>(a);
  with_tiles<Fp32Sizes, LargeFp32, SmallFp32>(a, kAll, [&]<class Tile>(std::type_identity<Tile>) {
    launch_delta<float, Tile::kHeadDim>(b, stream);
    const std::size_t elements = std::size_t(a.batch) * a.heads * a.seq_q * a.head_dim;
    launch(fill_dq_with_zeros, blocks_for(elements / 4, 256), 256, 0, stream, b);
    launch_tiles<Tile>(fused_gradients<Tile>, blocks_of_keys(a, Tile::Bc), stream, b);
  });
}

// --- 16 bits ------------------------------------------------------------------------------------------

constexpr std::initializer_list<const char*> kCopied = {"q", "k", "v",
                                                        "do"};  // in the main loop, and before it

void launch_mma_deterministic(const Args& a, cudaStream_t stream) {
  with_tiles<MmaSizes, LargeKeys, SmallKeys>(a.dtype, a.head_dim, [&]<class Keys>(std::type_identity<Keys>) {
    using T = typename Keys::T;
    const Backward<T> b = backward_of<T>(a);
    launch_delta<T, Keys::kHeadDim>(b, stream);
    launch_tiles<Keys>(mma_key_gradients<Keys>, blocks_of_keys(a, Keys::Bc), stream, b);
    with_tiles_that_fit<LargeQueries<T, Keys::kHeadDim>, SmallQueries<T, Keys::kHeadDim>>(
        [&]<class Queries>(std::type_identity<Queries>) {
          launch_tiles<Queries>(mma_query_gradients<Queries>, blocks_of_queries(a, Queries::Br), stream, b);
        });
  });
}

template <class Tile>
void launch_fused(void (*kernel)(Backward<typename Tile::T>), const Args& a, cudaStream_t stream) {
  using T = typename Tile::T;
  Backward<T> b = backward_of<T>(a);
  b.dq_sum = a.buffer<float>("dq_sum");
  const unsigned query_tiles = blocks_of_queries(a, Tile::Br);
  launch_delta<T, Tile::kHeadDim>(b, stream);
  const std::size_t sums = std::size_t(query_tiles) * Tile::Br * a.head_dim;
  launch(fill_with_zeros, blocks_for(sums / 4, 256), 256, 0, stream, b.dq_sum, sums / 4);
  launch_tiles<Tile>(kernel, blocks_of_keys(a, Tile::Bc), stream, b);
  launch(convert_dq<Tile>, query_tiles, Tile::kThreads, 0, stream, b);
}

void launch_mma_fused(const Args& a, cudaStream_t stream) {
  with_tiles<MmaSizes, LargeFused, SmallFused>(a, kCopied, [&]<class Tile>(std::type_identity<Tile>) {
    launch_fused<Tile>(mma_fused_gradients<Tile>, a, stream);
  });
}

void launch_mma_pipelined(const Args& a, cudaStream_t stream) {
  with_tiles<MmaSizes, LargePipelined, SmallPipelined>(a, kCopied, [&]<class Tile>(std::type_identity<Tile>) {
    launch_fused<Tile>(mma_pipelined_gradients<Tile>, a, stream);
  });
}

// --- HBM traffic --------------------------------------------------------------------------------------

/// What the variants share: the forward pass, delta, and dK and dV with one block per key tile.
Traffic shared_traffic(const Shape& shape, std::int64_t Br, std::int64_t Bc) {
  const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t q = heads * shape.seq_q, kv = kv_heads * shape.seq_k * row;
  const std::int64_t rows_read = heads * shape.queries_of_key_tiles(Br, Bc);
  Traffic traffic = forward::traffic(shape);
  add(traffic, "o", {.read_bytes = q * row});
  add(traffic, "do", {.read_bytes = (q + rows_read) * row});
  add(traffic, "delta", {.read_bytes = rows_read * kFloat, .write_bytes = q * kFloat});
  add(traffic, "lse", {.read_bytes = rows_read * kFloat});
  add(traffic, "q", {.read_bytes = rows_read * row});
  for (const char* name : {"k", "v"}) add(traffic, name, {.read_bytes = kv});
  for (const char* name : {"dk", "dv"}) add(traffic, name, {.write_bytes = kv});
  return traffic;
}

/// dQ in a kernel of its own, with one block per query tile.
void add_query_tiles(Traffic& to, const Shape& shape, std::int64_t Br) {
  const std::int64_t heads = shape.batch * shape.heads, q = heads * shape.seq_q;
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t keys = heads * shape.keys_of_query_tiles(Br);
  for (const char* name : {"q", "do"}) add(to, name, {.read_bytes = q * row});
  for (const char* name : {"lse", "delta"}) add(to, name, {.read_bytes = q * kFloat});
  for (const char* name : {"k", "v"}) add(to, name, {.read_bytes = keys * row});
  add(to, "dq", {.write_bytes = q * row});
}

Traffic fp32_two_kernels_traffic(const Shape& shape) {
  const TileSizes tiles = fp32_tiles(shape);
  Traffic traffic = shared_traffic(shape, tiles.Br, tiles.Bc);
  add_query_tiles(traffic, shape, tiles.Br);
  return traffic;
}

Traffic fp32_fused_traffic(const Shape& shape) {
  const TileSizes tiles = fp32_tiles(shape);
  Traffic traffic = shared_traffic(shape, tiles.Br, tiles.Bc);
  const std::int64_t row = shape.batch * shape.heads * shape.head_dim * kFloat;  // of all heads
  const std::int64_t added = row * shape.queries_of_key_tiles(tiles.Br, tiles.Bc);
  add(traffic, "dq", {.read_bytes = added, .write_bytes = row * shape.seq_q + added});
  return traffic;
}

Traffic mma_deterministic_traffic(const Shape& shape) {
  const TileSizes tiles = key_tiles(shape);
  Traffic traffic = shared_traffic(shape, tiles.Br, tiles.Bc);
  add_query_tiles(traffic, shape, query_tiles(shape).Br);
  return traffic;
}

/// Rows of the sums of dQ, over all heads. Every head has whole query tiles.
std::int64_t rows_of_sums(const Shape& shape, const TileSizes& tiles) {
  return shape.batch * shape.heads * ((shape.seq_q - 1) / tiles.Br + 1) * tiles.Br;
}

/// Rows that the key tiles of all heads add to the sums of dQ. They add whole query tiles, so every key tile
/// also adds the rows of the last query tile that do not exist.
std::int64_t rows_added(const Shape& shape, const TileSizes& tiles) {
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t key_tiles = (shape.seq_k - 1) / tiles.Bc + 1;
  return heads * shape.queries_of_key_tiles(tiles.Br, tiles.Bc) +
         key_tiles * (rows_of_sums(shape, tiles) - heads * shape.seq_q);
}

/// @tparam kTiles  fused_tiles or pipelined_tiles
template <TileSizes (*kTiles)(const Shape&)>
Traffic mma_fused_traffic(const Shape& shape) {
  const TileSizes tiles = kTiles(shape);
  Traffic traffic = shared_traffic(shape, tiles.Br, tiles.Bc);
  const std::int64_t heads = shape.batch * shape.heads, q = heads * shape.seq_q;
  const std::int64_t added = rows_added(shape, tiles);
  const std::int64_t row = shape.head_dim * kFloat;
  add(traffic, "dq_sum",
      {.read_bytes = (added + q) * row, .write_bytes = (rows_of_sums(shape, tiles) + added) * row});
  add(traffic, "dq", {.write_bytes = q * shape.head_dim * std::int64_t(size_of(shape.dtype))});
  return traffic;
}

// --- the variants -------------------------------------------------------------------------------------

/// The standard backward pass stores S and dP in HBM, rounded to the type of the inputs. For logits above 64,
/// bf16 has only multiples of 1/2. And where one key has nearly all the weight of a row, dP - D is a small
/// difference of rounded numbers.
std::optional<std::string> too_much_rounding(const Shape& shape, const TensorMap& inputs) {
  if (shape.dtype == DType::kFloat32) return std::nullopt;
  const auto longest_row = [&](const char* name) {
    const std::vector<float>& data = inputs.at(name).data;
    float longest = 0.0f;
    for (auto row = data.begin(); row != data.end(); row += shape.head_dim) {
      longest = std::max(longest, std::inner_product(row, row + shape.head_dim, row, 0.0f));
    }
    return std::sqrt(longest);
  };
  constexpr double kPeaked = 32;  // normal inputs stay below 20
  if (shape.logit_scale() * double(longest_row("q")) * double(longest_row("k")) < kPeaked)
    return std::nullopt;
  return "S and dP are rounded to 16 bits in HBM, and with logits this large exp(S) and dP - D amplify the "
         "error";
}

std::vector<TensorSpec> own_workspace(const Shape& shape) {
  std::vector<TensorSpec> specs = forward::workspace(shape);
  specs.push_back({.name = "delta", .shape = {shape.batch, shape.heads, shape.seq_q}});
  return specs;
}

template <TileSizes (*kTiles)(const Shape&)>
std::vector<TensorSpec> workspace_with_sums(const Shape& shape) {
  std::vector<TensorSpec> specs = own_workspace(shape);
  specs.push_back({.name = "dq_sum", .shape = {rows_of_sums(shape, kTiles(shape)), shape.head_dim}});
  return specs;
}

DeviceNeeds needs_of_fp32(const Shape& shape) {
  return {.shared_bytes = std::max(forward::shared_bytes(shape), fp32_tiles(shape).shared_bytes)};
}

/// @tparam kTiles  of each kernel
template <TileSizes (*... kTiles)(const Shape&)>
DeviceNeeds needs_of_mma(const Shape& shape) {
  return {.shared_bytes = std::max({forward::shared_bytes(shape), kTiles(shape).shared_bytes...}),
          .compute_capability = 80};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionBackward>{
      .name = "08_backward",
      .title = "The backward pass: recompute P, then five matrix products",
      .variants = {
          Step{.name = "standard",
               .summary = "P, dP and dS in HBM, products by cuBLAS",
               .launch = standard_backward::launch,
               .traffic = standard_backward::traffic,
               .refuse = standard_attention::refuse,
               .workspace = standard_backward::workspace,
               .known_failure = too_much_rounding},
          Step{.name = "fp32_two_kernels",
               .summary = "recomputes P on the chip: dK and dV per key tile, dQ per query tile",
               .launch = launch_fp32_two_kernels,
               .traffic = fp32_two_kernels_traffic,
               .refuse = refuse_unless_compiled<Fp32Sizes>,
               .takes_strides = true,
               .needs = needs_of_fp32,
               .before = forward::launch,
               .workspace = own_workspace},
          Step{.name = "fp32_fused",
               .summary = "five products instead of seven: dQ by atomic additions",
               .launch = launch_fp32_fused,
               .traffic = fp32_fused_traffic,
               .refuse = refuse_unless_compiled<Fp32Sizes>,
               .takes_strides = true,
               .needs = needs_of_fp32,
               .before = forward::launch,
               .repeatable = false,
               .workspace = own_workspace},
          Step{.name = "mma_fused",
               .summary = "tensor cores: S and dP transposed, P and dS in registers",
               .launch = launch_mma_fused,
               .traffic = mma_fused_traffic<fused_tiles>,
               .refuse = refuse_unless_compiled<MmaSizes>,
               .takes_strides = true,
               .needs = needs_of_mma<fused_tiles>,
               .before = forward::launch,
               .repeatable = false,
               .workspace = workspace_with_sums<fused_tiles>},
          Step{.name = "mma_pipelined",
               .summary = "prefetches the next Q and dO while the current ones are in use",
               .launch = launch_mma_pipelined,
               .traffic = mma_fused_traffic<pipelined_tiles>,
               .refuse = refuse_unless_compiled<MmaSizes>,
               .takes_strides = true,
               .needs = needs_of_mma<pipelined_tiles>,
               .before = forward::launch,
               .repeatable = false,
               .workspace = workspace_with_sums<pipelined_tiles>},
          Step{.name = "mma_deterministic",
               .summary = "dQ in a kernel of its own: seven products, no atomic additions",
               .launch = launch_mma_deterministic,
               .traffic = mma_deterministic_traffic,
               .refuse = refuse_unless_compiled<MmaSizes>,
               .takes_strides = true,
               .needs = needs_of_mma<key_tiles, query_tiles>,
               .before = forward::launch,
               .workspace = own_workspace},
      }};
}

}  // namespace fa
