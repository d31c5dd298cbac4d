// Tests the claims of lesson 10.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "baselines/standard_attention.hpp"
#include "device/launch.cuh"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "hopper_counts.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;

/// The tile sizes that follow from KeyTiles and OwnerTiles, and in which ways a kernel makes more than five
/// products of each pair of tiles.
struct Tiles {
  std::string_view variant;
  std::int64_t head_dim, Br, Bc;   ///< the largest head_dim with these tiles
  std::int64_t unused_scores = 0;  ///< products S of a block that nobody uses
  std::int64_t zero_dq = 0;        ///< products dQ of a block with a dS of zeros
  std::int64_t stored_dq = 0;      ///< 1: dQ goes through shared memory
  std::int64_t shared_p = 0;       ///< 1: P goes through shared memory

  std::int64_t cols() const { return (head_dim + 63) / 64 * 64; }  ///< of a tile: in panels of 64
  bool in_turns() const { return variant == "deterministic"; }
  /// Whether the first block that visits a query tile stores its dQ, so that no zeros are stored before.
  bool stores_first() const { return in_turns() && head_dim <= 128; }
};
constexpr Tiles kTiles[] = {
    {.variant = "wgmma", .head_dim = 64, .Br = 128, .Bc = 128, .stored_dq = 1},
    {.variant = "wgmma", .head_dim = 128, .Br = 64, .Bc = 128, .stored_dq = 1},
    {.variant = "register_sums", .head_dim = 64, .Br = 128, .Bc = 128},
    {.variant = "register_sums", .head_dim = 128, .Br = 64, .Bc = 128},
    {.variant = "overlapped", .head_dim = 64, .Br = 128, .Bc = 128, .unused_scores = 1},
    {.variant = "overlapped", .head_dim = 128, .Br = 64, .Bc = 128, .unused_scores = 1},
    {.variant = "decoupled", .head_dim = 64, .Br = 128, .Bc = 128, .unused_scores = 1, .zero_dq = 1},
    {.variant = "decoupled", .head_dim = 128, .Br = 64, .Bc = 128, .unused_scores = 1, .zero_dq = 1},
    {.variant = "final", .head_dim = 64, .Br = 128, .Bc = 128, .unused_scores = 1, .zero_dq = 1},
    {.variant = "final", .head_dim = 128, .Br = 64, .Bc = 128, .unused_scores = 1, .zero_dq = 1},
    {.variant = "final", .head_dim = 96, .Br = 64, .Bc = 128},
    {.variant = "final", .head_dim = 192, .Br = 64, .Bc = 64, .shared_p = 1},
    {.variant = "final", .head_dim = 256, .Br = 64, .Bc = 64, .shared_p = 1},
    {.variant = "deterministic",
     .head_dim = 64,
     .Br = 128,
     .Bc = 128,
     .unused_scores = 1,
     .zero_dq = 1,
     .stored_dq = 1},
    {.variant = "deterministic",
     .head_dim = 128,
     .Br = 64,
     .Bc = 128,
     .unused_scores = 1,
     .zero_dq = 1,
     .stored_dq = 1},
    {.variant = "deterministic", .head_dim = 96, .Br = 64, .Bc = 128, .stored_dq = 1},
    {.variant = "deterministic", .head_dim = 192, .Br = 64, .Bc = 64, .shared_p = 1},
    {.variant = "deterministic", .head_dim = 256, .Br = 64, .Bc = 64, .shared_p = 1},
};

VariantResult run_on(std::string_view variant, const Shape& shape, Init init = Init::kNormal) {
  return run<AttentionBackward>(describe_chapter(), variant, shape,
                                random_inputs<AttentionBackward>(shape, init, 20));
}

const Variant<AttentionBackward>& variant_named(const AnyChapter& chapter, std::string_view name) {
  const auto& variants = chapter_of<AttentionBackward>(chapter).variants;
  return *std::find_if(variants.begin(), variants.end(), [&](const auto& v) { return v.name == name; });
}

