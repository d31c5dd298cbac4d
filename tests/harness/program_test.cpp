#include "harness/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "attention/attention.hpp"
#include "attention/inputs.hpp"
#include "fake_chapter.hpp"
#include "harness/backend.hpp"
#include "harness/npy.hpp"
#include "harness/runner.hpp"
#include "run_chapter.hpp"
#include "temporary_folder.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

Outcome run(const std::vector<std::string>& arguments) { return run_chapter(fake_chapter(), arguments); }

Tensor random(std::vector<std::int64_t> shape) {
  return random_tensor({.name = "t", .shape = std::move(shape)}, Init::kNormal, 1);
}

// ---- without a device

class Refusal : public RefusalTest {
 protected:
  Refusal() : RefusalTest(fake_chapter()) {}
};

TEST_F(Refusal, UnknownOptions) {
  expect_mention({"--colour"}, "--colour");
  expect_mention({"--row", "3"}, "--row is not an option: did you mean --rows?");
  expect_mention({"positional"}, "'positional' is not expected");
  expect_mention({"-v"}, "-v");
  expect_mention({"--rows"}, "--rows");
  expect_mention({"--rows", "1", "--rows", "2"}, "--rows");
  expect_mention({"--no-check=maybe"}, "maybe");
}

TEST_F(Refusal, Variants) {
  const std::string known =
      "must be all, or one or more of wrong, forgets, declared, refused, library, narrow, lies, right";
  expect({"--variant", "fast"}, "--variant 'fast': " + known);
  expect({"--variant", "right,fast"}, "--variant 'fast': " + known);
  expect({"--variant", "all,right"}, "--variant 'all': " + known);
  expect({"--variant", "right,,wrong"}, "--variant '': " + known);
  expect({"--variant", ""}, "--variant '': " + known);
  expect({"--variant", "right,right"}, "--variant 'right': is given twice; give each variant once");
  expect({"--variant", "narrow"}, "--variant narrow cannot run this: --cols is 1000: must be at most 8");
  expect({"--variant", "right,narrow"},
         "--variant narrow cannot run this: --cols is 1000: must be at most 8");
}

TEST_F(Refusal, Sizes) {
  for (const std::string name : {"--rows", "--cols"}) {
    const std::string range =
        ": must be from 1 to " + std::string(name == "--rows" ? "2147483647" : "1073741824");
    expect({name, "0"}, name + " is 0" + range);
    expect({name, "-1"}, name + " is -1" + range);
    expect({name, "2147483648"}, name + " is 2147483648" + range);
    expect({name, "99999999999999999999"},
           name + " 99999999999999999999 is out of range: must be a smaller whole number");
    expect({name, "-99999999999999999999"},
           name + " -99999999999999999999 is out of range: must be a larger whole number");
    expect({name, "9223372036854775807"}, name + " is 9223372036854775807" + range);
    expect({name, "-9223372036854775808"}, name + " is -9223372036854775808" + range);
    for (const std::string text : {"ten", "1e3", "1.5", "0x10", " 5", "5 ", ""}) {
      expect({name, text}, name + " '" + text + "': must be a whole number");
    }
  }
  expect({"--rows", "2147483647", "--cols", "1073741824"},
         "--rows 2147483647 times --cols 1073741824: must be at most 1152921504606846975 elements");
  const Outcome huge = run({"--rows", "1000000", "--cols", "1000000000"});
  EXPECT_EQ(huge.status, 2);
  EXPECT_EQ(huge.err.find("error: --rows 1000000 --cols 1000000000: needs "), 0u) << huge.err;
  EXPECT_NE(huge.err.find("choose smaller sizes"), std::string::npos) << huge.err;
}

TEST_F(Refusal, RandomInputs) {
  expect({"--init", "gauss"}, "--init 'gauss': must be one of normal, uniform, outliers, offset, special");
  expect({"--seed", "-1"}, "--seed '-1': must be a whole number, at least 0");
  expect({"--seed", "18446744073709551616"},
         "--seed 18446744073709551616 is out of range: must be a smaller whole number");
}

