/// @file
/// Chapter 14 as the harness sees it.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "attention/launch.hpp"
#include "bytes.hpp"
#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "launch.cuh"
#include "longest_blocks.hpp"

namespace fa {
using namespace ch14;
namespace {

using Shape = DecodingShape;
using Args = DecodingAttention::Args;

// --- what a variant does with a shape ----------------------------------------------------------------------

/// Its tiles: with<T, d>(rows, f) calls f(std::type_identity<Tile>()).
template <template <class, int> class Family>
struct OfWarps {
  template <class T, int d, class F>
  static auto with(int rows, const F& f) {
    return with_warp_tiles<d, Family<T, d>::template Tile>(rows, f);
  }
};
struct OfWarpsOrWarpgroups {
  template <class T, int d, class F>
  static auto with(int rows, const F& f) {
    return with_tiles_of_rows<T, d>(rows, f);
  }
};

/// @tparam kApart  whether heads that share K are apart, each in blocks of its own
template <class AnyTiles, Divided kHow, Copies kBy, bool kApart = false>
struct Step {
  using Tiles = AnyTiles;
  static constexpr Divided kKeys = kHow;
  static constexpr Copies kCopies = kBy;
  static constexpr bool kHeadsApart = kApart;
};

/// Calls f(std::type_identity<Tile>(), work) with what the launch of a step does.
template <class Step, class F>
auto with_work(const Shape& shape, const F& f) {
  // Sizes do not depend on the type.
  return select<Sizes>(shape.dtype, shape.head_dim, [&](auto, auto d) {
    using T = __nv_bfloat16;
    const std::int64_t heads = Step::kHeadsApart ? shape.heads : shape.kv_heads;
    Decoding<T> a = {};
    a.key_lengths = shape.key_lengths ? shape.key_lengths->data() : nullptr;
    a.batch = int(shape.batch), a.kv_heads = int(heads), a.rows = int(shape.heads / heads * shape.seq_q);
    a.seq_q = int(shape.seq_q), a.seq_k = int(shape.seq_k);
    return Step::Tiles::template with<T, d>(a.rows, [&]<class Tile>(std::type_identity<Tile> tile) {
      constexpr Divided kFastest = merges_itself<Tile>() ? Divided::kMerged : Divided::kBalanced;
      Work work = {.keys = Step::kKeys == Divided::kFastest ? kFastest : Step::kKeys,
                   .copies = Step::kCopies,
                   .granules = granules_of<Tile>(a, 0),
                   .rows = a.rows,
                   .heads = a.kv_heads};
      const int splits = int(shape.splits.value_or(0));
      if (Step::kKeys == Divided::kSplits) work.splits = splits_of<Tile>(work.granules, splits);
      if (work.keys == Divided::kBalanced || work.keys == Divided::kMerged)
        work.granules = balanced_granules<Tile>(a, splits);
      return f(tile, work);
    });
  });
}

template <class Step>
Traffic traffic_of(const Shape& shape) {
  return with_work<Step>(shape, [&]<class Tile>(std::type_identity<Tile>, const Work& work) {
    return decoding_traffic<Tile>(shape, work);
  });
}

template <class Step>
std::size_t shared_bytes(const Shape& shape) {
  return with_work<Step>(
      shape, []<class Tile>(std::type_identity<Tile>, const Work&) { return sizeof(SharedTiles<Tile>); });
}

template <class Step>
std::vector<TensorSpec> workspace_of(const Shape& shape) {
  if (Step::kKeys == Divided::kWhole || backend::why_unusable()) return {};
  return with_work<Step>(shape, [&]<class Tile>(std::type_identity<Tile>, const Work& work) {
    const std::int64_t slots = slots_of(work);
    std::vector<TensorSpec> specs = {{.name = "part_o", .shape = {slots, Tile::kRows, Tile::kHeadDim}},
                                     {.name = "part_state", .shape = {slots, Tile::kRows, 2}}};
    if (work.keys == Divided::kMerged)
      specs.push_back({.name = "counters", .shape = {work.granules.blocks}, .dtype = DType::kInt32});
    return specs;
  });
}

// --- what variants refuse ----------------------------------------------------------------------------------

/// What a variant takes besides a contiguous cache of 16-bit elements.
struct Takes {
  bool pages = false, fp8 = false, only_fp8 = false, splits = true;
};

std::optional<Refusal> refuse_options(const Shape& shape, const Takes& takes) {
  if (shape.fp8 && !takes.fp8)
    return Refusal::variant("--cache is fp8: this variant takes elements of 16 bits; fp8_cache takes fp8");
  if (!shape.fp8 && takes.only_fp8)
    return Refusal::variant("--cache is not given: must be --cache fp8; paged takes elements of 16 bits");
  if (shape.block_table && !takes.pages)
    return Refusal::variant("--page-size is given: this variant takes a contiguous cache; paged takes pages");
  if (shape.splits && !takes.splits)
    return Refusal::variant("--splits is given: this variant does not split keys; split_keys does");
  return std::nullopt;
}

// --- what outputs do not show ------------------------------------------------------------------------------

/// A counter that a call does not leave at 0.
template <class Step>
std::optional<std::string> left_counter(const Shape& shape, const Args& args) {
  if (!args.buffers.contains("counters")) return std::nullopt;
  std::vector<std::uint32_t> counters(
      with_work<Step>(shape, [](auto, const Work& work) { return std::size_t(work.granules.blocks); }));
  FA_CUDA_CHECK(cudaMemcpy(counters.data(), args.buffer<std::uint32_t>("counters"),
                           counters.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost));
  for (std::size_t block = 0; block < counters.size(); ++block) {
    if (counters[block] != 0)
      return "leaves counters[" + std::to_string(block) + "] at " + std::to_string(counters[block]) +
             ": the next call in the same workspace would begin with it instead of 0";
  }
  return std::nullopt;
}

// --- the variants ------------------------------------------------------------------------------------------

template <class Step>
Variant<DecodingAttention> variant(const char* name, const char* summary,
                                   void (*launch)(const Args&, cudaStream_t), Takes takes) {
  constexpr bool kOfHopper = Step::kCopies == Copies::kByTma;
  Variant<DecodingAttention> variant = {.name = name,
                                        .summary = summary,
                                        .launch = launch,
                                        .traffic = traffic_of<Step>,
                                        .refuse =
                                            [=](const Shape& shape) {
                                              const auto reason = refuse_options(shape, takes);
                                              return reason ? reason : refuse_unless_compiled<Sizes>(shape);
                                            },
                                        .needs =
                                            [](const Shape& shape) {
                                              return DeviceNeeds{.shared_bytes = shared_bytes<Step>(shape),
                                                                 .compute_capability = kOfHopper ? 90 : 80,
                                                                 .exactly = kOfHopper};
                                            },
                                        .workspace = workspace_of<Step>};
  if (Step::kKeys == Divided::kBalanced)
    variant.fault = [](const Shape&, const Args&) { return wrong_schedule(); };
  if (Step::kKeys == Divided::kMerged || Step::kKeys == Divided::kFastest) {
    variant.fault = left_counter<Step>;
    variant.before = [](const Args& args, cudaStream_t stream) {
      select<Sizes>(args.dtype, args.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
        const Decoding<T> a = decoding<T>(args);
        Step::Tiles::template with<T, d>(a.rows, [&]<class Tile>(std::type_identity<Tile>) {
          if (!args.buffers.contains("counters")) return;
          zero_counters(args, stream, std::size_t(balanced_granules<Tile>(a, args.splits).blocks));
        });
      });
    };
  }
  return variant;
}

}  // namespace

