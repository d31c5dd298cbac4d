#include "attention/fp32_errors.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "attention/half.hpp"
#include "attention/parallel.hpp"

namespace fa {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Array = Eigen::ArrayXd;

constexpr double kHalfUnit = 0x1p-24;  ///< the largest relative error of one rounding
constexpr double kFarthest = 4;        ///< an error of many is rarely more than this many times their norm

/// The error of a sum of `count` products that fp32 arithmetic adds in any order, if its roundings are
/// independent.
/// @param sum  the exact one    @param of_sizes  the sum of the products' absolute values
double error_of_sum(std::int64_t count, double sum, double of_sizes) {
  return kHalfUnit * std::sqrt(double(count)) / 4 * (of_sizes + std::abs(sum));
}

/// By row of scores, what errors in it change: Euclidean norms over the elements of an output.
struct ErrorsOfRows {
  explicit ErrorsOfRows(std::size_t rows) : o(rows), lse(rows), dq(rows), dk(rows), dv(rows), dsinks(rows) {}
  std::vector<double> o, lse, dq, dk, dv, dsinks;
};

/// A row of scores.
class Row {
 public:
  /// @param products, sizes  of each key: scale * q.k, and the same of absolute values
  template <class Products>
  Row(const AttentionShape& shape, const Scores& scores, std::int64_t head, std::int64_t query, double lse,
      const Products& products, const Products& sizes)
      : log_p_(Array::Constant(products.size(), -INFINITY)),
        e_(Array::Zero(products.size())),
        kept_(e_),
        derivative_(e_) {
    for (Eigen::Index key = 0; key < products.size(); ++key) {
      if (!scores.sees(head, query, key)) continue;
      const double s = scores.score(products[key], head, query, key);
      kept_[key] = scores.kept(head, query, key);
      derivative_[key] = scores.derivative(products[key]);
      log_p_[key] = s - lse;
      // The scale and the exponent are rounded as well, and so is a score that is made from a product.
      e_[key] = error_of_sum(shape.head_dim, products[key], sizes[key]) * derivative_[key] +
                kHalfUnit * std::abs(s);
    }
    // Tensor cores round towards zero, and then all errors of a row have the same sign: LSE is off by their
    // mean. It does not change P, only the errors that differ do.
    const Array of_p = log_p_.exp() * e_;
    const double sink = scores.sink(head);
    if (sink > -INFINITY) {
      p_of_sink_ = std::exp(sink - lse);
      e_of_sink_ = kHalfUnit * std::abs(sink);
    }
    error_of_lse_ = kFarthest * (of_p.sum() + p_of_sink_ * e_of_sink_);
    independent_ = std::hypot(of_p.matrix().norm(), p_of_sink_ * e_of_sink_);
  }

  double error_of_lse() const { return error_of_lse_; }

  /// The norm of the row's error of O. O is a mean of rows of V, so that it is off by no more than the
  /// farthest of them.
  template <class RowOfO>
  double error_of_o(const Matrix& v, const RowOfO& o) const {
    double farthest = p_of_sink_ > 0 ? o.squaredNorm() : 0;  // the value of a sink is 0
    double sum = std::pow(of_sink(), 2) * farthest;
    for (Eigen::Index key = 0; key < log_p_.size(); ++key) {
      if (log_p_[key] == -INFINITY) continue;
      const double distance = (kept_[key] * v.row(key) - o).squaredNorm();
      sum += std::pow(of_p(key), 2) * distance;
      farthest = std::max(farthest, distance);
    }
    return std::sqrt(std::min(sum, farthest));
  }

  /// The errors of gradients.
  template <class RowOfQ, class RowOfDo, class RowOfO, class Dp>
  void errors_of_gradients(double scale, const RowOfQ& q, const Matrix& k, const RowOfDo& d_o,
                           const RowOfO& o, const Dp& dp, const Dp& sizes_of_dp, double& dq, double& dk,
                           double& dv, double& dsinks) const {
    const std::int64_t cols = d_o.size();
    const double d = d_o.dot(o);
    const Array p = log_p_.exp();
    Array errors = Array::Zero(p.size()), of_ds = errors;
    double of_d = 0;
    for (Eigen::Index key = 0; key < p.size(); ++key) {
      if (log_p_[key] == -INFINITY) continue;
      errors[key] = of_p(key);
      const double difference = std::abs(kept_[key] * dp[key] - d);
      const double of_dp = kept_[key] * error_of_sum(cols, dp[key], sizes_of_dp[key]);
      of_d += std::pow(errors[key] * difference, 2);
      of_ds[key] = (errors[key] * difference + p[key] * of_dp) * derivative_[key];
    }
    of_d = std::sqrt(of_d) + error_of_sum(cols, d, d_o.cwiseAbs().dot(o.cwiseAbs()));
    const Array weights = p * derivative_;
    dq = scale * std::sqrt((of_ds.square() * k.rowwise().squaredNorm().array()).sum() +
                           of_d * of_d * (weights.matrix().transpose() * k).squaredNorm());
    dk = scale * q.norm() * (of_ds + weights * of_d).matrix().norm();
    dv = d_o.norm() * (errors * kept_).matrix().norm();
    dsinks = of_sink() * std::abs(d) + p_of_sink_ * of_d;
  }

