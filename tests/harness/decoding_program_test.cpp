// The command line of chapter 14: lengths, pages, an fp8 cache, splits.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "attention/half.hpp"
#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "harness/npy.hpp"
#include "integers.hpp"
#include "run_chapter.hpp"

namespace fa {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// The problem as a kernel knows it.
DecodingShape shape_of(const DecodingAttention::Args& args) {
  DecodingShape shape;
  shape.batch = args.batch, shape.heads = args.heads, shape.kv_heads = args.kv_heads;
  shape.seq_q = args.seq_q, shape.seq_k = args.seq_k, shape.head_dim = args.head_dim;
  shape.scale = args.scale, shape.dtype = args.dtype, shape.fp8 = args.fp8;
  if (args.key_lengths)
    shape.key_lengths =
        std::make_shared<const std::vector<std::int32_t>>(downloaded(args.key_lengths, args.batch));
  if (args.block_table) {
    shape.block_table = std::make_shared<const BlockTable>(
        BlockTable{.page_size = args.page_size,
                   .pages = args.pages,
                   .columns = args.table_columns,
                   .numbers = downloaded(args.block_table, args.batch * args.table_columns)});
  }
  if (args.splits != 0) shape.splits = args.splits;
  return shape;
}

/// By the reference.
void compute(const DecodingAttention::Args& args, cudaStream_t) {
  const DecodingShape shape = shape_of(args);
  TensorMap inputs;
  for (const TensorSpec& spec : DecodingAttention::inputs(shape)) {
    Tensor tensor = {.shape = spec.shape, .data = {}};
    if (spec.dtype == DType::kFloat32)
      tensor.data = downloaded(args.buffer<float>(spec.name), spec.elements());
    if (spec.dtype == DType::kFloat8)
      tensor.data = widen(downloaded(args.buffer<std::uint8_t>(spec.name), spec.elements()));
    inputs.emplace(spec.name, std::move(tensor));
  }
  for (const auto& [name, values] : DecodingAttention::reference(shape, inputs)) {
    const std::vector<float> narrow(values.begin(), values.end());
    FA_CUDA_CHECK(cudaMemcpy(args.buffer<float>(name), narrow.data(), narrow.size() * sizeof(float),
                             cudaMemcpyHostToDevice));
  }
}

/// Takes the pages of all sequences from the first row of the table.
void mistake_table(const DecodingAttention::Args& args, cudaStream_t stream) {
  std::vector<std::int32_t> table = downloaded(args.block_table, args.batch * args.table_columns);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = table[i % std::size_t(args.table_columns)];
  void* device = nullptr;
  const std::size_t bytes = table.size() * sizeof(std::int32_t);
  FA_CUDA_CHECK(cudaMalloc(&device, bytes));
  FA_CUDA_CHECK(cudaMemcpy(device, table.data(), bytes, cudaMemcpyHostToDevice));
  DecodingAttention::Args others = args;
  others.block_table = static_cast<const std::int32_t*>(device);
  compute(others, stream);
  FA_CUDA_CHECK(cudaFree(device));
}

void forget_scale(const DecodingAttention::Args& args, cudaStream_t stream) {
  std::vector<float> ones(std::size_t(args.kv_heads), 1.0f);
  FA_CUDA_CHECK(cudaMemcpy(args.buffer<float>("v_scale"), ones.data(), ones.size() * sizeof(float),
                           cudaMemcpyHostToDevice));
  compute(args, stream);
}

AnyChapter decoding_chapter() {
  using Step = Variant<DecodingAttention>;
  const auto nothing = [](const DecodingShape&) { return Traffic(); };
  return Chapter<DecodingAttention>{
      .name = "99_decoding",
      .title = "Decoding on the host",
      .variants = {Step{.name = "one_table", .summary = "", .launch = mistake_table, .traffic = nothing},
                   Step{.name = "no_scale", .summary = "", .launch = forget_scale, .traffic = nothing},
                   Step{.name = "host", .summary = "", .launch = compute, .traffic = nothing}}};
}

Outcome run(const Words& arguments) { return run_chapter(decoding_chapter(), arguments); }

// ---- without a device

class DecodingRefusal : public RefusalTest {
 protected:
  DecodingRefusal() : RefusalTest(decoding_chapter()) {}
};

TEST_F(DecodingRefusal, Numbers) {
  expect({"--seq-q", "17"}, "--seq-q is 17: must be at most 16");
  expect({"--seq-q", "5", "--seq-k", "4"},
         "--seq-k is 4: must be at least --seq-q, 5: queries are the last tokens of their sequence");
  for (const std::string splits : {"0", "-1", "1025"})
    expect({"--splits", splits}, "--splits is " + splits + ": must be from 1 to 1024");
  expect({"--splits", "many"}, "--splits 'many': must be a whole number");
  for (const std::string size : {"0", "-16", "1", "32", "128", "512"})
    expect({"--page-size", size}, "--page-size is " + size + ": must be 16, 64 or 256");
  expect({"--cache", "fp4"}, "--cache 'fp4': must be fp8");
  expect({"--block-table", "table.npy"}, "--block-table needs --page-size: add --page-size N");
  expect({"--pages", "4", "--page-size", "16"}, "--pages needs --block-table: add --block-table FILE");
  expect({"--causal"}, "--causal: leave it out: a query never sees the tokens after its own in this chapter");
  expect({"--head-dim-v", "32"},
         "--variant host cannot run this: --head-dim-v is 32: this variant takes that of --head-dim, 64");
}

TEST_F(DecodingRefusal, FilesOfKeyLengths) {
  const std::string file = folder_ / "lengths.npy";
  const auto expect_lengths = [&](const std::vector<std::int32_t>& lengths, const std::string& line) {
    write_int32(file, lengths);
    expect({"--key-lengths", file, "--batch", "3", "--seq-q", "4", "--seq-k", "9"}, line);
  };
  const std::string start = "--key-lengths " + file + ": ";
  expect({"--key-lengths", file}, start + "no such file");
  expect_lengths({9, 10, 4}, start + "length 1 is 10: must be from 0 to 9, the number of keys");
  expect_lengths({9, 9, -1}, start + "length 2 is -1: must be from 0 to 9, the number of keys");
  expect_lengths({9, 9}, start + "has shape [2]; must be [3], each at least 1");
  expect_lengths({9, 0, 3},
                 start +
                     "length 2 is 3: must be 0 or at least --seq-q, 4: queries are the last tokens of their "
                     "sequence");
  write_npy(file, Tensor{{3}, {9, 9, 9}});
  const std::string type =
      "has elements of type '<f4'; must be '<i4' (int32), '<i8' (int64), '|u1' (uint8) "
      "or '|b1' (bool), little-endian";
  expect({"--key-lengths", file, "--batch", "3", "--seq-k", "9"}, start + type);
  expect({"--key-lengths", file, "--batch", "3"}, start + type);
}

TEST_F(DecodingRefusal, FilesOfPages) {
  const std::string lengths = folder_ / "lengths.npy", table = folder_ / "table.npy";
  write_int32(lengths, {33, 0, 16});
  const Words sizes = {"--key-lengths", lengths, "--batch", "3", "--page-size", "16", "--block-table", table};
  const auto expect_table = [&](const std::string& shape, const std::vector<std::int32_t>& pages,
                                const std::string& line, const Words& more = {}) {
    write_integers(table, "<i4", shape, pages);
    Words arguments = sizes;
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect(arguments, line);
  };
  const std::string start = "--block-table " + table + ": ";
  expect(sizes, start + "no such file");
  expect_table("(3, 2)", {0, 1, 2, 3, 4, 5},
               start + "has 2 columns, for 16 keys each: must have 3 for the 33 keys of sequence 0");
  expect_table("(2, 3)", {0, 1, 2, 3, 4, 5},
               start + "has shape [2, 3]; must be [3, columns], each at least 1");
  expect_table("(6,)", {0, 1, 2, 3, 4, 5}, start + "has shape [6]; must be [3, columns], each at least 1");
  expect_table("(3, 3)", {0, 1, 9, 0, 0, 0, 2, 0, 0},
               start + "column 2 of sequence 0 has page 9: must be from 0 to 8");
  expect_table("(3, 3)", {0, 1, 8, 0, 0, 0, -1, 0, 0},
               start + "column 0 of sequence 2 has page -1: must be from 0 to 8");
  expect_table("(3, 3)", {0, 1, 4, 0, 0, 0, 2, 0, 0},
               start + "column 2 of sequence 0 has page 4: must be from 0 to 3", {"--pages", "4"});
  for (const std::string pages : {"0", "-7", "16777217"}) {
    expect_table("(3, 3)", {0, 1, 4, 0, 0, 0, 2, 0, 0},
                 "--pages is " + pages + ": must be from 1 to 16777216", {"--pages", pages});
  }
  expect_table("(3, 3)", {0, 1, 4, 0, 0, 0, 2, 0, 0},
               "--pages 16777216 times --page-size 16 times --kv-heads 8: must be at most 2147483647",
               {"--pages", "16777216", "--heads", "8"});
  write_integers<std::int64_t>(table, "<i8", "(3, 1)", {0, 1ll << 32, 0});
  expect(sizes, start + "4294967296 is not the number of a page: must be at most 2147483647");
  write_npy(table, Tensor{{3, 3}, std::vector<float>(9)});
  expect(sizes, start +
                    "has elements of type '<f4'; must be '<i4' (int32), '<i8' (int64), '|u1' (uint8) or "
                    "'|b1' (bool), little-endian");
}

TEST(DecodingCommandLine, HelpFitsOneHundredColumnsAndHasEveryOption) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const std::string option :
       {"--key-lengths", "--page-size", "--block-table", "--pages", "--cache", "--splits", "--kv-heads"}) {
    EXPECT_NE(outcome.out.find(option + " "), std::string::npos) << option;
  }
  EXPECT_NE(outcome.out.find("its last tokens: 1 to 16 (default 1)"), std::string::npos);
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// What a program passes without the command line.
TEST(DecodingShapes, AreRefusedThatContradictThemselves) {
  const auto refusal = [](auto change) -> std::string {
    DecodingShape shape;
    shape.batch = 2, shape.heads = shape.kv_heads = 3, shape.seq_k = 40;
    change(shape);
    const auto refused = DecodingAttention::refuse(shape);
    return refused ? refused->message() : "it is accepted";
  };
  const auto with_lengths = [&](const std::vector<std::int32_t>& lengths) {
    return refusal([&](DecodingShape& shape) {
      shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(lengths);
    });
  };
  EXPECT_EQ(with_lengths({0, 40}), "it is accepted");
  EXPECT_EQ(with_lengths({4}), "--key-lengths: has 1 lengths, must have 2");
  EXPECT_EQ(with_lengths({4, 41}), "--key-lengths: length 1 is 41: must be from 0 to 40, the number of keys");
  const auto with_table = [&](const BlockTable& table) {
    return refusal(
        [&](DecodingShape& shape) { shape.block_table = std::make_shared<const BlockTable>(table); });
  };
  EXPECT_EQ(with_table({.pages = 1, .columns = 1, .numbers = {0, 0}}), "it is accepted");
  EXPECT_EQ(with_table({.pages = 7, .columns = 5}), "it is accepted");  // its numbers are on the device
  EXPECT_EQ(with_table({.pages = 1, .columns = 1, .numbers = {0}}),
            "--block-table: has 1 numbers, must have 2");
  EXPECT_EQ(with_table({.page_size = 40, .numbers = {0, 0}}), "--page-size is 40: must be 16, 64 or 256");
}

