/// @file
/// Chapter 10 as the harness sees it.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "arguments.cuh"
#include "deterministic.cuh"
#include "device/launch.cuh"
#include "forward.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "owners.cuh"
#include "prepare.cuh"
#include "sizes.cuh"
#include "tensor_maps.cuh"
#include "uneven.cuh"

namespace fa {
using namespace ch10;
using ch09::refuse_widths, ch09::takes_narrow_values;
namespace {

using Shape = AttentionBackward::Shape;
using Args = AttentionBackward::Args;
using Step =
    Variant<AttentionBackward>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr int kCapability = 90;
constexpr std::int64_t kFloat = sizeof(float), kInt = sizeof(int);

/// @tparam kTileCols  of a tile of O
template <class T, int kTileCols>
void launch_prepare(const Backward<T>& b, cudaStream_t stream) {
  constexpr int kCols = int(std::bit_ceil(unsigned(kTileCols)));  // a row's lanes are a power of 2
  using P = Prepare<T, kCols>;
  const auto blocks = int(tiles(b.padded_queries, P::kRowsOfBlock));
  const bool pads = b.head_dim != kCols || b.head_dim_v != kCols;
  launch(pads ? prepare_rows<T, kCols, true> : prepare_rows<T, kCols, false>,
         unsigned(blocks * b.batch * b.heads), P::kThreads, 0, stream, b,
         BlocksOfHeads{Divisor(blocks), Divisor(b.heads)});
}

template <class Tile>
void launch_convert(const Backward<typename Tile::T>& b, cudaStream_t stream) {
  const int blocks = b.padded_queries / Tile::Br;
  launch_early(convert_dq<Tile>, unsigned(blocks * b.batch * b.heads), 128 * Tile::kConsumers, 0, stream, b,
               BlocksOfHeads{Divisor(blocks), Divisor(b.heads)});
}

// --- the methods: kernels with their tiles -----------------------------------------------------------------

/// A block per key tile computes all gradients.
template <class KernelOf>
struct Fused {
  template <class T, int d>
  using Tile = typename KernelOf::template Tile<T, d>;
  template <class Tile>
  static constexpr int rows_of_tile() {  ///< padded_queries is a multiple
    return Tile::Br;
  }
  template <class Tile>
  static constexpr std::size_t shared_bytes() {
    return sizeof(typename KernelOf::template Memory<Tile>);
  }
  static constexpr bool kRepeatable = false, kHasSums = true;

  template <class Tile>
  static void launch(const Args& args, cudaStream_t stream) {
    using T = typename Tile::T;
    Backward<T> b = backward_of<T>(args, Tile::Br);
    b.dq_sum = args.buffer<float>("dq_sum");
    require_alignment("dq", b.dq);
    const TensorMaps maps = key_tile_maps<Tile>(b, args.buffer<T>("dk"), args.buffer<T>("dv"));
    launch_prepare<T, OfValues<Tile>::kCols>(b, stream);
    launch_early(KernelOf::template get<Tile>(), unsigned(tiles(b.seq_k, Tile::Bc) * b.batch * b.kv_heads),
                 Tile::kThreads, shared_bytes<Tile>(), stream, b, maps);
    launch_convert<Tile>(b, stream);
  }
};

struct Wgmma {
  template <class T, int d>
  using Tile = KeyTiles<T, d>;
  template <class Tile>
  using Memory = KeyTileMemoryWithDq<Tile>;
  template <class Tile>
  static auto get() {
    return wgmma_gradients<Tile>;
  }
};
struct RegisterSums {
  template <class T, int d>
  using Tile = KeyTiles<T, d>;
  template <class Tile>
  using Memory = KeyTileMemory<Tile>;
  template <class Tile>
  static auto get() {
    return register_sums_gradients<Tile>;
  }
};
struct Overlapped : RegisterSums {
  template <class Tile>
  static auto get() {
    return overlapped_gradients<Tile>;
  }
};
struct Decoupled : RegisterSums {
  template <class Tile>
  static auto get() {
    return decoupled_gradients<Tile>;
  }
};
struct Uneven : RegisterSums {
  template <class Tile>
  static auto get() {
    return uneven_gradients<Tile>;
  }
};

struct TwoOwners {
  template <class T, int d>
  using Tile = OwnerTiles<T, d>;
  template <class Tile>
  using Memory = OwnersMemory<Tile>;
  template <class Tile>
  static auto get() {
    return two_owners_gradients<Tile>;
  }
};

/// The fastest schedule for tiles of d columns. All of them take the same arguments:
///
///   d     schedule      queries and keys of a step
///   64    decoupled     128, 128
///   96    uneven         64, 128
///   128   decoupled      64, 128
///   192   two_owners     64,  64   (also for 128 columns of V)
///   256   two_owners     64,  64
template <int d>
struct FastestOf {
  using Schedule = Decoupled;
};
template <>
struct FastestOf<96> {
  using Schedule = Uneven;
};
template <>
struct FastestOf<256> {
  using Schedule = TwoOwners;
};
template <>
struct FastestOf<192> {
  using Schedule = TwoOwners;
};
struct Final {
  template <class T, int d>
  using Tile = typename FastestOf<d>::Schedule::template Tile<T, d>;
  template <class Tile>
  using Memory = typename FastestOf<Tile::kHeadDim>::Schedule::template Memory<Tile>;
  template <class Tile>
  static auto get() {
    return FastestOf<Tile::kHeadDim>::Schedule::template get<Tile>();
  }
};

struct FusedFinal : Fused<Final> {
  template <class T>
  using NarrowTile = OwnerTiles<T, ch09::NarrowValueSizes::kHeadDims.back(), ch09::kNarrowValues>;
};

/// The schedule of `final` for tiles of these columns, in turns.
template <class Tile>
struct InTurns {
  static constexpr bool kThroughShared = Tile::kHeadDim <= 128;  ///< where dQ goes before it is added
  static constexpr bool kStoresFirst = kThroughShared;           ///< the first turn does not add
  static constexpr bool kBeginsEarly = kThroughShared;  ///< with more columns 1 to 3 % slower, N = 8192
  using Memory = std::conditional_t<kThroughShared, TurnMemory<Tile>, OwnersMemory<Tile>>;
  static auto get() {
    if constexpr (!kThroughShared) {
      return two_owners_in_turns<Tile>;
    } else if constexpr (Tile::kHeadDim == 96) {
      return uneven_in_turns<Tile>;
    } else {
      return decoupled_in_turns<Tile>;
    }
  }
};

/// The workspace `turns` has a counter for each part of each tile of dQ; the launch sets them to 0.
struct Deterministic : FusedFinal {
  template <class Tile>
  static constexpr std::size_t shared_bytes() {
    return sizeof(typename InTurns<Tile>::Memory);
  }
  static constexpr bool kRepeatable = true;
  using HasTurns = void;

