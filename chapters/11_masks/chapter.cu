/// @file
/// Chapter 11 as the harness sees it.
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "07_multi_stage/choices.cuh"
#include "attention/dispatch.cuh"
#include "backward.hpp"
#include "bytes.hpp"
#include "deterministic.hpp"
#include "device/launch.cuh"
#include "dropped.cuh"
#include "forward.cuh"
#include "harness/chapter.hpp"
#include "hopper.hpp"
#include "list_buffers.hpp"
#include "pass.hpp"
#include "problem.cuh"
#include "score_mod.cuh"
#include "sizes.cuh"
#include "sparse_attention.cuh"

namespace fa {
using namespace ch11;
namespace {

using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

// --- the forward pass: a kernel, how it finds its tiles, and their sizes -----------------------------------

// Kernels that visit the tiles they find themselves.
struct MaskedEverywhere {
  static constexpr Finds kFinds = Finds::kAllTiles;
  using Mods = NoMods;
  template <class Tile>
  static constexpr auto kKernel = masked_everywhere_attention<Tile>;
};
struct SkipEmpty {
  static constexpr Finds kFinds = Finds::kVisible;
  using Mods = NoMods;
  template <class Tile>
  static constexpr auto kKernel = skip_empty_attention<Tile>;
};
struct ThreeKinds {
  static constexpr Finds kFinds = Finds::kVisible;
  using Mods = NoMods;
  template <class Tile>
  static constexpr auto kKernel = three_kinds_attention<Tile>;
};
/// The tiles of lists.
template <class AnyMods>
struct Sparse {
  static constexpr Finds kFinds = Finds::kListed;
  using Mods = AnyMods;
};

template <class Kernel>
constexpr bool kHasLists = Kernel::kFinds == Finds::kListed;

/// The buffers of a kernel's lists.
template <class Kernel>
const ListBuffers& lists_of() {
  return Kernel::Mods::kLongestFirst ? kOrderedKeyTiles : kKeyTiles;
}

/// Calls f(std::type_identity<Tile>()) with the tiles of a kernel.
/// @tparam kDense  as in chapter 07: the rows of K and V have no gaps, and all d columns exist
/// @param size_of_blocks  64 or 128
template <class Kernel, class T, int d, bool kDense = false, class F>
auto with_tiles([[maybe_unused]] std::int64_t size_of_blocks, F f) {
  if constexpr (Kernel::Mods::kOnlyFullTiles) {
    using Small = ch07::MultiStageTiles<T, d, SmallBlocks<d>, kDense>;
    if (size_of_blocks == 64) return f(std::type_identity<Small>());
  }
  return f(std::type_identity<ch07::MultiStageTiles<T, d, ch07::FinalChoices<d>, kDense>>());
}

template <class Kernel, class Sizes>
void launch_forward(const Args& a, cudaStream_t stream) {
  using Mods = typename Kernel::Mods;
  with_compiled<Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const auto attention = a.as<T>();
    const Masks masks = masks_of(a);
    const Mods mods = bind<Mods>(a);
    const std::int64_t heads = a.batch * a.heads;
    const bool is_dense = a.head_dim == d && a.strides.at("k").row == d && a.strides.at("v").row == d;
    with_dense(is_dense, [&](auto dense) {
      with_tiles<Kernel, T, d, dense>(a.size_of_blocks, [&]<class Tile>(std::type_identity<Tile>) {
        const dim3 blocks = unsigned(tiles(a.seq_q, Tile::Br) * heads);
        if constexpr (kHasLists<Kernel>) {
          const BlockMask lists = make_lists<KeysOfQueries<Tile>>(lists_of<Kernel>(), a, stream);
          launch(sparse_attention<Tile, Mods>,
                 lists.order ? grid_of_rows(lists, heads, Tile::kBlocksPerSm) : blocks, Tile::kThreads,
                 Tile::kSharedBytes, stream, attention, masks, lists, mods);
        } else {
          launch(Kernel::template kKernel<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, stream,
                 attention, masks);
        }
      });
    });
    launch(repair_marked_rows<T, Mods>, blocks_for(heads * a.seq_q, 128), 128, 0, stream, attention, masks,
           mods);
  });
}

/// Calls f(std::type_identity<Tile>()) with the tiles of a kernel for a shape. They do not depend on the
/// type.
template <class Kernel, class Sizes, class F>
auto with_tiles_for(const Shape& shape, F f) {
  return with_head_dim<Sizes>(shape.head_dim, [&](auto d) {
    return with_tiles<Kernel, __nv_bfloat16, d>(shape.block_mask ? shape.block_mask->size : 0, f);
  });
}

template <class Kernel, class Sizes>
Pass forward() {
  return {
      .launch = launch_forward<Kernel, Sizes>,
      .traffic =
          [](const Shape& shape) {
            return with_tiles_for<Kernel, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
              return forward_traffic<Tile>(shape, Kernel::kFinds, lists_of<Kernel>());
            });
          },
      .workspace =
          [](const Shape& shape) {
            std::vector<TensorSpec> specs;
            if (!kHasLists<Kernel>) return specs;
            with_tiles_for<Kernel, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
              add_specs<KeysOfQueries<Tile>>(specs, lists_of<Kernel>(), shape);
            });
            return specs;
          },
      .shared_bytes =
          [](const Shape& shape) {
            return with_tiles_for<Kernel, Sizes>(
                shape, [&]<class Tile>(std::type_identity<Tile>) { return std::size_t(Tile::kSharedBytes); });
          },
      .refuse = [](const Shape& shape) -> std::optional<Refusal> {
        if (!kHasLists<Kernel>) return std::nullopt;
        return with_tiles_for<Kernel, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
          return refuse_more_rows(lists_of<Kernel>(), "--seq-q", shape.seq_q, Tile::Br);
        });
      },
  };
}