// ---- with a device

class DecodingProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  static Json json_of(Words arguments, int status = 0) {
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.out;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }

  TemporaryFolder folder_;
};

TEST_F(DecodingProgram, HasOneQueryOfEachSequence) {
  EXPECT_EQ(json_of({})["problem"],
            Json::parse(R"({"name": "decoding_attention", "batch": 1, "heads": 2, "kv_heads": 2,
    "seq_q": 1, "seq_k": 100, "head_dim": 64, "all_keys": 100, "dtype": "fp32", "causal": true,
    "scale": 0.125, "init": "normal", "seed": 0})"));
}

TEST_F(DecodingProgram, OptionsReachTheKernelAndTheReport) {
  const std::string lengths = folder_ / "lengths.npy", table = folder_ / "table.npy";
  write_int32(lengths, {33, 0, 16});
  write_integers<std::int32_t>(table, "<i4", "(3, 3)", {7, 1, 4, -5, 99, -1, 1, -1, -1});
  const Words arguments = {"--batch",     "3",  "--heads",    "4",   "--kv-heads",    "2",
                           "--seq-q",     "2",  "--head-dim", "8",   "--key-lengths", lengths,
                           "--page-size", "16", "--cache",    "fp8", "--splits",      "5"};
  const Json whole = json_of(arguments);
  Json expected = Json::parse(R"({"name": "decoding_attention", "batch": 3, "heads": 4, "kv_heads": 2,
      "seq_q": 2, "seq_k": 33, "head_dim": 8, "all_keys": 49, "page_size": 16, "pages": 5, "splits": 5,
      "dtype": "fp32", "causal": true, "cache": "fp8", "init": "normal", "seed": 0})");
  expected["scale"] = whole["problem"]["scale"];
  expected["key_lengths"] = lengths;
  EXPECT_EQ(whole["problem"], expected);
  EXPECT_EQ(whole["tensors"]["block_table"], Json::parse(R"({"shape": [3, 3], "bytes": 36})"));
  EXPECT_EQ(whole["tensors"]["k"], Json::parse(R"({"shape": [5, 2, 16, 8], "bytes": 1280})"));
  Words given = arguments;
  given.insert(given.end(), {"--block-table", table});
  expected["pages"] = 9;
  expected["block_table"] = table;
  EXPECT_EQ(json_of(given)["problem"], expected);
  given.insert(given.end(), {"--pages", "8"});
  EXPECT_EQ(json_of(given)["problem"]["pages"], 8);
}

