/// @file
/// Chapter 07 as the harness sees it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

template <class T>
void launch_as(const Args& a, cudaStream_t stream) {
  with_head_dim(a.head_dim, [&](auto d) {
    using Tile = MultiStageTiles<T, d>;
    const unsigned tiles = unsigned((a.seq_q + Tile::Br - 1) / Tile::Br);
    launch(multi_stage_attention<Tile>, tiles * unsigned(a.batch) * unsigned(a.heads), Tile::kThreads,
           Tile::kSharedBytes, stream, a.as<T>());
  });
}

void launch_final(const Args& a, cudaStream_t stream) {
  if (a.dtype == DType::kFloat16) return launch_as<__half>(a, stream);
  return launch_as<__nv_bfloat16>(a, stream);
}

/// Q is read and O written once, in 16 bits. Of K and V each block reads the keys that its last query sees.
Traffic traffic_of(const Shape& shape) {
  int Br = 0;
  with_head_dim(shape.head_dim, [&](auto d) { Br = MultiStageTiles<__half, d>::Br; });
  std::int64_t keys = 0;  // that the blocks of a head read
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    keys += shape.visible_keys(std::min(first + Br, shape.seq_q) - 1);
  }
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t row = heads * shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t rows = shape.seq_q;
  return {.tensors = {{"q", {.read_bytes = row * rows}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = row * keys}},
                      {"o", {.write_bytes = row * rows}},
                      {"lse", {.write_bytes = heads * rows * std::int64_t(sizeof(float))}}}};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "07_multi_stage",
      .title = "The pipeline: copies, products and exponentials at the same time",
      .variants = {
          Step{.name = "final",
               .summary = "cp.async in two stages, 32 rows a warp, masked tiles first, lazy rescale",
               .launch = launch_final,
               .traffic = traffic_of,
               .refuse = [](const Shape& shape) -> std::optional<std::string> {
                 return refuse_unless(shape, {32, 64, 128, 256}, {DType::kFloat16, DType::kBFloat16});
               }},
      }};
}

}  // namespace fa
