/// @file
/// Chapter 11 as the harness sees it.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "07_multi_stage/choices.cuh"
#include "attention/launch.hpp"
#include "bytes.hpp"
#include "device/launch.cuh"
#include "dropped.cuh"
#include "forward.cuh"
#include "harness/chapter.hpp"
#include "launch.hpp"
#include "score_mod.cuh"
#include "sparse_attention.cuh"

namespace fa {
using namespace ch11;
namespace {

// --- the forward pass of a step ----------------------------------------------------------------------------

template <class Tile>
constexpr auto kernel_of(MaskedEverywhere) {
  return masked_everywhere_attention<Tile>;
}
template <class Tile>
constexpr auto kernel_of(SkipEmpty) {
  return skip_empty_attention<Tile>;
}
template <class Tile>
constexpr auto kernel_of(ThreeKinds) {
  return three_kinds_attention<Tile>;
}

/// The buffers of its lists.
template <class Step>
const ListBuffers& lists_of() {
  return Step::Mods::kLongestFirst ? kOrderedKeyTiles : kKeyTiles;
}

/// Calls f(std::type_identity<Tile>()) with its tiles. Returns what it returns.
/// @tparam kDense  as in chapter 07: the rows of K and V have no gaps, and all d columns exist
/// @param size_of_blocks  64 or 128
template <class Step, class T, int d, bool kDense = false, class F>
auto with_tiles([[maybe_unused]] std::int64_t size_of_blocks, const F& f) {
  if constexpr (Step::Mods::kOnlyFullTiles) {
    using Small = ch07::MultiStageTiles<T, d, SmallBlocks<d>, kDense>;
    if (size_of_blocks == 64) return f(std::type_identity<Small>());
  }
  return f(std::type_identity<ch07::MultiStageTiles<T, d, ch07::FinalChoices<d>, kDense>>());
}

/// The same for a shape. The sizes of tiles do not depend on the type.
template <class Step, class F>
auto with_tiles_for(const Shape& shape, const F& f) {
  return select<typename Step::Sizes>(shape.dtype, shape.head_dim, [&](auto, auto d) {
    return with_tiles<Step, __nv_bfloat16, d>(shape.block_mask ? shape.block_mask->size : 0, f);
  });
}

/// @tparam Mods  those of the step, or the same with sinks
template <class Step, class Mods>
void launch_with_mods(const Args& a, cudaStream_t stream) {
  const Masks masks = masks_of(a);
  const Mods mods = bind<Mods>(a);
  const bool no_gaps = are_dense(a, {"k", "v"});
  const auto launch_of = [&]<class T>(std::type_identity<T>, auto d, auto dense) {
    const auto attention = a.as<T>();
    with_tiles<Step, T, d, dense>(a.size_of_blocks, [&]<class Tile>(std::type_identity<Tile>) {
      if constexpr (Step::kFinds == Finds::kListed) {
        const BlockMask lists = make_lists<KeysOfQueries<Tile>>(lists_of<Step>(), a, stream);
        launch_tiles<Tile>(sparse_attention<Tile, Mods>, grid_of<Tile>(lists, a.batch * a.heads), stream,
                           attention, masks, lists, mods);
      } else {
        launch_tiles<Tile>(kernel_of<Tile>(Step()), blocks_of_queries(a, Tile::Br), stream, attention, masks);
      }
    });
    launch(repair_marked_rows<T, Mods>, blocks_for(std::int64_t(a.batch) * a.heads * a.seq_q, 128), 128, 0,
           stream, attention, masks, mods);
  };
  select<typename Step::Sizes>(a.dtype, a.head_dim, no_gaps, launch_of);
}

/// Whether a step takes sinks.
template <class Step>
constexpr bool kTakesSinks = Step::kFinds == Finds::kListed && !Step::Mods::kOnlyFullTiles;

template <class Step>
void launch_forward(const Args& a, cudaStream_t stream) {
  using Mods = typename Step::Mods;
  if constexpr (kTakesSinks<Step>) {
    if (a.sinks) return launch_with_mods<Step, typename Mods::template With<WithSinks>>(a, stream);
  }
  launch_with_mods<Step, Mods>(a, stream);
}

template <class Step>
Traffic traffic_of_forward(const Shape& shape) {
  return with_tiles_for<Step>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    Traffic traffic = forward_traffic<Tile>(shape, Step::kFinds, lists_of<Step>());
    const std::int64_t blocks = shape.batch * shape.heads * tiles(shape.seq_q, Tile::Br);
    add_sinks(traffic, shape, blocks * Tile::kWarps);
    return traffic;
  });
}

