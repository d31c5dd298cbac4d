// The command line of the attention chapters.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "attention/inputs.hpp"
#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "harness/npy.hpp"
#include "run_chapter.hpp"

namespace fa {
namespace {

using Json = nlohmann::json;

void upload(void* to, const std::vector<double>& values) {
  const std::vector<float> narrow(values.begin(), values.end());
  FA_CUDA_CHECK(cudaMemcpy(to, narrow.data(), narrow.size() * sizeof(float), cudaMemcpyHostToDevice));
}

/// The reference of P, in fp32.
template <class P>
void compute_by_reference(const AttentionForward::Args& args, cudaStream_t) {
  const AttentionShape shape{.batch = args.batch,
                             .heads = args.heads,
                             .kv_heads = args.kv_heads,
                             .seq_q = args.seq_q,
                             .seq_k = args.seq_k,
                             .head_dim = args.head_dim,
                             .causal = args.causal,
                             .scale = args.scale};
  TensorMap inputs;
  for (const TensorSpec& spec : P::inputs(shape)) {
    Tensor tensor{.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()))};
    FA_CUDA_CHECK(
        cudaMemcpy(tensor.data.data(), args.buffer<float>(spec.name), spec.bytes(), cudaMemcpyDeviceToHost));
    inputs.emplace(spec.name, std::move(tensor));
  }
  for (const auto& [name, values] : P::reference(shape, inputs)) upload(args.buffer<float>(name), values);
}

/// fp32 attention.
void compute(const AttentionForward::Args& args, cudaStream_t stream) {
  compute_by_reference<AttentionForward>(args, stream);
}

/// Needs a matrix of logits, and returns the result of `compute` unchanged.
void fill_workspace(const AttentionForward::Args& args, cudaStream_t stream) {
  const std::vector<double> logits(std::size_t(args.seq_q) * std::size_t(args.seq_k), 1.0);
  upload(args.buffer<float>("s"), logits);
  compute(args, stream);
}

Traffic nothing(const AttentionShape&) { return {}; }

std::optional<Refusal> refuse_others(const AttentionShape& shape) {
  return refuse_unless(shape, {32, 64}, {DType::kFloat32});
}

std::vector<TensorSpec> logits_of_one_head(const AttentionShape& shape) {
  return {{.name = "s", .shape = {shape.seq_q, shape.seq_k}}};
}

AnyChapter attention_chapter() {
  using Step = Variant<AttentionForward>;
  return Chapter<AttentionForward>{
      .name = "99_attention",
      .title = "Attention on the host",
      .variants = {
          Step{.name = "quadratic",
               .summary = "with a workspace",
               .launch = fill_workspace,
               .traffic = nothing,
               .workspace = logits_of_one_head},
          Step{.name = "any", .summary = "any head_dim", .launch = compute, .traffic = nothing},
          Step{.name = "compiled",
               .summary = "two head_dims",
               .launch = compute,
               .traffic = nothing,
               .refuse = refuse_others},
      }};
}

Outcome run(const std::vector<std::string>& arguments) { return run_chapter(attention_chapter(), arguments); }

Tensor random(std::vector<std::int64_t> shape) {
  return random_tensor({.name = "t", .shape = std::move(shape)}, Init::kNormal, 1);
}

// ---- without a device

class AttentionRefusal : public RefusalTest {
 protected:
  AttentionRefusal() : RefusalTest(attention_chapter()) {}
};

TEST_F(AttentionRefusal, Sizes) {
  for (const std::string name : {"--batch", "--heads", "--kv-heads", "--seq-q", "--seq-k", "--head-dim"}) {
    const std::string most = name.starts_with("--seq") ? "2147483392" : "2147483647";
    const std::string range = ": must be from 1 to " + most;
    expect({"--variant", "any", name, "0"}, name + " is 0" + range);
    expect({"--variant", "any", name, "-1"}, name + " is -1" + range);
    expect({"--variant", "any", name, "2147483648"}, name + " is 2147483648" + range);
    expect({"--variant", "any", name, "9223372036854775807"}, name + " is 9223372036854775807" + range);
    for (const std::string text : {"ten", "1.5", ""}) {
      expect({name, text}, name + " '" + text + "': must be a whole number");
    }
  }
  expect(
      {"--batch", "65536", "--heads", "65536", "--kv-heads", "1", "--seq-q", "1"},
      "--batch 65536 times --heads 65536 times --seq-q 1, rounded up to a multiple of 256: must be at most "
      "2147483647");
  expect({"--heads", "6", "--kv-heads", "4"}, "--heads is 6: must be a multiple of --kv-heads, which is 4");
  expect({"--heads", "2", "--kv-heads", "4"}, "--heads is 2: must be a multiple of --kv-heads, which is 4");
}

