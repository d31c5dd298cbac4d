/// @file
/// Chapter 03 as the harness sees it.
#include <cstddef>
#include <cstdint>

#include "attention/launch.hpp"
#include "baselines/standard_attention.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"

namespace fa {
using namespace ch03;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

/// The rows of O.
std::size_t rows_of(const Args& a) { return std::size_t(a.batch) * a.heads * a.seq_q; }

void launch_two_pass(const Args& a, cudaStream_t stream) {
  select<PowersOfTwo>(a.dtype, a.head_dim, [&](auto, auto d) {
    launch(two_pass_attention<d>, blocks_for(rows_of(a), kWarps), kBlockThreads, 0, stream, a.as<float>());
  });
}

void launch_one_pass(const Args& a, cudaStream_t stream) {
  select<PowersOfTwo>(a.dtype, a.head_dim, [&](auto, auto d) {
    launch(one_pass_attention<d>, blocks_for(rows_of(a), kWarps), kBlockThreads, 0, stream, a.as<float>());
  });
}

/// Each row reads every key that it sees `reads_of_k` times, and the value of that key once.
Traffic traffic_of(const Shape& shape, int reads_of_k) {
  constexpr std::int64_t kBytes = sizeof(float);
  const std::int64_t rows = shape.batch * shape.heads * shape.seq_q;
  const std::int64_t pairs = shape.batch * shape.heads * shape.visible_pairs();
  return {.tensors = {{"q", {.read_bytes = rows * shape.head_dim * kBytes}},
                      {"k", {.read_bytes = reads_of_k * pairs * shape.head_dim * kBytes}},
                      {"v", {.read_bytes = pairs * shape.head_dim * kBytes}},
                      {"o", {.write_bytes = rows * shape.head_dim * kBytes}},
                      {"lse", {.write_bytes = rows * kBytes}}}};
}

Traffic two_pass_traffic(const Shape& shape) { return traffic_of(shape, 2); }
Traffic one_pass_traffic(const Shape& shape) { return traffic_of(shape, 1); }

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "03_one_pass_attention",
      .title = "From two passes to one: attention without an N x N matrix",
      .variants = {
          Step{.name = "three_kernels",
               .summary = "standard attention: Q K^T, softmax, P V, with S and P in HBM",
               .launch = standard_attention::launch,
               .traffic = standard_attention::traffic,
               .refuse = standard_attention::refuse,
               .workspace = standard_attention::workspace},
          Step{.name = "two_pass",
               .summary = "a warp per row: one pass for (m, l), then every score again for P V",
               .launch = launch_two_pass,
               .traffic = two_pass_traffic,
               .refuse = refuse_unless_compiled<PowersOfTwo>},
          Step{.name = "one_pass",
               .summary = "o accumulates with m and l and is corrected: K is read once per row",
               .launch = launch_one_pass,
               .traffic = one_pass_traffic,
               .refuse = refuse_unless_compiled<PowersOfTwo>},
      }};
}

}  // namespace fa