TEST_F(Refusal, Files) {
  const std::string x = folder_ / "x.npy", q = folder_ / "q.npy", k = folder_ / "k.npy";
  expect({"--x", x}, "--x " + x + ": no such file");
  expect({"--x", folder_.path()}, "--x " + folder_.path().string() + ": is a folder; give a .npy file");
  write_npy(x, random({3, 4, 5}));
  expect({"--x", x}, "--x " + x + ": has shape [3, 4, 5]; must be [rows, cols], each at least 1");
  write_npy(q, random({1, 6, 5, 8}));
  expect({"--q", q}, "--q needs --k: add --k FILE");
  expect({"--k", q}, "--k needs --q: add --q FILE");
  expect({"--q", q, "--k", k}, "--k " + k + ": no such file");
  write_npy(k, random({1, 4, 5, 8}));
  expect({"--q", q, "--k", k}, "--heads is 6: must be a multiple of --kv-heads, which is 4");
  write_npy(k, random({2, 6, 5, 4}));
  expect({"--q", q, "--k", k},
         "--k " + k + ": has shape [2, 6, 5, 4]; must be [1, kv_heads, seq_k, 8], each at least 1");
  write_npy(k, random({1, 6, 5, 8}));
  expect({"--q", q, "--k", k, "--scale", "0"}, "--scale is 0: must be from 1.2e-38 to 2.3e+38");
  expect({"--q", q, "--k", k, "--scale", "nan"}, "--scale is nan: must be from 1.2e-38 to 2.3e+38");
  expect({"--q", q, "--k", k, "--scale", "half"}, "--scale 'half': must be a number");
  write_npy(x, random({3, 4}));
  create(folder_ / "cut.npy", contents(x).substr(0, 130));
  const std::string cut = folder_ / "cut.npy";
  expect({"--x", cut},
         "--x " + cut +
             ": has shape [3, 4] and so needs 48 bytes of elements, but 2 follow the header: it is cut off");
}

TEST_F(Refusal, CombinationsThatContradict) {
  const std::string x = folder_ / "x.npy";
  write_npy(x, random({3, 4}));
  for (const auto& [option, value] :
       {std::pair("--rows", "3"), {"--cols", "4"}, {"--init", "normal"}, {"--seed", "1"}}) {
    expect({"--x", x, option, value},
           std::string(option) + " cannot be given with --x: the file determines it; leave it out");
  }
  expect({"--x", x, "--q", x, "--k", x}, "--q cannot be given with --x: choose one input");
  expect({"--x", x, "--k", x}, "--k cannot be given with --x: choose one input");
  expect({"--scale", "2"}, "--scale needs --q and --k: it is the factor for their logits");
}

TEST_F(Refusal, Outputs) {
  create(folder_ / "file", "");
  const std::string file = folder_ / "file", missing = folder_ / "missing";
  expect({"--out", ""}, "--out '': must name a folder");
  expect({"--json", ""}, "--json '': must name a file, or - for standard output");
  expect({"--json", missing + "/a.json"},
         "--json " + missing + "/a.json: cannot be written: there is no folder " + missing);
  expect({"--json", folder_.path()},
         "--json " + folder_.path().string() + ": cannot be written: it is a folder; give a file name");
  // A mistake elsewhere must not leave the folder or the file behind.
  expect({"--out", missing, "--json", missing + "/a.json"},
         "--json " + missing + "/a.json: cannot be written: there is no folder " + missing);
  expect({"--out", missing, "--json", folder_ / "a.json", "--rows", "0"},
         "--rows is 0: must be from 1 to 2147483647");
}

TEST_F(Refusal, Bench) {
  expect({"--repeat", "3"}, "--repeat needs --bench: add --bench");
  expect({"--bench", "--repeat", "0"}, "--repeat is 0: must be from 1 to 1000");
  expect({"--bench", "--repeat", "1001"}, "--repeat is 1001: must be from 1 to 1000");
  expect({"--bench", "--repeat", "many"}, "--repeat 'many': must be a whole number");
  if (!backend::can_time()) {
    expect({"--bench"},
           "--bench: times on the simulator are meaningless; build with the preset cuda and use a GPU");
  }
}

TEST(CommandLine, WithoutADeviceExitsWith3) {
  const auto reason = backend::why_unusable();
  if (!reason) GTEST_SKIP() << "there is a device";
  const TemporaryFolder folder;
  for (const char* bench : {"--no-check", "--bench"}) {
    const Outcome outcome = run({bench, "--out", folder / "out", "--json", folder / "a.json"});
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.err, "error: " + *reason + "\n");
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(folder.entries(), 0);
  }
  EXPECT_EQ(run({"--rows", "0"}).status, 2);  // a mistake in the arguments is reported first
}

TEST(CommandLine, HelpFitsOneHundredColumnsAndHasEveryOption) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  for (const std::string option :
       {"--list", "--variant", "--rows", "--cols", "--init", "--seed", "--x", "--q", "--k", "--scale",
        "--out", "--no-check", "--check-ends", "--bench", "--repeat", "--json", "--help"}) {
    EXPECT_NE(outcome.out.find(option), std::string::npos) << option;
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(outcome.out.find("ch99_fake"), std::string::npos);
  EXPECT_EQ(outcome.out.find("/some/folder"), std::string::npos);
}

