// The command line of chapter 11: masks, dropout, modified scores.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "harness/npy.hpp"
#include "integers.hpp"
#include "run_chapter.hpp"

namespace fa {
namespace {

using Json = nlohmann::json;

/// The problem as a kernel knows it.
MaskedShape shape_of(const MaskedAttention::Args& args) {
  MaskedShape shape;
  shape.batch = args.batch, shape.heads = args.heads, shape.kv_heads = args.kv_heads;
  shape.seq_q = args.seq_q, shape.seq_k = args.seq_k, shape.head_dim = args.head_dim;
  shape.causal = args.causal, shape.scale = args.scale, shape.backward = args.backward;
  shape.window = args.window;
  using Numbers = std::vector<std::int32_t>;
  if (args.documents)
    shape.documents = std::make_shared<const Numbers>(downloaded(args.documents, args.seq_q));
  if (args.key_documents)
    shape.key_documents = std::make_shared<const Numbers>(downloaded(args.key_documents, args.seq_k));
  if (args.key_lengths)
    shape.key_lengths = std::make_shared<const Numbers>(downloaded(args.key_lengths, args.batch));
  if (args.block_mask) {
    const int size = args.size_of_blocks, rows = (args.seq_q + size - 1) / size,
              cols = (args.seq_k + size - 1) / size;
    shape.block_mask = std::make_shared<const BlockPattern>(BlockPattern{
        .heads = args.heads_of_blocks,
        .rows = rows,
        .cols = cols,
        .size = size,
        .blocks = downloaded(args.block_mask, std::int64_t(args.heads_of_blocks) * rows * cols)});
  }
  shape.dropout = 1 - args.dropout.kept / double(Dropout::kOf);
  const uint2 seed = args.dropout.keys.of_round[0];
  shape.dropout_seed = seed.x | std::uint64_t(seed.y) << 32;
  if (args.softcap < std::numeric_limits<float>::infinity()) shape.softcap = args.softcap;
  shape.alibi = args.alibi && !args.alibi_slopes;
  if (args.alibi_slopes)
    shape.alibi_slopes =
        std::make_shared<const std::vector<float>>(downloaded(args.alibi_slopes, args.heads));
  if (args.sinks)
    shape.sinks = std::make_shared<const std::vector<float>>(downloaded(args.sinks, args.heads));
  return shape;
}

/// fp32, by the reference.
void compute(const MaskedAttention::Args& args, cudaStream_t) {
  const MaskedShape shape = shape_of(args);
  TensorMap inputs;
  for (const TensorSpec& spec : MaskedAttention::inputs(shape)) {
    if (spec.dtype == DType::kFloat32)
      inputs.emplace(spec.name,
                     Tensor{spec.shape, downloaded(args.buffer<float>(spec.name), spec.elements())});
  }
  for (const auto& [name, values] : MaskedAttention::reference(shape, inputs)) {
    const std::vector<float> narrow(values.begin(), values.end());
    FA_CUDA_CHECK(cudaMemcpy(args.buffer<float>(name), narrow.data(), narrow.size() * sizeof(float),
                             cudaMemcpyHostToDevice));
  }
}

/// Does not know of documents.
void forget_documents(const MaskedAttention::Args& args, cudaStream_t stream) {
  MaskedAttention::Args others = args;
  others.documents = nullptr;
  compute(others, stream);
}

Traffic nothing(const MaskedShape&) { return {}; }

AnyChapter masked_chapter() {
  using Step = Variant<MaskedAttention>;
  return Chapter<MaskedAttention>{
      .name = "99_masks",
      .title = "Masks on the host",
      .variants = {Step{.name = "forgets", .summary = "", .launch = forget_documents, .traffic = nothing},
                   Step{.name = "host", .summary = "", .launch = compute, .traffic = nothing}}};
}

Outcome run(const std::vector<std::string>& arguments) { return run_chapter(masked_chapter(), arguments); }

void write_blocks(const std::filesystem::path& path, const std::string& shape,
                  const std::vector<std::uint8_t>& values) {
  write_integers(path, "|u1", shape, values);
}

// ---- without a device

class MaskedRefusal : public RefusalTest {
 protected:
  MaskedRefusal() : RefusalTest(masked_chapter()) {}
};

TEST_F(MaskedRefusal, Numbers) {
  expect({"--window", "0"}, "--window is 0: must be at least 1, which leaves each query one key");
  expect({"--window", "-3"}, "--window is -3: must be at least 1, which leaves each query one key");
  expect({"--window", "-9223372036854775808"},
         "--window is -9223372036854775808: must be at least 1, which leaves each query one key");
  expect({"--window", "9223372036854775808"},
         "--window 9223372036854775808 is out of range: must be a smaller whole number");
  expect({"--window", "wide"}, "--window 'wide': must be a whole number");
  for (const std::string value : {"1", "-0.1", "1.5", "nan", "0.999", "0.001"})
    expect({"--dropout", value}, "--dropout is " + value + ": must be 0, or from 0.002 to 0.998");
  expect({"--dropout", "half"}, "--dropout 'half': must be a number");
  expect({"--dropout", "0.1", "--dropout-seed", "-1"},
         "--dropout-seed '-1': must be a whole number, at least 0");
  expect({"--dropout-seed", "3"}, "--dropout-seed needs --dropout: add --dropout F");
  for (const std::string value : {"0", "-50", "inf", "nan"})
    expect({"--softcap", value}, "--softcap is " + value + ": must be from 1e-06 to 1000000");
  expect({"--block-size", "64"}, "--block-size needs --block-mask: add --block-mask FILE");
  expect({"--window", "3", "--seq-q", "0"}, "--seq-q is 0: must be from 1 to 2147483392");
  expect({"--do", "do.npy"}, "--do needs --backward: it is the gradient of O");
}

TEST_F(MaskedRefusal, FilesOfDocuments) {
  const std::string file = folder_ / "documents.npy";
  expect({"--documents", file}, "--documents " + file + ": no such file");
  write_int32(file, {0, 0, 1, 1, 1});
  expect({"--documents", file, "--seq-q", "5", "--seq-k", "6"},
         "--documents: --seq-q is 5 and --seq-k is 6: must be the same, those of one sequence, or "
         "--key-documents must be given");
  expect({"--documents", file, "--seq-q", "6"},
         "--documents " + file + ": has shape [5]; must be [6], each at least 1");
  write_int32(file, {0, 0, 1, 1, 0});
  expect({"--documents", file, "--seq-q", "5"}, "--documents " + file +
                                                    ": token 4 belongs to document 0 again, after document "
                                                    "1: the tokens of a document must be next to each "
                                                    "other");
  write_npy(file, Tensor{{5}, {0, 0, 1, 1, 1}});
  expect({"--documents", file, "--seq-q", "5"}, "--documents " + file +
                                                    ": has elements of type '<f4'; must be '<i4' (int32), "
                                                    "'<i8' (int64), '|u1' (uint8) or '|b1' (bool), "
                                                    "little-endian");
}

TEST_F(MaskedRefusal, FilesOfKeyLengths) {
  const std::string file = folder_ / "lengths.npy";
  const auto expect_lengths = [&](const std::vector<std::int32_t>& lengths, const std::string& line) {
    write_int32(file, lengths);
    expect({"--key-lengths", file, "--batch", "2", "--seq-q", "3", "--seq-k", "5"},
           "--key-lengths " + file + ": " + line);
  };
  expect_lengths({5, -1}, "length 1 is -1: must be from 0 to 5, the number of keys");
  expect_lengths({6, 5}, "length 0 is 6: must be from 0 to 5, the number of keys");
  expect_lengths({5, 5, 5}, "has shape [3]; must be [2], each at least 1");
  write_integers<std::int64_t>(file, "<i8", "(1,)", {1ll << 32});  // 0 in the lower 32 bits
  expect({"--key-lengths", file},
         "--key-lengths " + file + ": length 0 is 4294967296: must be from 0 to 100, the number of keys");
}

TEST_F(MaskedRefusal, FilesOfSinks) {
  const std::string file = folder_ / "sinks.npy";
  expect({"--sinks", file}, "--sinks " + file + ": no such file");
  write_npy(file, Tensor{{3}, {0, 1, 2}});
  expect({"--sinks", file}, "--sinks " + file + ": has shape [3]; must be [2], each at least 1");
  const std::string limits = ": must be from -1e+30 to 1e+30, or -inf for none";
  write_npy(file, Tensor{{2}, {0, std::numeric_limits<float>::infinity()}});
  expect({"--sinks", file}, "--sinks: number 1 is inf" + limits);
  write_npy(file, Tensor{{2}, {std::numeric_limits<float>::quiet_NaN(), 0}});
  expect({"--sinks", file}, "--sinks: number 0 is nan" + limits);
  write_npy(file, Tensor{{2}, {0, -2e30f}});
  expect({"--sinks", file}, "--sinks: number 1 is -2e+30" + limits);
}

TEST_F(MaskedRefusal, FilesOfBlocks) {
  const std::string file = folder_ / "blocks.npy";
  write_blocks(file, "(1, 2, 3)", {1, 1, 1, 1, 1, 1});
  const std::vector<std::string> sizes = {"--block-mask", file,  "--heads", "2",
                                          "--seq-q",      "200", "--seq-k", "300"};
  const auto expect_with = [&](const std::vector<std::string>& more, const std::string& line) {
    std::vector<std::string> arguments = sizes;
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect(arguments, line);
  };
  for (const std::string size : {"0", "-64", "32", "100", "256"})
    expect_with({"--block-size", size}, "--block-size is " + size + ": must be 64 or 128");
  const std::string start = "--block-mask " + file + ": ";
  expect_with({"--block-size", "64"},
              start + "has shape [1, 2, 3]; must be [heads or 1, 4, 5], each at least 1");
  write_blocks(file, "(2, 3)", {1, 1, 1, 1, 1, 1});
  expect_with({}, start + "has shape [2, 3]; must be [heads or 1, 2, 3], each at least 1");
  write_blocks(file, "(3, 2, 3)", std::vector<std::uint8_t>(18));
  expect_with({}, start + "has shape [3, 2, 3]; must begin with 1 or 2, the number of heads");
}

TEST(MaskedCommandLine, HelpFitsOneHundredColumnsAndHasEveryOption) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const std::string option :
       {"--backward", "--window", "--documents", "--key-lengths", "--block-mask", "--block-size", "--dropout",
        "--dropout-seed", "--softcap", "--alibi", "--alibi-slopes", "--sinks", "--key-documents", "--causal",
        "--kv-heads", "--do"}) {
    EXPECT_NE(outcome.out.find(option + " "), std::string::npos) << option;
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// What a program passes without the command line.
TEST(MaskedShapes, AreRefusedThatContradictThemselves) {
  using Numbers = std::vector<std::int32_t>;
  const auto refusal = [](auto change) -> std::string {
    MaskedShape shape;
    shape.batch = 2, shape.heads = shape.kv_heads = 3, shape.seq_q = shape.seq_k = 4;
    change(shape);
    const auto refused = MaskedAttention::refuse(shape);
    return refused ? refused->message() : "it is accepted";
  };
  const auto with_documents = [&](const Numbers& numbers) {
    return refusal([&](MaskedShape& shape) { shape.documents = std::make_shared<const Numbers>(numbers); });
  };
  EXPECT_EQ(refusal([](MaskedShape&) {}), "it is accepted");
  EXPECT_EQ(with_documents({0, 0, 3, 4}), "it is accepted");
  EXPECT_EQ(with_documents({0, 0, 1}), "--documents: has 3 tokens, must have 4");
  EXPECT_EQ(with_documents({0, 2, 1, 1}),
            "--documents: token 2 belongs to document 1 after document 2: numbers must not decrease");
  EXPECT_EQ(with_documents({-1, 0, 0, 0}), "--documents: numbers must be from 0 to 16777216");
  const auto with_key_documents = [&](const Numbers& numbers, bool with_those_of_queries) {
    return refusal([&](MaskedShape& shape) {
      shape.seq_q = 2;
      shape.key_documents = std::make_shared<const Numbers>(numbers);
      if (with_those_of_queries) shape.documents = std::make_shared<const Numbers>(Numbers{0, 3});
    });
  };
  EXPECT_EQ(with_key_documents({0, 1, 1, 3}, true), "it is accepted");
  EXPECT_EQ(with_key_documents({0, 1, 1, 3}, false),
            "--key-documents needs --documents, those of the queries: add --documents FILE");
  EXPECT_EQ(with_key_documents({0, 1}, true), "--key-documents: has 2 tokens, must have 4");
  const auto with_slopes = [&](const std::vector<float>& slopes, bool alibi) {
    return refusal([&](MaskedShape& shape) {
      shape.alibi = alibi;
      shape.alibi_slopes = std::make_shared<const std::vector<float>>(slopes);
    });
  };
  EXPECT_EQ(with_slopes({0.5f, -1, 0}, false), "it is accepted");
  EXPECT_EQ(with_slopes({0.5f, -1, 0}, true), "--alibi and --alibi-slopes are given: must be one of them");
  EXPECT_EQ(with_slopes({0.5f, -1}, false), "--alibi-slopes: has 2 numbers, must have 3");
  EXPECT_EQ(with_slopes({0.5f, -1, NAN}, false),
            "--alibi-slopes: nan is given, must be from -10000 to 10000");
  EXPECT_EQ(
      refusal([](MaskedShape& shape) { shape.key_lengths = std::make_shared<const Numbers>(Numbers{4}); }),
      "--key-lengths: has 1 lengths, must have 2");
  EXPECT_EQ(refusal([](MaskedShape& shape) {
              shape.key_lengths = std::make_shared<const Numbers>(Numbers{0, 5});
            }),
            "--key-lengths: length 1 is 5: must be from 0 to 4, the number of keys");
  EXPECT_EQ(refusal([](MaskedShape& shape) {
              shape.seq_k = kMostExact + 1;
              shape.key_lengths = std::make_shared<const Numbers>(Numbers{0, 5});
            }),
            "--seq-k is 16777217: must be at most 16777216 with --key-lengths");
  const auto with_blocks = [&](const BlockPattern& mask) {
    return refusal(
        [&](MaskedShape& shape) { shape.block_mask = std::make_shared<const BlockPattern>(mask); });
  };
  EXPECT_EQ(with_blocks({.heads = 3, .blocks = {1, 0, 1}}), "it is accepted");
  EXPECT_EQ(with_blocks({.heads = 2, .blocks = {1, 0}}),
            "--block-mask: has shape [2, 1, 1]; must be [1 or 3, 1, 1]");
  EXPECT_EQ(with_blocks({.heads = 3, .blocks = {1, 0}}), "--block-mask: has 2 blocks, must have 3");
  EXPECT_EQ(with_blocks({.size = 96, .blocks = {1}}), "--block-size is 96: must be 64 or 128");
}

// ---- with a device

class MaskedProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  static Json json_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }

