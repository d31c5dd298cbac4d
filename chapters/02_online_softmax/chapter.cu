/// @file
/// Chapter 02 as the harness sees it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cluster.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "on_chip.cuh"

namespace fa {
using namespace ch02;
namespace {

using Shape = Softmax::Shape;
using Args = Softmax::Args;
using Step = Variant<Softmax>;  // spelled out for each variant below: g++ 12 fails on bare braces

/// How many blocks cover this many rows.
void launch_online(const Args& a, cudaStream_t stream) {
  launch(online_softmax, blocks_for(a.rows, kWarps), kBlockThreads, 0, stream, a.x, a.y, a.rows, a.cols);
}

void launch_vectorized(const Args& a, cudaStream_t stream) {
  launch(vectorized_softmax, blocks_for(a.rows, kWarps), kBlockThreads, 0, stream, a.x, a.y, a.rows, a.cols);
}

void launch_block_per_row(const Args& a, cudaStream_t stream) {
  launch(block_per_row_softmax, unsigned(a.rows), kBlockThreads, 0, stream, a.x, a.y, a.rows, a.cols);
}

/// A kernel of `on_chip`, and what the host must know about it.
struct OnChipKernel {
  int threads;  ///< that share a row
  int float4s;  ///< that each of them keeps in registers
  int rows_per_block;
  bool uses_shared;  ///< whether it can keep more of a row in shared memory
  void (*kernel)(const float*, float*, int, int, int);
};

template <class Row>
OnChipKernel on_chip_kernel() {
  return {Row::kThreads, Row::kFloat4s, Row::kRowsPerBlock, Row::kUsesShared, on_chip_softmax<Row>};
}

/// In order of row length. A multiprocessor runs 1024 threads of any of them: many short rows, or one long
/// one.
const OnChipKernel kOnChipKernels[] = {
    on_chip_kernel<OnChip<32, 1>>(),    // up to 128 columns
    on_chip_kernel<OnChip<32, 2>>(),    // 256
    on_chip_kernel<OnChip<32, 4>>(),    // 512
    on_chip_kernel<OnChip<64, 4>>(),    // 1024
    on_chip_kernel<OnChip<128, 4>>(),   // 2048
    on_chip_kernel<OnChip<256, 4>>(),   // 4096
    on_chip_kernel<OnChip<256, 8>>(),   // 8192
    on_chip_kernel<OnChip<512, 8>>(),   // 16384 in registers, on an H100 28672 more in shared memory
    on_chip_kernel<OnChip<1024, 8>>(),  // 32768 in registers, on an H100 57344 more in shared memory
};

/// The kernel for rows of some length, and how much shared memory it uses.
struct OnChipPlan {
  OnChipKernel by;
  int shared_float4s;  ///< that each thread keeps in shared memory

  int block_threads() const { return by.threads * by.rows_per_block; }
  std::size_t shared_bytes() const { return std::size_t(shared_float4s) * by.threads * sizeof(float4); }
  std::int64_t cols_on_chip() const { return std::int64_t(4) * by.threads * (by.float4s + shared_float4s); }
};

/// How many float4s each of 1024 threads can keep in the shared memory of a multiprocessor.
std::int64_t most_shared_float4s() {
  constexpr std::int64_t kOfWarps = 1024 / 32 * sizeof(MaxSum);  // the block's warps exchange these
  return (std::int64_t(shared_bytes_limit()) - kOfWarps) / std::int64_t(1024 * sizeof(float4));
}

/// How many float4s hold a row. One of ragged length may start at the last column of a float4 and end at the
/// first of another.
std::int64_t float4s_of_row(std::int64_t cols) { return cols % 4 == 0 ? cols / 4 : (cols + 6) / 4; }

/// The first kernel that can hold a row of `cols` columns. If none can, the last one: it reads part of x
/// twice.
OnChipPlan plan_on_chip(std::int64_t cols) {
  const std::int64_t most_shared = most_shared_float4s();
  const std::int64_t float4s = float4s_of_row(cols);
  OnChipPlan plan{};
  for (const OnChipKernel& kernel : kOnChipKernels) {
    const std::int64_t missing = (float4s + kernel.threads - 1) / kernel.threads - kernel.float4s;
    plan = {kernel, kernel.uses_shared ? int(std::clamp<std::int64_t>(missing, 0, most_shared)) : 0};
    if (missing <= plan.shared_float4s) break;
  }
  return plan;
}

void launch_on_chip(const Args& a, cudaStream_t stream) {
  const OnChipPlan plan = plan_on_chip(a.cols);
  launch(plan.by.kernel, blocks_for(a.rows, plan.by.rows_per_block), unsigned(plan.block_threads()),
         plan.shared_bytes(), stream, a.x, a.y, a.rows, a.cols, plan.shared_float4s);
}

/// How many columns `on_chip` reads a second time, in all rows together: 0 if rows fit on the chip.
std::int64_t on_chip_reread(const Shape& shape) {
  const std::int64_t fit = plan_on_chip(shape.cols).cols_on_chip();
  std::int64_t sum = 0;
  // Rows 4 apart start at the same place in 16 aligned bytes.
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t lead = row * shape.cols % 4;
    sum += (shape.rows - row + 3) / 4 * std::max<std::int64_t>(0, lead + shape.cols - fit);
  }
  return sum;
}

/// A kernel of `cluster`, and what the host must know about it.
struct ClusterKernel {
  int blocks;   ///< of the cluster
  int threads;  ///< of each block
  int float4s;  ///< that each of them keeps in registers
  void (*kernel)(const float*, float*, int, int, int);
};

template <class Row>
ClusterKernel cluster_kernel() {
  return {Row::kBlocks, Row::kBlockThreads, Row::kFloat4s, cluster_softmax<Row>};
}

/// In order of row length. A multiprocessor runs 1024 threads of any of them, in two or four blocks, each of
/// another row.
const ClusterKernel kClusterKernels[] = {
    cluster_kernel<Clustered<4, 256, 8>>(),  // 32768 columns in registers, on an H100 57344 in shared memory
    cluster_kernel<Clustered<8, 256, 8>>(),  // 65536 and 114688
    cluster_kernel<Clustered<8, 512, 8>>(),  // 131072 and 229376
};

/// The kernel for rows of some length, and how much shared memory it uses.
struct ClusterPlan {
  const ClusterKernel* by;  ///< null: a kernel of `on_chip`
  int shared_float4s;       ///< that each thread keeps in shared memory