/// Skips the test on a device without the instructions.
class HopperBackward : public testing::Test {
 protected:
  void SetUp() override {
    const AnyChapter chapter = describe_chapter();
    const auto& variant = chapter_of<AttentionBackward>(chapter).variants.front();
    if (const auto lacks =
            what_device_lacks<AttentionBackward>(variant, {.head_dim = 64, .dtype = DType::kBFloat16}))
      GTEST_SKIP() << lacks->reason;
  }
};

// ---- lengths ----------------------------------------------------------------------------------------------

TEST_F(HopperBackward, IsRightAroundTheEdgesOfItsTiles) {
  bool causal = true;
  for (const auto& [queries, keys] :
       {std::pair{63, 127}, {127, 65}, {129, 129}, {64, 128}, {128, 1}, {129, 129}}) {
    const Shape shape{
        .seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = causal, .dtype = DType::kBFloat16};
    for (const std::string& variant : variant_names(describe_chapter())) {
      EXPECT_EQ(run_on(variant, shape).complaint(), "")
          << variant << ' ' << queries << " x " << keys << ' ' << causal;
    }
    causal = !causal;
  }
}

// With 128 and 256 columns a step has 64 queries.
TEST_F(HopperBackward, SLOW_IsRightAroundTheEdgesOfItsTilesOfWiderHeads) {
  for (const Tiles& tile : kTiles) {
    if (tile.head_dim == 64) continue;
    for (const auto& [queries, keys, causal] : {std::tuple{65, 63, true}, {63, 129, false}}) {
      const Shape shape{.seq_q = queries,
                        .seq_k = keys,
                        .head_dim = tile.head_dim,
                        .causal = causal,
                        .dtype = DType::kBFloat16};
      EXPECT_EQ(run_on(tile.variant, shape).complaint(), "")
          << tile.variant << tile.head_dim << ' ' << queries << " x " << keys;
    }
  }
}

// Each stage is used more than twice, so that parities come back, also from one head to the next.
TEST_F(HopperBackward, SLOW_IsRightWhenTheRingsGoRoundSeveralTimes) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{.heads = 3,
                      .kv_heads = 1,
                      .seq_q = 2 * tile.Br - 5,
                      .seq_k = 20,
                      .head_dim = tile.head_dim,
                      .dtype = DType::kBFloat16};
    EXPECT_EQ(run_on(tile.variant, shape).complaint(), "") << tile.variant << tile.head_dim;
  }
}

// The first queries see no key, in whole query tiles, which no block visits.
TEST_F(HopperBackward, GivesZerosToQueryTilesThatSeeNoKey) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{.seq_q = 2 * tile.Br + 40,
                      .seq_k = 30,
                      .head_dim = tile.head_dim,
                      .causal = true,
                      .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
    const std::vector<float>& dq = result.outputs.at("dq").data;
    const auto without_keys = dq.begin() + (shape.seq_q - shape.seq_k) * shape.head_dim;
    EXPECT_TRUE(std::all_of(dq.begin(), without_keys, [](float x) { return x == 0.0f; })) << tile.variant;
  }
}

// Logits reach about +-80.
TEST_F(HopperBackward, IsNotLessExactThanStandardBackwardByAFactorOfTwo) {
  const Variant<AttentionBackward> standard{.name = "standard",
                                            .summary = "",
                                            .launch = standard_backward::launch,
                                            .traffic = standard_backward::traffic,
                                            .workspace = standard_backward::workspace};
  for (const auto& [init, causal] :
       {std::pair{Init::kNormal, true}, {Init::kUniform, false}, {Init::kOutliers, true}}) {
    const Shape shape{
        .seq_q = 100, .seq_k = 150, .head_dim = 64, .causal = causal, .dtype = DType::kBFloat16};
    const TensorMap inputs = random_inputs<AttentionBackward>(shape, init, 20);
    const Reference reference = AttentionBackward::reference(shape, inputs);
    const Check limit = run_variant<AttentionBackward>(standard, shape, inputs, &reference).check.value();
    for (const char* variant : {"final", "deterministic"}) {
      const Check check = run_on(variant, shape, init).check.value();
      for (const auto& [name, tensor] : check.tensors)
        EXPECT_LE(tensor.rel_l2, 2 * limit.tensors.at(name).rel_l2) << variant << ' ' << name << int(init);
    }
  }
}

