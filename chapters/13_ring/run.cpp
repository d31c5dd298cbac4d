#include "run.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "agreement.hpp"
#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "bench.hpp"
#include "bytes.hpp"
#include "gpus.hpp"
#include "harness/backend.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "job.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "results.hpp"
#include "table.hpp"
#include "tensors.hpp"

namespace fa::ch13 {
namespace {

class RingRun final : public ChapterRun {
 public:
  /// @param out  where plans are printed
  explicit RingRun(std::ostream& out) : out_(out) {}

  void add_options(CLI::App& app) override { options_.add_to(app); }

  std::vector<std::size_t> prepare(const std::vector<std::size_t>& variants, bool skip,
                                   Checked checked) override {
    return together([&] {
      engine_ = &engine_of_device();
      given_ = options_.read([&](const AttentionShape& shape) { return !engine_->refuse(shape); });
      constexpr int kMostRanks = 16;  // of the simulator; more GPUs than that have not been tried
      if (const int ranks = Ranks::instance().count(); ranks > kMostRanks)
        throw UsageError(
            fmt::format("mpirun -n {}: {} ranks: the program runs at most {}", ranks, ranks, kMostRanks));
      const auto has_changes = [](std::size_t index) { return methods()[index].has_changes(); };
      const auto only = options_.only_of_overlapped();
      if (only && std::ranges::none_of(variants, has_changes))
        throw UsageError(*only + ": only overlapped takes this option: choose --variant overlapped");
      if (const auto refusal = engine_->refuse(given_.shape)) throw Refused(*refusal);
      if (const auto lacking = what_device_lacks(engine_->needs(given_.shape)))
        throw Refused(lacking->refusal());
      std::vector<std::size_t> chosen;
      for (const std::size_t index : variants) {
        const auto refusal = why_not(methods()[index]);
        if (!refusal) chosen.push_back(index);
        if (refusal && (!skip || variants.size() == 1)) throw Refused(*refusal, methods()[index].name);
      }
      problem_ = {given_.shape, options_.backward(), engine_};
      tensors_ = Tensors(given_, options_.backward(), options_.sample(), checked);
      for (const std::size_t index : chosen) print_plan(methods()[index]);
      return chosen;
    });
  }

  ProblemReport problem() const override {
    ProblemReport report{
        .name = std::string(options_.backward() ? AttentionBackward::kName : AttentionForward::kName),
        .sizes = AttentionForward::describe(given_.shape),
        .inputs = given_.inputs,
        .tensors = tensors_.inputs()};
    report.sizes.insert(report.sizes.begin(), {"ranks", Ranks::instance().count()});
    for (TensorSpec& output : tensors_.outputs()) report.tensors.push_back(std::move(output));
    return report;
  }

  void require_device_memory() const override {}

  void compute_reference() override {
    or_end_all([&] {
      tensors_.make();
      device_ = &Device::instance();
      bench_.emplace(problem_, *device_);
    });
  }

  MoreOutputs more_outputs() const override { return {}; }

  VariantResult run(std::size_t index, int bench_repeats, double) override {
    return or_end_all([&] { return run_method(methods()[index], bench_repeats); });
  }

 private:
  std::optional<Refusal> why_not(const Method& method) const {
    const AttentionShape& shape = given_.shape;
    const std::int64_t ranks = Ranks::instance().count();
    if (!method.trades_heads) return std::nullopt;
    if (shape.kv_heads % ranks == 0) return std::nullopt;
    return Refusal::variant(fmt::format("--{} is {}: this variant takes multiples of the number of ranks, {}",
                                        shape.kv_heads == shape.heads ? "heads" : "kv-heads", shape.kv_heads,
                                        ranks));
  }

  void print_plan(const Method& method) const {
    if (!options_.plan()) return;
    const Share share = share_of(given_.shape, Ranks::instance().count(), *options_.plan(), method.zigzag);
    out_ << table_of(method.name, share,
                     plans_of(method, share, options_.left_of(method.changes), options_.backward()));
  }