// --- what variants refuse ----------------------------------------------------------------------------------

std::optional<Refusal> refuse_dropout(const Shape& shape) {
  if (shape.dropout == 0) return std::nullopt;
  return Refusal::variant("--dropout is given: this variant has none; --variant dropout has");
}
std::optional<Refusal> refuse_functions(const Shape& shape) {
  if (shape.softcap)
    return Refusal::variant("--softcap is given: this variant has none; --variant scores has");
  if (shape.alibi) return Refusal::variant("--alibi is given: this variant has none; --variant scores has");
  return std::nullopt;
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

/// What the kernels leave for each other. With --backward, O and LSE too: the forward pass runs before.
std::vector<TensorSpec> workspace_of(const Pass& forward, const Pass& backward, const Shape& shape) {
  std::vector<TensorSpec> specs = forward.workspace(shape);
  if (!shape.backward) return specs;
  for (const auto& more : {AttentionForward::outputs(shape), backward.workspace(shape)})
    specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

/// @param needs  of the device; shared memory is added
/// @param repeatable  gradients too have the same bits in every run
template <class Sizes>
Variant<MaskedAttention> variant(const char* name, const char* summary, const Pass& forward,
                                 const Pass& backward, Refuse refuse,
                                 DeviceNeeds needs = {.compute_capability = 80}, bool repeatable = false) {
  return {.name = name,
          .summary = summary,
          .launch =
              [=](const Args& a, cudaStream_t stream) {
                a.backward ? backward.launch(a, stream) : forward.launch(a, stream);
              },
          .traffic =
              [=](const Shape& shape) {
                return shape.backward ? sum(forward.traffic(shape), backward.traffic(shape))
                                      : forward.traffic(shape);
              },
          .refuse =
              [=](const Shape& shape) {
                auto reason = refuse(shape);  // first: without --dtype, the type is fp32 if nothing runs
                if (!reason) reason = refuse_unless_compiled<Sizes>(shape);
                if (!reason && forward.refuse) reason = forward.refuse(shape);
                if (!reason && shape.backward && backward.refuse) reason = backward.refuse(shape);
                return reason;
              },
          .takes_strides = true,
          .needs =
              [=](const Shape& shape) {
                const std::size_t bytes = forward.shared_bytes(shape);
                DeviceNeeds all = needs;
                all.shared_bytes = shape.backward ? std::max(bytes, backward.shared_bytes(shape)) : bytes;
                return all;
              },
          .before =
              [=](const Args& a, cudaStream_t stream) {
                if (a.backward) forward.launch(a, stream);
              },
          .repeatable = repeatable,
          .workspace = [=](const Shape& shape) { return workspace_of(forward, backward, shape); }};
}

}  // namespace

AnyChapter describe_chapter() {
  constexpr Refuse kMasks = refuse_any<refuse_dropout, refuse_functions>;
  return Chapter<MaskedAttention>{
      .name = "11_masks",
      .title = "Masks: visit only the tiles that something sees",
      .variants = {
          variant<LessonSizes>(
              "masked_everywhere", "every key tile is visited, masks are evaluated for every score",
              forward<MaskedEverywhere, LessonSizes>(), backward::masked_everywhere(), kMasks),
          variant<LessonSizes>("skip_empty", "tiles of which nothing is visible are not visited",
                               forward<SkipEmpty, LessonSizes>(), backward::skip_empty(), kMasks),
          variant<LessonSizes>("three_kinds",
                               "no mask in full tiles; warps evaluate their sub-tiles of the others",
                               forward<ThreeKinds, LessonSizes>(), backward::three_kinds(), kMasks),
          variant<AllSizes>("compressed", "a kernel lists the tiles: partial ones, then full ones",
                            forward<Sparse<NoMods>, AllSizes>(), backward::compressed(), kMasks),
          variant<AllSizes>("block_sparse", "Algorithm 5: blocks of a pattern, and no mask for any score",
                            forward<Sparse<OnlyBlocks>, AllSizes>(), backward::block_sparse(),
                            refuse_any<refuse_all_but_blocks, refuse_dropout, refuse_functions>),
          variant<AllSizes>("deterministic", "compressed; gradients without atomic additions",
                            forward<Sparse<NoMods>, AllSizes>(), deterministic::backward(), kMasks,
                            {.compute_capability = 80}, true),
          variant<AllSizes>("hopper", "compressed on the copy engine and wgmma of chapters 09 and 10",
                            hopper::forward(), hopper::backward(), kMasks,
                            {.compute_capability = 90, .exactly = true}),
          variant<AllSizes>("dropout", "compressed, and Philox drops elements of P",
                            forward<Sparse<Mods<NoScoreMods, WithDropout>>, AllSizes>(), backward::dropout(),
                            refuse_any<refuse_functions>),
          variant<AllSizes>("scores", "compressed, and a function of each score",
                            forward<Sparse<Mods<ScoreMods, NoDropout>>, AllSizes>(), backward::scores(),
                            refuse_any<refuse_dropout>),
      }};
}

}  // namespace fa
