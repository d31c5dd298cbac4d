#include "attention/attention_backward.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "attention/fp32_errors.hpp"
#include "attention/gradient_formulas.hpp"
#include "attention/half.hpp"
#include "attention/parallel.hpp"
#include "attention/problem.hpp"
#include "attention/weighted_rows.hpp"

namespace fa {

static_assert(Problem<AttentionBackward>);

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kBlock = 64;  // queries or keys computed together

/// The tensors of a problem, and the statistics of each row of scores.
struct Backward {
  const AttentionShape& shape;
  const GradientFormulas formulas;
  std::vector<float> q, k, v, d_o;
  std::vector<double> lse;  ///< [batch * heads * seq_q]
  std::vector<double> d;    ///< [batch * heads * seq_q]: rowsum(dO * O)
  /// [batch * heads * seq_q]: the Euclidean norm of the terms of that sum. It is how far rounding errors of O
  /// of a relative size of 1 move D, if they are independent.
  std::vector<double> d_norm;

  Backward(const AttentionShape& problem, const TensorMap& inputs, const GradientFormulas& of_gradients = {})
      : shape(problem),
        formulas(of_gradients),
        q(rounded_to(shape.dtype, inputs.at("q").data)),
        k(rounded_to(shape.dtype, inputs.at("k").data)),
        v(rounded_to(shape.dtype, inputs.at("v").data)),
        d_o(rounded_to(shape.dtype, inputs.at("do").data)) {
    Reference forward = AttentionForward::reference(shape, inputs);
    lse = std::move(forward.at("lse"));
    const std::vector<double>& o = forward.at("o");
    d.assign(lse.size(), 0.0);
    d_norm.assign(lse.size(), 0.0);
    for (std::size_t element = 0; element < o.size(); ++element) {
      const std::size_t row = element / std::size_t(shape.value_dim());
      const std::int64_t col = std::int64_t(element) % shape.value_dim() - formulas.first_col_of_d;
      const std::int64_t cols = formulas.cols_of_d > 0 ? formulas.cols_of_d : shape.value_dim();
      if (col < 0 || col >= cols || col % formulas.step_of_d != 0) continue;
      const double term = (formulas.do_in_d ? d_o[element] : o[element]) * d_o[element];
      d[row] += term;
      d_norm[row] = std::hypot(d_norm[row], term);
    }
  }

  /// Some rows of Q or K, and of V or dO.
  Matrix rows(const std::vector<float>& tensor, std::int64_t first, std::int64_t count) const {
    return rows(tensor, first, count, shape.head_dim);
  }
  Matrix value_rows(const std::vector<float>& tensor, std::int64_t first, std::int64_t count) const {
    return rows(tensor, first, count, shape.value_dim());
  }

  /// P and dS for some queries of a head and some of its keys. Both are 0 if the mask hides the key.
  std::pair<Matrix, Matrix> p_and_ds(std::int64_t head, std::int64_t first_query, const Matrix& q_rows,
                                     const Matrix& d_o_rows, std::int64_t first_key, const Matrix& k_rows,
                                     const Matrix& v_rows) const {
    Matrix p = shape.logit_scale() * (q_rows * k_rows.transpose());
    Matrix ds = d_o_rows * (formulas.k_in_dp ? k_rows : v_rows).transpose();
    for (std::int64_t query = 0; query < p.rows(); ++query) {
      const auto row = std::size_t(head * shape.seq_q + first_query + query);
      const std::int64_t visible = shape.visible_keys(first_query + query) - first_key;
      for (std::int64_t key = 0; key < p.cols(); ++key) {
        double &of_p = p(query, key), &of_ds = ds(query, key);  // so far the logit and dP
        if (key >= visible) {
          of_p = of_ds = 0;
          continue;
        }
        const double weight = std::exp(of_p - lse[row]), dp = of_ds;
        of_p = formulas.weight_of_dv(weight, dp, d[row]);
        of_ds = formulas.ds(weight, dp, d[row]);
      }
    }
    return {std::move(p), std::move(ds)};
  }

  /// Calls body(P, dS, K) for the blocks of keys that these queries see.
  template <class Body>
  void for_seen_keys(std::int64_t head, std::int64_t first_query, const Matrix& q_rows,
                     const Matrix& d_o_rows, Body body) const {
    const std::int64_t seen = shape.visible_keys(first_query + q_rows.rows() - 1);
    for (std::int64_t first_key = 0; first_key < seen; first_key += kBlock) {
      const std::int64_t key_row = shape.kv_head(head) * shape.seq_k + first_key;
      const std::int64_t keys = std::min(kBlock, seen - first_key);
      const Matrix k_rows = rows(k, key_row, keys), v_rows = value_rows(v, key_row, keys);
      const auto [p, ds] = p_and_ds(head, first_query, q_rows, d_o_rows, first_key, k_rows, v_rows);
      body(p, ds, formulas.v_in_dq ? v_rows : k_rows);
    }
  }

