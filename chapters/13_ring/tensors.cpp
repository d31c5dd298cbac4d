#include "tensors.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <tuple>
#include <variant>

#include "attention/attention_forward.hpp"
#include "attention/half.hpp"
#include "attention/parallel.hpp"
#include "device/launch.cuh"
#include "harness/errors.hpp"
#include "ranks.hpp"

namespace fa::ch13 {
namespace {

/// The elements of one head of one token: head_dim of them, or one of LSE.
struct Row {
  std::int64_t head;   ///< of all batches
  std::int64_t token;  ///< of the sequence
  std::int64_t
      local;  ///< its number among the rank's rows: [tokens, batch, heads], or of LSE [batch, heads, tokens]
};

bool is_lse(const TensorSpec& spec) { return spec.shape.size() == 3; }
std::int64_t row_length(const TensorSpec& spec) { return is_lse(spec) ? 1 : spec.shape[3]; }

std::vector<Row> rows_of(const Split& split, int rank, const TensorSpec& spec) {
  const std::int64_t heads = spec.shape[0] * spec.shape[1], tokens = split.tokens_of(rank);
  std::vector<Row> rows;
  std::int64_t local = 0;
  for (const int piece : split.pieces_of(rank)) {
    for (std::int64_t token = split.piece(piece).begin; token < split.piece(piece).end; ++token, ++local) {
      for (std::int64_t head = 0; head < heads; ++head)
        rows.push_back({head, token, is_lse(spec) ? head * tokens + local : local * heads + head});
    }
  }
  return rows;
}

Buffer buffer_of(const TensorSpec& spec) { return {Name(std::ranges::find(kTensors, spec.name) - kTensors)}; }

/// Some of the rank's rows of a tensor, from device memory.
std::vector<float> download(const Job& job, const TensorSpec& spec, std::int64_t row, std::int64_t rows = 1) {
  const std::int64_t first = row * row_length(spec), count = rows * row_length(spec);
  const auto* const from = static_cast<const std::byte*>(job.buffers().address(buffer_of(spec)));
  const auto copy_to = [&]<class T>(std::vector<T>& to) {
    to.resize(std::size_t(count));
    FA_CUDA_CHECK(cudaMemcpy(to.data(), from + std::size_t(first) * sizeof(T), to.size() * sizeof(T),
                             cudaMemcpyDeviceToHost));
  };
  std::vector<float> numbers;
  if (spec.dtype == DType::kFloat32) {
    copy_to(numbers);
    return numbers;
  }
  std::vector<std::uint16_t> bits;
  copy_to(bits);
  return widen(bits, spec.dtype);
}

}  // namespace

Tensors::Tensors(const GivenProblem<AttentionBackward>& given, bool backward, int sample, Checked checked)
    : given_(given), backward_(backward), sample_(sample), checked_(checked) {
  if (sample == 0 && checked != Checked::kNothing) return;
  std::optional<Init> init;
  std::uint64_t seed = 0;
  for (const auto& [name, value] : given.inputs) {
    if (name == "init") init = init_of(std::get<std::string>(value));
    if (name == "seed") seed = std::get<std::uint64_t>(value);
  }
  const bool fits = init == Init::kNormal || init == Init::kUniform;
  if (!fits && sample > 0) throw UsageError("--sample needs --init normal or uniform");
  if (fits) lazy_.emplace(given.shape, *init, seed);
}

std::vector<TensorSpec> Tensors::inputs() const {
  return backward_ ? AttentionBackward::inputs(given_.shape) : AttentionForward::inputs(given_.shape);
}
std::vector<TensorSpec> Tensors::outputs() const {
  return backward_ ? AttentionBackward::outputs(given_.shape) : AttentionForward::outputs(given_.shape);
}

void Tensors::make() {
  if (lazy_) return;
  whole_ = given_.make_inputs();
  if (checked_ == Checked::kNothing || Ranks::instance().rank() != 0) return;
  reference_ = backward_ ? AttentionBackward::reference(given_.shape, whole_)
                         : AttentionForward::reference(given_.shape, whole_);
}

void Tensors::upload(const Job& job) const {
  const Split& split = job.share().split;
  for (const TensorSpec& spec : inputs()) {
    const std::int64_t d = row_length(spec);
    std::vector<float> local(std::size_t(split.most_tokens() * (spec.elements() / split.tokens)));
    const std::vector<Row> rows = rows_of(split, job.share().rank, spec);
    parallel_for(std::int64_t(rows.size()), 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [head, token, number] = rows[std::size_t(i)];
        const auto to = local.begin() + number * d;
        if (lazy_) {
          std::ranges::copy(lazy_->row(spec.name, head, token), to);
        } else {
          std::copy_n(whole_.at(spec.name).data.begin() + (head * split.tokens + token) * d, d, to);
        }
      }
    });
    const std::vector<std::uint16_t> bits = narrow(local, spec.dtype);
    FA_CUDA_CHECK(cudaMemcpy(job.buffers().address(buffer_of(spec)), bits.data(),
                             bits.size() * sizeof bits[0], cudaMemcpyHostToDevice));
  }
}