TEST_F(DecodingProgram, AMistakenTableAndAMissingScaleAreNamed) {
  const auto change = [&](const std::string& variant) {
    const Json json = json_of(
        {"--variant", variant, "--batch", "2", "--seq-k", "40", "--page-size", "16", "--cache", "fp8"}, 1);
    const Json as_if = json["variants"][0]["check"]["as_if"];
    return as_if.size() == 1 ? std::string(as_if[0]["change"]) : as_if.dump();
  };
  EXPECT_EQ(change("one_table"), "with the block table of sequence 0 for all");
  EXPECT_EQ(change("no_scale"), "without v_scale");
}

TEST_F(DecodingProgram, TheEndsOfABatchAreCheckedWithTheirOwnKeys) {
  const std::string lengths = folder_ / "lengths.npy";
  write_int32(lengths, {3, 50, 20});
  for (const Words& cache : {Words{}, Words{"--page-size", "16"}, Words{"--cache", "fp8"}}) {
    Words arguments = {"--check-ends",  "--batch", "3", "--heads", "4", "--kv-heads", "2", "--head-dim", "8",
                       "--key-lengths", lengths};
    arguments.insert(arguments.end(), cache.begin(), cache.end());
    const Json json = json_of(arguments);
    EXPECT_EQ(json["problem"]["checked"], "ends");
    EXPECT_TRUE(json["variants"][0]["check"]["passed"]);
  }
}