  TemporaryFolder folder_;
};

TEST_F(MaskedProgram, WithoutMasksIsAttention) {
  EXPECT_EQ(json_of({})["problem"],
            Json::parse(R"({"name": "masked_attention", "batch": 1, "heads": 2, "kv_heads": 2,
    "seq_q": 100, "seq_k": 100, "head_dim": 64, "seen_pairs": 20000, "dtype": "fp32", "causal": false,
    "scale": 0.125,
    "init": "normal", "seed": 0})"));
}

TEST_F(MaskedProgram, KeysHaveTheirOwnDocumentsAndHeadsTheirOwnSlopes) {
  const std::string of_queries = folder_ / "queries.npy", of_keys = folder_ / "keys.npy",
                    slopes = folder_ / "slopes.npy";
  write_int32(of_queries, {0, 0, 2, 2, 2});
  write_int32(of_keys, {0, 1, 1, 2, 2, 2, 4});
  write_npy(slopes, {{2}, {0.5f, -0.25f}});
  const Json json = json_of({"--heads", "2", "--seq-q", "5", "--seq-k", "7", "--documents", of_queries,
                             "--key-documents", of_keys, "--alibi-slopes", slopes});
  EXPECT_EQ(json["problem"]["seen_pairs"], 2 * (2 * 1 + 3 * 3));
  EXPECT_EQ(json["problem"]["key_documents"], of_keys);
  EXPECT_EQ(json["problem"]["alibi_slopes"], slopes);
  EXPECT_TRUE(json["variants"][0]["check"]["passed"]);
}