 private:
  static Matrix rows(const std::vector<float>& tensor, std::int64_t first, std::int64_t count,
                     std::int64_t cols) {
    return Eigen::Map<const FloatMatrix>(tensor.data() + first * cols, count, cols).cast<double>();
  }
};

/// Calls body(number) for 0 .. count - 1, on all cores.
template <class Body>
void for_each(std::int64_t count, Body body) {
  parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) body(number);
  });
}

/// Half a unit in the last place of 1: the largest relative error of one rounding.
double half_a_unit(DType dtype) { return dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8; }

Eigen::Map<Matrix> rows_of(std::vector<double>& tensor, std::int64_t first, std::int64_t count,
                           std::int64_t head_dim) {
  return {tensor.data() + first * head_dim, count, head_dim};
}

}  // namespace

Reference gradients(const AttentionShape& shape, const TensorMap& inputs, const GradientFormulas& formulas) {
  const Backward b(shape, inputs, formulas);
  const double scale_of_dq = shape.logit_scale() * b.formulas.scale_of_dq;
  const double scale_of_dk = shape.logit_scale() * b.formulas.scale_of_dk;

  // Outer loop over queries, inner loop over keys: dQ.
  const std::int64_t heads = shape.batch * shape.heads, group = shape.heads / shape.kv_heads;
  const std::int64_t query_blocks = tiles(shape.seq_q, kBlock), key_blocks = tiles(shape.seq_k, kBlock);
  std::vector<double> dq(b.q.size(), 0.0), dk(b.k.size(), 0.0), dv(b.v.size(), 0.0);
  for_each(heads * query_blocks, [&](std::int64_t number) {
    const std::int64_t head = number / query_blocks, first_query = number % query_blocks * kBlock;
    const std::int64_t queries = std::min(kBlock, shape.seq_q - first_query);
    const std::int64_t first_row = head * shape.seq_q + first_query;
    const Matrix q_rows = b.rows(b.q, first_row, queries), d_o_rows = b.value_rows(b.d_o, first_row, queries);
    Eigen::Map<Matrix> dq_rows = rows_of(dq, first_row, queries, shape.head_dim);
    b.for_seen_keys(head, first_query, q_rows, d_o_rows,
                    [&](const Matrix&, const Matrix& ds, const Matrix& operand) {
                      dq_rows.noalias() += scale_of_dq * weighted_rows(ds, operand);
                    });
  });

  // Outer loop over keys, inner loop over the queries of all heads that share them: dK and dV.
  for_each(shape.batch * shape.kv_heads * key_blocks, [&](std::int64_t number) {
    const std::int64_t kv_head = number / key_blocks, first_key = number % key_blocks * kBlock;
    const std::int64_t keys = std::min(kBlock, shape.seq_k - first_key);
    const std::int64_t key_row = kv_head * shape.seq_k + first_key;
    const Matrix k_rows = b.rows(b.k, key_row, keys), v_rows = b.value_rows(b.v, key_row, keys);
    Eigen::Map<Matrix> dk_rows = rows_of(dk, key_row, keys, shape.head_dim);
    Eigen::Map<Matrix> dv_rows = rows_of(dv, key_row, keys, shape.value_dim());
    const std::int64_t first_head = kv_head * group, heads_of_key = b.formulas.one_head ? 1 : group;
    for (std::int64_t head = first_head; head < first_head + heads_of_key; ++head) {
      for (std::int64_t first_query = 0; first_query < shape.seq_q; first_query += kBlock) {
        const std::int64_t queries = std::min(kBlock, shape.seq_q - first_query);
        if (shape.visible_keys(first_query + queries - 1) <= first_key) continue;
        const std::int64_t first_row = head * shape.seq_q + first_query;
        const Matrix q_rows = b.rows(b.q, first_row, queries),
                     d_o_rows = b.value_rows(b.d_o, first_row, queries);
        const auto [p, ds] = b.p_and_ds(head, first_query, q_rows, d_o_rows, first_key, k_rows, v_rows);
        dv_rows.noalias() += weighted_rows<Matrix>(p.transpose(), b.formulas.q_in_dv ? q_rows : d_o_rows);
        dk_rows.noalias() +=
            scale_of_dk * weighted_rows<Matrix>(ds.transpose(), b.formulas.do_in_dk ? d_o_rows : q_rows);
      }
    }
  });
  return {{"dq", std::move(dq)}, {"dk", std::move(dk)}, {"dv", std::move(dv)}};
}

