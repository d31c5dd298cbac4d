/// @file
/// Sums of rows with weights, some of which are those of hidden keys.
#pragma once

#include <Eigen/Core>

namespace fa {

/// weights * rows. A weight of 0 counts for nothing, even if its row has a NaN.
template <class Matrix>
Matrix weighted_rows(const Matrix& weights, const Matrix& rows) {
  if (rows.allFinite()) return weights * rows;
  Matrix sums = Matrix::Zero(weights.rows(), rows.cols());
  for (Eigen::Index i = 0; i < weights.rows(); ++i) {
    for (Eigen::Index j = 0; j < rows.rows(); ++j) {
      if (weights(i, j) != 0) sums.row(i) += weights(i, j) * rows.row(j);
    }
  }
  return sums;
}

}  // namespace fa