TEST_F(AttentionRefusal, WhatTheVariantWasNotCompiledFor) {
  const std::string variant = "--variant compiled cannot run this: ";
  expect({"--head-dim", "40"}, variant + "--head-dim is 40: must be one of 32, 64");
  expect({"--dtype", "bf16"}, variant + "--dtype is bf16: this variant takes fp32");
  expect({"--layout", "bhds"}, "--layout 'bhds': must be one of bhsd, bshd, sliced");
  expect(
      {"--layout", "bshd", "--seq-q", "3", "--head-dim", "32"},
      variant +
          "q has the strides (192, 32, 64, 1): this variant takes (192, 96, 32, 1), those of --layout bhsd");
}

TEST_F(AttentionRefusal, TypesAndScales) {
  for (const std::string text : {"fp64", "FP16", ""}) {
    expect({"--dtype", text}, "--dtype '" + text + "': must be one of fp32, fp16, bf16");
  }
  expect({"--scale", "0"}, "--scale is 0: must be from 1.2e-38 to 2.3e+38");
  expect({"--scale", "-1"}, "--scale is -1: must be from 1.2e-38 to 2.3e+38");
  expect({"--scale", "inf"}, "--scale is inf: must be from 1.2e-38 to 2.3e+38");
  expect({"--scale", "half"}, "--scale 'half': must be a number");
  for (const std::string init : {"gauss", "special"}) {
    expect({"--init", init}, "--init '" + init + "': must be one of normal, uniform, outliers, offset");
  }
  expect({"--seed", "-1"}, "--seed '-1': must be a whole number, at least 0");
  expect_mention({"--causal=maybe"}, "maybe");
  expect_mention({"--rows", "3"}, "--rows");
}

TEST_F(AttentionRefusal, Files) {
  const std::string q = folder_ / "q.npy", k = folder_ / "k.npy", v = folder_ / "v.npy";
  write_npy(q, random({1, 6, 5, 32}));
  write_npy(k, random({1, 3, 7, 32}));
  write_npy(v, random({1, 3, 7, 32}));
  expect({"--q", q}, "--q needs --k: add --k FILE");
  expect({"--q", q, "--k", k}, "--q needs --v: add --v FILE");
  expect({"--k", k, "--v", v}, "--k needs --q: add --q FILE");
  expect({"--v", v}, "--v needs --q: add --q FILE");
  const std::string missing = folder_ / "missing.npy";
  expect({"--q", q, "--k", k, "--v", missing}, "--v " + missing + ": no such file");
  for (const auto& [option, value] : {std::pair("--batch", "1"),
                                      {"--heads", "6"},
                                      {"--kv-heads", "3"},
                                      {"--seq-q", "5"},
                                      {"--seq-k", "7"},
                                      {"--head-dim", "32"},
                                      {"--init", "normal"},
                                      {"--seed", "1"}}) {
    expect({"--q", q, "--k", k, "--v", v, option, value},
           std::string(option) + " cannot be given with --q: the file determines it; leave it out");
  }
}

