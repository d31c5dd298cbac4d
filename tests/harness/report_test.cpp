#include "harness/report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace fa {
namespace {

using Json = nlohmann::json;

/// A variant on the simulator, with every number as long as possible.
VariantResult counted(const std::string& name) {
  VariantResult result{.name = name};
  result.check.emplace().tensors["y"] = {
      .rel_l2 = 1.23e-7, .max_abs = 1e-8, .tolerance = 3.2e-6, .passed = true};
  result.predicted.tensors = {{"x", {.read_bytes = 888'888'888}}, {"y", {.write_bytes = 11'111'111}}};
  Counters counters{.read_sectors = 223'456'789, .write_sectors = 345'678};
  counters.traffic = result.predicted;
  counters.read_requests = 77;
  counters.write_requests = 78;
  counters.shared = {.bytes_per_block = 1024,
                     .load_wavefronts = 987'654'321,
                     .load_wavefronts_ideal = 1,
                     .store_wavefronts = 5,
                     .store_wavefronts_ideal = 2};
  counters.barriers = 999'499'999;
  counters.shuffles = 888'888'888;
  counters.mma = 3;
  counters.wgmma = 4;
  counters.mma_units = 259;
  counters.bulk_loads = 5;
  counters.bulk_stores = 6;
  counters.bulk_load_bytes = 4096;
  counters.mbarrier_waits = 7;
  counters.mbarrier_arrivals = 8;
  counters.named_barriers = 9;
  counters.votes = 2;
  counters.votes_beside_products = 1;
  counters.accesses_beside_products = 11;
  counters.arrivals_beside_products = 6;
  counters.steps_before_arrivals = 13;
  counters.arrivals_before_waits = 14;
  counters.named_barrier_threads = 256;
  counters.kernels_beside_transfers = 12;
  result.counted = counters;
  return result;
}

/// A variant on a GPU.
VariantResult timed(const std::string& name) {
  VariantResult result{.name = name};
  result.check.emplace().tensors["y"] = {
      .rel_l2 = 1.23e-7, .max_abs = 1e-8, .tolerance = 3.2e-6, .passed = true};
  result.predicted.tensors = {{"x", {.read_bytes = 1'610'612'736}}};
  result.bench = {.time = {.median_ms = 1234.5678, .min_ms = 1111.1111, .max_ms = 2222.2222, .repeats = 30},
                  .gb_per_s = 2987.654,
                  .share_of_copy = 0.9876,
                  .tflops = 123.456};
  return result;
}

Report report_of(std::vector<VariantResult> variants) {
  return {.chapter = "02_online_softmax",
          .title = "One pass fewer",
          .backend = "sim",
          .device = "simulator",
          .problem = {.name = "softmax",
                      .sizes = {{"rows", 64}, {"cols", 1000}},
                      .inputs = {{"init", "normal"}, {"seed", std::uint64_t(7)}}},
          .variants = std::move(variants)};
}

std::string printed(const Report& report) {
  std::ostringstream out;
  print(out, report);
  return out.str();
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(Table, FitsOneHundredColumns) {
  EXPECT_LE(widest_line(printed(report_of({counted("row_per_thread_"), counted("b")}))), 100u);
  EXPECT_LE(widest_line(printed(report_of({timed("row_per_thread_"), timed("b")}))), 100u);
  VariantResult with_workspace = counted("three_kernels");
  with_workspace.workspace_bytes = 888'888'888;
  EXPECT_LE(widest_line(printed(report_of({with_workspace}))), 100u);
  VariantResult over_waited = counted("row_per_thread_");
  over_waited.counted->over_waited = 999'499'999;
  EXPECT_LE(widest_line(printed(report_of({over_waited}))), 100u);
  Report attention = report_of({counted("b")});
  attention.problem = {
      .name = "attention",
      .sizes = {{"batch", 128}, {"heads", 128}, {"kv_heads", 128}, {"seq_q", 131072}, {"seq_k", 131072}},
      .inputs = {{"dtype", "fp32"}, {"causal", true}, {"scale", 0.17677669}, {"q", "/a/folder/q.npy"}}};
  EXPECT_LE(widest_line(printed(attention)), 100u);
}

TEST(Table, ShowsTheWorkspaceIfAVariantHasOne) {
  VariantResult standard = counted("standard");
  standard.workspace_bytes = 2'097'152;
  const std::string text = printed(report_of({standard, counted("online")}));
  EXPECT_NE(text.find("work-"), std::string::npos) << text;
  EXPECT_NE(text.find(" 2097152 "), std::string::npos) << text;
  EXPECT_EQ(printed(report_of({counted("online")})).find("work-"), std::string::npos);
}

TEST(Table, ShowsGroupsThatAreWaitedForTooEarlyIfAVariantHasThem) {
  VariantResult strict = counted("strict");
  strict.counted->over_waited = 1234;
  strict.counted->early_waits = {{"kernel.cuh:107", 1234}};
  const Report report = report_of({strict, counted("lazy")});
  const std::string text = printed(report);
  EXPECT_NE(text.find("over-"), std::string::npos) << text;
  EXPECT_NE(text.find("waited"), std::string::npos) << text;
  EXPECT_NE(text.find(" 1234 "), std::string::npos) << text;
  EXPECT_EQ(printed(report_of({counted("lazy")})).find("over-"), std::string::npos);
  const Json json = Json::parse(to_json(report))["variants"];
  EXPECT_EQ(json[0]["ops"]["over_waited"], 1234);
  EXPECT_EQ(json[0]["early_waits"], (Json{{"kernel.cuh:107", 1234}}));
  EXPECT_FALSE(json[1].contains("early_waits"));
}

TEST(Table, ShowsARelativeErrorAndSaysWhichOneDecides) {
  VariantResult result = counted("online");
  TensorCheck& lse = result.check->tensors["lse"];
  lse = {.rel_l2 = 0.5,
         .max_abs = 0.25,
         .measure = Measure::kMaxAbs,
         .tolerance = 1e-4,
         .passed = false,
         .elements = 3};
  lse.first_wrong = {{0, 2}, -1.0f, -0.75};
  lse.wrong_elements = 1;
  result.outputs["lse"] = {{1, 3}, {0, 0, 0}};
  const std::string text = printed(report_of({result}));
  EXPECT_NE(text.find("1.2e-7/3.2e-6"), std::string::npos) << text;
  EXPECT_NE(
      text.find("lse[0, 2] is -1, should be -0.75 (1 of 3 are wrong; largest error 2.5e-1, limit 1e-4)"),
      std::string::npos)
      << text;
  const Json json = Json::parse(to_json(report_of({result})));
  EXPECT_EQ(json["variants"][0]["check"]["tensors"]["lse"]["measure"], "max_abs");
}

TEST(Table, ShowsWhatWasSkippedOneLineForEachReason) {
  const auto skipped = [](const std::string& name, const std::string& reason) {
    return VariantResult{.name = name, .skipped = Skip{.reason = reason, .device_too_old = true}};
  };
  Report report = report_of(
      {skipped("a", "too large"), counted("b"), skipped("c", "too large"), skipped("d", "too new")});
  const std::string text = printed(report);
  EXPECT_NE(text.find("\nskipped: a, c: too large\nskipped: d: too new\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" skipped\n"), std::string::npos) << text;
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(Json::parse(to_json(report))["variants"][0],
            Json::parse(R"({"name": "a", "skipped": {"reason": "too large", "device_too_old": true}})"));

  report.variants = {skipped("a", "too large")};
  EXPECT_NE(printed(report).find("\n\nvariant  verdict\na        skipped\n\nskipped: a: too large\n"),
            std::string::npos)
      << printed(report);
}

TEST(Table, NamesAFlagOnlyWhereItIsSet) {
  Report report = report_of({counted("b")});
  report.problem.inputs = {{"causal", true}, {"seed", std::uint64_t(7)}};
  EXPECT_NE(printed(report).find("cols=1000 causal seed=7, on simulator"), std::string::npos)
      << printed(report);
  EXPECT_EQ(Json::parse(to_json(report))["problem"]["causal"], true);
  report.problem.inputs[0].second = false;
  EXPECT_NE(printed(report).find("cols=1000 seed=7, on simulator"), std::string::npos) << printed(report);
  EXPECT_EQ(Json::parse(to_json(report))["problem"]["causal"], false);
}

TEST(Table, ShowsWhatIsKnown) {
  const std::string text = printed(report_of({counted("online")}));
  EXPECT_NE(text.find("02_online_softmax: One pass fewer\n"), std::string::npos) << text;
  EXPECT_NE(text.find("softmax rows=64 cols=1000 init=normal seed=7, on simulator\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("1.2e-7/3.2e-6"), std::string::npos) << text;
  EXPECT_NE(text.find("899999999"), std::string::npos) << text;
  EXPECT_NE(text.find("12.6%"), std::string::npos) << text;
  EXPECT_NE(text.find("988 M"), std::string::npos) << text;
  EXPECT_NE(text.find(" ok\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("GB/s"), std::string::npos) << text;
}

TEST(Table, LeavesOutWhatTheBackendDoesNotKnow) {
  Report report = report_of({timed("online")});
  report.copy_gb_per_s = 3025;
  const std::string text = printed(report);
  for (const char* counter : {"counted", "sector", "bank", "shuf-", "de-"}) {
    EXPECT_EQ(text.find(counter), std::string::npos) << text;
  }
  EXPECT_NE(text.find("1.61 GB"), std::string::npos) << text;
  EXPECT_NE(text.find("98.8%"), std::string::npos) << text;
  EXPECT_NE(text.find("copy from device to device, in the same run: 3025 GB/s"), std::string::npos) << text;
}

TEST(Table, SaysWhatIsWrong) {
  VariantResult wrong = counted("wrong");
  wrong.outputs["y"] = {{64, 1000}, std::vector<float>(64000)};
  wrong.check->tensors["y"] = {.rel_l2 = std::nan(""),
                               .max_abs = std::nan(""),
                               .tolerance = 2e-6,
                               .passed = false,
                               .elements = 64000,
                               .wrong_elements = 512,
                               .first_wrong = WrongElement{{0, 3}, std::nanf(""), 0.25}};
  wrong.counted->traffic.tensors["x"].read_bytes = 5;
  const std::string text = printed(report_of({counted("right"), wrong}));
  EXPECT_NE(text.find("nan/2e-6"), std::string::npos) << text;
  EXPECT_NE(text.find(" WRONG\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nwrong: y[0, 3] is nan, should be 0.25 (512 of 64000 are wrong; relative error nan, "
                      "limit 2e-6)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nwrong: reads of x: the formula predicts 888888888 bytes, 5 were counted\n"),
            std::string::npos)
      << text;

  wrong.counted->traffic = wrong.predicted;
  wrong.known_failure = "exp() overflows";
  const std::string declared = printed(report_of({wrong}));
  EXPECT_NE(declared.find(" declared\n"), std::string::npos) << declared;
  EXPECT_NE(declared.find("\nwrong: fails as declared: exp() overflows\n  y[0, 3] is nan"), std::string::npos)
      << declared;
}

TEST(Table, PrintsDefectsInFull) {
  VariantResult racy = counted("racy");
  racy.defects = {{"race", "Race reported\n    shared memory, byte 192", 1024},
                  {"misaligned", "Misaligned", 1}};
  const std::string text = printed(report_of({racy}));
  EXPECT_NE(text.find(" DEFECTS\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nracy: race\n========= Race reported\n=========     shared memory, byte 192\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nracy: misaligned\n========= Misaligned\n"), std::string::npos) << text;
}

TEST(Table, EndsWithTheCommandForADebuggerIfThereAreDefects) {
  VariantResult racy = counted("racy");
  racy.defects = {{"race", "Race reported", 1}};
  Report report = report_of({racy, racy});
  report.debug_command = "./learn debug 02";
  EXPECT_TRUE(printed(report).ends_with("========= Race reported\n\ngdb: ./learn debug 02\n"))
      << printed(report);
  EXPECT_EQ(printed(report).find("gdb:"), printed(report).rfind("gdb:"));
  report.debug_command = "";
  EXPECT_EQ(printed(report).find("gdb:"), std::string::npos);
  report = report_of({counted("right")});
  report.debug_command = "./learn debug 02";
  EXPECT_EQ(printed(report).find("gdb:"), std::string::npos);
}

TEST(Table, SaysWhatDidNotRun) {
  VariantResult stopped{.name = "stopped", .failure = "kernel.cuh:3: too many threads"};
  const std::string text = printed(report_of({stopped}));
  EXPECT_NE(text.find(" FAILED\n"), std::string::npos) << text;
  EXPECT_NE(text.find("stopped: did not finish: kernel.cuh:3: too many threads\n"), std::string::npos)
      << text;
}

TEST(Json, HasEverythingThatTheSimulatorKnows) {
  VariantResult racy = counted("racy");
  racy.defects = {{"race", "Race reported", 1024}};
  const Json json = Json::parse(to_json(report_of({racy})));
  EXPECT_EQ(json, Json::parse(R"({
    "chapter": "02_online_softmax", "backend": "sim", "device": "simulator",
    "problem": {"name": "softmax", "rows": 64, "cols": 1000, "init": "normal", "seed": 7},
    "variants": [{
      "name": "racy", "workspace_bytes": 0,
      "check": {"passed": true, "tensors": {"y": {"rel_l2": 1.23e-7, "max_abs": 1e-8,
                                                  "measure": "rel_l2", "tolerance": 3.2e-6}}},
      "traffic": {
        "predicted": {"read_bytes": 888888888, "write_bytes": 11111111, "tensors": {
          "x": {"read_bytes": 888888888, "write_bytes": 0}, "y": {"read_bytes": 0, "write_bytes": 11111111}}},
        "counted": {"read_bytes": 888888888, "write_bytes": 11111111, "tensors": {
          "x": {"read_bytes": 888888888, "write_bytes": 0}, "y": {"read_bytes": 0, "write_bytes": 11111111}},
          "read_sectors": 223456789, "write_sectors": 345678, "atomic_sectors": 0, "read_requests": 77,
          "write_requests": 78}},
      "shared": {"bytes_per_block": 1024, "load_wavefronts": 987654321, "load_wavefronts_ideal": 1,
                 "store_wavefronts": 5, "store_wavefronts_ideal": 2},
      "ops": {"mma": 3, "wgmma": 4, "mma_units": 259, "barriers": 999499999, "shuffles": 888888888,
        "votes": 2, "bulk_loads": 5, "bulk_stores": 6,
        "bulk_load_bytes": 4096,
        "mbarrier_waits": 7, "mbarrier_arrivals": 8, "named_barriers": 9, "votes_beside_products": 1,
        "accesses_beside_products": 11,
        "arrivals_beside_products": 6, "steps_before_arrivals": 13,
        "arrivals_before_waits": 14, "named_barrier_threads": 256,
        "kernels_beside_transfers": 12, "over_waited": 0},
      "defects": [{"kind": "race", "message": "Race reported", "count": 1024}]
    }]})"));
}

TEST(Json, LeavesOutWhatIsNotKnown) {
  const Json json = Json::parse(to_json(report_of({VariantResult{.name = "plain"}})));
  EXPECT_EQ(json["variants"][0],
            Json::parse(R"({"name": "plain", "workspace_bytes": 0, "traffic": {"predicted": {
    "read_bytes": 0, "write_bytes": 0, "tensors": {}}}})"));
  EXPECT_FALSE(json.contains("copy_gb_per_s"));
}

TEST(Json, Times) {
  VariantResult memory_bound = timed("online");
  memory_bound.bench->tflops.reset();
  Report report = report_of({timed("attention"), memory_bound});
  report.copy_gb_per_s = 3000;
  const Json json = Json::parse(to_json(report));
  EXPECT_EQ(json["copy_gb_per_s"], 3000);
  EXPECT_EQ(json["variants"][0]["time_ms"],
            Json::parse(R"({"median": 1234.5678, "min": 1111.1111, "max": 2222.2222, "repeats": 30})"));
  EXPECT_EQ(json["variants"][0]["gb_per_s"], 2987.654);
  EXPECT_EQ(json["variants"][0]["share_of_copy"], 0.9876);
  EXPECT_EQ(json["variants"][0]["tflops"], 123.456);
  EXPECT_FALSE(json["variants"][1].contains("tflops"));
  EXPECT_FALSE(json["variants"][0].contains("ops"));
  EXPECT_FALSE(json["variants"][0].contains("defects"));
}

TEST(Json, SectorsOfAtomicAdditionsAreByThemselves) {
  VariantResult adds = counted("adds");
  adds.counted->atomic_sectors = 5;
  const Json json = Json::parse(to_json(report_of({adds, counted("loads")})));
  EXPECT_EQ(json["variants"][0]["traffic"]["counted"]["atomic_sectors"], 5);
  EXPECT_EQ(json["variants"][1]["traffic"]["counted"]["atomic_sectors"], 0);
}

TEST(Json, AFaultIsText) {
  VariantResult faulty = counted("faulty");
  EXPECT_FALSE(Json::parse(to_json(report_of({faulty})))["variants"][0].contains("fault"));
  faulty.fault = "leaves a counter at 3";
  EXPECT_EQ(Json::parse(to_json(report_of({faulty})))["variants"][0]["fault"], "leaves a counter at 3");
}

TEST(Json, KnownFailureIsInTheCheck) {
  VariantResult declared = counted("unsafe");
  declared.known_failure = "exp() overflows";
  EXPECT_FALSE(Json::parse(to_json(report_of({declared})))["variants"][0]["check"].contains("known_failure"));
  declared.check->tensors["y"].passed = false;
  const Json json = Json::parse(to_json(report_of({declared})));
  EXPECT_EQ(json["variants"][0]["check"]["passed"], false);
  EXPECT_EQ(json["variants"][0]["check"]["known_failure"], "exp() overflows");
}

TEST(Json, IsTextEvenWithNaNsAndFileNamesThatAreNotUtf8) {
  VariantResult wrong = counted("wrong");
  wrong.check->tensors["y"].rel_l2 = std::nan("");
  wrong.check->tensors["y"].first_wrong = WrongElement{{0, 3}, std::nanf(""), -INFINITY};
  Report report = report_of({wrong});
  report.problem.inputs = {{"x", "\xff.npy"}};
  const Json json = Json::parse(to_json(report));
  const Json& tensor = json["variants"][0]["check"]["tensors"]["y"];
  EXPECT_TRUE(tensor["rel_l2"].is_null());
  EXPECT_EQ(tensor["first_wrong"]["got"], "nan");
  EXPECT_EQ(tensor["first_wrong"]["expected"], "-inf");
}

TEST(Json, HasWhatWrongElementsHaveInCommon) {
  VariantResult wrong = counted("wrong");
  TensorCheck& check = wrong.check->tensors["y"];
  check.first_wrong = WrongElement{{0, 3}, 1, 2, "row 0 of x is 1, 2"};
  check.pattern = WrongPattern{
      .axes = {{.length = 64, .count = 32, .first = 8, .last = 63, .ranges = {{8, 15}}, .period = 16}},
      .difference = 0.5,
      .holds = Relocation{.relation = Relation::kXor,
                          .tensor = "y",
                          .element = {0, 3},
                          .source = {8, 3},
                          .axis = 0,
                          .by = 8,
                          .share = 0.75}};
  wrong.check->as_if = {{"with v in place of k", {"lse", "o"}}};
  const Json json = Json::parse(to_json(report_of({wrong})))["variants"][0]["check"];
  EXPECT_EQ(json["as_if"], Json::parse(R"([{"change": "with v in place of k", "outputs": ["lse", "o"]}])"));
  const Json& tensor = json["tensors"]["y"];
  EXPECT_EQ(tensor["first_wrong"]["inputs"], "row 0 of x is 1, 2");
  EXPECT_EQ(tensor["pattern"]["difference"], 0.5);
  EXPECT_EQ(tensor["pattern"]["axes"][0]["ranges"], Json::parse("[[8, 15]]"));
  EXPECT_EQ(tensor["pattern"]["axes"][0]["period"], 16);
  EXPECT_EQ(tensor["pattern"]["holds"],
            Json::parse(R"({"tensor": "y", "is_input": false, "element": [0, 3], "source": [8, 3],
                            "relation": "xor", "share": 0.75, "axis": 0, "by": 8})"));
  check.pattern->holds =
      Relocation{.relation = Relation::kOffset, .tensor = "x", .is_input = true, .offset = {8, -1}};
  const Json other = Json::parse(to_json(report_of({wrong})))["variants"][0]["check"]["tensors"]["y"];
  EXPECT_EQ(other["pattern"]["holds"]["offset"], Json::parse("[8, -1]"));
  EXPECT_EQ(other["pattern"]["holds"]["is_input"], true);
  EXPECT_FALSE(other["pattern"]["holds"].contains("axis"));
}

TEST(Report, IsOkWhenEveryVariantIs) {
  VariantResult stopped{.name = "stopped", .failure = "reason"};
  EXPECT_TRUE(report_of({counted("a"), counted("b")}).ok());
  EXPECT_FALSE(report_of({counted("a"), stopped}).ok());
}

}  // namespace
}  // namespace fa