  template <class Tile>
  static void launch(const Args& args, cudaStream_t stream) {
    using T = typename Tile::T;
    Backward<T> b = backward_of<T>(args, Tile::Br);
    b.dq_sum = args.buffer<float>("dq_sum");
    b.turns = args.buffer<int>("turns");
    b.interleaved = heads_of_group(args);
    if (InTurns<Tile>::kStoresFirst) b.zero_rows = b.first_query(0) / Tile::Br * Tile::Br;
    require_alignment("dq", b.dq);
    const TensorMaps maps = key_tile_maps<Tile>(b, args.buffer<T>("dk"), args.buffer<T>("dv"));
    const std::size_t counters =
        std::size_t(b.batch) * b.heads * (b.padded_queries / Tile::Br) * Tile::kConsumers;
    FA_CUDA_CHECK(cudaMemsetAsync(b.turns, 0, counters * sizeof(int), stream));
    launch_prepare<T, OfValues<Tile>::kCols>(b, stream);
    const auto blocks = unsigned(tiles(b.seq_k, Tile::Bc) * b.batch * b.kv_heads);
    if constexpr (InTurns<Tile>::kBeginsEarly) {
      launch_early(InTurns<Tile>::get(), blocks, Tile::kThreads, shared_bytes<Tile>(), stream, b, maps);
    } else {
      fa::launch(InTurns<Tile>::get(), blocks, Tile::kThreads, shared_bytes<Tile>(), stream, b, maps);
    }
    launch_convert<Tile>(b, stream);
  }
};

// --- HBM traffic -------------------------------------------------------------------------------------------

/// Rows of Q that the key tiles of a head visit, one after the other.
struct Visited {
  std::int64_t rows, padding;
};
/// @param padded  queries of a head
template <class Tile>
Visited visited_by_key_tiles(const Shape& shape, std::int64_t padded) {
  return {shape.queries_of_key_tiles(Tile::Br, Tile::Bc),
          tiles(shape.seq_k, Tile::Bc) * (padded - shape.seq_q)};
}

/// The forward pass, what precedes the products, and dK and dV with one block per key tile.
Traffic shared_traffic(const Shape& shape, std::int64_t padded, const Visited& by_head) {
  const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
  const std::int64_t size = std::int64_t(size_of(shape.dtype));
  const std::int64_t row = shape.head_dim * size, row_of_v = shape.value_dim() * size;
  const std::int64_t q = heads * shape.seq_q, kv = kv_heads * shape.seq_k;
  const std::int64_t rows_read = heads * by_head.rows, visited = rows_read + heads * by_head.padding;
  Traffic traffic = forward::traffic(shape);
  add(traffic, "o", {.read_bytes = q * row_of_v});
  add(traffic, "lse", {.read_bytes = q * kFloat});
  for (const char* name : {"log2_sum", "delta"})
    add(traffic, name, {.read_bytes = visited * kFloat, .write_bytes = heads * padded * kFloat});
  add(traffic, "q", {.read_bytes = rows_read * row});
  add(traffic, "do", {.read_bytes = (q + rows_read) * row_of_v});
  add(traffic, "k", {.read_bytes = kv * row});
  add(traffic, "v", {.read_bytes = kv * row_of_v});
  add(traffic, "dk", {.write_bytes = kv * row});
  add(traffic, "dv", {.write_bytes = kv * row_of_v});
  add(traffic, "dq", {.write_bytes = q * row});
  return traffic;
}

/// @param zeros, rows  of Q whose sums are set to zero, and to which something is added, of a head
void add_sums(Traffic& to, const Shape& shape, std::int64_t zeros, std::int64_t rows) {
  const std::int64_t bytes = shape.batch * shape.heads * (zeros + rows) * shape.head_dim * kFloat;
  add(to, "dq_sum",
      {.read_bytes = bytes, .write_bytes = bytes});  // read by the conversion, set to zero before
}

template <class Method, class Tile>
Traffic traffic_of(Fused<Method>, std::type_identity<Tile>, const Shape& shape) {
  const std::int64_t padded = tiles(shape.seq_q, Tile::Br) * Tile::Br;
  const Visited visited = visited_by_key_tiles<Tile>(shape, padded);
  Traffic traffic = shared_traffic(shape, padded, visited);
  add_sums(traffic, shape, padded, visited.rows + visited.padding);
  return traffic;
}

template <class Tile>
Traffic traffic_of(Deterministic, std::type_identity<Tile>, const Shape& shape) {
  const std::int64_t padded = tiles(shape.seq_q, Tile::Br) * Tile::Br, heads = shape.batch * shape.heads;
  const Visited visited = visited_by_key_tiles<Tile>(shape, padded);
  Traffic traffic = shared_traffic(shape, padded, visited);
  // The first turn stores: what it does not read, the conversion reads. Tiles without visits are zeros.
  const std::int64_t unseen = shape.causal ? std::max<std::int64_t>(0, shape.seq_q - shape.seq_k) : 0;
  const std::int64_t zeros = InTurns<Tile>::kStoresFirst ? unseen / Tile::Br * Tile::Br : padded;
  const std::int64_t rows = visited.rows + visited.padding;
  add_sums(traffic, shape, zeros, rows);
  add(traffic, "turns", {.write_bytes = heads * rows / Tile::Br * Tile::kConsumers * kInt});
  return traffic;
}

// --- the variants ------------------------------------------------------------------------------------------

template <class Method, class Sizes = LessonSizes>
Step step(const char* name, const char* summary) {
  return {
      .name = name,
      .summary = summary,
      .launch =
          [](const Args& a, cudaStream_t stream) {
            with_tile<Method, Sizes>(
                a, [&]<class Tile>(std::type_identity<Tile>) { Method::template launch<Tile>(a, stream); });
          },
      .traffic =
          [](const Shape& shape) {
            Traffic traffic;
            with_tile<Method, Sizes>(shape, [&](auto tile) { traffic = traffic_of(Method(), tile, shape); });
            return traffic;
          },
      .refuse = takes_narrow_values<Method>() ? refuse_widths<Sizes> : refuse_unless_compiled<Sizes>,
      .takes_strides = true,
      .takes_other_widths = takes_narrow_values<Method>(),
      .needs =
          [](const Shape& shape) {
            DeviceNeeds needs{.compute_capability = kCapability, .exactly = true};
            with_tile<Method, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
              needs.shared_bytes =
                  std::max(forward::shared_bytes(shape), Method::template shared_bytes<Tile>());
            });
            return needs;
          },
      .before = forward::launch,
      .repeatable = Method::kRepeatable,
      .workspace =
          [](const Shape& shape) {
            std::vector<TensorSpec> specs = forward::workspace(shape);
            with_tile<Method, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
              constexpr std::int64_t kRows = Method::template rows_of_tile<Tile>();
              const std::int64_t padded = tiles(shape.seq_q, kRows) * kRows;
              for (const char* of_rows : {"log2_sum", "delta"})
                specs.push_back({.name = of_rows, .shape = {shape.batch, shape.heads, padded}});
              if constexpr (Method::kHasSums)
                specs.push_back(
                    {.name = "dq_sum", .shape = {shape.batch, shape.heads, padded, shape.head_dim}});
              if constexpr (requires { typename Method::HasTurns; })
                specs.push_back(
                    {.name = "turns", .shape = {shape.batch, shape.heads, padded / kRows, Tile::kConsumers}});
            });
            return specs;
          }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionBackward>{
      .name = "10_hopper_backward",
      .title = "The backward pass on Hopper: five products and who waits for whom",
      .variants = {
          step<Fused<Wgmma>>("wgmma", "S and dP transposed by wgmma; dQ through shared memory to its sums"),
          step<Fused<RegisterSums>>("register_sums", "dQ from registers to its sums"),
          step<Fused<Overlapped>>("overlapped",
                                  "dP, dV and dK are in flight while something else is computed"),
          step<Fused<Decoupled>>("decoupled", "dQ one step later: no consumer waits for the other"),
          step<FusedFinal, AllSizes>("final",
                                     "for each width the fastest of decoupled, uneven and two_owners"),
          step<Deterministic, AllSizes>("deterministic",
                                        "blocks add to dQ in turns: the same bits in every run"),
      }};
}

}  // namespace fa