template <class Step>
Pass::Needs needs_of_forward(const Shape& shape) {
  return with_tiles_for<Step>(shape, [&]<class Tile>(std::type_identity<Tile>) {
    Pass::Needs needs{.shared_bytes = Tile::kSharedBytes};
    if (Step::kFinds == Finds::kListed) {
      add_specs<KeysOfQueries<Tile>>(needs.workspace, lists_of<Step>(), shape);
      needs.refusal = refuse_more_rows(lists_of<Step>(), "--seq-q", shape.seq_q, Tile::Br);
    }
    return needs;
  });
}

template <class Step>
constexpr Pass kForward = {
    .launch = launch_forward<Step>, .traffic = traffic_of_forward<Step>, .needs = needs_of_forward<Step>};

// --- what variants refuse ----------------------------------------------------------------------------------

std::optional<Refusal> refuse_dropout(const Shape& shape) {
  if (shape.dropout == 0) return std::nullopt;
  return Refusal::variant("--dropout is given: this variant has none; --variant dropout has");
}
std::optional<Refusal> refuse_functions(const Shape& shape) {
  if (shape.softcap)
    return Refusal::variant("--softcap is given: this variant has none; --variant scores has");
  if (shape.has_alibi()) {
    const std::string option = shape.alibi ? "--alibi" : "--alibi-slopes";
    return Refusal::variant(option + " is given: this variant has none; --variant scores has");
  }
  return std::nullopt;
}
std::optional<Refusal> refuse_sinks(const Shape& shape) {
  if (!shape.sinks) return std::nullopt;
  return Refusal::variant(
      "--sinks is given: this variant has none; compressed, deterministic, hopper, dropout and scores have");
}
/// Refuses whatever one of several functions refuses.
template <std::optional<Refusal> (*... kRefuse)(const Shape&)>
std::optional<Refusal> refuse_any(const Shape& shape) {
  std::optional<Refusal> reason;
  ((reason = reason ? reason : kRefuse(shape)), ...);
  return reason;
}

std::optional<Refusal> refuse_all_but_blocks(const Shape& shape) {
  if (!shape.block_mask)
    return Refusal::variant("--block-mask is missing: this variant visits the blocks of a pattern");
  const std::pair<const char*, bool> others[] = {{"--causal", shape.causal},
                                                 {"--window", shape.window.has_value()},
                                                 {"--documents", shape.documents != nullptr},
                                                 {"--key-lengths", shape.key_lengths != nullptr}};
  for (const auto& [option, given] : others) {
    if (given)
      return Refusal::variant(std::string(option) +
                              " is given: this variant takes --block-mask alone; compressed takes both");
  }
  const std::pair<const char*, std::int64_t> lengths[] = {{"--seq-q", shape.seq_q}, {"--seq-k", shape.seq_k}};
  for (const auto& [option, length] : lengths) {
    if (length % shape.block_mask->size != 0)
      return Refusal::variant(std::string(option) + " is " + std::to_string(length) +
                              ": this variant takes multiples of --block-size, " +
                              std::to_string(shape.block_mask->size));
  }
  return std::nullopt;
}

// --- the variants ------------------------------------------------------------------------------------------

using Refuse = std::optional<Refusal> (*)(const Shape&);