TEST_F(HopperBackward, DeterministicRepeatsItsResultToTheBit) {
  for (const std::int64_t head_dim : {64, 96, 128, 256}) {
    const Shape shape{.heads = 2,
                      .kv_heads = 1,
                      .seq_q = 150,
                      .seq_k = 200,
                      .head_dim = head_dim,
                      .causal = true,
                      .dtype = DType::kFloat16};
    const VariantResult first = run_on("deterministic", shape), second = run_on("deterministic", shape);
    ASSERT_EQ(first.complaint(), "");
    for (const auto& [name, output] : first.outputs)
      EXPECT_EQ(output.data, second.outputs.at(name).data) << name << head_dim;
  }
}

// ---- counts -----------------------------------------------------------------------------------------------

/// The tiles of a shape, of all heads.
struct Work {
  std::int64_t blocks;  ///< key tiles of all heads of K and V
  std::int64_t visits;  ///< pairs of a key tile and a query tile that sees it, or that is past the last query
  std::int64_t first_visits;  ///< those with the first key tile

  Work(const Shape& shape, const Tiles& tile)
      : blocks(shape.batch * shape.kv_heads * ceil_div(shape.seq_k, tile.Bc)), visits(0), first_visits(0) {
    const std::int64_t padded = ceil_div(shape.seq_q, tile.Br) * tile.Br;
    for (std::int64_t key = 0; key < shape.seq_k; key += tile.Bc) {
      for (std::int64_t query = 0; query < padded; query += tile.Br) {
        const std::int64_t last = std::min(query + tile.Br, shape.seq_q) - 1;
        if (shape.visible_keys(last) <= key) continue;
        visits += shape.batch * shape.heads;
        if (key == 0) first_visits += shape.batch * shape.heads;
      }
    }
  }
};

/// Chapter 09's `specialised`: blocks with a query tile.
struct QueryBlocks {
  std::int64_t Br, Bc;
  std::int64_t count(const Shape& shape) const {
    return shape.batch * shape.heads * ceil_div(shape.seq_q, Br);
  }
};
QueryBlocks forward_blocks(std::int64_t head_dim) {
  switch (head_dim) {
    case 64: return {.Br = 192, .Bc = 128};
    case 96: return {.Br = 192, .Bc = 96};
    case 192: return {.Br = 128, .Bc = 112};
    case 256: return {.Br = 128, .Bc = 64};
    default: return {.Br = 128, .Bc = 128};
  }
}

/// Instructions of the forward pass: S = Q K^T over the columns, and O += P V over the keys, 16 at a time.
std::int64_t forward_wgmma(const Shape& shape) {
  const QueryBlocks blocks = forward_blocks(shape.head_dim);
  std::int64_t tiles = 0;
  for (std::int64_t own = 0; own < ceil_div(shape.seq_q, blocks.Br) * blocks.Br; own += 64)
    tiles += key_tiles(shape, blocks.Bc, own, 64);
  return shape.batch * shape.heads * tiles * (shape.head_dim + blocks.Bc) / 16;
}

/// Query tiles to whose dQ something is added. What is stored first is no addition.
std::int64_t additions(const Shape& shape, const Tiles& tile) {
  const Work work(shape, tile);
  return work.visits - (tile.stores_first() ? work.first_visits : 0);
}

/// Instructions of the backward pass by both consumers.
std::int64_t backward_wgmma(const Shape& shape, const Tiles& tile) {
  const Work work(shape, tile);
  const std::int64_t scores = shape.head_dim / 16, key_gradient = tile.Br / 16, dq = tile.Bc / 16;
  const std::int64_t consumers = 2;
  std::int64_t of_visit = 2 * scores + 2 * key_gradient + dq;
  if (tile.shared_p)
    of_visit = scores + key_gradient + dq;  // each consumer computes half of what the others do
  return consumers *
         (work.visits * of_visit + work.blocks * (tile.unused_scores * scores + tile.zero_dq * dq));
}