 private:
  /// How far P is off: with its own logit, and with the sum of the row.
  double of_p(Eigen::Index key) const {
    const double e = std::hypot(e_[key], independent_);
    return std::min(1.0, e * std::exp(log_p_[key] + kFarthest * e));
  }
  double of_sink() const {
    const double e = std::hypot(e_of_sink_, independent_);
    return std::min(1.0, e * p_of_sink_ * std::exp(kFarthest * e));
  }

  Array log_p_;  ///< -inf for a key that is not seen
  Array e_;      ///< the error of its score
  Array kept_, derivative_;
  double error_of_lse_ = 0,
         independent_ = 0;  ///< the largest one, and the error of the sum if errors are independent
  double p_of_sink_ = 0, e_of_sink_ = 0;
};

ErrorsOfRows errors_of_rows(const AttentionShape& shape, const Scores& scores, const TensorMap& inputs,
                            const Reference& forward) {
  const auto rounded = [&](const char* name) { return rounded_to(shape.dtype, inputs.at(name).data); };
  const std::vector<float> q = rounded("q"), k = rounded("k"), v = rounded("v");
  const std::vector<float> d_o = inputs.contains("do") ? rounded("do") : std::vector<float>();
  const std::vector<double>&o = forward.at("o"), &lse = forward.at("lse");
  const std::int64_t d = shape.head_dim, d_v = shape.value_dim(), heads = shape.batch * shape.heads;
  const double scale = shape.logit_scale();
  ErrorsOfRows errors(lse.size());

  constexpr std::int64_t kQueries = 64;
  const std::int64_t blocks = tiles(shape.seq_q, kQueries);
  const auto rows_of = [](const std::vector<float>& tensor, std::int64_t first, std::int64_t count,
                          std::int64_t cols) -> Matrix {
    return Eigen::Map<const FloatMatrix>(tensor.data() + first * cols, count, cols).cast<double>();
  };
  const auto of_block = [&](std::int64_t number) {
    const std::int64_t head = number / blocks, first_query = number % blocks * kQueries;
    const std::int64_t queries = std::min(kQueries, shape.seq_q - first_query);
    const std::int64_t first_row = head * shape.seq_q + first_query;
    const std::int64_t first_key = shape.kv_head(head) * shape.seq_k;
    const Matrix q_rows = rows_of(q, first_row, queries, d), k_rows = rows_of(k, first_key, shape.seq_k, d);
    const Matrix v_rows = rows_of(v, first_key, shape.seq_k, d_v);
    const Matrix products = scale * (q_rows * k_rows.transpose());
    const Matrix sizes = scale * (q_rows.cwiseAbs() * k_rows.cwiseAbs().transpose());
    const Matrix o_rows = Eigen::Map<const Matrix>(o.data() + first_row * d_v, queries, d_v);
    Matrix do_rows, dp, sizes_of_dp;
    if (!d_o.empty()) {
      do_rows = rows_of(d_o, first_row, queries, d_v);
      dp = do_rows * v_rows.transpose();
      sizes_of_dp = do_rows.cwiseAbs() * v_rows.cwiseAbs().transpose();
    }
    for (std::int64_t query = 0; query < queries; ++query) {
      const auto at = std::size_t(first_row + query);
      if (!std::isfinite(lse[at])) continue;
      const Row row(shape, scores, head, first_query + query, lse[at], products.row(query), sizes.row(query));
      if (d_o.empty()) {
        errors.o[at] = row.error_of_o(v_rows, o_rows.row(query));
        errors.lse[at] = row.error_of_lse();
      } else {
        row.errors_of_gradients(scale, q_rows.row(query), k_rows, do_rows.row(query), o_rows.row(query),
                                dp.row(query), sizes_of_dp.row(query), errors.dq[at], errors.dk[at],
                                errors.dv[at], errors.dsinks[at]);
      }
    }
  };
  parallel_for(heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) of_block(block);
  });
  return errors;
}