TEST_F(MaskedProgram, OptionsReachTheKernelAndTheReport) {
  const std::string documents = folder_ / "documents.npy", lengths = folder_ / "lengths.npy",
                    blocks = folder_ / "blocks.npy", sinks = folder_ / "sinks.npy";
  std::vector<std::int64_t> of_tokens;
  for (std::int64_t token = 0; token < 150; ++token)
    of_tokens.push_back(token < 40 ? 7 : token < 41 ? -3 : 1ll << 40);
  write_integers(documents, "<i8", "(150,)", of_tokens);
  write_int32(lengths, {150, 99});
  write_npy(sinks, Tensor{{2}, {-1.5f, 3}});
  write_integers<std::uint8_t>(blocks, "|b1", "(2, 3, 3)",
                               {1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  const std::vector<std::string> arguments = {"--batch",
                                              "2",
                                              "--heads",
                                              "2",
                                              "--kv-heads",
                                              "1",
                                              "--seq-q",
                                              "150",
                                              "--head-dim",
                                              "8",
                                              "--causal",
                                              "--window",
                                              "70",
                                              "--documents",
                                              documents,
                                              "--key-lengths",
                                              lengths,
                                              "--block-mask",
                                              blocks,
                                              "--block-size",
                                              "64",
                                              "--dropout",
                                              "0.25",
                                              "--dropout-seed",
                                              "18446744073709551615",
                                              "--softcap",
                                              "2.5",
                                              "--alibi",
                                              "--sinks",
                                              sinks};
  for (const bool backward : {false, true}) {
    std::vector<std::string> all = arguments;
    if (backward) all.push_back("--backward");
    const Json json = json_of(all);
    Json expected = Json::parse(R"({"name": "masked_attention", "batch": 2, "heads": 2, "kv_heads": 1,
      "seq_q": 150, "seq_k": 150, "head_dim": 8, "dtype": "fp32", "causal": true, "window": 70,
      "block_size": 64, "dropout": 0.25, "dropout_seed": 18446744073709551615, "softcap": 2.5, "alibi": true,
      "init": "normal", "seed": 0})");
    expected["scale"] = json["problem"]["scale"];
    expected["seen_pairs"] = json["problem"]["seen_pairs"];
    expected["documents"] = documents, expected["key_lengths"] = lengths, expected["block_mask"] = blocks;
    expected["sinks"] = sinks;
    if (backward) expected["backward"] = true;
    EXPECT_EQ(json["problem"], expected);
    EXPECT_EQ(json["tensors"]["block_mask"], Json::parse(R"({"shape": [2, 3, 3], "bytes": 18})"));
    EXPECT_EQ(json["tensors"]["documents"], Json::parse(R"({"shape": [150], "bytes": 600})"));
    EXPECT_EQ(json["variants"][0]["check"]["tensors"].size(), backward ? 4u : 2u);
  }
}

TEST_F(MaskedProgram, AMaskThatIsForgottenIsNamed) {
  const std::string documents = folder_ / "documents.npy";
  std::vector<std::int32_t> of_tokens(60, 0);
  std::fill(of_tokens.begin() + 25, of_tokens.end(), 1);
  write_int32(documents, of_tokens);
  const Outcome outcome =
      run({"--variant", "forgets", "--seq-q", "60", "--causal", "--documents", documents, "--json", "-"});
  EXPECT_EQ(outcome.status, 1);
  const Json check = Json::parse(outcome.out)["variants"][0]["check"];
  ASSERT_EQ(check["as_if"].size(), 1u);
  EXPECT_EQ(check["as_if"][0]["change"], "without the documents");
  EXPECT_EQ(check["tensors"]["o"]["first_wrong"]["index"], Json({0, 0, 25, 0}));
  EXPECT_EQ(std::string(check["tensors"]["o"]["first_wrong"]["inputs"]).substr(0, 39),
            "query 25 sees 1 of 60 keys: 25; its sco");
}

TEST_F(MaskedProgram, TheEndsOfABatchAreCheckedWithTheirOwnMasks) {
  const std::string lengths = folder_ / "lengths.npy";
  write_int32(lengths, {3, 50, 20});
  for (const char* pass : {"--causal", "--backward"}) {
    const Json json = json_of({"--check-ends", "--batch", "3", "--heads", "4", "--kv-heads", "2", "--seq-q",
                               "50", "--head-dim", "8", "--key-lengths", lengths, "--dropout", "0.5",
                               "--alibi", "--sinks", pass});
    EXPECT_EQ(json["problem"]["checked"], "ends");
    EXPECT_TRUE(json["variants"][0]["check"]["passed"]);
  }
}

// Without a file, the numbers depend on --seed.
TEST_F(MaskedProgram, MakesSinksAndWritesTheirGradients) {
  const auto dsinks = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--heads",    "3",     "--head-dim",   "8",
                                          "--backward", "--out", folder_ / "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_TRUE(json_of(arguments)["variants"][0]["check"]["passed"]);
    return read_npy(folder_ / "out/dsinks.npy", {{"heads", 3}}).data;
  };
  EXPECT_EQ(json_of({"--sinks"})["problem"]["sinks"], "random");
  const std::vector<float> first = dsinks({"--sinks"});
  for (const float gradient : first) EXPECT_NE(gradient, 0);
  EXPECT_EQ(dsinks({"--sinks", "--causal"}).size(), 3u);
  EXPECT_EQ(dsinks({"--sinks"}), first);
  EXPECT_NE(dsinks({"--sinks", "--seed", "1"}), first);
}