TEST_F(HopperBackward, SLOW_CountsTheProductsOfItsTiles) {
  for (const Tiles& tile : kTiles) {
    for (const auto& [queries, keys, causal] : {std::tuple{200, 130, false}, {70, 270, true}}) {
      const Shape shape{.heads = causal ? 1 : 2,
                        .kv_heads = 1,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = tile.head_dim,
                        .causal = causal,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_on(tile.variant, shape);
      ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
      if (!result.counted) GTEST_SKIP() << "products are counted on the simulator";
      EXPECT_EQ(result.counted->wgmma, forward_wgmma(shape) + backward_wgmma(shape, tile))
          << tile.variant << tile.head_dim << causal;
    }
  }
}

// Columns that a tensor does not have are zeros on the chip: they are multiplied, but nothing of them is in
// HBM.
TEST_F(HopperBackward, SLOW_PadsHeadDimensionsOnTheChip) {
  for (const Tiles& tile : kTiles) {
    if (tile.variant != "final" && !tile.in_turns()) continue;
    for (const std::int64_t head_dim : {tile.head_dim - 8, tile.head_dim - 24}) {
      const Shape shape{.heads = 2,
                        .kv_heads = 1,
                        .seq_q = 70,
                        .seq_k = 150,
                        .head_dim = head_dim,
                        .causal = true,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_on(tile.variant, shape);
      ASSERT_EQ(result.complaint(), "") << tile.variant << head_dim;
      if (!result.counted) GTEST_SKIP() << "products and copies are counted on the simulator";
      Shape wide = shape;
      wide.head_dim = tile.head_dim;
      EXPECT_EQ(result.counted->wgmma, forward_wgmma(wide) + backward_wgmma(wide, tile))
          << tile.variant << head_dim;
      for (const auto& [name, heads, seq] : {std::tuple{"dq", 2, 70}, {"dk", 1, 150}, {"dv", 1, 150}})
        EXPECT_EQ(result.counted->traffic.tensors.at(name).write_bytes, heads * seq * head_dim * 2)
            << tile.variant << head_dim << name;
      // Sums have the columns of dQ, and no others.
      EXPECT_EQ(result.counted->atomic_sectors, additions(shape, tile) * tile.Br * head_dim * 4 / 32)
          << tile.variant << head_dim;
    }
  }
}

// A block visits a query tile only if some of its queries see some of the block's keys.
TEST_F(HopperBackward, ACausalMaskSkipsTilesThatItHides) {
  for (const Tiles& tile : kTiles) {
    Shape shape{.seq_q = 512, .seq_k = 512, .head_dim = tile.head_dim, .dtype = DType::kBFloat16};
    const std::int64_t queries = 512 / tile.Br, keys = 512 / tile.Bc;
    EXPECT_EQ(Work(shape, tile).visits, queries * keys);
    shape.causal = true;
    const AnyChapter chapter = describe_chapter();
    const Traffic traffic = variant_named(chapter, tile.variant).traffic(shape);
    const std::int64_t visits = Work(shape, tile).visits;
    EXPECT_LT(visits, 0.7 * double(queries * keys)) << tile.variant << tile.head_dim;
    const std::int64_t tile_bytes = tile.Br * tile.head_dim * 4;
    EXPECT_EQ(traffic.tensors.at("dq_sum").read_bytes,
              (additions(shape, tile) + queries) * tile_bytes)  // and the conversion
        << tile.variant << tile.head_dim;
  }
}

// An addition of a warp, or of the copy engine, goes to whole sectors: each number of a tile of dQ is added
// once.
TEST_F(HopperBackward, SLOW_AddsToDqOnceForEachKeyTile) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{.heads = 2,
                      .kv_heads = 1,
                      .seq_q = 100,
                      .seq_k = 200,
                      .head_dim = tile.head_dim,
                      .causal = true,
                      .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
    if (!result.counted) GTEST_SKIP() << "additions are counted on the simulator";
    const Work work(shape, tile);
    const std::int64_t bytes = additions(shape, tile) * tile.Br * tile.head_dim * 4;
    EXPECT_EQ(result.counted->atomic_sectors, bytes / 32) << tile.variant << tile.head_dim;
    if (!tile.in_turns()) continue;
    EXPECT_EQ(result.counted->traffic.tensors.at("turns").write_bytes, 2 * 4 * work.visits)  // of two parts
        << tile.head_dim;
  }
}

/// Shared memory of a block, in bytes: K, V, two stages of Q, dO and dS with D and LSE of the rows; then what
/// some variants add. Each part has barriers at its end, and is a multiple of 1024.
std::int64_t with_barriers(std::int64_t bytes) { return (bytes / 1024 + 1) * 1024; }
std::int64_t shared_bytes(const Tiles& tile) {
  const std::int64_t ds = 2 * tile.Bc * tile.Br;
  const std::int64_t tiles = 4 * tile.cols() * (tile.Bc + 2 * tile.Br) + 2 * ds;
  const std::int64_t more =
      tile.stored_dq * tile.Br * tile.cols() * 4 + tile.shared_p * 4 * tile.Br * tile.Bc;
  return with_barriers(tiles + 16 * tile.Br) + (more > 0 ? with_barriers(more) : 0);
}

// The only __syncthreads() is the one after the barriers have been initialised.
TEST_F(HopperBackward, SLOW_UsesSharedMemoryWithoutConflictsAndOneBarrier) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{
        .seq_q = 150, .seq_k = 140, .head_dim = tile.head_dim, .causal = true, .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
    if (!result.counted) GTEST_SKIP() << "shared memory is counted on the simulator";
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << tile.variant << tile.head_dim;
    const QueryBlocks forward = forward_blocks(tile.head_dim);
    const std::int64_t of_forward = with_barriers(2 * tile.cols() * (forward.Br + 4 * forward.Bc));
    EXPECT_EQ(result.counted->shared.bytes_per_block, std::max(shared_bytes(tile), of_forward))
        << tile.variant << tile.head_dim;
    const std::int64_t warps = 12 * Work(shape, tile).blocks + (4 + forward.Br / 16) * forward.count(shape);
    EXPECT_EQ(result.counted->barriers, warps) << tile.variant << tile.head_dim;
  }
}