TEST(CommandLine, ListNamesTheVariants) {
  const Outcome outcome = run({"--list"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out,
            "99_fake: Known mistakes\n"
            "  wrong     one element is wrong\n"
            "  forgets   one element is not written\n"
            "  declared  wrong, but says so\n"
            "  refused   the device refuses it\n"
            "  library   a library refuses it\n"
            "  narrow    few columns only\n"
            "  lies      its formula is wrong\n"
            "  right     as it should be\n");
}

// ---- with a device

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  /// The JSON of a run, which must not print anything else. @param status  the expected exit status
  static nlohmann::json json_of(std::vector<std::string> arguments, int status = 0) {
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.err, "");
    return nlohmann::json::parse(outcome.out);
  }

  TemporaryFolder folder_;
};

TEST_F(Program, RunsTheLastVariantOnTheDefaultProblem) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("softmax rows=64 cols=1000 init=normal seed=0, on "), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nright "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("\nwrong "), std::string::npos) << outcome.out;
}

TEST_F(Program, RunsVariantsInTheOrderGiven) {
  const nlohmann::json json = json_of({"--variant", "right,declared,narrow", "--cols", "7"});
  ASSERT_EQ(json["variants"].size(), 3u);
  EXPECT_EQ(json["variants"][0]["name"], "right");
  EXPECT_EQ(json["variants"][1]["name"], "declared");
  EXPECT_EQ(json["variants"][2]["name"], "narrow");
  EXPECT_EQ(
      json["problem"],
      nlohmann::json::parse(R"({"name": "softmax", "rows": 64, "cols": 7, "init": "normal", "seed": 0})"));
  EXPECT_EQ(json["backend"], std::string(backend::name()));
  EXPECT_EQ(json["variants"][0].contains("defects"), backend::name() == "sim");
}

TEST_F(Program, AllRunsAll) {
  EXPECT_EQ(json_of({"--variant", "all", "--cols", "7"}, 1)["variants"].size(), 8u);
}

