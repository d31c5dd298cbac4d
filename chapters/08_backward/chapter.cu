/// @file
/// Chapter 08 as the harness sees it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/standard_attention.hpp"
#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "forward.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "mma.cuh"
#include "sizes.cuh"

namespace fa {
using namespace ch08;
namespace {

using Shape = AttentionBackward::Shape;
using Args = AttentionBackward::Args;
using Step = Variant<AttentionBackward>;  // named with each variant below: g++ 12 gives up on bare braces

constexpr std::int64_t kFloat = sizeof(float);

template <std::size_t kCount, class T>
constexpr bool contains(const std::array<T, kCount>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Calls f with a head dimension, if the kernels are compiled for it and for this element type.
template <DType kType, class F>
void with_dim(int head_dim, F f) {
  with_head_dim(head_dim, [&](auto d) {
    if constexpr (contains(Sizes::kHeadDims, int(d)) && contains(Sizes::kTypes, kType)) f(d);
  });
}

/// Of the types that a variant takes, those that it is compiled for.
std::optional<std::string> refuse_unless_compiled(const Shape& shape, std::initializer_list<DType> types) {
  std::vector<DType> compiled;
  for (const DType type : types) {
    if (contains(Sizes::kTypes, type)) compiled.push_back(type);
  }
  return refuse_unless(shape, {Sizes::kHeadDims.begin(), Sizes::kHeadDims.end()}, compiled);
}

template <class T>
Backward<T> backward_of(const Args& a) {
  Backward<T> b;
  static_cast<Attention<T>&>(b) = a.as<T>();
  b.d_o = a.buffer<T>("do");
  b.d = a.buffer<float>("d");
  b.dq = a.buffer<T>("dq");
  b.dk = a.buffer<T>("dk");
  b.dv = a.buffer<T>("dv");
  b.dq_sum = nullptr;
  return b;
}

unsigned blocks_for(std::size_t count, std::size_t of_block) {
  return unsigned((count + of_block - 1) / of_block);
}

template <class T, int d>
void launch_row_dots(const Backward<T>& b, cudaStream_t stream) {
  constexpr int kRowsOfBlock = 8;
  const std::size_t rows = std::size_t(b.batch) * std::size_t(b.heads) * std::size_t(b.seq_q);
  launch(row_dots<T, d, kRowsOfBlock>, blocks_for(rows, kRowsOfBlock), 32 * kRowsOfBlock, 0, stream, b);
}

void launch_zeros(float* x, std::size_t count, cudaStream_t stream) {
  launch(fill_with_zeros, blocks_for(count / 4, 256), 256, 0, stream, x, count / 4);
}

// --- fp32 ---------------------------------------------------------------------------------------------

template <bool kFused>
void launch_fp32(const Args& a, cudaStream_t stream) {
  Backward<float> b = backward_of<float>(a);
  with_dim<DType::kFloat32>(a.head_dim, [&](auto dim) {
    using Tile = Fp32Tiles<decltype(dim)::value>;
    constexpr std::size_t kShared = sizeof(float) * Tile::kFloats;
    const unsigned key_tiles = blocks_for(std::size_t(a.seq_k), Tile::Bc) * unsigned(a.batch * a.kv_heads);
    const unsigned query_tiles = blocks_for(std::size_t(a.seq_q), Tile::Br) * unsigned(a.batch * a.heads);
    launch_row_dots<float, dim>(b, stream);
    if (kFused) {
      b.dq_sum = b.dq;
      launch_zeros(b.dq, std::size_t(a.batch) * std::size_t(a.heads) * std::size_t(a.seq_q) * dim, stream);
    }
    launch(key_gradients<Tile, kFused>, key_tiles, Tile::kThreads, kShared, stream, b);
    if (!kFused) launch(query_gradients<Tile>, query_tiles, Tile::kThreads, kShared, stream, b);
  });
}

// --- 16 bits ------------------------------------------------------------------------------------------

template <DType kType, int kStages, bool kFused>
void launch_mma_as(const Args& a, cudaStream_t stream) {
  using T = std::conditional_t<kType == DType::kFloat16, __half, __nv_bfloat16>;
  Backward<T> b = backward_of<T>(a);
  with_dim<kType>(a.head_dim, [&](auto dim) {
    using Keys = MmaKeyTiles<T, decltype(dim)::value, kStages, kFused>;
    using Queries = MmaQueryTiles<T, decltype(dim)::value>;
    const auto tiles_of = [](int length, std::size_t rows, int heads) {
      return blocks_for(std::size_t(length), rows) * unsigned(heads);
    };
    const int heads = a.batch * a.heads;
    launch_row_dots<T, dim>(b, stream);
    if (kFused) {
      b.dq_sum = a.buffer<float>("dq_sum");
      launch_zeros(b.dq_sum, std::size_t(tiles_of(a.seq_q, Keys::Br, heads)) * Keys::kQueryTile, stream);
    }
    launch(mma_key_gradients<Keys>, tiles_of(a.seq_k, Keys::Bc, a.batch * a.kv_heads), Keys::kThreads,
           Keys::kSharedBytes, stream, b);
    if constexpr (kFused) {
      launch(convert_dq<Keys>, tiles_of(a.seq_q, Keys::Br, heads), Keys::kThreads, 0, stream, b);
    } else {
      launch(mma_query_gradients<Queries>, tiles_of(a.seq_q, Queries::Br, heads), Queries::kThreads,
             Queries::kSharedBytes, stream, b);
    }
  });
}

template <int kStages, bool kFused>
void launch_mma(const Args& a, cudaStream_t stream) {
  if (a.dtype == DType::kFloat16) return launch_mma_as<DType::kFloat16, kStages, kFused>(a, stream);
  return launch_mma_as<DType::kBFloat16, kStages, kFused>(a, stream);
}

// --- what they ask of HBM -----------------------------------------------------------------------------

void add(Traffic& to, const std::string& name, TensorTraffic more) {
  to.tensors[name].read_bytes += more.read_bytes;
  to.tensors[name].write_bytes += more.write_bytes;
}

/// Rows of queries that the key tiles of a query head read: each from the first tile on that sees one of its keys.
std::int64_t rows_of_key_tiles(const Shape& shape, std::int64_t Br, std::int64_t Bc) {
  std::int64_t rows = 0;
  for (std::int64_t key = 0; key < shape.seq_k; key += Bc) {
    const std::int64_t first = shape.causal ? std::max<std::int64_t>(0, key - shape.seq_k + shape.seq_q) : 0;
    rows += shape.seq_q - first / Br * Br;
  }
  return rows;
}

/// Keys that the query tiles of a head read: each as far as its last query sees.
std::int64_t keys_of_query_tiles(const Shape& shape, std::int64_t Br) {
  std::int64_t keys = 0;
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    keys += shape.visible_keys(std::min(first + Br, shape.seq_q) - 1);
  }
  return keys;
}

/// The forward pass, D, and dK and dV by key tiles.
Traffic shared_traffic(const Shape& shape, std::int64_t Br, std::int64_t Bc) {
  const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t q = heads * shape.seq_q, kv = kv_heads * shape.seq_k * row;
  const std::int64_t visits = heads * rows_of_key_tiles(shape, Br, Bc);
  Traffic traffic = forward::traffic(shape);
  add(traffic, "o", {.read_bytes = q * row});
  add(traffic, "do", {.read_bytes = (q + visits) * row});
  add(traffic, "d", {.read_bytes = visits * kFloat, .write_bytes = q * kFloat});
  add(traffic, "lse", {.read_bytes = visits * kFloat});
  add(traffic, "q", {.read_bytes = visits * row});
  for (const char* name : {"k", "v"}) add(traffic, name, {.read_bytes = kv});
  for (const char* name : {"dk", "dv"}) add(traffic, name, {.write_bytes = kv});
  return traffic;
}

/// dQ by query tiles, in a kernel of its own.
void add_query_tiles(Traffic& to, const Shape& shape, std::int64_t Br) {
  const std::int64_t heads = shape.batch * shape.heads, q = heads * shape.seq_q;
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t keys = heads * keys_of_query_tiles(shape, Br);
  for (const char* name : {"q", "do"}) add(to, name, {.read_bytes = q * row});
  for (const char* name : {"lse", "d"}) add(to, name, {.read_bytes = q * kFloat});
  for (const char* name : {"k", "v"}) add(to, name, {.read_bytes = keys * row});
  add(to, "dq", {.write_bytes = q * row});
}

template <bool kFused>
Traffic fp32_traffic(const Shape& shape) {
  constexpr std::int64_t Br = Fp32Tiles<64>::Br, Bc = Fp32Tiles<64>::Bc;  // of every head dimension
  Traffic traffic = shared_traffic(shape, Br, Bc);
  if (!kFused) {
    add_query_tiles(traffic, shape, Br);
    return traffic;
  }
  const std::int64_t row = shape.batch * shape.heads * shape.head_dim * kFloat;  // of all heads
  const std::int64_t added = row * rows_of_key_tiles(shape, Br, Bc);
  add(traffic, "dq", {.read_bytes = added, .write_bytes = row * shape.seq_q + added});
  return traffic;
}

/// Standard backward has S and dP in HBM, rounded to the type of the inputs. Of a logit above 64 bf16 keeps multiples of
/// 1/2, and where a key has nearly all weight of a row, dP - D is a small difference of rounded numbers.
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
  return "S and dP are rounded to 16 bits in HBM: with logits this large, exp(S) and dP - D lose more than "
         "that";
}

std::vector<TensorSpec> own_workspace(const Shape& shape) {
  std::vector<TensorSpec> specs = forward::workspace(shape);
  specs.push_back({.name = "d", .shape = {shape.batch, shape.heads, shape.seq_q}});
  return specs;
}

template <bool kFused>
Step fp32_step(const char* name, const char* summary) {
  return Step{.name = name,
              .summary = summary,
              .launch = launch_fp32<kFused>,
              .traffic = fp32_traffic<kFused>,
              .refuse = [](const Shape& shape) -> std::optional<std::string> {
                return refuse_unless_compiled(shape, {DType::kFloat32});
              },
              .before = forward::launch,
              .repeatable = !kFused,
              .workspace = own_workspace};
}

using MmaTiles = MmaKeyTiles<__half, 64, 1, true>;  // Br and Bc are those of every head dimension

/// The sums of dQ, in whole query tiles: rows of all heads.
std::int64_t rows_of_sums(const Shape& shape) {
  return shape.batch * shape.heads * ((shape.seq_q - 1) / MmaTiles::Br + 1) * MmaTiles::Br;
}

/// Rows that the key tiles of all heads add to the sums of dQ: whole query tiles, and each adds to the last one.
std::int64_t rows_added(const Shape& shape) {
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t key_tiles = (shape.seq_k - 1) / MmaTiles::Bc + 1;
  return heads * rows_of_key_tiles(shape, MmaTiles::Br, MmaTiles::Bc) +
         key_tiles * (rows_of_sums(shape) - heads * shape.seq_q);
}

template <bool kFused>
Traffic mma_traffic(const Shape& shape) {
  Traffic traffic = shared_traffic(shape, MmaTiles::Br, MmaTiles::Bc);
  if (!kFused) {
    add_query_tiles(traffic, shape, MmaQueryTiles<__half, 64>::Br);
    return traffic;
  }
  const std::int64_t heads = shape.batch * shape.heads, q = heads * shape.seq_q;
  const std::int64_t added = rows_added(shape);
  const std::int64_t row = shape.head_dim * kFloat;
  add(traffic, "dq_sum",
      {.read_bytes = (added + q) * row, .write_bytes = (rows_of_sums(shape) + added) * row});
  add(traffic, "dq", {.write_bytes = q * shape.head_dim * std::int64_t(size_of(shape.dtype))});
  return traffic;
}

template <int kStages, bool kFused>
Step mma_step(const char* name, const char* summary) {
  return Step{.name = name,
              .summary = summary,
              .launch = launch_mma<kStages, kFused>,
              .traffic = mma_traffic<kFused>,
              .refuse = [](const Shape& shape) -> std::optional<std::string> {
                return refuse_unless_compiled(shape, {DType::kFloat16, DType::kBFloat16});
              },
              .before = forward::launch,
              .repeatable = !kFused,
              .workspace =
                  [](const Shape& shape) {
                    std::vector<TensorSpec> specs = own_workspace(shape);
                    if (kFused) {
                      specs.push_back({.name = "dq_sum", .shape = {rows_of_sums(shape), shape.head_dim}});
                    }
                    return specs;
                  }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionBackward>{
      .name = "08_backward",
      .title = "The backward pass: P again, and five products of matrices",
      .variants = {
          Step{.name = "standard",
               .summary = "P, dP and dS in HBM, products by cuBLAS",
               .launch = standard_backward::launch,
               .traffic = standard_backward::traffic,
               .refuse = standard_attention::refuse,
               .workspace = standard_backward::workspace,
               .known_failure = too_much_rounding},
          fp32_step<false>("fp32_two_kernels", "P again on the chip: once by key tiles, once by query tiles"),
          fp32_step<true>("fp32_fused", "five products in place of seven: dQ by atomic additions"),
          mma_step<1, true>("mma_fused", "tensor cores: S and dP transposed, P and dS in registers"),
          mma_step<2, true>("mma_pipelined", "the next Q and dO are on their way while these are in use"),
          mma_step<2, false>("mma_deterministic",
                             "dQ in a kernel of its own: seven products, no atomic additions"),
      }};
}

}  // namespace fa