  VariantResult run_method(const Method& method, int bench_repeats) {
    Ranks& ranks = Ranks::instance();
    const Changes left = options_.left_of(method.changes);
    const Share share = share_of(given_.shape, ranks.count(), ranks.rank(), method.zigzag);
    const Streams streams = device_->streams(method, options_.head_start_us());
    const Job job(problem_, share, method, left, streams);
    tensors_.upload(job);
    std::vector<std::int64_t> sent;
    backend::take_observation();
    backend::take_sent_bytes();
    FA_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // the inputs are there
    ranks.barrier();
    const auto before = nvlink_sent_bytes();
    ranks.barrier();
    job.enqueue([&] {
      if (const auto bytes = backend::take_sent_bytes()) sent.push_back(*bytes);
    });
    device_->wait();
    backend::Observation seen = backend::take_observation();
    Device::end_transfers(streams.comm);
    ranks.barrier();
    const auto after = nvlink_sent_bytes();

    VariantResult mine{.name = method.name, .workspace_bytes = job.buffers().workspace_bytes()};
    for (const Plan& plan : job.plans())
      mine.predicted = sum(mine.predicted, traffic_of(plan, given_.shape, *engine_, share.R()));
    mine.counted = std::move(seen.counters);
    mine.defects = std::move(seen.defects);
    if (ranks.count() > 1) mine.links.push_back(links_of(job, sent));
    if (before && after) mine.measured_link_bytes = {*after - *before};
    VariantResult result = sum_of_ranks(ranks, mine);
    tensors_.check(job, result);
    if (bench_repeats > 0) result.bench = bench_->run(job, bench_repeats);
    return result;
  }

  static std::vector<LinkBytes> links_of(const Job& job, const std::vector<std::int64_t>& sent) {
    std::vector<std::int64_t> predicted;
    for (const Plan& plan : job.plans()) {
      const std::vector<std::int64_t> of_plan = link_bytes_of(plan, job.share());
      predicted.insert(predicted.end(), of_plan.begin(), of_plan.end());
    }
    const bool counts = backend::take_sent_bytes().has_value();
    std::vector<LinkBytes> links;
    for (std::size_t step = 0; step < predicted.size(); ++step)
      links.push_back({predicted[step], counts ? std::optional(sent.at(step)) : std::nullopt});
    return links;
  }

  std::ostream& out_;
  RingOptions options_;
  GivenProblem<AttentionBackward> given_;
  const Engine* engine_ = nullptr;
  Problem problem_;
  Tensors tensors_;
  const Device* device_ = nullptr;
  std::optional<Bench> bench_;
};

class RingProgram final : public ChapterProgram {
 public:
  explicit RingProgram(std::ostream& out) : out_(out) {}
  const std::string& name() const override { return name_; }
  const std::string& title() const override { return title_; }
  std::vector<std::pair<std::string, std::string>> variants() const override {
    std::vector<std::pair<std::string, std::string>> variants;
    for (const Method& method : methods()) variants.emplace_back(method.name, method.summary);
    return variants;
  }
  std::unique_ptr<ChapterRun> new_run() const override { return std::make_unique<RingRun>(out_); }

 private:
  std::ostream& out_;
  std::string name_ = "13_ring", title_ = "Several GPUs: queries stay, keys go round";
};

/// The arguments without those that name files to write: one rank writes them.
std::vector<const char*> without_files(int argc, const char* const* argv) {
  std::vector<const char*> kept;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" || word == "--out") {
      ++i;
    } else if (!word.starts_with("--json=") && !word.starts_with("--out=")) {
      kept.push_back(argv[i]);
    }
  }
  return kept;
}

bool has_json_to_stdout(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json=-" || (word == "--json" && i + 1 < argc && std::string(argv[i + 1]) == "-"))
      return true;
  }
  return false;
}

}  // namespace

int run_rank(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  std::ostream nowhere(nullptr);
  if (Ranks::instance().rank() == 0) {
    const bool prints_json = has_json_to_stdout(argc, argv);  // and nothing else
    return run_program(ring_chapter(prints_json ? nowhere : out), argc, argv, out, err);
  }
  const std::vector<const char*> kept = without_files(argc, argv);
  return run_program(ring_chapter(nowhere), int(kept.size()), kept.data(), nowhere, nowhere);
}

AnyChapter ring_chapter(std::ostream& out) { return AnyChapter(std::make_shared<RingProgram>(out)); }

}  // namespace fa::ch13
