#include "run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/half.hpp"
#include "attention/parallel.hpp"
#include "gpus.hpp"
#include "harness/attention_options.hpp"
#include "harness/backend.hpp"
#include "harness/device_buffer.hpp"
#include "harness/options.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "nccl.hpp"
#include "rank.hpp"
#include "ranks.hpp"
#include "results.hpp"
#include "sample.hpp"

namespace fa::ch13 {
namespace {

// --- agreement ---------------------------------------------------------------------------------------------

/// Calls f on all ranks. If it throws on one of them, all throw the same.
template <class F>
auto together(F f) -> decltype(f()) {
  std::optional<Complaint> mine;
  decltype(f()) result = {};
  try {
    result = f();
  } catch (const UsageError& error) {
    mine = {2, error.what()};
  } catch (const DeviceError& error) {
    mine = {3, error.what()};
  } catch (const CudaError& error) {
    mine = {3, error.what()};
  } catch (const std::bad_alloc&) {
    mine = {2, "not enough memory: choose smaller sizes"};
  } catch (const std::exception& error) {
    mine = {1, error.what()};
  }
  Ranks& ranks = Ranks::instance();
  if (const auto complaint = ranks.agree(mine)) {
    if (complaint->status == 2) throw UsageError(complaint->reason);
    if (complaint->status == 3) throw DeviceError(complaint->reason);
    throw std::runtime_error(complaint->reason);
  }
  return result;
}

/// Calls f, in which ranks wait for each other: if it throws on one of them, all end.
template <class F>
auto or_end_all(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const DeviceError& error) {
    Ranks::instance().end_all({3, error.what()});
  } catch (const CudaError& error) {
    Ranks::instance().end_all({3, error.what()});
  } catch (const std::bad_alloc&) {
    Ranks::instance().end_all({2, "not enough memory: choose smaller sizes"});
  } catch (const std::exception& error) {
    Ranks::instance().end_all({1, error.what()});
  }
}

// --- options -----------------------------------------------------------------------------------------------

class RingOptions : public AttentionOptions<AttentionBackward> {
 public:
  bool backward() const { return backward_; }
  /// Rows of each head and rank to check; 0: all.
  int sample() const { return sample_.value_or(0); }
  int channels() const { return channels_.value_or(kDefaultChannels); }
  int head_start_us() const { return head_start_.value_or(kDefaultHeadStart); }

 protected:
  void add_more(CLI::App& app, const std::string& group) override {
    app.add_flag("--backward", backward_, "compute the gradients dQ, dK and dV instead of O")->group(group);
    add_whole_number(app, "--sample", sample_,
                     "check N rows of O of each head and rank, 1 to 64, instead of all: for\nsequences that "
                     "are too long otherwise")
        ->group(group);
    add_whole_number(app, "--channels", channels_,
                     fmt::format("NCCL channels of overlapped, 1 to 32 (default {})", kDefaultChannels))
        ->group(group);
    add_whole_number(app, "--head-start", head_start_,
                     fmt::format("microseconds by which overlapped holds up attention so that a\ntransfer "
                                 "begins first, 0 to 1000 (default {})",
                                 kDefaultHeadStart))
        ->group(group);
  }
  AttentionShape completed(const AttentionShape& shape) const override {
    if (shape.seq_q != shape.seq_k) {
      throw UsageError(
          fmt::format("--seq-k {}: must be the same as --seq-q, {}: a sequence attends to itself",
                      shape.seq_k, shape.seq_q));
    }
    const auto require_range = [](const char* name, int value, int least, int most) {
      if (value < least || value > most)
        throw UsageError(fmt::format("{} {}: must be from {} to {}", name, value, least, most));
    };
    if (sample_) require_range("--sample", *sample_, 1, 64);
    if (sample_ && backward_) throw UsageError("--sample checks O: leave out --backward, or --sample");
    require_range("--channels", channels(), 1, 32);
    require_range("--head-start", head_start_us(), 0, 1000);
    return shape;
  }
  void describe_more(InputSource& source) const override {
    if (backward_) source.insert(source.begin(), {"backward", true});
  }
  std::vector<std::string> names() const override { return {"q", "k", "v", "do"}; }
  std::optional<std::string> why_unused(const std::string& name) const override {
    if (name != "do" || backward_) return std::nullopt;
    return "needs --backward: it is the gradient of O";
  }