void Tensors::check(const Job& job, VariantResult& result) const {
  if (sample_ > 0) {
    check_sample(job, result);
  } else if (checked_ != Checked::kNothing) {
    check_all(job, result);
  }
}

void Tensors::check_all(const Job& job, VariantResult& result) const {
  Ranks& ranks = Ranks::instance();
  const Share& share = job.share();
  for (const TensorSpec& spec : outputs()) {
    const std::int64_t d = row_length(spec), rows = share.tokens() * spec.shape[0] * spec.shape[1];
    const std::vector<float> mine = download(job, spec, 0, rows);
    const std::vector<double> all = ranks.all(std::vector<double>(mine.begin(), mine.end()));
    if (ranks.rank() != 0) continue;
    Tensor& whole = result.outputs[spec.name];
    whole = {.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()))};
    auto from = all.begin();  // of a rank
    for (int rank = 0; rank < ranks.count(); ++rank) {
      const std::vector<Row> rows_of_rank = rows_of(share.split, rank, spec);
      for (const auto& [head, token, number] : rows_of_rank)
        std::copy_n(from + number * d, d, whole.data.begin() + (head * share.split.tokens + token) * d);
      from += std::int64_t(rows_of_rank.size()) * d;
    }
  }
  if (ranks.rank() != 0) return;
  if (backward_) {
    check_variant<AttentionBackward>({}, given_.shape, whole_, result.outputs, reference_, result);
  } else {
    check_variant<AttentionForward>({}, given_.shape, whole_, result.outputs, reference_, result);
  }
}

void Tensors::check_sample(const Job& job, VariantResult& result) const {
  const AttentionShape& shape = given_.shape;
  const Share& share = job.share();
  Ranks& ranks = Ranks::instance();
  const std::int64_t heads = shape.batch * shape.heads;
  const std::vector<TensorSpec> specs = AttentionForward::outputs(shape);  // O, LSE
  const std::vector<Row> rows = rows_of(share.split, share.rank, specs[0]);
  std::vector<std::int64_t> locals, queries;
  const std::int64_t count = std::min<std::int64_t>(sample_, share.tokens());
  for (std::int64_t i = 1; i <= count; ++i) {
    locals.push_back(i * share.tokens() / count - 1);
    queries.push_back(rows[std::size_t(locals.back() * heads)].token);
  }
  std::vector<double> o, lse, expected_o, expected_lse;
  const auto append = [](std::vector<double>& to, const auto& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (std::int64_t head = 0; head < heads; ++head) {
    const SampledRows expected = sampled_rows(shape, *lazy_, head, queries);
    append(expected_o, expected.o);
    append(expected_lse, expected.lse);
    for (const std::int64_t local : locals) {
      append(o, download(job, specs[0], local * heads + head));
      append(lse, download(job, specs[1], head * share.tokens() + local));
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
  result.check = check_outputs(result.outputs, reference, AttentionForward::tolerances(shape));
}

}  // namespace fa::ch13