/// The Euclidean norm of the numbers that are finite.
double norm_of(const double* numbers, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::isfinite(numbers[i]) ? numbers[i] * numbers[i] : 0;
  return std::sqrt(sum);
}
double norm_of(const std::vector<double>& numbers) { return norm_of(numbers.data(), numbers.size()); }

/// The largest of the norms of `parts` parts of equal length.
double largest_norm(const std::vector<double>& numbers, std::size_t parts) {
  const std::size_t length = numbers.size() / parts;
  double largest = 0;
  for (std::size_t part = 0; part < parts; ++part)
    largest = std::max(largest, norm_of(numbers.data() + part * length, length));
  return largest;
}

}  // namespace

Scores Scores::of(const AttentionShape& shape) {
  return {
      .sees = [shape](std::int64_t, std::int64_t query,
                      std::int64_t key) { return key < shape.visible_keys(query); },
      .score = [](double product, std::int64_t, std::int64_t, std::int64_t) { return product; },
      .derivative = [](double) { return 1.0; },
      .kept = [](std::int64_t, std::int64_t, std::int64_t) { return 1.0; },
      .sink = [](std::int64_t) { return -INFINITY; },
  };
}

void widen_for_fp32(const AttentionShape& shape, const Scores& scores, const TensorMap& inputs,
                    const Reference& forward, const Reference& expected, Tolerances& limits) {
  const ErrorsOfRows errors = errors_of_rows(shape, scores, inputs, forward);
  const std::size_t rows = errors.o.size(), kv_heads = std::size_t(shape.batch * shape.kv_heads);
  // A row of scores belongs to a row of O, LSE and dQ, and to each key of dK and dV.
  const auto widen = [&](const std::string& name, const std::vector<double>& of_rows, std::size_t parts) {
    const auto found = limits.find(name);
    if (found == limits.end()) return;
    Tolerance& tolerance = found->second;
    const double norm = norm_of(expected.at(name)), error = norm_of(of_rows);
    if (tolerance.measure == Measure::kRelL2 && norm > 0) {
      tolerance.limit = std::max(tolerance.limit, error / norm);
    } else if (tolerance.measure == Measure::kMaxAbs || error > 0) {  // relative to 0, no error is small
      const double least = tolerance.measure == Measure::kMaxAbs ? tolerance.limit : 0;
      tolerance.measure = Measure::kMaxAbs;
      tolerance.limit = std::max(least, largest_norm(of_rows, parts));
    }
  };
  widen("o", errors.o, rows);
  widen("lse", errors.lse, rows);
  widen("dq", errors.dq, rows);
  widen("dk", errors.dk, kv_heads);
  widen("dv", errors.dv, kv_heads);
  widen("dsinks", errors.dsinks, 1);
}

void accept_nan_of_hidden_keys(const AttentionShape& shape, const TensorMap& inputs, Tolerances& limits) {
  const auto kv_heads = std::size_t(shape.batch * shape.kv_heads);
  const auto has_others = [&](const char* name) {  // than finite numbers
    const std::vector<float> data = rounded_to(shape.dtype, inputs.at(name).data);
    const std::size_t length = data.size() / kv_heads;
    std::vector<bool> of_heads;
    for (auto head = data.begin(); head != data.end(); head += std::ptrdiff_t(length)) {
      of_heads.push_back(
          !std::all_of(head, head + std::ptrdiff_t(length), [](float x) { return std::isfinite(x); }));
    }
    return of_heads;
  };
  const auto accept = [&](const char* name, const std::vector<bool>& heads) {
    const auto found = limits.find(name);
    if (found == limits.end()) return;
    std::vector<bool>& accepted = found->second.nan_in_part;
    accepted.resize(kv_heads);
    for (std::size_t head = 0; head < kv_heads; ++head) accepted[head] = accepted[head] || heads[head];
  };
  for (const char* input : {"q", "k", "v", "do"}) {
    if (!inputs.contains(input)) continue;
    const std::vector<bool> heads = has_others(input);
    for (const char* gradient : {"dq", "dk", "dv"}) accept(gradient, heads);
    if (input == std::string("k") || input == std::string("v")) accept("o", heads);
    if (input == std::string("k")) accept("lse", heads);
  }
}

}  // namespace fa