 private:
  static constexpr int kDefaultChannels = 32, kDefaultHeadStart = 20;
  bool backward_ = false;
  std::optional<int> sample_, channels_, head_start_;
};

// --- a rank's device ---------------------------------------------------------------------------------------

/// Streams, an event, and communicators. They live as long as the process: another rank's error must not wait
/// for them.
class Device {
 public:
  /// The same one for all runs of a process with as many channels.
  static const Device& with(int channels) {
    static std::map<int, Device> all;
    return all.try_emplace(channels, channels).first->second;
  }

  explicit Device(int channels) {
    int least = 0, greatest = 0;
    FA_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    FA_CUDA_CHECK(cudaStreamCreateWithPriority(&compute_, cudaStreamNonBlocking, least));
    for (int priority = std::min(greatest + 1, least); priority <= least; ++priority)
      FA_CUDA_CHECK(cudaStreamCreateWithPriority(&turns_.emplace_back(), cudaStreamNonBlocking, priority));
    FA_CUDA_CHECK(cudaStreamCreateWithPriority(&copies_, cudaStreamNonBlocking, least));
    FA_CUDA_CHECK(cudaStreamCreateWithPriority(&first_, cudaStreamNonBlocking, greatest));
    FA_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    plain_ = communicator(0);
    narrow_ = communicator(channels);
    meeting_.poison();
  }

  void prepare(Rank& rank, const Method& method, int head_start_us) const {
    rank.compute = compute_;
    rank.turns = turns_;
    rank.copies = method.priority ? first_ : copies_;
    rank.comm = method.priority ? narrow_ : plain_;
    rank.event = event_;
    rank.head_start_us = method.priority ? head_start_us : 0;
    rank.key_buffers = method.key_buffers;
    rank.part_buffers = method.part_buffers;
  }

  /// The communicator whose ranks reach the method's buffers directly; null: NCCL copies what it transfers
  /// once more.
  ncclComm_t reaches_memory(const Method& method) const { return method.priority ? narrow_ : nullptr; }

  cudaStream_t compute() const { return compute_; }

  /// What is enqueued from now on begins when all ranks have come here.
  void meet() const {
    auto* const all = static_cast<std::byte*>(meeting_.get());
    const std::byte* const mine = all + std::size_t(Ranks::instance().rank()) * kMeetingBytes;
    FA_NCCL_CHECK(ncclAllGather(mine, all, kMeetingBytes, ncclUint8, plain_, compute_));
  }

  /// Waits for the stream, and ends all ranks if a transfer fails or nothing moves.
  void wait() const {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (;;) {
      const cudaError_t status = cudaStreamQuery(compute_);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) FA_CUDA_CHECK(status);
      for (ncclComm_t comm : {plain_, narrow_}) {
        ncclResult_t error = ncclSuccess;
        if (comm != nullptr) FA_NCCL_CHECK(ncclCommGetAsyncError(comm, &error));
        if (error != ncclSuccess) FA_NCCL_CHECK(error);
      }
      if (Clock::now() - begin > std::chrono::seconds(60))
        throw std::runtime_error("nothing has moved for 60 s: a rank waits for a transfer that nobody makes");
    }
  }

