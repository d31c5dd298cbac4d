#include "run.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agreement.hpp"
#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/half.hpp"
#include "attention/parallel.hpp"
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
#include "sample.hpp"
#include "table.hpp"

namespace fa::ch13 {
namespace {

// --- slices ------------------------------------------------------------------------------------------------

/// Calls f(local token, token of the sequence) for the tokens of a rank.
template <class F>
void for_each_token(const Split& split, int rank, F f) {
  std::int64_t local = 0;
  for (const int piece : split.pieces_of(rank)) {
    for (std::int64_t token = split.piece(piece).begin; token < split.piece(piece).end; ++token)
      f(local++, token);
  }
}

/// Copies the rows of a rank's tokens between [batch, heads, tokens, d] of the sequence and [tokens, batch,
/// heads, d] of the rank.
template <class Whole, class Local>
void for_each_row(const Split& split, int rank, const std::vector<std::int64_t>& shape, Whole* whole,
                  Local* local, void (*copy)(Whole*, Local*, std::int64_t)) {
  const std::int64_t heads = shape[0] * shape[1], d = shape[3];
  for_each_token(split, rank, [&](std::int64_t local_token, std::int64_t token) {
    for (std::int64_t head = 0; head < heads; ++head)
      copy(whole + (head * split.tokens + token) * d, local + (local_token * heads + head) * d, d);
  });
}

// --- the run -----------------------------------------------------------------------------------------------

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
      if (const auto refusal = engine_->refuse(given_.shape)) throw Refused(*refusal);
      if (const auto lacking = what_device_lacks(engine_->needs(given_.shape)))
        throw Refused(lacking->refusal());
      std::vector<std::size_t> chosen;
      for (const std::size_t index : variants) {
        const auto refusal = why_not(methods()[index]);
        if (!refusal) chosen.push_back(index);
        if (refusal && (!skip || variants.size() == 1)) throw Refused(*refusal, methods()[index].name);
      }
      checked_ = checked;
      problem_ = {given_.shape, options_.backward(), engine_};
      find_lazy_inputs();
      for (const std::size_t index : chosen) print_plan(methods()[index]);
      return chosen;
    });
  }

  ProblemReport problem() const override {
    ProblemReport report{
        .name = std::string(options_.backward() ? AttentionBackward::kName : AttentionForward::kName),
        .sizes = AttentionForward::describe(given_.shape),
        .inputs = given_.inputs,
        .tensors = inputs()};
    report.sizes.insert(report.sizes.begin(), {"ranks", Ranks::instance().count()});
    for (TensorSpec& output : outputs()) report.tensors.push_back(std::move(output));
    return report;
  }

  void require_device_memory() const override {}

  void compute_reference() override {
    or_end_all([&] {
      if (!lazy_) inputs_ = given_.make_inputs();
      if (options_.sample() == 0 && checked_ != Checked::kNothing && Ranks::instance().rank() == 0) {
        reference_ = options_.backward() ? AttentionBackward::reference(given_.shape, inputs_)
                                         : AttentionForward::reference(given_.shape, inputs_);
      }
      device_ = &Device::with(options_.channels());
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

  /// Without a reference of all outputs, a rank makes only its own tokens.
  void find_lazy_inputs() {
    if (options_.sample() == 0 && checked_ != Checked::kNothing) return;
    std::optional<Init> init;
    std::uint64_t seed = 0;
    for (const auto& [name, value] : given_.inputs) {
      if (name == "init") init = init_of(std::get<std::string>(value));
      if (name == "seed") seed = std::get<std::uint64_t>(value);
    }
    const bool fits = init == Init::kNormal || init == Init::kUniform;
    if (!fits && options_.sample() > 0) throw UsageError("--sample needs --init normal or uniform");
    if (fits) lazy_.emplace(given_.shape, *init, seed);
  }

  std::vector<TensorSpec> inputs() const {
    return options_.backward() ? AttentionBackward::inputs(given_.shape)
                               : AttentionForward::inputs(given_.shape);
  }
  std::vector<TensorSpec> outputs() const {
    return options_.backward() ? AttentionBackward::outputs(given_.shape)
                               : AttentionForward::outputs(given_.shape);
  }

  void print_plan(const Method& method) const {
    if (!options_.plan()) return;
    const Share share = share_of(given_.shape, Ranks::instance().count(), *options_.plan(), method.zigzag);
    out_ << table_of(method.name, share,
                     plans_of(method, share, options_.left_of(method.changes), options_.backward()));
  }

  /// Where a tensor is.
  static Buffer buffer_of(const TensorSpec& spec) {
    return {Name(std::ranges::find(kTensors, spec.name) - kTensors)};
  }

  /// Copies the rank's tokens of an input to device memory.
  void upload(const Job& job, const TensorSpec& spec) const {
    const Split& split = job.share().split;
    std::vector<float> local(std::size_t(split.most_tokens() * (spec.elements() / split.tokens)));
    if (lazy_) {
      fill(split, spec, local);
    } else {
      for_each_row<const float, float>(
          split, job.share().rank, spec.shape, inputs_.at(spec.name).data.data(), local.data(),
          [](const float* whole, float* part, std::int64_t d) { std::copy(whole, whole + d, part); });
    }
    const std::vector<std::uint16_t> bits = narrow(local, spec.dtype);
    FA_CUDA_CHECK(cudaMemcpy(job.buffers().address(buffer_of(spec)), bits.data(),
                             bits.size() * sizeof bits[0], cudaMemcpyHostToDevice));
  }

  /// The rank's tokens of a tensor that nobody has as a whole.
  void fill(const Split& split, const TensorSpec& spec, std::vector<float>& local) const {
    const std::int64_t heads = spec.shape[0] * spec.shape[1], d = spec.shape[3];
    std::vector<std::int64_t> tokens;
    for_each_token(split, Ranks::instance().rank(),
                   [&](std::int64_t, std::int64_t token) { tokens.push_back(token); });
    parallel_for(std::int64_t(tokens.size()), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::vector<float> row = lazy_->row(spec.name, head, tokens[std::size_t(token)]);
          std::copy(row.begin(), row.end(), local.begin() + (token * heads + head) * d);
        }
      }
    });
  }

  VariantResult run_method(const Method& method, int bench_repeats) {
    Ranks& ranks = Ranks::instance();
    const Changes left = options_.left_of(method.changes);
    const Share share = share_of(given_.shape, ranks.count(), ranks.rank(), method.zigzag);
    const Job job(problem_, share, method, left, device_->streams(method, left, options_.head_start_us()));
    for (const TensorSpec& spec : inputs()) upload(job, spec);
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
    ranks.barrier();
    const auto after = nvlink_sent_bytes();

    VariantResult mine{.name = method.name, .workspace_bytes = job.buffers().workspace_bytes()};
    for (const Plan& plan : job.plans())
      mine.predicted = sum(mine.predicted, traffic_of(plan, given_.shape, *engine_, share.R()));
    backend::Observation seen = backend::take_observation();
    mine.counted = std::move(seen.counters);
    mine.defects = std::move(seen.defects);
    if (ranks.count() > 1) mine.links.push_back(links_of(job, sent));
    if (before && after) mine.measured_link_bytes = {*after - *before};
    VariantResult result = sum_of_ranks(ranks, mine);
    if (options_.sample() > 0) {
      check_sample(job, result);
    } else if (checked_ != Checked::kNothing) {
      check(job, result);
    }
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

  /// Compares the outputs of all ranks with the reference, on rank 0.
  void check(const Job& job, VariantResult& result) {
    Ranks& ranks = Ranks::instance();
    const Share& share = job.share();
    const std::int64_t tokens = share.tokens(), heads = given_.shape.batch * given_.shape.heads;
    for (const TensorSpec& spec : outputs()) {
      const bool is_lse = spec.name == "lse";
      const std::int64_t row = spec.elements() / share.split.tokens;
      const void* const address = job.buffers().address(buffer_of(spec));
      std::vector<float> local(std::size_t(tokens * row));
      if (is_lse) {
        FA_CUDA_CHECK(
            cudaMemcpy(local.data(), address, sizeof(float) * local.size(), cudaMemcpyDeviceToHost));
      } else {
        std::vector<std::uint16_t> bits(local.size());
        FA_CUDA_CHECK(cudaMemcpy(bits.data(), address, bits.size() * sizeof bits[0], cudaMemcpyDeviceToHost));
        local = widen(bits, spec.dtype);
      }
      std::string bytes(local.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), local.data(), bytes.size());
      const std::vector<std::string> all = ranks.all(bytes);
      if (ranks.rank() != 0) continue;
      Tensor& whole = result.outputs[spec.name];
      whole = {.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()))};
      for (int other = 0; other < ranks.count(); ++other) {
        const auto* const part = reinterpret_cast<const float*>(all[std::size_t(other)].data());
        if (is_lse) {
          const std::int64_t length = share.split.tokens_of(other);
          for_each_token(share.split, other, [&](std::int64_t position, std::int64_t token) {
            for (std::int64_t head = 0; head < heads; ++head)
              whole.data[std::size_t(head * share.split.tokens + token)] = part[head * length + position];
          });
        } else {
          for_each_row<float, const float>(
              share.split, other, spec.shape, whole.data.data(), part,
              [](float* to, const float* from, std::int64_t d) { std::copy(from, from + d, to); });
        }
      }
    }
    if (ranks.rank() != 0) return;
    if (options_.backward()) {
      check_variant<AttentionBackward>({}, given_.shape, inputs_, result.outputs, reference_, result);
    } else {
      check_variant<AttentionForward>({}, given_.shape, inputs_, result.outputs, reference_, result);
    }
  }

  /// Compares some rows of each head and rank.
  void check_sample(const Job& job, VariantResult& result) const {
    const std::int64_t d = given_.shape.head_dim, heads = given_.shape.batch * given_.shape.heads;
    Ranks& ranks = Ranks::instance();
    const Share& share = job.share();
    const auto* const o_rows = static_cast<const std::uint16_t*>(job.buffers().address(Buffer{Name::kO}));
    const auto* const lse_rows = static_cast<const float*>(job.buffers().address(Buffer{Name::kLse}));
    std::vector<std::int64_t> local, queries;
    const std::int64_t count = std::min<std::int64_t>(options_.sample(), share.tokens());
    for (std::int64_t i = 1; i <= count; ++i) local.push_back(i * share.tokens() / count - 1);
    std::vector<std::int64_t> sequence;
    for_each_token(share.split, share.rank,
                   [&](std::int64_t, std::int64_t token) { sequence.push_back(token); });
    for (const std::int64_t token : local) queries.push_back(sequence[std::size_t(token)]);

    std::vector<double> o, lse, expected_o, expected_lse;
    for (std::int64_t head = 0; head < heads; ++head) {
      const SampledRows expected = sampled_rows(given_.shape, *lazy_, head, queries);
      expected_o.insert(expected_o.end(), expected.o.begin(), expected.o.end());
      expected_lse.insert(expected_lse.end(), expected.lse.begin(), expected.lse.end());
      for (const std::int64_t token : local) {
        std::vector<std::uint16_t> bits(static_cast<std::size_t>(d));
        const auto* const from = o_rows + (token * heads + head) * d;
        FA_CUDA_CHECK(cudaMemcpy(bits.data(), from, bits.size() * sizeof bits[0], cudaMemcpyDeviceToHost));
        for (const float x : widen(bits, given_.shape.dtype)) o.push_back(x);
        float value = 0;
        FA_CUDA_CHECK(cudaMemcpy(&value, lse_rows + head * share.tokens() + token, sizeof value,
                                 cudaMemcpyDeviceToHost));
        lse.push_back(value);
      }
    }
    Reference reference;
    for (const auto& [name, got, expected] :
         {std::tuple("o", &o, &expected_o), std::tuple("lse", &lse, &expected_lse)}) {
      const std::vector<double> all_got = ranks.all(*got);
      reference[name] = ranks.all(*expected);
      result.outputs[name] = {.shape = {std::int64_t(all_got.size())},
                              .data = std::vector<float>(all_got.begin(), all_got.end())};
    }
    result.check = check_outputs(result.outputs, reference, AttentionForward::tolerances(given_.shape));
  }

  std::ostream& out_;
  RingOptions options_;
  GivenProblem<AttentionBackward> given_;
  const Engine* engine_ = nullptr;
  Problem problem_;
  Checked checked_ = Checked::kAll;
  std::optional<LazyInputs> lazy_;
  TensorMap inputs_;
  Reference reference_;
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