TEST_F(AttentionRefusal, FilesWhoseShapesDoNotFit) {
  const std::string q = folder_ / "q.npy", k = folder_ / "k.npy", v = folder_ / "v.npy";
  const auto refuse = [&](std::vector<std::int64_t> q_shape, std::vector<std::int64_t> k_shape,
                          std::vector<std::int64_t> v_shape, const std::string& line) {
    write_npy(q, random(std::move(q_shape)));
    write_npy(k, random(std::move(k_shape)));
    write_npy(v, random(std::move(v_shape)));
    expect({"--q", q, "--k", k, "--v", v}, line);
  };
  refuse({6, 5, 32}, {1, 6, 7, 32}, {1, 6, 7, 32},
         "--q " + q + ": has shape [6, 5, 32]; must be [batch, heads, seq_q, head_dim], each at least 1");
  refuse({1, 6, 5, 32}, {2, 6, 7, 32}, {2, 6, 7, 32},
         "--k " + k + ": has shape [2, 6, 7, 32]; must be [1, kv_heads, seq_k, 32], each at least 1");
  refuse({1, 6, 5, 32}, {1, 6, 7, 64}, {1, 6, 7, 64},
         "--k " + k + ": has shape [1, 6, 7, 64]; must be [1, kv_heads, seq_k, 32], each at least 1");
  refuse({1, 6, 5, 32}, {1, 6, 7, 32}, {1, 6, 8, 32},
         "--v " + v + ": has shape [1, 6, 8, 32]; must be [1, 6, 7, head_dim_v], each at least 1");
  refuse({1, 6, 5, 32}, {1, 6, 7, 32}, {1, 3, 7, 32},
         "--v " + v + ": has shape [1, 3, 7, 32]; must be [1, 6, 7, head_dim_v], each at least 1");
  refuse({1, 6, 5, 32}, {1, 4, 7, 32}, {1, 4, 7, 32},
         "--heads is 6: must be a multiple of --kv-heads, which is 4");
  refuse({1, 6, 5, 40}, {1, 6, 7, 40}, {1, 6, 7, 40},
         "--variant compiled cannot run this: --head-dim is 40: must be one of 32, 64");
  refuse({1, 6, 5, 32}, {1, 6, 7, 32}, {1, 6, 7, 64},
         "--variant compiled cannot run this: --head-dim-v is 64: this variant takes that of --head-dim, 32");
}

TEST_F(AttentionRefusal, MoreMemoryThanThereIs) {
  // Q, K, V and O are small; the workspace is not.
  const std::vector<std::string> sizes = {"--heads", "1", "--seq-q", "100000000", "--head-dim", "1"};
  std::vector<std::string> arguments = {"--variant", "quadratic", "--no-check"};
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const Outcome outcome = run(arguments);
  const bool on_host = backend::host_bytes_per_device_byte() > 0;
  EXPECT_EQ(outcome.status, on_host ? 2 : 3);
  EXPECT_EQ(outcome.out, "");
  if (on_host) {
    EXPECT_EQ(outcome.err.find(
                  "error: --batch 1 --heads 1 --seq-q 100000000 --seq-k 100000000 --head-dim 1: needs "),
              0u)
        << outcome.err;
    EXPECT_NE(outcome.err.find("choose smaller sizes"), std::string::npos) << outcome.err;
  }
}

