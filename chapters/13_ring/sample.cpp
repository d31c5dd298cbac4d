#include "sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "attention/half.hpp"
#include "attention/parallel.hpp"

namespace fa::ch13 {
namespace {

/// The online softmax of one query over some keys: chapter 02's statistics, and a row of O that is not yet
/// normalised.
struct Partial {
  double m = -std::numeric_limits<double>::infinity(), l = 0;
  std::vector<double> o;

  void add(double score, const std::vector<float>& v) {
    if (score > m) scale_to(score);
    const double p = std::exp(score - m);
    l += p;
    for (std::size_t col = 0; col < o.size(); ++col) o[col] += p * double(v[col]);
  }
  void add(Partial other) {
    if (other.l == 0) return;
    other.m > m ? scale_to(other.m) : other.scale_to(m);
    l += other.l;
    for (std::size_t col = 0; col < o.size(); ++col) o[col] += other.o[col];
  }

 private:
  void scale_to(double maximum) {
    const double factor = l == 0 ? 0 : std::exp(m - maximum);
    m = maximum;
    l *= factor;
    for (double& x : o) x *= factor;
  }
};

}  // namespace

std::vector<float> LazyInputs::row(const std::string& tensor, std::int64_t head, std::int64_t token) const {
  const std::int64_t d = shape_.head_dim, first = (head * shape_.seq_q + token) * d;
  const RandomElements elements(tensor, d, init_, seed_);
  std::vector<float> row(static_cast<std::size_t>(d));
  for (std::int64_t col = 0; col < d; ++col) row[std::size_t(col)] = elements[first + col];
  return rounded_to(shape_.dtype, row);
}

SampledRows sampled_rows(const AttentionShape& shape, const LazyInputs& inputs, std::int64_t head,
                         const std::vector<std::int64_t>& queries) {
  const std::size_t d = std::size_t(shape.head_dim);
  std::vector<std::vector<float>> q;
  for (const std::int64_t query : queries) q.push_back(inputs.row("q", head, query));
  const auto nothing = [&] {
    return std::vector<Partial>(queries.size(), Partial{.o = std::vector<double>(d)});
  };
  std::vector<Partial> sums = nothing();
  std::mutex mutex;
  constexpr std::int64_t kKeysAtOnce = 4096;
  parallel_for(shape.seq_k, kKeysAtOnce, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Partial> part = nothing();
    for (std::int64_t key = begin; key < end; ++key) {
      const std::vector<float> k = inputs.row("k", shape.kv_head(head), key);
      const std::vector<float> v = inputs.row("v", shape.kv_head(head), key);
      for (std::size_t row = 0; row < queries.size(); ++row) {
        if (shape.causal && key > queries[row]) continue;
        double product = 0;
        for (std::size_t col = 0; col < d; ++col) product += double(q[row][col]) * double(k[col]);
        part[row].add(shape.logit_scale() * product, v);
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t row = 0; row < queries.size(); ++row) sums[row].add(std::move(part[row]));
  });
  SampledRows rows;
  for (const Partial& sum : sums) {
    for (const double x : sum.o) rows.o.push_back(x / sum.l);
    rows.lse.push_back(sum.m + std::log(sum.l));
  }
  return rows;
}

}  // namespace fa::ch13