// A file for Q and random sinks: the file says how many.
TEST_F(MaskedProgram, MakesAsManySinksAsAFileHasHeads) {
  const std::string q = folder_ / "q.npy";
  write_npy(q, random_tensor({.name = "t", .shape = {1, 4, 5, 8}}, Init::kNormal, 1));
  const Json json = json_of({"--q", q, "--k", q, "--v", q, "--sinks"});
  EXPECT_EQ(json["tensors"]["sinks"], Json::parse(R"({"shape": [4], "bytes": 16})"));
  EXPECT_TRUE(json["variants"][0]["check"]["passed"]);
}

TEST_F(MaskedProgram, OutHasWhatDropoutKeeps) {
  const std::vector<std::string> sizes = {"--batch", "2",  "--seq-q",    "20",
                                          "--seq-k", "30", "--head-dim", "8"};
  std::vector<std::string> arguments = sizes;
  arguments.insert(arguments.end(), {"--dropout", "0.5", "--dropout-seed", "9", "--out", folder_ / "out"});
  const Json json = json_of(arguments);
  EXPECT_FALSE(json.contains("remarks"));
  const HostTensor<std::int64_t> kept =
      read_npy_integers(folder_ / "out/kept.npy", {{"", 2}, {"", 2}, {"", 20}, {"", 30}});
  const Dropout dropout = Dropout::of(0.5, 9);
  for (int element = 0; element < 2400; ++element) {
    ASSERT_EQ(kept.data[std::size_t(element)], dropout.keeps(element / 600, element / 30 % 20, element % 30))
        << element;
  }
  arguments = sizes;
  arguments.insert(arguments.end(), {"--out", folder_ / "without"});
  json_of(arguments);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "without/o.npy"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "without/kept.npy"));
}