TEST_F(Program, AWrongResultExitsWith1) {
  for (const char* variant : {"wrong", "forgets", "refused", "library", "right,wrong", "wrong,right"}) {
    const Outcome outcome = run({"--variant", variant});
    EXPECT_EQ(outcome.status, 1) << variant;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(Program, AKnownFailureExitsWith0) {
  const nlohmann::json check = json_of({"--variant", "declared"})["variants"][0]["check"];
  EXPECT_EQ(check["passed"], false);
  EXPECT_EQ(check["known_failure"], "it is wrong on more than one row");
  json_of({"--variant", "declared", "--rows", "1"}, 1);  // there it must be right
}

TEST_F(Program, AFormulaThatIsWrongExitsWith1WhereBytesAreCounted) {
  const int status = backend::name() == "sim" ? 1 : 0;
  const nlohmann::json traffic = json_of({"--variant", "lies"}, status)["variants"][0]["traffic"];
  EXPECT_EQ(traffic["predicted"]["read_bytes"], 4);
  EXPECT_EQ(traffic.contains("counted"), status == 1);
}

TEST_F(Program, NoCheckSkipsTheReference) {
  const nlohmann::json variant = json_of({"--variant", "wrong", "--no-check"})["variants"][0];
  EXPECT_FALSE(variant.contains("check"));
}

TEST_F(Program, CheckEndsComparesTheFirstAndTheLastRowsAlone) {
  const auto check = [&](const std::string& variant, const std::string& rows, int status) {
    const nlohmann::json json =
        json_of({"--variant", variant, "--rows", rows, "--cols", "3", "--check-ends"}, status);
    EXPECT_EQ(json["problem"]["checked"], "ends");
    return json["variants"][0]["check"];
  };
  EXPECT_EQ(check("right", "700", 0)["passed"], true);
  EXPECT_EQ(check("right", "2", 0)["passed"], true);
  const nlohmann::json first = check("wrong", "700", 1)["tensors"]["y"]["first_wrong"];
  EXPECT_TRUE(first["inputs"].get<std::string>().starts_with("row 1 of x is ")) << first;
  EXPECT_EQ(check("wrong", "700", 1)["tensors"]["y"]["first_wrong"]["index"], (std::vector<int>{1, 2}));
  EXPECT_EQ(check("forgets", "700", 1)["tensors"]["y"]["first_wrong"]["index"], (std::vector<int>{511, 2}));
  EXPECT_EQ(check("declared", "700", 0)["known_failure"], "it is wrong on more than one row");
  EXPECT_NE(run({"--variant", "wrong", "--rows", "700", "--cols", "3", "--check-ends"}).out.find(" of 1536 "),
            std::string::npos);
  EXPECT_EQ(run({"--no-check", "--check-ends"}).err,
            "error: --no-check and --check-ends: give only one of them\n");
}

TEST_F(Program, SeedAndInitReachTheInputs) {
  const fs::path out = folder_ / "out";
  std::vector<std::string> seen;
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--seed", "1"}, {"--init", "uniform"}, {"--init", "outliers"}}) {
    std::vector<std::string> arguments = {"--out", out, "--rows", "4", "--cols", "9"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(run(arguments).status, 0);
    seen.push_back(contents(out / "y.npy"));
    EXPECT_EQ(run(arguments).status, 0);
    EXPECT_EQ(contents(out / "y.npy"), seen.back());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST_F(Program, WritesTheOutputsOfTheLastVariant) {
  const std::string x = folder_ / "x.npy";
  const fs::path out = folder_ / "a/b";
  const Tensor input = random({3, 5});
  write_npy(x, input);
  EXPECT_EQ(run({"--x", x, "--out", out, "--variant", "wrong,right"}).status, 1);
  const Tensor y = read_npy(out / "y.npy", {{"rows", 3}, {"cols", 5}});
  const std::vector<double> expected = Softmax::reference({3, 5}, {{"x", input}}).at("y");
  EXPECT_EQ(y.data, std::vector<float>(expected.begin(), expected.end()));
  EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 1);
}

TEST_F(Program, WritesNothingForAVariantThatDidNotRun) {
  EXPECT_EQ(run({"--variant", "refused", "--out", folder_ / "out"}).status, 1);
  EXPECT_EQ(folder_.entries(), 0);
}

TEST_F(Program, SkipsWhatTheDeviceCannotRunIfAllAreToRun) {
  Chapter<Softmax> chapter = chapter_of<Softmax>(fake_chapter());
  Variant<Softmax> huge = chapter.variants.back();
  huge.name = "huge";
  huge.needs = [](const Softmax::Shape&) { return DeviceNeeds{.shared_bytes = 1 << 30}; };
  chapter.variants = {chapter.variants.back(), huge};

  const fs::path out = folder_ / "out";
  const Outcome all = run_chapter(chapter, {"--variant", "all", "--out", out, "--json", "-"});
  EXPECT_EQ(all.status, 0) << all.err;
  const nlohmann::json variants = nlohmann::json::parse(all.out)["variants"];
  EXPECT_EQ(variants[0]["check"]["passed"], true);
  EXPECT_EQ(variants[1]["name"], "huge");
  EXPECT_EQ(variants[1]["skipped"]["device_too_old"], false);
  EXPECT_TRUE(fs::exists(out / "y.npy"));  // of the last variant that ran

  for (const char* given : {"huge", "right,huge"}) {
    const Outcome one = run_chapter(chapter, {"--variant", given});
    EXPECT_EQ(one.status, 2);
    EXPECT_EQ(one.out, "");
    EXPECT_EQ(one.err.find(
                  "error: --variant huge cannot run this: a block needs 1073741824 bytes of shared memory, "),
              0u)
        << one.err;
    EXPECT_EQ(std::count(one.err.begin(), one.err.end(), '\n'), 1);
  }

  chapter.variants = {huge};
  EXPECT_EQ(run_chapter(chapter, {"--variant", "all"}).status, 0);
}

TEST_F(Program, TakesTheLogitsOfQueriesAndKeys) {
  const std::string q_file = folder_ / "q.npy", k_file = folder_ / "k.npy";
  const Tensor q = random({2, 4, 5, 8}), k = random({2, 2, 7, 8});
  write_npy(q_file, q);
  write_npy(k_file, k);
  AttentionShape shape{.batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 5, .seq_k = 7, .head_dim = 8};
  for (const bool scaled : {false, true}) {
    std::vector<std::string> arguments = {"--q", q_file, "--k", k_file, "--out", folder_ / "out"};
    if (scaled) {
      arguments.insert(arguments.end(), {"--scale", "2.5"});
      shape.scale = 2.5;
    }
    const nlohmann::json problem = json_of(arguments)["problem"];
    EXPECT_EQ(problem["rows"], 40);
    EXPECT_EQ(problem["cols"], 7);
    EXPECT_EQ(problem["q"], q_file);
    EXPECT_EQ(problem["k"], k_file);
    EXPECT_DOUBLE_EQ(problem["scale"], shape.logit_scale());
    const Tensor y = read_npy(folder_ / "out/y.npy", {{"rows", 40}, {"cols", 7}});
    const std::vector<double> expected = Softmax::reference({40, 7}, {{"x", logits(shape, q, k)}}).at("y");
    EXPECT_EQ(y.data, std::vector<float>(expected.begin(), expected.end()));
  }
}

TEST_F(Program, WritesJsonBesideTheTable) {
  const fs::path file = folder_ / "run.json";
  const Outcome outcome = run({"--json", file, "--variant", "wrong"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find(" WRONG\n"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(contents(file));
  EXPECT_EQ(json["chapter"], "99_fake");
  EXPECT_EQ(json["variants"][0]["check"]["tensors"]["y"]["first_wrong"]["index"], (std::vector<int>{1, 2}));
  EXPECT_EQ(folder_.entries(), 1);
}

}  // namespace
}  // namespace fa