AnyChapter describe_chapter() {
  using Tma = OfWarpsOrWarpgroups;
  using InStages = OfWarps<Staged>;
  return Chapter<DecodingAttention>{
      .name = "14_decoding",
      .title = "Decoding: one query, many keys",
      .variants = {
          variant<Step<InStages, Divided::kWhole, Copies::kTiles, true>>(
              "one_block_a_head", "a block for each head of Q, as in chapter 07", launch_one_block_a_head,
              {.splits = false}),
          variant<Step<InStages, Divided::kWhole, Copies::kTiles>>(
              "packed_heads", "the heads that share K are columns of one product: K is read once",
              launch_packed_heads, {.splits = false}),
          variant<Step<InStages, Divided::kSplits, Copies::kTiles>>(
              "split_keys", "several blocks share the keys of a head; a second kernel merges their O",
              launch_split_keys, {}),
          variant<Step<Tma, Divided::kSplits, Copies::kByTma>>(
              "in_flight", "TMA fills a ring for each warp: more bytes in flight, no barrier of the block",
              launch_in_flight, {}),
          variant<Step<Tma, Divided::kBalanced, Copies::kByTma>>(
              "balanced", "each block has as many keys as any other, whatever the lengths", launch_balanced,
              {}),
          variant<Step<Tma, Divided::kMerged, Copies::kByTma>>(
              "one_kernel", "the last block to finish a head merges its parts: no second kernel",
              launch_one_kernel, {}),
          variant<Step<Tma, Divided::kFastest, Copies::kByTma>>(
              "paged", "one_kernel on a cache in pages, found through a table", launch_paged,
              {.pages = true}),
          variant<Step<OfWarps<Fp8Tiles>, Divided::kFastest, Copies::kByTma>>(
              "fp8_cache", "one_kernel on a cache of e4m3, half as many bytes", launch_fp8_cache,
              {.pages = true, .fp8 = true, .only_fp8 = true}),
          variant<Step<OfWarps<CpAsync>, Divided::kMerged, Copies::kByLanes>>(
              "ampere", "paged without TMA, for every GPU since sm_80", launch_ampere, {.pages = true}),
      }};
}

}  // namespace fa