// Of what the consumers compute, only dS goes to shared memory at every step, and in the end dK and dV; in
// `wgmma` and up to 128 columns of `deterministic` dQ as well, with 256 columns P.
TEST_F(HopperBackward, SLOW_StoresToSharedMemoryWhatTheLessonSays) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{
        .seq_q = 3 * tile.Br, .seq_k = 2 * tile.Bc, .head_dim = tile.head_dim, .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
    if (!result.counted) GTEST_SKIP() << "wavefronts are counted on the simulator";
    const Work work(shape, tile);
    const std::int64_t row = 2 * tile.head_dim;  // bytes
    std::int64_t bytes = work.blocks * 2 * tile.Bc * row;
    bytes += work.visits * tile.Br * (tile.stored_dq * tile.head_dim * 4 + tile.shared_p * tile.Bc * 2);
    bytes += (work.visits + tile.zero_dq * work.blocks) * tile.Br * tile.Bc * 2;
    bytes +=
        shape.batch * shape.heads * ceil_div(shape.seq_q, 64) * 64 * row;  // O of warpgroups with queries
    const std::int64_t others = result.counted->shared.store_wavefronts - bytes / 128;
    EXPECT_GE(others, 0) << tile.variant << tile.head_dim;
    EXPECT_LE(others, 100) << "the barriers: " << tile.variant << tile.head_dim;
  }
}

// The workspace grows with the lengths, not with their product.
TEST_F(HopperBackward, KeepsNoMatricesOfScores) {
  const AnyChapter chapter = describe_chapter();
  for (const auto& variant : chapter_of<AttentionBackward>(chapter).variants) {
    const auto bytes = [&](std::int64_t seq) {
      const Shape shape{.seq_q = seq, .seq_k = seq, .head_dim = 64, .dtype = DType::kBFloat16};
      return total_bytes(workspace_of(variant, shape));
    };
    EXPECT_EQ(bytes(2048), 2 * bytes(1024)) << variant.name;
  }
}