std::vector<TensorSpec> AttentionBackward::inputs(const Shape& shape) {
  return {shape.tensor("q"), shape.tensor("k"), shape.tensor("v"), shape.tensor("do")};
}

std::vector<TensorSpec> AttentionBackward::outputs(const Shape& shape) {
  return {shape.tensor("dq"), shape.tensor("dk"), shape.tensor("dv")};
}

TensorMap AttentionBackward::random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
  TensorMap tensors = AttentionForward::random_inputs(shape, init, seed);
  const TensorSpec d_o = inputs(shape).back();
  tensors.emplace(d_o.name, random_tensor(d_o, init == Init::kUniform ? init : Init::kNormal, seed));
  return tensors;
}

Reference AttentionBackward::reference(const Shape& shape, const TensorMap& inputs) {
  return gradients(shape, inputs);
}

Tolerances AttentionBackward::tolerances(const Shape& shape) {
  // In 16 bits, what standard backward needs on normal inputs: it rounds P, dP, dS and each gradient to half
  // a unit in the last place of 1.
  const double limit = shape.dtype == DType::kFloat32 ? 2e-5 : 4 * half_a_unit(shape.dtype);
  const Tolerance of_each{Measure::kRelL2, limit};
  // With one key, P is 1 whatever Q and K are. dQ and dK are 0; dP - D is only a rounding error, relative to
  // nothing.
  const Tolerance of_zeros{Measure::kMaxAbs, 5 * limit};
  const Tolerance of_dq_and_dk = shape.seq_k == 1 ? of_zeros : of_each;
  return {{"dq", of_dq_and_dk}, {"dk", of_dq_and_dk}, {"dv", of_each}};
}

namespace {

/// Raises the limits of dQ and dK by what rounding O to 16 bits costs.
void widen_for_rounded_o(const AttentionShape& shape, const TensorMap& inputs, const Reference& gradients,
                         Tolerances& limits) {
  // An error e_i of D_i changes dQ_i by -scale * e_i * sum_j P_ij k_j, and dK_j by -scale * sum_i P_ij e_i
  // q_i.
  const Backward b(shape, inputs);
  const std::int64_t heads = shape.batch * shape.heads, query_blocks = tiles(shape.seq_q, kBlock);
  std::vector<double> squares_of_dq(b.lse.size(), 0.0), squares_of_dk(b.lse.size(), 0.0);  // by query
  for_each(heads * query_blocks, [&](std::int64_t number) {
    const std::int64_t head = number / query_blocks, first_query = number % query_blocks * kBlock;
    const std::int64_t queries = std::min(kBlock, shape.seq_q - first_query);
    const std::int64_t first_row = head * shape.seq_q + first_query;
    const Matrix q_rows = b.rows(b.q, first_row, queries), d_o_rows = b.value_rows(b.d_o, first_row, queries);
    Matrix mean_of_k = Matrix::Zero(queries, shape.head_dim);
    Eigen::VectorXd squares_of_p = Eigen::VectorXd::Zero(queries);
    b.for_seen_keys(head, first_query, q_rows, d_o_rows,
                    [&](const Matrix& p, const Matrix&, const Matrix& k_rows) {
                      mean_of_k.noalias() += p * k_rows;
                      squares_of_p += p.rowwise().squaredNorm();
                    });
    for (std::int64_t query = 0; query < queries; ++query) {
      const auto row = std::size_t(first_row + query);
      const double error = shape.logit_scale() * half_a_unit(shape.dtype) * b.d_norm[row];
      squares_of_dq[row] = error * error * mean_of_k.row(query).squaredNorm();
      squares_of_dk[row] = error * error * squares_of_p[query] * q_rows.row(query).squaredNorm();
    }
  });
  const auto widen = [&](const char* name, const std::vector<double>& squares) {
    const std::vector<double>& gradient = gradients.at(name);
    const double norm =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    const double error = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
    if (norm > 0) limits.at(name).limit += error / norm;
  };
  widen("dq", squares_of_dq);
  widen("dk", squares_of_dk);
}

}  // namespace

Tolerances AttentionBackward::tolerances(const Shape& shape, const TensorMap& inputs,
                                         const Reference& gradients) {
  Tolerances limits = tolerances(shape);
  if (shape.dtype != DType::kFloat32 && shape.seq_k > 1)
    widen_for_rounded_o(shape, inputs, gradients, limits);
  widen_for_fp32(shape, Scores::of(shape), inputs, AttentionForward::reference(shape, inputs), gradients,
                 limits);
  accept_nan_of_hidden_keys(shape, inputs, limits);
  return limits;
}

double AttentionBackward::flops(const Shape& shape) {
  return 2.0 * double(shape.batch) * double(shape.heads) * double(shape.visible_pairs()) *
         double(3 * shape.head_dim + 2 * shape.value_dim());
}

}  // namespace fa