TEST(AttentionCommandLine, HelpFitsOneHundredColumnsAndHasEveryOption) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const std::string option :
       {"--list",     "--variant", "--batch",  "--heads", "--kv-heads", "--seq-q", "--seq-k",
        "--head-dim", "--dtype",   "--causal", "--scale", "--init",     "--seed",  "--q",
        "--k",        "--v",       "--layout", "--out",   "--no-check", "--bench", "--json"}) {
    EXPECT_NE(outcome.out.find(option), std::string::npos) << option;
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// ---- with a device

class AttentionProgram : public ::testing::Test {
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

TEST_F(AttentionProgram, RunsTheDefaultProblem) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(json_of({})["problem"],
            Json::parse(R"({"name": "attention", "batch": 1, "heads": 2, "kv_heads": 2,
    "seq_q": 100, "seq_k": 100, "head_dim": 64, "dtype": "fp32", "causal": false, "scale": 0.125,
    "init": "normal", "seed": 0})"));
}

TEST_F(AttentionProgram, WithoutATypeTakesOneThatAllVariantsTake) {
  using Step = Variant<AttentionForward>;
  const auto takes = [](const char* name, std::vector<DType> types) {
    return Step{.name = name,
                .summary = "",
                .launch = [](const AttentionForward::Args&, cudaStream_t) {},
                .traffic = nothing,
                .refuse = [=](const AttentionShape& shape) { return refuse_unless(shape, {64}, types); }};
  };
  const DType kFp32 = DType::kFloat32, kFp16 = DType::kFloat16, kBf16 = DType::kBFloat16;
  const AnyChapter chapter =
      Chapter<AttentionForward>{.name = "99_types",
                                .title = "",
                                .variants = {takes("fp16", {kFp16}), takes("both", {kFp16, kBf16}),
                                             takes("every", {kFp32, kFp16, kBf16})}};
  const auto type_for = [&](const std::string& variants) {
    const Outcome outcome = run_chapter(chapter, {"--variant", variants, "--no-check", "--json", "-"});
    return Json::parse(outcome.out)["problem"]["dtype"].get<std::string>();
  };
  EXPECT_EQ(type_for("every"), "fp32");
  EXPECT_EQ(type_for("both"), "bf16");
  EXPECT_EQ(type_for("every,both"), "bf16");
  EXPECT_EQ(type_for("all"), "fp16");
}

TEST_F(AttentionProgram, AllVariantsAreThoseThatTakeTheProblem) {
  const auto takes = [](const std::string& name, const std::vector<DType>& types) {
    return Variant<AttentionForward>{.name = name,
                                     .summary = "",
                                     .launch = [](const AttentionForward::Args&, cudaStream_t) {},
                                     .traffic = nothing,
                                     .refuse = [=](const AttentionShape& shape) -> std::optional<Refusal> {
                                       if (shape.causal && name == "fp32")
                                         return Refusal::variant("--causal is given: it takes none");
                                       return refuse_unless(shape, {64}, types);
                                     }};
  };
  const DType kFp32 = DType::kFloat32, kFp16 = DType::kFloat16, kBf16 = DType::kBFloat16;
  const AnyChapter chapter = Chapter<AttentionForward>{
      .name = "99_types",
      .title = "",
      .variants = {takes("every", {kFp32, kFp16, kBf16}), takes("fp32", {kFp32}), takes("fp16", {kFp16})}};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--no-check", "--json", "-"});
    return run_chapter(chapter, arguments);
  };
  const auto names = [&](const std::vector<std::string>& arguments) {
    const Json json = Json::parse(run(arguments).out);
    std::string all;
    for (const Json& variant : json["variants"]) {
      all += variant["name"].get<std::string>() + " ";
    }
    return all;
  };
  EXPECT_EQ(names({"--variant", "all"}), "every fp32 ");
  EXPECT_EQ(names({"--variant", "all", "--dtype", "fp16"}), "every fp16 ");
  EXPECT_EQ(names({"--variant", "all", "--dtype", "bf16"}), "every ");
  EXPECT_EQ(names({"--variant", "all", "--causal"}), "every ");
  EXPECT_EQ(run({"--variant", "fp32", "--causal"}).err,
            "error: --variant fp32 cannot run this: --causal is given: it takes none\n");
  EXPECT_EQ(run({"--variant", "every,fp16", "--dtype", "fp32"}).err,
            "error: --variant fp16 cannot run this: --dtype is fp32: this variant takes fp16\n");
  EXPECT_EQ(run({"--variant", "all", "--dtype", "fp16", "--head-dim", "32"}).err,
            "error: --variant every cannot run this: --head-dim is 32: must be one of 64\n");
}

TEST_F(AttentionProgram, RefusalsAreData) {
  const auto refused = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--no-check", "--json", "-"});
    const Outcome outcome = run_chapter(attention_chapter(), arguments);
    EXPECT_EQ(outcome.status, 2);
    return Json::parse(outcome.out)["refused"];
  };
  EXPECT_EQ(refused({"--dtype", "bf16"}),
            Json::parse(R"({"text": "--dtype is bf16: this variant takes fp32", "reason": "variant",
                            "variant": "compiled"})"));
  const Json strides = refused({"--head-dim", "32", "--layout", "bshd"});
  EXPECT_EQ(strides["reason"], "layout");
  EXPECT_EQ(strides["text"].get<std::string>().find("layout"), std::string::npos) << strides;
  EXPECT_EQ(refused({"--heads", "0"}),
            Json::parse(R"({"text": "--heads is 0: must be from 1 to 2147483647", "reason": "problem"})"));
  EXPECT_EQ(refused({"--q", "missing.npy"}).count("reason"), 0u);
}

TEST_F(AttentionProgram, OptionsReachTheProblem) {
  const Json json =
      json_of({"--batch", "2", "--heads", "6", "--kv-heads", "3", "--seq-q", "5", "--seq-k", "3",
               "--head-dim", "32", "--causal", "--scale", "0.5", "--init", "outliers", "--seed", "9"});
  EXPECT_EQ(json["problem"], Json::parse(R"({"name": "attention", "batch": 2, "heads": 6, "kv_heads": 3,
    "seq_q": 5, "seq_k": 3, "head_dim": 32, "dtype": "fp32", "causal": true, "scale": 0.5,
    "init": "outliers", "seed": 9})"));
  const Json& tensors = json["variants"][0]["check"]["tensors"];
  EXPECT_EQ(tensors["o"]["measure"], "rel_l2");
  EXPECT_EQ(tensors["o"]["tolerance"], 1e-5);
  EXPECT_EQ(tensors["lse"]["measure"], "max_abs");
  EXPECT_EQ(tensors["lse"]["tolerance"], 1e-4);
}