TEST_F(DecodingProgram, StoresFilesOfKAndVInPages) {
  const auto random = [](std::vector<std::int64_t> shape) {
    return random_tensor({.name = "t", .shape = std::move(shape)}, Init::kNormal, 1);
  };
  const std::string q = folder_ / "q.npy", k = folder_ / "k.npy", lengths = folder_ / "lengths.npy";
  write_npy(q, random({2, 4, 3, 8}));
  write_npy(k, random({2, 2, 40, 8}));
  write_int32(lengths, {40, 5});
  std::vector<std::string> files;
  for (const Words& cache : {Words{}, Words{"--page-size", "16"}}) {
    const std::string out = folder_ / ("out" + std::to_string(cache.size()));
    Words arguments = {"--q", q, "--k", k, "--v", k, "--key-lengths", lengths, "--out", out};
    arguments.insert(arguments.end(), cache.begin(), cache.end());
    const Json json = json_of(arguments);
    EXPECT_EQ(json["problem"]["k"], k);
    EXPECT_EQ(json["problem"]["key_lengths"], lengths);
    EXPECT_EQ(json["tensors"]["k"]["shape"], cache.empty() ? Json({2, 2, 40, 8}) : Json({5, 2, 16, 8}));
    files.push_back(contents(out + "/o.npy"));
  }
  EXPECT_EQ(files[0], files[1]);
  write_npy(q, random({2, 4, 30, 8}));
  EXPECT_EQ(run({"--q", q, "--k", k, "--v", k, "--page-size", "16"}).err,
            "error: --seq-q is 30: must be at most 16\n");
}

}  // namespace
}  // namespace fa