// ---- what is refused --------------------------------------------------------------------------------------

void expect_refused(const std::vector<std::string>& options, const std::string& line) {
  std::vector<const char*> argv = {"ch10_hopper_backward"};
  for (const std::string& option : options) argv.push_back(option.c_str());
  std::ostringstream out, err;
  EXPECT_EQ(run_program(describe_chapter(), int(argv.size()), argv.data(), out, err), 2) << line;
  EXPECT_EQ(err.str(), "error: --variant " + options[1] + " cannot run this: " + line + "\n");
  EXPECT_EQ(out.str(), "");
}

// One owner has dV, the other one dK and 64 columns of dQ: of as many columns as their tensors have.
TEST_F(HopperBackward, TakesValuesOfAnotherWidth) {
  for (const auto& [d, d_v, queries, keys, causal] :
       {std::tuple{192, 128, 150, 210, true}, {184, 8, 70, 100, false}, {72, 120, 130, 70, true}}) {
    for (const char* variant : {"final", "deterministic"}) {
      const Shape shape{.heads = 4,
                        .kv_heads = 2,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = d,
                        .head_dim_v = d_v,
                        .causal = causal,
                        .dtype = d == 192 ? DType::kBFloat16 : DType::kFloat16};
      const VariantResult result = run_on(variant, shape);  // also compares the bytes with the formula
      ASSERT_EQ(result.complaint(), "") << variant << d << " " << d_v;
      EXPECT_EQ(result.outputs.at("dk").shape.back(), d);
      EXPECT_EQ(result.outputs.at("dv").shape.back(), d_v);
    }
  }
}

TEST_F(HopperBackward, RefusesWhatItHasNoKernelsFor) {
  for (const std::string& variant : variant_names(describe_chapter())) {
    const bool takes_all = variant == "final" || variant == "deterministic";
    for (const std::string head_dim : {"4", "68", "264"}) {
      expect_refused({"--variant", variant, "--dtype", "bf16", "--head-dim", head_dim},
                     "--head-dim is " + head_dim + ": must be " +
                         (takes_all ? "a multiple of 8 up to 256" : "one of 64, 128"));
    }
    expect_refused(
        {"--variant", variant, "--dtype", "fp32", "--head-dim", "64"},
        std::string("--dtype is fp32: this variant takes ") + (takes_all ? "fp16, " : "") + "bf16");
    if (!takes_all) {
      expect_refused({"--variant", variant, "--dtype", "fp16", "--head-dim", "64"},
                     "--dtype is fp16: this variant takes bf16");
    }
  }
}

// The copy engine takes addresses that are multiples of 16. Nothing has been launched when one is refused.
TEST_F(HopperBackward, RefusesTensorsAtOtherAddresses) {
  const Shape shape{.seq_q = 10, .seq_k = 10, .head_dim = 64, .dtype = DType::kBFloat16};
  const AnyChapter chapter = describe_chapter();
  for (const auto& variant : chapter_of<AttentionBackward>(chapter).variants) {
    const DeviceTensors tensors(AttentionBackward::inputs(shape), AttentionBackward::outputs(shape),
                                workspace_of(variant, shape),
                                random_inputs<AttentionBackward>(shape, Init::kNormal, 21));
    for (const std::string name : {"q", "k", "v", "do", "dq", "dk", "dv"}) {
      std::map<std::string, void*> addresses = tensors.addresses();
      addresses.at(name) = static_cast<char*>(addresses.at(name)) + 8;
      try {
        variant.launch(AttentionBackward::bind(shape, addresses), nullptr);
        ADD_FAILURE() << variant.name << " takes " << name;
      } catch (const std::invalid_argument& refusal) {
        EXPECT_NE(std::string(refusal.what()).find("must be a multiple of 16"), std::string::npos)
            << refusal.what();
      }
    }
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    for (const auto& [name, tensor] : tensors.download_outputs()) {
      EXPECT_TRUE(std::all_of(tensor.data.begin(), tensor.data.end(), [](float x) { return std::isnan(x); }))
          << variant.name << ' ' << name;
    }
  }
}

}  // namespace
}  // namespace fa
