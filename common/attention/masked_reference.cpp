#include "attention/masked_reference.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "attention/half.hpp"
#include "attention/parallel.hpp"
#include "attention/weighted_rows.hpp"

namespace fa {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kBlock = 64;         // queries or keys computed together
constexpr std::int64_t kLargestTile = 128;  // in which wrong kernels see keys after the last one

/// Calls body(number) for 0 .. count - 1, on all cores.
template <class Body>
void for_each(std::int64_t count, Body body) {
  parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) body(number);
  });
}

/// Some queries of a head.
struct Queries {
  std::int64_t head, first, count;
};

/// A problem with its tensors.
class Masked {
 public:
  Masked(const MaskedShape& shape, const TensorMap& inputs, const MaskedFormulas& formulas)
      : shape_(shape),
        formulas_(formulas),
        dropout_(Dropout::of(shape.dropout, shape.dropout_seed)),
        keys_(formulas.sees ? tiles(shape.seq_k, kLargestTile) * kLargestTile : shape.seq_k),
        q_(rounded_to(shape.dtype, inputs.at("q").data)),
        k_(rows_of_keys(inputs.at("k").data)),
        v_(rows_of_keys(inputs.at("v").data)) {
    if (shape.backward) d_o_ = rounded_to(shape.dtype, inputs.at("do").data);
  }

  std::int64_t rows() const { return shape_.batch * shape_.heads * shape_.seq_q; }

  /// O and LSE.
  Reference forward() const {
    std::vector<double> o(q_.size(), 0.0), lse(std::size_t(rows()), -kInf);
    for_each_block_of_queries([&](const Queries& queries) { attend(queries, o, lse); });
    return {{"o", std::move(o)}, {"lse", std::move(lse)}};
  }