TEST_F(MaskedProgram, WhatDropoutKeepsIsLeftOutIfItIsLarge) {
  const std::vector<std::string> arguments = {"--heads",      "1", "--seq-q",   "8000", "--head-dim", "1",
                                              "--window",     "3", "--dropout", "0.5",  "--no-check", "--out",
                                              folder_ / "out"};
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nkept.npy is not written: it would have 64 MB, the limit is 64 MB\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/o.npy"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/kept.npy"));
}

TEST_F(MaskedProgram, ReadsTheGradientOfOOnlyForTheBackwardPass) {
  const auto random = [](std::vector<std::int64_t> shape) {
    return random_tensor({.name = "t", .shape = std::move(shape)}, Init::kNormal, 1);
  };
  const std::string q = folder_ / "q.npy", k = folder_ / "k.npy", d_o = folder_ / "do.npy";
  write_npy(q, random({1, 4, 5, 8}));
  write_npy(k, random({1, 2, 5, 8}));
  write_npy(d_o, random({1, 4, 5, 8}));
  const std::string lengths = folder_ / "lengths.npy";
  write_int32(lengths, {4});
  std::vector<std::string> arguments = {"--q", q, "--k", k, "--v", k, "--key-lengths", lengths};
  EXPECT_EQ(json_of(arguments)["problem"]["q"], q);
  arguments.push_back("--backward");
  EXPECT_EQ(run(arguments).err, "error: --q needs --do: add --do FILE\n");
  arguments.insert(arguments.end(), {"--do", d_o});
  const Json json = json_of(arguments);
  EXPECT_EQ(json["problem"]["do"], d_o);
  EXPECT_EQ(json["problem"]["key_lengths"], lengths);
}

}  // namespace
}  // namespace fa
