/// @file
/// Chapter 07 as the harness sees it.
#include <type_traits>

#include "attention/dispatch.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "sizes.cuh"

namespace fa {
using namespace ch07;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

// --- the variants: how each cuts the problem, for a head dimension ----------------------------------

template <int d>
using OneStage = typename Ladder<d>::OneStage;
template <int d>
using TwoStages = typename Ladder<d>::TwoStages;
template <int d>
using ThreeStages = typename Ladder<d>::ThreeStages;
template <int d>
using SplitKv = typename Ladder<d>::SplitKv;
template <int d>
using FragmentDoubleBuffer = typename Ladder<d>::FragmentDoubleBuffer;
template <int d>
using MaskedFirst = typename Ladder<d>::MaskedFirst;
template <int d>
using TwoRowsOfMma = typename Ladder<d>::TwoRowsOfMma;

/// Calls f with the tiles of a policy, as a type in std::type_identity: of `WhereItFits`, if the policy has one and
/// the device the room for it.
template <class T, class Choices, int d, class F>
auto with_tiles(F f) {
  if constexpr (requires { typename Choices::WhereItFits; }) {
    using Large = MultiStageTiles<T, d, typename Choices::WhereItFits>;
    if (Large::kSharedBytes <= shared_bytes_limit()) return f(std::type_identity<Large>());
  }
  return f(std::type_identity<MultiStageTiles<T, d, Choices>>());
}

template <template <int> class Choices, class Sizes>
void launch_step(const Args& a, cudaStream_t stream) {
  with_compiled<Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    with_tiles<T, Choices<d>, d>([&]<class Tile>(std::type_identity<Tile>) {
      const unsigned tiles = unsigned((a.seq_q + Tile::Br - 1) / Tile::Br);
      launch(multi_stage_attention<Tile>, tiles * unsigned(a.batch) * unsigned(a.heads), Tile::kThreads,
             Tile::kSharedBytes, stream, a.as<T>());
    });
  });
}

template <template <int> class Choices, class Sizes = LessonSizes>
Step step(const char* name, const char* summary) {
  return Step{
      .name = name,
      .summary = summary,
      .launch = launch_step<Choices, Sizes>,
      .traffic =
          [](const Shape& shape) {
            return with_head_dim(shape.head_dim, [&](auto d) {
              return with_tiles<__nv_bfloat16, Choices<d>, d>(
                  [&]<class Tile>(std::type_identity<Tile>) { return attention_traffic(shape, Tile::Br); });
            });
          },
      .refuse = refuse_unless_compiled<Sizes>};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "07_multi_stage",
      .title = "The pipeline: copies, products and exponentials at the same time",
      .variants = {
          step<OneStage>("stages_1", "cp.async in place of registers, waited for at once"),
          step<TwoStages>("stages_2", "the next tile is on its way while one is in use"),
          step<ThreeStages>("stages_3", "two tiles are on their way"),
          step<SplitKv>("split_kv", "one stage: V flies during Q K^T, the next K during P V"),
          step<FragmentDoubleBuffer>("fragment_double_buffer",
                                     "stages_2, and the next ldmatrix before the mma of this one"),
          step<MaskedFirst>("masked_first", "stages_2, keys backwards: edges in a loop of their own"),
          step<TwoRowsOfMma>("two_rows_of_mma", "32 rows a warp: a fragment of K or V feeds two mma"),
          step<FinalChoices, AllSizes>("final",
                                       "tiles for each head_dim, lazy rescale, longest blocks first"),
      }};
}

}  // namespace fa