  std::size_t shared_bytes() const { return std::size_t(shared_float4s) * by->threads * sizeof(float4); }
};

/// One block if two of them fit on a multiprocessor, otherwise the first cluster that can hold the row. If
/// none can, one block again: it reads part of x twice.
ClusterPlan plan_cluster(std::int64_t cols) {
  if (plan_on_chip(cols).by.threads < 1024) return {nullptr, 0};
  for (const ClusterKernel& kernel : kClusterKernels) {
    const std::int64_t threads = std::int64_t(kernel.blocks) * kernel.threads;
    const std::int64_t missing = (float4s_of_row(cols) + threads - 1) / threads - kernel.float4s;
    if (missing <= most_shared_float4s()) return {&kernel, int(std::max<std::int64_t>(0, missing))};
  }
  return {nullptr, 0};
}

void launch_cluster(const Args& a, cudaStream_t stream) {
  const ClusterPlan plan = plan_cluster(a.cols);
  if (plan.by == nullptr) return launch_on_chip(a, stream);
  launch_clusters(plan.by->kernel, unsigned(plan.by->blocks), unsigned(a.rows) * unsigned(plan.by->blocks),
                  unsigned(plan.by->threads), plan.shared_bytes(), stream, a.x, a.y, a.rows, a.cols,
                  plan.shared_float4s);
}

/// The kernel reads `reads` elements of x, and writes each element of y once.
Traffic traffic_of(const Shape& shape, std::int64_t reads) {
  constexpr std::int64_t kBytes = sizeof(float);
  return {.tensors = {{"x", {.read_bytes = reads * kBytes}},
                      {"y", {.write_bytes = shape.rows * shape.cols * kBytes}}}};
}

Traffic two_passes(const Shape& shape) { return traffic_of(shape, 2 * shape.rows * shape.cols); }
Traffic one_read(const Shape& shape) {
  return traffic_of(shape, shape.rows * shape.cols + on_chip_reread(shape));
}

Traffic one_read_by_clusters(const Shape& shape) {
  return plan_cluster(shape.cols).by != nullptr ? traffic_of(shape, shape.rows * shape.cols)
                                                : one_read(shape);
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<Softmax>{
      .name = "02_online_softmax",
      .title = "Online softmax: maximum and sum in one pass",
      .variants = {
          Step{.name = "online",
               .summary = "maximum and sum in one pass: two reads of x instead of three",
               .launch = launch_online,
               .traffic = two_passes},
          Step{.name = "vectorized",
               .summary = "float4 loads and stores, four (m, l) pairs per lane",
               .launch = launch_vectorized,
               .traffic = two_passes},
          Step{.name = "block_per_row",
               .summary = "one block per row: warps merge their pairs in shared memory",
               .launch = launch_block_per_row,
               .traffic = two_passes},
          Step{.name = "on_chip",
               .summary = "the row stays in registers and shared memory: one read of x",
               .launch = launch_on_chip,
               .traffic = one_read},
          Step{.name = "cluster",
               .summary = "the row is spread over the blocks of a cluster: longer rows stay on the chip",
               .launch = launch_cluster,
               .traffic = one_read_by_clusters,
               .needs = [](const Shape&) { return DeviceNeeds{.compute_capability = 90}; }},
      }};
}

}  // namespace fa