 private:
  /// @param channels  0: as many as NCCL wants
  static ncclComm_t communicator(int channels) {
    Ranks& ranks = Ranks::instance();
    ncclUniqueId id = {};
    if (ranks.rank() == 0) FA_NCCL_CHECK(ncclGetUniqueId(&id));
    ranks.broadcast(&id, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (channels > 0) config.minCTAs = config.maxCTAs = channels;
    ncclComm_t comm = nullptr;
    FA_NCCL_CHECK(ncclCommInitRankConfig(&comm, ranks.count(), id, ranks.rank(), &config));
    return comm;
  }

  cudaStream_t compute_ = nullptr, copies_ = nullptr, first_ = nullptr;
  std::vector<cudaStream_t> turns_;
  cudaEvent_t event_ = nullptr;
  ncclComm_t plain_ = nullptr, narrow_ = nullptr;
  static constexpr std::size_t kMeetingBytes = 16;  // of each rank
  DeviceBuffer meeting_{"meeting", kMeetingBytes* std::size_t(Ranks::instance().count())};
};

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
      find_lazy_inputs();
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
    });
  }

  MoreOutputs more_outputs() const override { return {}; }

  VariantResult run(std::size_t index, int bench_repeats, double) override {
    VariantResult result = or_end_all([&] { return run_method(methods()[index], bench_repeats); });
    return result;
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

  /// The rank's slice of a tensor in device memory, with room for as many tokens as any rank has.
  void* slice(Scratch& memory, const Split& split, const TensorSpec& spec) const {
    const int rank = Ranks::instance().rank();
    const std::int64_t row = spec.elements() / split.tokens;
    const std::size_t bytes = std::size_t(split.most_tokens() * row) * size_of(spec.dtype);
    void* const address = memory.get(spec.name, bytes);
    const auto given = inputs_.find(spec.name);
    std::vector<float> local(std::size_t(split.most_tokens() * row));
    if (lazy_ && is_input(spec.name)) {
      fill(split, spec, local);
    } else if (given != inputs_.end()) {
      for_each_row<const float, float>(
          split, rank, spec.shape, given->second.data.data(), local.data(),
          [](const float* whole, float* part, std::int64_t d) { std::copy(whole, whole + d, part); });
    } else {
      return address;
    }
    const std::vector<std::uint16_t> bits = narrow(local, spec.dtype);
    FA_CUDA_CHECK(cudaMemcpy(address, bits.data(), bytes, cudaMemcpyHostToDevice));
    return address;
  }

  bool is_input(const std::string& name) const {
    const std::vector<TensorSpec> specs = inputs();
    return std::any_of(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
  }

  /// The rank's tokens of a tensor that nobody has as a whole.
  void fill(const Split& split, const TensorSpec& spec, std::vector<float>& local) const {
    const std::int64_t heads = spec.shape[0] * spec.shape[1], d = spec.shape[3];
    std::vector<std::int64_t> tokens;
    for_each_token(split, Ranks::instance().rank(),
                   [&](std::int64_t, std::int64_t token) { tokens.push_back(token); });
    parallel_for(std::int64_t(tokens.size()), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::vector<float> row = lazy_->row(spec.name, head, tokens[std::size_t(at)]);
          std::copy(row.begin(), row.end(), local.begin() + (at * heads + head) * d);
        }
      }
    });
  }

  Rank rank_for(const Method& method, Scratch& memory, Scratch& scratch) const {
    Ranks& ranks = Ranks::instance();
    Rank rank{.engine = engine_, .shape = given_.shape};
    rank.split = {.ranks = ranks.count(), .tokens = given_.shape.seq_q, .zigzag = method.zigzag};
    rank.rank = ranks.rank();
    rank.scratch = &scratch;
    rank.end_step = [] {};
    device_->prepare(rank, method, options_.head_start_us());
    std::map<std::string, void*> addresses;
    for (const auto& specs :
         {AttentionBackward::inputs(given_.shape), AttentionForward::outputs(given_.shape),
          AttentionBackward::outputs(given_.shape)}) {
      for (const TensorSpec& spec : specs) {
        const bool of_backward = spec.name.starts_with("d");
        if (of_backward && !options_.backward()) continue;
        addresses[spec.name] = spec.name == "lse" ? lse(memory, rank) : slice(memory, rank.split, spec);
      }
    }
    rank.tensors = {.q = addresses["q"],
                    .k = addresses["k"],
                    .v = addresses["v"],
                    .o = addresses["o"],
                    .d_o = addresses["do"],
                    .dq = addresses["dq"],
                    .dk = addresses["dk"],
                    .dv = addresses["dv"],
                    .lse = static_cast<float*>(addresses["lse"])};
    return rank;
  }

  static void* lse(Scratch& memory, const Rank& rank) {
    return memory.get(
        "lse", sizeof(float) * std::size_t(rank.shape.batch * rank.shape.heads * rank.split.most_tokens()));
  }

  void enqueue(const Method& method, const Rank& rank) const {
    method.forward(rank);
    if (options_.backward()) method.backward(rank);
  }

  VariantResult run_method(const Method& method, int bench_repeats) {
    Ranks& ranks = Ranks::instance();
    const ncclComm_t comm = device_->reaches_memory(method);
    Scratch memory(comm), scratch(comm);
    Rank rank = rank_for(method, memory, scratch);
    std::vector<std::int64_t> sent;
    rank.end_step = [&] {
      if (const auto bytes = backend::take_sent_bytes()) sent.push_back(*bytes);
    };
    backend::take_observation();
    backend::take_sent_bytes();
    FA_CUDA_CHECK(cudaDeviceSynchronize());  // the inputs are there
    ranks.barrier();
    const auto before = nvlink_sent_bytes();
    ranks.barrier();
    enqueue(method, rank);
    device_->wait();
    ranks.barrier();
    const auto after = nvlink_sent_bytes();

    VariantResult mine{.name = method.name,
                       .workspace_bytes = scratch.bytes(),
                       .predicted = method.traffic(rank, options_.backward())};
    backend::Observation seen = backend::take_observation();
    mine.counted = std::move(seen.counters);
    mine.defects = std::move(seen.defects);
    if (ranks.count() > 1) mine.links.push_back(links_of(method, rank, sent));
    if (before && after) mine.measured_link_bytes = {*after - *before};
    VariantResult result = sum_of_ranks(ranks, mine);
    rank.end_step = [] {};
    if (options_.sample() > 0) {
      check_sample(rank, result);
    } else if (checked_ != Checked::kNothing) {
      check(rank, result);
    }
    if (bench_repeats > 0) result.bench = bench(method, rank, bench_repeats);
    return result;
  }

  std::vector<LinkBytes> links_of(const Method& method, const Rank& rank,
                                  const std::vector<std::int64_t>& sent) const {
    Method::Links predicted = method.forward_links(rank);
    if (options_.backward()) {
      const Method::Links more = method.backward_links(rank);
      predicted.insert(predicted.end(), more.begin(), more.end());
    }
    std::vector<LinkBytes> links;
    const bool counts = backend::take_sent_bytes().has_value();
    if (counts && sent.size() != predicted.size())
      throw std::logic_error(fmt::format("{}: the formula has {} steps, {} were made", method.name,
                                         predicted.size(), sent.size()));
    for (std::size_t step = 0; step < predicted.size(); ++step)
      links.push_back({predicted[step], counts ? std::optional(sent[step]) : std::nullopt});
    return links;
  }

  /// Compares the outputs of all ranks with the reference, on rank 0.
  void check(const Rank& rank, VariantResult& result) {
    Ranks& ranks = Ranks::instance();
    const std::int64_t tokens = rank.tokens(), heads = given_.shape.batch * given_.shape.heads;
    for (const TensorSpec& spec : outputs()) {
      const bool is_lse = spec.name == "lse";
      const std::int64_t row = spec.elements() / rank.split.tokens;
      std::vector<float> local(std::size_t(tokens * row));
      if (is_lse) {
        FA_CUDA_CHECK(
            cudaMemcpy(local.data(), rank.tensors.lse, sizeof(float) * local.size(), cudaMemcpyDeviceToHost));
      } else {
        std::vector<std::uint16_t> bits(local.size());
        const void* const address = spec.name == "o"    ? rank.tensors.o
                                    : spec.name == "dq" ? rank.tensors.dq
                                    : spec.name == "dk" ? rank.tensors.dk
                                                        : rank.tensors.dv;
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
          const std::int64_t length = rank.split.tokens_of(other);
          for_each_token(rank.split, other, [&](std::int64_t at, std::int64_t token) {
            for (std::int64_t head = 0; head < heads; ++head)
              whole.data[std::size_t(head * rank.split.tokens + token)] = part[head * length + at];
          });
        } else {
          for_each_row<float, const float>(
              rank.split, other, spec.shape, whole.data.data(), part,
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
  void check_sample(const Rank& rank, VariantResult& result) const {
    const std::int64_t d = given_.shape.head_dim, heads = given_.shape.batch * given_.shape.heads;
    std::vector<std::int64_t> local, queries;
    const std::int64_t count = std::min<std::int64_t>(options_.sample(), rank.tokens());
    for (std::int64_t i = 1; i <= count; ++i) local.push_back(i * rank.tokens() / count - 1);
    std::vector<std::int64_t> sequence;
    for_each_token(rank.split, rank.rank,
                   [&](std::int64_t, std::int64_t token) { sequence.push_back(token); });
    for (const std::int64_t token : local) queries.push_back(sequence[std::size_t(token)]);

    std::vector<double> o, lse, expected_o, expected_lse;
    for (std::int64_t head = 0; head < heads; ++head) {
      const SampledRows expected = sampled_rows(given_.shape, *lazy_, head, queries);
      expected_o.insert(expected_o.end(), expected.o.begin(), expected.o.end());
      expected_lse.insert(expected_lse.end(), expected.lse.begin(), expected.lse.end());
      for (const std::int64_t token : local) {
        std::vector<std::uint16_t> bits(static_cast<std::size_t>(d));
        const auto* const from =
            static_cast<const std::uint16_t*>(rank.tensors.o) + (token * heads + head) * d;
        FA_CUDA_CHECK(cudaMemcpy(bits.data(), from, bits.size() * sizeof bits[0], cudaMemcpyDeviceToHost));
        for (const float x : widen(bits, given_.shape.dtype)) o.push_back(x);
        float value = 0;
        FA_CUDA_CHECK(cudaMemcpy(&value, rank.tensors.lse + head * rank.tokens() + token, sizeof value,
                                 cudaMemcpyDeviceToHost));
        lse.push_back(value);
      }
    }
    Reference reference;
    for (const auto& [name, got, expected] :
         {std::tuple("o", &o, &expected_o), std::tuple("lse", &lse, &expected_lse)}) {
      const std::vector<double> all_got = of_all_ranks(*got);
      reference[name] = of_all_ranks(*expected);
      result.outputs[name] = {.shape = {std::int64_t(all_got.size())},
                              .data = std::vector<float>(all_got.begin(), all_got.end())};
    }
    result.check = check_outputs(result.outputs, reference, AttentionForward::tolerances(given_.shape));
  }

  static std::vector<double> of_all_ranks(const std::vector<double>& mine) {
    std::vector<double> all;
    for (const std::string& text : Ranks::instance().all(
             std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof mine[0]))) {
      const std::size_t before = all.size();
      all.resize(before + text.size() / sizeof mine[0]);
      std::memcpy(all.data() + before, text.data(), text.size());
    }
    return all;
  }

  /// Something to time. @param count  how often it is enqueued in each turn
  struct Work {
    std::function<void()> launch;
    int count = 1;
  };

  /// For each work, how long it takes the slowest rank once, turn by turn. All ranks begin each work
  /// together, and none waits for its host.
  std::vector<std::vector<double>> times_of(int turns, const std::vector<Work>& works) const {
    struct Marks {
      cudaEvent_t begin, end;
    };
    std::vector<Marks> marks(std::size_t(turns) * works.size());
    for (std::size_t i = 0; i < marks.size(); ++i) {
      for (cudaEvent_t* mark : {&marks[i].begin, &marks[i].end}) FA_CUDA_CHECK(cudaEventCreate(mark));
      device_->meet();
      FA_CUDA_CHECK(cudaEventRecord(marks[i].begin, device_->compute()));
      const Work& work = works[i % works.size()];
      for (int n = 0; n < work.count; ++n) work.launch();
      FA_CUDA_CHECK(cudaEventRecord(marks[i].end, device_->compute()));
    }
    device_->wait();
    std::vector<double> mine;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      float ms = 0;
      FA_CUDA_CHECK(cudaEventElapsedTime(&ms, marks[i].begin, marks[i].end));
      mine.push_back(ms / float(works[i % works.size()].count));
      for (cudaEvent_t mark : {marks[i].begin, marks[i].end}) FA_CUDA_CHECK(cudaEventDestroy(mark));
    }
    const std::vector<double> all = of_all_ranks(mine);
    std::vector<std::vector<double>> times(works.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      double slowest = 0;
      for (std::size_t rank = 0; rank < all.size() / mine.size(); ++rank)
        slowest = std::max(slowest, all[rank * mine.size() + i]);
      times[i % works.size()].push_back(slowest);
    }
    return times;
  }

  /// Their medians, once the clocks have settled: a GPU that has been idle begins too fast, takes more power
  /// than it may, and is then too slow for about a second. Works that are to be compared take turns, since a
  /// GPU's clock falls while it gets warm.
  std::vector<Timing> time(int turns, const std::vector<Work>& works, double settled_after_ms = 1500) const {
    double turn_ms = 0;
    const auto first = times_of(2, works);
    for (std::size_t i = 0; i < works.size(); ++i) turn_ms += first[i].back() * works[i].count;
    const int warm_up = std::clamp(int(settled_after_ms / turn_ms), 0, 1000);
    std::vector<Timing> timings;
    for (std::vector<double> times : times_of(warm_up + turns, works)) {
      times.erase(times.begin(), times.begin() + warm_up);
      std::sort(times.begin(), times.end());
      const std::size_t half = times.size() / 2;
      timings.push_back(
          {.median_ms = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2,
           .min_ms = times.front(),
           .max_ms = times.back(),
           .repeats = turns});
    }
    return timings;
  }

  BenchResult bench(const Method& method, const Rank& rank, int repeats) {
    const int count = Ranks::instance().count();
    if (!whole_) {
      whole_ = std::make_unique<Alone>();
      prepare(*whole_, rank, given_.shape.seq_q);
      share_ = std::make_unique<Alone>();
      prepare(*share_, rank, rank.split.most_tokens());
    }
    const std::vector<Timing> timings = time(repeats, {{[&] { enqueue(methods()[1], whole_->rank); }},
                                                       {[&] { enqueue(methods()[1], share_->rank); }, count},
                                                       {[&] { enqueue(method, rank); }, count}});
    std::size_t bytes = 0;
    for (const auto& specs : {inputs(), outputs()}) {
      for (const TensorSpec& spec : specs) bytes += spec.bytes();
    }
    double flops = AttentionForward::flops(given_.shape);
    if (options_.backward()) flops += AttentionBackward::flops(given_.shape);
    BenchResult result = evaluate(timings[2], bytes / std::size_t(count), flops / count, 1);
    result.share_of_copy = 0;
    result.parts = {.ideal_ms = timings[0].median_ms / count,
                    .own_ms = timings[1].median_ms,
                    .rest_ms = time_of_rest(method, rank, repeats)};
    return result;
  }

  /// Transfers and sums, without the calls of attention: what these have to hide.
  double time_of_rest(const Method& method, const Rank& mine, int repeats) const {
    Engine idle = *engine_;
    idle.forward = [](const Engine::Args&, cudaStream_t) {};
    idle.backward = [](const Engine::Args&, cudaStream_t) {};
    Rank rank = mine;
    rank.engine = &idle;
    constexpr double kWarmUpMs = 50;  // it takes little power
    return time(repeats, {{[&] { enqueue(method, rank); }}}, kWarmUpMs).front().median_ms;
  }

  /// Attention on one GPU, on all of them at the same time.
  struct Alone {
    Scratch memory, scratch;
    Rank rank;
  };

  /// @param tokens  of `alone`: those of other ranks are copies of this one's, because kernels are faster on
  ///     numbers that are all the same, which take less power
  void prepare(Alone& alone, const Rank& mine, std::int64_t tokens) const {
    AttentionShape shape = given_.shape;
    shape.seq_q = shape.seq_k = tokens;
    Rank& rank = alone.rank;
    rank = {.engine = engine_, .shape = shape, .split = {.ranks = 1, .tokens = tokens}, .rank = 0};
    device_->prepare(rank, methods()[1], 0);
    rank.copies = rank.compute;
    rank.scratch = &alone.scratch;
    rank.end_step = [] {};
    const auto buffer = [&](const char* name, const void* from = nullptr) {
      const std::size_t bytes = shape.tensor(name).bytes();
      const std::size_t have = bytes / std::size_t(tokens) * std::size_t(mine.tokens());
      auto* const address = static_cast<std::byte*>(alone.memory.get(name, bytes));
      for (std::size_t at = 0; from && have > 0 && at < bytes; at += have)
        FA_CUDA_CHECK(cudaMemcpy(address + at, from, std::min(have, bytes - at), cudaMemcpyDeviceToDevice));
      return address;
    };
    const Tensors& of = mine.tensors;
    rank.tensors = {.q = buffer("q", of.q), .k = buffer("k", of.k), .v = buffer("v", of.v), .o = buffer("o")};
    if (options_.backward()) {
      rank.tensors.d_o = buffer("do", of.d_o);
      rank.tensors.dq = buffer("dq");
      rank.tensors.dk = buffer("dk");
      rank.tensors.dv = buffer("dv");
    }
    rank.tensors.lse = static_cast<float*>(lse(alone.memory, rank));
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  }

  RingOptions options_;
  GivenProblem<AttentionBackward> given_;
  const Engine* engine_ = nullptr;
  Checked checked_ = Checked::kAll;
  std::optional<LazyInputs> lazy_;
  TensorMap inputs_;
  Reference reference_;
  const Device* device_ = nullptr;
  std::unique_ptr<Alone> whole_, share_;  ///< of the problem
};

class RingProgram final : public ChapterProgram {
 public:
  const std::string& name() const override { return name_; }
  const std::string& title() const override { return title_; }
  std::vector<std::pair<std::string, std::string>> variants() const override {
    std::vector<std::pair<std::string, std::string>> variants;
    for (const Method& method : methods()) variants.emplace_back(method.name, method.summary);
    return variants;
  }
  std::unique_ptr<ChapterRun> new_run() const override { return std::make_unique<RingRun>(); }

 private:
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

}  // namespace

int run_rank(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  if (Ranks::instance().rank() == 0) return run_program(ring_chapter(), argc, argv, out, err);
  std::ostream nowhere(nullptr);
  const std::vector<const char*> kept = without_files(argc, argv);
  return run_program(ring_chapter(), int(kept.size()), kept.data(), nowhere, nowhere);
}

AnyChapter ring_chapter() { return AnyChapter(std::make_shared<RingProgram>()); }

}  // namespace fa::ch13