  /// dQ, dK and dV.
  Reference backward() {
    prepare_backward();
    const double scale_of_dq = shape_.logit_scale() * formulas_.scale_of_dq;
    const double scale_of_dk = shape_.logit_scale() * formulas_.scale_of_dk;
    const std::int64_t d = shape_.head_dim, group = shape_.heads / shape_.kv_heads;
    const std::int64_t kv_heads = shape_.batch * shape_.kv_heads, key_blocks = tiles(shape_.seq_k, kBlock);
    std::vector<double> dq(q_.size(), 0.0);
    std::vector<double> dk(std::size_t(kv_heads * shape_.seq_k * d), 0.0), dv = dk;

    for_each_block_of_queries([&](const Queries& queries) {
      Eigen::Map<Matrix> dq_rows(dq.data() + row_of(queries) * d, queries.count, d);
      for_seen_blocks(queries, [&](const Matrix&, const Matrix& ds, const Matrix& k_rows) {
        dq_rows.noalias() += scale_of_dq * weighted_rows(ds, k_rows);
      });
    });

    // Outer loop over keys, inner loop over the queries of all heads that share them.
    for_each(kv_heads * key_blocks, [&](std::int64_t number) {
      const std::int64_t kv_head = number / key_blocks, first = number % key_blocks * kBlock;
      const KeyRange keys = {first, std::min(first + kBlock, shape_.seq_k)};
      const std::int64_t count = keys.end - keys.first;
      Eigen::Map<Matrix> dk_rows(dk.data() + (kv_head * shape_.seq_k + first) * d, count, d);
      Eigen::Map<Matrix> dv_rows(dv.data() + (kv_head * shape_.seq_k + first) * d, count, d);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (std::int64_t query = 0; query < shape_.seq_q; query += kBlock) {
          const Queries queries = {head, query, std::min(kBlock, shape_.seq_q - query)};
          const auto seen = seen_by(queries, keys);
          if (is_empty(seen)) continue;
          const auto [p, ds] = p_and_ds(queries, keys, seen);
          dv_rows.noalias() += weighted_rows<Matrix>(p.transpose(), query_rows(d_o_, queries));
          dk_rows.noalias() += scale_of_dk * weighted_rows<Matrix>(ds.transpose(), query_rows(q_, queries));
        }
      }
    });
    Reference gradients = {{"dq", std::move(dq)}, {"dk", std::move(dk)}, {"dv", std::move(dv)}};
    if (shape_.sinks && shape_.part_of_whole.empty()) {
      std::vector<double>& dsinks = gradients["dsinks"];
      dsinks.assign(std::size_t(shape_.heads), 0.0);
      for (std::size_t row = 0; row < lse_.size(); ++row)
        dsinks[std::size_t(head_of_row(row) % shape_.heads)] += formulas_.dsink(p_of_sink(row), d_[row]);
    }
    return gradients;
  }

  /// An error e of D in a row changes its dQ by -scale * e * sum_j P_j s'_j k_j, and dK_j by -scale * e * P_j
  /// s'_j q.
  ErrorsOfGradients errors_from_rounding_o() {
    prepare_backward();
    const double half_a_unit = shape_.dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    formulas_.ds = [](double p, double, double, double) { return p; };
    std::vector<double> squares_of_dq(lse_.size(), 0.0), squares_of_dk(lse_.size(), 0.0);  // by query
    double squares_of_dsinks = 0;
    for (std::size_t row = 0; row < lse_.size(); ++row)
      squares_of_dsinks += std::pow(half_a_unit * p_of_sink(row) * d_norm_[row], 2);
    for_each_block_of_queries([&](const Queries& queries) {
      Matrix sum_of_k = Matrix::Zero(queries.count, shape_.head_dim);
      Eigen::VectorXd squares_of_p = Eigen::VectorXd::Zero(queries.count);
      for_seen_blocks(queries, [&](const Matrix&, const Matrix& ds, const Matrix& k_rows) {
        sum_of_k.noalias() += ds * k_rows;
        squares_of_p += ds.rowwise().squaredNorm();
      });
      const Matrix q_rows = query_rows(q_, queries);
      for (std::int64_t query = 0; query < queries.count; ++query) {
        const auto row = std::size_t(row_of(queries) + query);
        const double error = shape_.logit_scale() * half_a_unit * d_norm_[row];
        squares_of_dq[row] = error * error * sum_of_k.row(query).squaredNorm();
        squares_of_dk[row] = error * error * squares_of_p[query] * q_rows.row(query).squaredNorm();
      }
    });
    return {.dq = std::sqrt(std::accumulate(squares_of_dq.begin(), squares_of_dq.end(), 0.0)),
            .dk = std::sqrt(std::accumulate(squares_of_dk.begin(), squares_of_dk.end(), 0.0)),
            .row_of_dq = std::sqrt(*std::max_element(squares_of_dq.begin(), squares_of_dq.end())),
            .dsinks = 4 * std::sqrt(squares_of_dsinks)};
  }

 private:
  using Seen = std::vector<std::vector<KeyRange>>;  ///< by query

  /// K or V in the shape's dtype, with zeros for keys that do not exist.
  std::vector<float> rows_of_keys(const std::vector<float>& given) const {
    const std::vector<float> rounded = rounded_to(shape_.dtype, given);
    const std::int64_t d = shape_.head_dim;
    std::vector<float> rows(std::size_t(shape_.batch * shape_.kv_heads * keys_ * d), 0.0f);
    for (std::int64_t head = 0; head < shape_.batch * shape_.kv_heads; ++head) {
      const std::int64_t exist =
          shape_.key_lengths ? (*shape_.key_lengths)[std::size_t(head / shape_.kv_heads)] : shape_.seq_k;
      std::copy_n(rounded.begin() + head * shape_.seq_k * d, exist * d, rows.begin() + head * keys_ * d);
    }
    return rows;
  }

  std::int64_t row_of(const Queries& queries) const { return queries.head * shape_.seq_q + queries.first; }

  Matrix query_rows(const std::vector<float>& tensor, const Queries& queries) const {
    const float* data = tensor.data() + row_of(queries) * shape_.head_dim;
    return Eigen::Map<const FloatMatrix>(data, queries.count, shape_.head_dim).cast<double>();
  }
  Matrix key_rows(const std::vector<float>& tensor, std::int64_t head, KeyRange keys) const {
    const float* data = tensor.data() + (shape_.kv_head(head) * keys_ + keys.first) * shape_.head_dim;
    return Eigen::Map<const FloatMatrix>(data, keys.end - keys.first, shape_.head_dim).cast<double>();
  }

  template <class Body>
  void for_each_block_of_queries(Body body) const {
    const std::int64_t blocks = tiles(shape_.seq_q, kBlock);
    for_each(shape_.batch * shape_.heads * blocks, [&](std::int64_t number) {
      const std::int64_t first = number % blocks * kBlock;
      body(Queries{number / blocks, first, std::min(kBlock, shape_.seq_q - first)});
    });
  }

  std::vector<KeyRange> seen_keys(std::int64_t head, std::int64_t query, KeyRange of) const {
    if (!formulas_.sees) return shape_.seen_keys(head, query, of);
    std::vector<KeyRange> seen;
    for (std::int64_t key = of.first; key < of.end; ++key) {
      if (!formulas_.sees(head, query, key)) continue;
      if (!seen.empty() && seen.back().end == key) {
        ++seen.back().end;
      } else {
        seen.push_back({key, key + 1});
      }
    }
    return seen;
  }

  Seen seen_by(const Queries& queries, KeyRange of) const {
    Seen seen;
    for (std::int64_t query = 0; query < queries.count; ++query)
      seen.push_back(seen_keys(queries.head, queries.first + query, of));
    return seen;
  }

  static bool is_empty(const Seen& seen) {
    return std::all_of(seen.begin(), seen.end(), [](const auto& keys) { return keys.empty(); });
  }

  /// From the first key that one of the queries sees to the last.
  static KeyRange all_of(const Seen& seen) {
    KeyRange all = {std::numeric_limits<std::int64_t>::max(), 0};
    for (const std::vector<KeyRange>& keys : seen) {
      if (keys.empty()) continue;
      all = {std::min(all.first, keys.front().first), std::max(all.end, keys.back().end)};
    }
    return all.end == 0 ? KeyRange{0, 0} : all;
  }

  double score(double product, std::int64_t head, std::int64_t query, std::int64_t key) const {
    return formulas_.score ? formulas_.score(product, head, query, key)
                           : shape_.score(product, head, query, key);
  }

  /// The logit that rows of a head have besides those of the keys; -inf: none.
  double sink(std::int64_t head) const {
    const double given = shape_.sink(head);
    return formulas_.sink ? formulas_.sink(given, head) : given;
  }
  std::int64_t head_of_row(std::size_t row) const { return std::int64_t(row) / shape_.seq_q; }
  /// Its probability in a row, after prepare_backward().
  double p_of_sink(std::size_t row) const {
    const double logit = sink(head_of_row(row));
    return logit == -kInf || lse_[row] == -kInf ? 0 : std::exp(logit - lse_[row]);
  }

  /// What dropout multiplies an element of P by.
  double z(std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (dropout_.kept == Dropout::kOf) return 1;
    const bool kept = formulas_.keeps ? formulas_.keeps(head, query, key)
                                      : dropout_.keeps(int(shape_.head_in_whole(head)), int(query), int(key));
    return kept ? formulas_.scale_of_kept * Dropout::kOf / dropout_.kept : 0;
  }

  void attend(const Queries& queries, std::vector<double>& o, std::vector<double>& lse) const {
    const Seen seen = seen_by(queries, {0, keys_});
    const KeyRange all = all_of(seen);
    const double sink = this->sink(queries.head);
    if (all.end == 0) {
      if (formulas_.sink_in_lse) std::fill_n(lse.begin() + row_of(queries), queries.count, sink);
      return;
    }
    Matrix s = shape_.logit_scale() * (query_rows(q_, queries) * key_rows(k_, queries.head, all).transpose());
    const Matrix v_rows = key_rows(v_, queries.head, all);
    for (std::int64_t query = 0; query < queries.count; ++query) {
      const std::int64_t row = row_of(queries) + query;
      Eigen::Map<Eigen::RowVectorXd> o_row(o.data() + row * shape_.head_dim, shape_.head_dim);
      double& lse_of_row = lse[std::size_t(row)];
      double max = sink;
      bool is_number = !std::isnan(sink) && sink < kInf;
      const auto for_seen = [&](auto body) {
        for (const KeyRange& keys : seen[std::size_t(query)]) {
          for (std::int64_t key = keys.first; key < keys.end; ++key) body(s(query, key - all.first), key);
        }
      };
      for_seen([&](double& x, std::int64_t key) {
        x = score(x, queries.head, queries.first + query, key);
        is_number = is_number && !std::isnan(x) && x < kInf;
        max = std::max(max, x);
      });
      if (!is_number) {
        o_row.setConstant(kNaN);
        lse_of_row = kNaN;
      }
      if (!is_number || max == -kInf) continue;
      double sum = 0;
      for_seen([&](double& x, std::int64_t key) {
        const double p = std::exp(x - max), kept = z(queries.head, queries.first + query, key);
        sum += formulas_.sums_kept ? p * kept : p;
        x = p * kept;
      });
      for (const KeyRange& keys : seen[std::size_t(query)]) {
        const std::int64_t first = keys.first - all.first, count = keys.end - keys.first;
        o_row.noalias() += s.row(query).segment(first, count) * v_rows.middleRows(first, count);
      }
      const double of_sink = std::exp(sink - max);
      const double divisor = formulas_.sink_divides_o ? sum + of_sink : sum;
      if (divisor > 0) o_row /= divisor;  // 0 if all that count are dropped
      lse_of_row = max + std::log(formulas_.sink_in_lse ? sum + of_sink : sum);
    }
  }

  /// LSE, and D = rowsum(dO o O).
  void prepare_backward() {
    const Dropout dropout = dropout_;
    if (!formulas_.drops_in_d) dropout_ = Dropout::of(0, 0);
    Reference outputs = forward();
    dropout_ = dropout;
    lse_ = std::move(outputs.at("lse"));
    const std::vector<double>& o = outputs.at("o");
    d_.assign(lse_.size(), 0.0);
    d_norm_.assign(lse_.size(), 0.0);
    for (std::size_t element = 0; element < o.size(); ++element) {
      const std::size_t row = element / std::size_t(shape_.head_dim);
      const double term = o[element] * d_o_[element];
      d_[row] += term;
      d_norm_[row] = std::hypot(d_norm_[row], term);
    }
  }

  /// P o Z and dS for some queries and keys. Both are 0 for a key that a query does not see.
  std::pair<Matrix, Matrix> p_and_ds(const Queries& queries, KeyRange keys, const Seen& seen) const {
    const Matrix products =
        shape_.logit_scale() * (query_rows(q_, queries) * key_rows(k_, queries.head, keys).transpose());
    const Matrix dp = query_rows(d_o_, queries) * key_rows(v_, queries.head, keys).transpose();
    Matrix p = Matrix::Zero(dp.rows(), dp.cols()), ds = p;
    for (std::int64_t query = 0; query < queries.count; ++query) {
      const auto row = std::size_t(row_of(queries) + query);
      const std::int64_t at = queries.first + query;
      if (lse_[row] == -kInf) continue;
      for (const KeyRange& range : seen[std::size_t(query)]) {
        for (std::int64_t key = range.first; key < range.end; ++key) {
          const std::int64_t col = key - keys.first;
          const double product = products(query, col);
          const double weight = std::exp(score(product, queries.head, at, key) - lse_[row]);
          const double kept = z(queries.head, at, key);
          const double derivative = formulas_.score_derivative ? formulas_.score_derivative(product)
                                                               : shape_.score_derivative(product);
          p(query, col) = formulas_.weight_of_dv(weight, dp(query, col), d_[row], kept);
          ds(query, col) = formulas_.ds(weight, dp(query, col), d_[row], kept) * derivative;
        }
      }
    }
    return {std::move(p), std::move(ds)};
  }

  /// Calls body(P o Z, dS, K) for the blocks of keys that one of these queries sees.
  template <class Body>
  void for_seen_blocks(const Queries& queries, Body body) const {
    for (std::int64_t first = 0; first < keys_; first += kBlock) {
      const KeyRange keys = {first, std::min(first + kBlock, keys_)};
      const Seen seen = seen_by(queries, keys);
      if (is_empty(seen)) continue;
      const auto [p, ds] = p_and_ds(queries, keys, seen);
      body(p, ds, key_rows(k_, queries.head, keys));
    }
  }

  const MaskedShape& shape_;
  MaskedFormulas formulas_;
  Dropout dropout_;
  std::int64_t keys_;  ///< of each head, with those after the last one
  std::vector<float> q_, k_, v_, d_o_;
  // Of the backward pass, by row of scores:
  std::vector<double> lse_, d_;
  std::vector<double> d_norm_;  ///< the Euclidean norm of the terms of D
};

}  // namespace

Reference masked_reference(const MaskedShape& shape, const TensorMap& inputs,
                           const MaskedFormulas& formulas) {
  Masked masked(shape, inputs, formulas);
  return shape.backward ? masked.backward() : masked.forward();
}

ErrorsOfGradients errors_from_rounding_o(const MaskedShape& shape, const TensorMap& inputs) {
  return Masked(shape, inputs, {}).errors_from_rounding_o();
}

}  // namespace fa