/// @param device  what the kernels need of it; shared memory is added
/// @param repeatable  gradients too have the same bits in every run
template <class Sizes>
Variant<MaskedAttention> variant(const char* name, const char* summary, const Pass& forward,
                                 const Pass& backward, Refuse refuse,
                                 DeviceNeeds device = {.compute_capability = 80}, bool repeatable = false) {
  // With --backward also O and LSE: the forward pass runs before.
  const auto needs = [=](const Shape& shape) {
    Pass::Needs all = forward.needs(shape);
    if (!shape.backward) return all;
    const Pass::Needs more = backward.needs(shape);
    all.shared_bytes = std::max(all.shared_bytes, more.shared_bytes);
    for (const auto& specs : {AttentionForward::outputs(shape), more.workspace})
      all.workspace.insert(all.workspace.end(), specs.begin(), specs.end());
    if (!all.refusal) all.refusal = more.refusal;
    return all;
  };
  return {.name = name,
          .summary = summary,
          .launch = [=](const Args& a,
                        cudaStream_t stream) { (a.backward ? backward : forward).launch(a, stream); },
          .traffic =
              [=](const Shape& shape) {
                return shape.backward ? sum(forward.traffic(shape), backward.traffic(shape))
                                      : forward.traffic(shape);
              },
          .refuse =
              [=](const Shape& shape) {
                auto reason = refuse(shape);  // first: without --dtype, the type is fp32 if nothing runs
                if (!reason) reason = refuse_unless_compiled<Sizes>(shape);
                return reason ? reason : needs(shape).refusal;
              },
          .takes_strides = true,
          .needs =
              [=](const Shape& shape) {
                DeviceNeeds all = device;
                all.shared_bytes = needs(shape).shared_bytes;
                return all;
              },
          .before =
              [=](const Args& a, cudaStream_t stream) {
                if (a.backward) forward.launch(a, stream);
              },
          .repeatable = repeatable,
          .workspace = [=](const Shape& shape) { return needs(shape).workspace; }};
}

/// A variant with a kernel of its own for each pass.
template <class Step>
Variant<MaskedAttention> step(const char* name, const char* summary, Refuse refuse) {
  return variant<typename Step::Sizes>(name, summary, kForward<Step>, backward(typeid(Step)), refuse);
}

}  // namespace

AnyChapter describe_chapter() {
  constexpr Refuse kMasks = refuse_any<refuse_dropout, refuse_functions>;
  constexpr Refuse kMasksAlone = refuse_any<kMasks, refuse_sinks>;
  return Chapter<MaskedAttention>{
      .name = "11_masks",
      .title = "Masks: visit only the tiles that something sees",
      .variants = {
          step<MaskedEverywhere>("masked_everywhere",
                                 "every key tile is visited, masks are evaluated for every score",
                                 kMasksAlone),
          step<SkipEmpty>("skip_empty", "tiles of which nothing is visible are not visited", kMasksAlone),
          step<ThreeKinds>("three_kinds",
                           "no mask in full tiles; warps evaluate their sub-tiles of the others",
                           kMasksAlone),
          step<Sparse<NoMods>>("compressed", "a kernel lists the tiles: partial ones, then full ones",
                               kMasks),
          step<Sparse<OnlyBlocks>>("block_sparse",
                                   "Algorithm 5: blocks of a pattern, and no mask for any score",
                                   refuse_any<refuse_all_but_blocks, kMasksAlone>),
          variant<AllSizes>("deterministic", "compressed; gradients without atomic additions",
                            kForward<Sparse<NoMods>>, deterministic_backward(), kMasks,
                            {.compute_capability = 80}, true),
          variant<AllSizes>("hopper", "compressed on the copy engine and wgmma of chapters 09 and 10",
                            hopper_forward(), hopper_backward(), kMasks,
                            {.compute_capability = 90, .exactly = true}),
          step<Sparse<Mods<NoScoreMods, WithDropout>>>(
              "dropout", "compressed, and Philox drops elements of P", refuse_any<refuse_functions>),
          step<Sparse<Mods<ScoreMods, NoDropout>>>("scores", "compressed, and a function of each score",
                                                   refuse_any<refuse_dropout>),
      }};
}

}  // namespace fa