TEST_F(AttentionProgram, ReadsFilesAndWritesOAndLse) {
  const Tensor q = random({2, 4, 5, 32}), k = random({2, 2, 7, 32}), v = random({2, 2, 7, 32});
  write_npy(folder_ / "q.npy", q);
  write_npy(folder_ / "k.npy", k);
  write_npy(folder_ / "v.npy", v);
  const Json problem = json_of({"--q", folder_ / "q.npy", "--k", folder_ / "k.npy", "--v", folder_ / "v.npy",
                                "--causal", "--out", folder_ / "out"})["problem"];
  EXPECT_EQ(problem["kv_heads"], 2);
  EXPECT_EQ(problem["v"], std::string(folder_ / "v.npy"));
  EXPECT_FALSE(problem.contains("init"));
  AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 5, .seq_k = 7, .head_dim = 32, .causal = true};
  shape.scale = float(shape.logit_scale());  // as a kernel receives it
  const Reference reference = AttentionForward::reference(shape, {{"q", q}, {"k", k}, {"v", v}});
  const Tensor o = read_npy(folder_ / "out/o.npy", {{"", 2}, {"", 4}, {"", 5}, {"", 32}});
  const Tensor lse = read_npy(folder_ / "out/lse.npy", {{"", 2}, {"", 4}, {"", 5}});
  EXPECT_EQ(o.data, std::vector<float>(reference.at("o").begin(), reference.at("o").end()));
  EXPECT_EQ(lse.data, std::vector<float>(reference.at("lse").begin(), reference.at("lse").end()));
}

TEST_F(AttentionProgram, TheBackwardPassReadsTheGradientOfOAndWritesThoseOfItsInputs) {
  const AnyChapter chapter = Chapter<AttentionBackward>{
      .name = "99_backward",
      .title = "Backward on the host",
      .variants = {Variant<AttentionBackward>{.name = "host",
                                              .summary = "",
                                              .launch = compute_by_reference<AttentionBackward>,
                                              .traffic = nothing}}};
  const Tensor q = random({1, 4, 5, 32}), k = random({1, 2, 7, 32}), v = random({1, 2, 7, 32});
  for (const auto& [name, tensor] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}, {"do", &q}}) {
    write_npy(folder_ / (std::string(name) + ".npy"), *tensor);
  }
  const std::vector<std::string> forward = {"--q", folder_ / "q.npy", "--k", folder_ / "k.npy",
                                            "--v", folder_ / "v.npy"};
  EXPECT_EQ(run_chapter(chapter, forward).err, "error: --q needs --do: add --do FILE\n");

  std::vector<std::string> arguments = forward;
  for (const std::string more : {"--do", "do.npy", "--out", "out"}) {
    arguments.push_back(more.starts_with("--") ? more : std::string(folder_ / more));
  }
  const Outcome outcome = run_chapter(chapter, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  AttentionShape shape{.heads = 4, .kv_heads = 2, .seq_q = 5, .seq_k = 7, .head_dim = 32};
  shape.scale = float(shape.logit_scale());  // as a kernel receives it
  const Reference expected = AttentionBackward::reference(shape, {{"q", q}, {"k", k}, {"v", v}, {"do", q}});
  const Tensor dk = read_npy(folder_ / "out/dk.npy", {{"", 1}, {"", 2}, {"", 7}, {"", 32}});
  EXPECT_EQ(dk.data, std::vector<float>(expected.at("dk").begin(), expected.at("dk").end()));
  read_npy(folder_ / "out/dq.npy", {{"", 1}, {"", 4}, {"", 5}, {"", 32}});
  read_npy(folder_ / "out/dv.npy", {{"", 1}, {"", 2}, {"", 7}, {"", 32}});

  write_npy(folder_ / "do.npy", random({1, 4, 6, 32}));
  EXPECT_EQ(run_chapter(chapter, arguments).status, 2);
}

TEST_F(AttentionProgram, ReportsTheWorkspaceOfEachVariant) {
  const Json variants = json_of({"--variant", "quadratic,any", "--seq-q", "6", "--seq-k", "9"})["variants"];
  EXPECT_EQ(variants[0]["workspace_bytes"], 6 * 9 * 4);
  EXPECT_EQ(variants[1]["workspace_bytes"], 0);
}

}  // namespace
}  // namespace fa
