#include <cublas_v2.h>

#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "gpusim/cublas/matrix.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};

namespace {

using gpusim::blas::bytes_of;
using gpusim::blas::Matrix;

template <class T>
constexpr cudaDataType kType = std::is_same_v<T, double>  ? CUDA_R_64F
                               : std::is_same_v<T, float> ? CUDA_R_32F
                                                          : CUDA_R_16F;

template <class T>
Matrix matrix(const T* data, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  return {const_cast<T*>(data), kType<T>, rows, cols, ld};
}
Matrix with_type(const void* data, cudaDataType type, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  return {const_cast<void*>(data), type, rows, cols, ld};
}

/// A vector, every inc-th element of memory: a matrix of one row. From the end if inc is negative.
template <class T>
class Vector {
 public:
  Vector(const T* data, int n, int inc) : data_(const_cast<T*>(data)), n_(n), inc_(inc) {}
  Matrix as_matrix() const {
    const std::int64_t step = std::abs(std::int64_t(inc_));
    if (step == 1) return matrix(data_, n_, 1, std::max(1, n_));
    return matrix(data_, 1, n_, step);
  }
  bool read(const char* routine) const { return as_matrix().read(routine); }
  bool write(const char* routine) const { return as_matrix().write(routine); }
  T& operator[](int i) const {
    const std::int64_t at = inc_ >= 0 ? std::int64_t(i) * inc_ : std::int64_t(i + 1 - n_) * inc_;
    return data_[at];
  }

 private:
  T* data_;
  int n_, inc_;
};

/// A routine of a handle: reads scalars and stores results where the pointer mode says.
class Routine {
 public:
  Routine(cublasHandle_t handle, const char* name) : handle_(handle), name_(name) {
    if (handle != nullptr) gpusim::begin_routine(handle->stream, name);
  }
  const char* name() const { return name_; }
  template <class T>
  bool get(const T* from, T& value) const {
    if (from == nullptr) return false;
    if (handle_->pointers == CUBLAS_POINTER_MODE_DEVICE && !gpusim::account_read(from, sizeof(T), name_))
      return false;
    const gpusim::HostRuntime runtime;
    std::memcpy(static_cast<void*>(&value), from, sizeof(T));
    return true;
  }
  template <class T>
  cublasStatus_t put(T* to, T value) const {
    if (to == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (handle_->pointers == CUBLAS_POINTER_MODE_DEVICE && !gpusim::account_write(to, sizeof(T), name_))
      return CUBLAS_STATUS_EXECUTION_FAILED;
    const gpusim::HostRuntime runtime;
    std::memcpy(to, &value, sizeof(T));
    return CUBLAS_STATUS_SUCCESS;
  }

 private:
  cublasHandle_t handle_;
  const char* name_;
};

bool is_transposed(cublasOperation_t op) { return op != CUBLAS_OP_N; }
bool is_operation(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

/// A product, of one matrix or of a batch. @tparam Sum  the type of the sums, and of alpha and beta
template <class Sum>
cublasStatus_t gemm(const Routine& routine, cublasOperation_t transa, cublasOperation_t transb, Sum alpha,
                    Sum beta, const std::vector<Matrix>& a, const std::vector<Matrix>& b,
                    const std::vector<Matrix>& c) {
  bool inside = true;
  for (std::size_t i = 0; i < a.size(); ++i) {  // check all of them, even if one is outside
    if (alpha != Sum(0)) {
      inside = a[i].read(routine.name()) && inside;
      inside = b[i].read(routine.name()) && inside;
    }
    if (beta != Sum(0)) inside = c[i].read(routine.name()) && inside;
    inside = c[i].write(routine.name()) && inside;
  }
  if (!inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<Sum> sums(std::size_t(c[i].rows * c[i].cols), Sum(0));
    if (alpha != Sum(0))
      sums = gpusim::blas::product<Sum>(a[i], is_transposed(transa), b[i], is_transposed(transb));
    for (Sum& sum : sums) sum *= alpha;
    if (beta != Sum(0)) {
      const std::vector<Sum> old = c[i].load<Sum>();
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += beta * old[j];
    }
    c[i].store(sums);
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// The shapes of a product, checked. @param at  gives the matrices of the batch
template <class Sum, class Scalar, class At>
cublasStatus_t gemm_of(cublasHandle_t handle, const char* name, cublasOperation_t transa,
                       cublasOperation_t transb, int m, int n, int k, const Scalar* alpha,
                       const Matrix& shape_a, const Matrix& shape_b, const Scalar* beta,
                       const Matrix& shape_c, int batch, At at) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || !is_operation(transa) || !is_operation(transb))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!shape_a.is_valid() || !shape_b.is_valid() || !shape_c.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  Scalar one{}, other{};
  if (!routine.get(alpha, one) || !routine.get(beta, other)) return CUBLAS_STATUS_INVALID_VALUE;
  std::vector<Matrix> a(std::size_t(batch), shape_a), b(std::size_t(batch), shape_b),
      c(std::size_t(batch), shape_c);
  for (int i = 0; i < batch; ++i) {
    if (!at(i, a[std::size_t(i)], b[std::size_t(i)], c[std::size_t(i)]))
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  return gemm<Sum>(routine, transa, transb, k == 0 ? Sum(0) : Sum(one), Sum(other), a, b, c);
}

Matrix shape_of(const void* data, cudaDataType type, cublasOperation_t op, int rows, int cols, int ld) {
  return is_transposed(op) ? with_type(data, type, cols, rows, ld) : with_type(data, type, rows, cols, ld);
}

template <class Sum, class Scalar>
cublasStatus_t strided_gemm(cublasHandle_t handle, const char* name, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const Scalar* alpha, const void* a,
                            cudaDataType a_type, int lda, long long stride_a, const void* b,
                            cudaDataType b_type, int ldb, long long stride_b, const Scalar* beta, void* c,
                            cudaDataType c_type, int ldc, long long stride_c, int batch) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (batch > 1 && n > 0 && stride_c < std::int64_t(ldc) * (n - 1) + m) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto step = [](Matrix& matrix, std::int64_t elements) {
    matrix.data = static_cast<std::byte*>(matrix.data) + elements * std::int64_t(bytes_of(matrix.type));
    return true;
  };
  return gemm_of<Sum>(handle, name, transa, transb, m, n, k, alpha, shape_of(a, a_type, transa, m, k, lda),
                      shape_of(b, b_type, transb, k, n, ldb), beta, with_type(c, c_type, m, n, ldc), batch,
                      [&](std::int64_t i, Matrix& in_a, Matrix& in_b, Matrix& out) {
                        return step(in_a, i * stride_a) && step(in_b, i * stride_b) &&
                               step(out, i * stride_c);
                      });
}

/// @param a, b, c  arrays of pointers on the device
template <class Sum, class Scalar>
cublasStatus_t batched_gemm(cublasHandle_t handle, const char* name, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const Scalar* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
                            const Scalar* beta, const void* c, cudaDataType c_type, int ldc, int batch) {
  const auto set = [&](Matrix& matrix, const void* pointers, int i) {
    const auto* const at = static_cast<void* const*>(pointers) + i;
    if (!gpusim::account_read(at, sizeof(void*), name)) return false;
    const gpusim::HostRuntime runtime;
    matrix.data = *at;
    return true;
  };
  return gemm_of<Sum>(
      handle, name, transa, transb, m, n, k, alpha, shape_of(nullptr, a_type, transa, m, k, lda),
      shape_of(nullptr, b_type, transb, k, n, ldb), beta, with_type(nullptr, c_type, m, n, ldc), batch,
      [&](int i, Matrix& in_a, Matrix& in_b, Matrix& out) {
        return set(in_a, a, i) && set(in_b, b, i) && set(out, c, i);
      });
}

/// Calls f with a sample of the type of the sums, and with one of the type of alpha.
template <class F>
cublasStatus_t with_compute_type(cublasComputeType_t compute, std::initializer_list<cudaDataType> types,
                                 F f) {
  for (const cudaDataType type : types) {
    if (bytes_of(type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  switch (compute) {
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC: return f(double{}, double{});
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: return f(float{}, __half{});
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC: return f(std::int32_t{}, std::int32_t{});
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32: return f(float{}, float{});
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

// ---- vectors --------------------------------------------------------------------------------------------

/// The number, from 1 on, of the element with the largest or smallest absolute value.
template <class T, class Better>
cublasStatus_t extreme(cublasHandle_t handle, const char* name, int n, const T* x, int inc, int* result,
                       Better better) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  if (n < 1 || inc < 1) return routine.put(result, 0);
  const Vector<T> v(x, n, inc);
  if (!v.read(name)) return CUBLAS_STATUS_EXECUTION_FAILED;
  int best = 0;
  {
    const gpusim::HostRuntime runtime;
    for (int i = 1; i < n; ++i) {
      if (better(std::fabs(v[i]), std::fabs(v[best]))) best = i;
    }
  }
  return routine.put(result, best + 1);
}

template <class T, class Sum>
cublasStatus_t summed(cublasHandle_t handle, const char* name, const Vector<T>& x, const Vector<T>* y, int n,
                      T* result, Sum sum) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  const bool inside = n <= 0 || (x.read(name) && (y == nullptr || y->read(name)));
  if (!inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  T value;
  {
    const gpusim::HostRuntime runtime;
    value = n <= 0 ? T(0) : T(sum());
  }
  return routine.put(result, value);
}

/// A triangle of a matrix, or a symmetric matrix of which a triangle is stored, without gaps.
template <class T>
std::vector<T> full(const Matrix& a, cublasFillMode_t fill, bool symmetric, bool unit) {
  std::vector<T> values = a.load<T>();
  const std::int64_t n = a.rows;
  for (std::int64_t col = 0; col < n; ++col) {
    for (std::int64_t row = 0; row < n; ++row) {
      const bool is_stored = fill == CUBLAS_FILL_MODE_LOWER ? row >= col : row <= col;
      if (!is_stored)
        values[std::size_t(row + col * n)] = symmetric ? values[std::size_t(col + row * n)] : T(0);
      if (row == col && unit) values[std::size_t(row + col * n)] = T(1);
    }
  }
  if (symmetric) {
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = 0; row < n; ++row) {
        const bool is_stored = fill == CUBLAS_FILL_MODE_LOWER ? row >= col : row <= col;
        if (is_stored) values[std::size_t(col + row * n)] = values[std::size_t(row + col * n)];
      }
    }
  }
  return values;
}
/// Counts the stored triangle.
template <class T>
bool read_triangle(const T* a, int n, int ld, cublasFillMode_t fill, const char* name) {
  bool inside = true;
  for (std::int64_t col = 0; col < n; ++col) {
    const std::int64_t first = fill == CUBLAS_FILL_MODE_LOWER ? col : 0;
    const std::int64_t count = fill == CUBLAS_FILL_MODE_LOWER ? n - col : col + 1;
    inside = gpusim::account_read(a + first + col * ld, std::size_t(count) * sizeof(T), name) && inside;
  }
  return inside;
}

/// X with op(A) * X = B, A a triangle of n x n without gaps. @param b  n x columns
template <class T>
void solve(const std::vector<T>& a, std::int64_t n, bool lower, std::vector<T>& b, std::int64_t columns) {
  for (std::int64_t col = 0; col < columns; ++col) {
    T* const x = b.data() + col * n;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t row = lower ? step : n - 1 - step;
      T sum = x[row];
      const std::int64_t begin = lower ? 0 : row + 1, end = lower ? row : n;
      for (std::int64_t i = begin; i < end; ++i) sum -= a[std::size_t(row + i * n)] * x[i];
      x[row] = sum / a[std::size_t(row + row * n)];
    }
  }
}

/// C = op(A) * B or B * op(A), or its inverse, with A a triangle.
template <class T>
cublasStatus_t triangular(cublasHandle_t handle, const char* name, cublasSideMode_t side,
                          cublasFillMode_t fill, cublasOperation_t trans, cublasDiagType_t diag, int m, int n,
                          const T* alpha, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                          bool solves) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool left = side == CUBLAS_SIDE_LEFT;
  const int size = left ? m : n;
  const Matrix in_a = matrix(a, size, size, lda), in_b = matrix(b, m, n, ldb), out = matrix(c, m, n, ldc);
  if (!in_a.is_valid() || !in_b.is_valid() || !out.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  T factor;
  if (!routine.get(alpha, factor)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool a_inside = read_triangle(a, size, lda, fill, name), b_inside = in_b.read(name),
             c_inside = out.write(name);
  if (!a_inside || !b_inside || !c_inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  std::vector<T> triangle = full<T>(in_a, fill, false, diag == CUBLAS_DIAG_UNIT), values = in_b.load<T>();
  for (T& value : values) value *= factor;
  bool lower = fill == CUBLAS_FILL_MODE_LOWER;
  // B * op(A) is the transpose of op(A)^T * B^T.
  if (is_transposed(trans) == left) {
    triangle = gpusim::blas::transposed(triangle, size, size);
    lower = !lower;
  }
  if (!left) values = gpusim::blas::transposed(values, m, n);
  const std::int64_t columns = left ? n : m;
  if (solves) {
    solve(triangle, size, lower, values, columns);
  } else {
    values = gpusim::blas::product(triangle, values, size, columns, size);
  }
  if (!left) values = gpusim::blas::transposed(values, n, m);
  out.store(values);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t copy_matrix(int rows, int cols, int bytes, const void* from, int ld_from, void* to, int ld_to,
                           cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  if (rows < 0 || cols < 0 || bytes <= 0 || ld_from < 1 || ld_to < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (rows == 0 || cols == 0) return CUBLAS_STATUS_SUCCESS;
  const auto size = std::size_t(bytes);
  const cudaError_t error =
      cudaMemcpy2DAsync(to, std::size_t(ld_to) * size, from, std::size_t(ld_from) * size,
                        std::size_t(rows) * size, std::size_t(cols), kind, stream);
  if (waits && error == cudaSuccess) cudaStreamSynchronize(stream);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "?";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
#define GPUSIM_MEMBER(name, type, member)                              \
  cublasStatus_t cublasSet##name(cublasHandle_t handle, type value) {  \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;       \
    handle->member = value;                                            \
    return CUBLAS_STATUS_SUCCESS;                                      \
  }                                                                    \
  cublasStatus_t cublasGet##name(cublasHandle_t handle, type* value) { \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;       \
    *value = handle->member;                                           \
    return CUBLAS_STATUS_SUCCESS;                                      \
  }
GPUSIM_MEMBER(Stream, cudaStream_t, stream)
GPUSIM_MEMBER(MathMode, cublasMath_t, math)
GPUSIM_MEMBER(PointerMode, cublasPointerMode_t, pointers)
GPUSIM_MEMBER(AtomicsMode, cublasAtomicsMode_t, atomics)
#undef GPUSIM_MEMBER
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, std::size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

#define GPUSIM_COPY(Set, kind)                                                                            \
  cublasStatus_t cublas##Set##Matrix(int rows, int cols, int bytes, const void* a, int lda, void* b,      \
                                     int ldb) {                                                           \
    return copy_matrix(rows, cols, bytes, a, lda, b, ldb, kind, nullptr, true);                           \
  }                                                                                                       \
  cublasStatus_t cublas##Set##MatrixAsync(int rows, int cols, int bytes, const void* a, int lda, void* b, \
                                          int ldb, cudaStream_t s) {                                      \
    return copy_matrix(rows, cols, bytes, a, lda, b, ldb, kind, s, false);                                \
  }                                                                                                       \
  cublasStatus_t cublas##Set##Vector(int n, int bytes, const void* x, int incx, void* y, int incy) {      \
    return copy_matrix(1, n, bytes, x, incx, y, incy, kind, nullptr, true);                               \
  }                                                                                                       \
  cublasStatus_t cublas##Set##VectorAsync(int n, int bytes, const void* x, int incx, void* y, int incy,   \
                                          cudaStream_t s) {                                               \
    return copy_matrix(1, n, bytes, x, incx, y, incy, kind, s, false);                                    \
  }
GPUSIM_COPY(Set, cudaMemcpyHostToDevice)
GPUSIM_COPY(Get, cudaMemcpyDeviceToHost)
#undef GPUSIM_COPY

namespace {

template <class T>
cublasStatus_t axpy(const char* name, cublasHandle_t handle, int n, const T* alpha, const T* x, int incx,
                    T* y, int incy) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  T factor;
  if (!routine.get(alpha, factor)) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  const Vector<T> from(x, n, incx), to(y, n, incy);
  const bool x_inside = from.read(name), y_inside = to.read(name);
  if (!x_inside || !y_inside || !to.write(name)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  for (int i = 0; i < n; ++i) to[i] += factor * from[i];
  return CUBLAS_STATUS_SUCCESS;
}

/// Changes the elements of two vectors. @param f  (x, y) changes them    @param reads_y  before it writes it
template <class T, class F>
cublasStatus_t exchange(const char* name, cublasHandle_t handle, int n, T* x, int incx, T* y, int incy,
                        bool both, F f) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  const Vector<T> one(x, n, incx), other(y, n, incy);
  bool inside = one.read(name);
  if (both) inside = other.read(name) && one.write(name) && inside;
  if (!other.write(name) || !inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  for (int i = 0; i < n; ++i) f(one[i], other[i]);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t scal(const char* name, cublasHandle_t handle, int n, const T* alpha, T* x, int inc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  T factor;
  if (!routine.get(alpha, factor)) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  const Vector<T> v(x, n, inc);
  if (!v.read(name) || !v.write(name)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  for (int i = 0; i < n; ++i) v[i] *= factor;
  return CUBLAS_STATUS_SUCCESS;
}

/// y = alpha * op(A) * x + beta * y. @param fill  A is symmetric, and this triangle is stored
template <class T>
cublasStatus_t gemv(const char* name, cublasHandle_t handle, cublasOperation_t trans, int m, int n,
                    const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy,
                    const cublasFillMode_t* fill = nullptr) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Matrix in_a = matrix(a, m, n, lda);
  if (!in_a.is_valid() || incx == 0 || incy == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  T factor, old;
  if (!routine.get(alpha, factor) || !routine.get(beta, old)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool transposes = is_transposed(trans);
  const int rows = transposes ? n : m, cols = transposes ? m : n;
  if (rows == 0 || cols == 0) return CUBLAS_STATUS_SUCCESS;
  const Vector<T> in_x(x, cols, incx), out(y, rows, incy);
  bool inside = fill != nullptr ? read_triangle(a, n, lda, *fill, name) : in_a.read(name);
  inside = in_x.read(name) && inside;
  if (old != T(0)) inside = out.read(name) && inside;
  if (!out.write(name) || !inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  const std::vector<T> values = fill != nullptr ? full<T>(in_a, *fill, true, false) : in_a.load<T>();
  for (int row = 0; row < rows; ++row) {
    T sum = 0;
    for (int col = 0; col < cols; ++col)
      sum += values[std::size_t(transposes ? col + std::int64_t(row) * m : row + std::int64_t(col) * m)] *
             in_x[col];
    out[row] = old != T(0) ? factor * sum + old * out[row] : factor * sum;
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t ger(const char* name, cublasHandle_t handle, int m, int n, const T* alpha, const T* x,
                   int incx, const T* y, int incy, T* a, int lda) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Matrix out = matrix(a, m, n, lda);
  if (!out.is_valid() || incx == 0 || incy == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  T factor;
  if (!routine.get(alpha, factor)) return CUBLAS_STATUS_INVALID_VALUE;
  const Vector<T> in_x(x, m, incx), in_y(y, n, incy);
  const bool x_inside = in_x.read(name), y_inside = in_y.read(name), a_inside = out.read(name);
  if (!x_inside || !y_inside || !a_inside || !out.write(name)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  for (int col = 0; col < n; ++col) {
    for (int row = 0; row < m; ++row) a[row + std::int64_t(col) * lda] += factor * in_x[row] * in_y[col];
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t triangular_vector(const char* name, cublasHandle_t handle, cublasFillMode_t fill,
                                 cublasOperation_t trans, cublasDiagType_t diag, int n, const T* a, int lda,
                                 T* x, int inc, bool solves) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (inc < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Routine routine(handle, name);
  const Vector<T> v(x, n, inc);
  const bool a_inside = read_triangle(a, n, lda, fill, name);
  if (!v.read(name) || !a_inside || !v.write(name)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  std::vector<T> triangle = full<T>(matrix(a, n, n, lda), fill, false, diag == CUBLAS_DIAG_UNIT), values;
  if (is_transposed(trans)) triangle = gpusim::blas::transposed(triangle, n, n);
  for (int i = 0; i < n; ++i) values.push_back(v[i]);
  if (solves) {
    solve(triangle, n, (fill == CUBLAS_FILL_MODE_LOWER) != is_transposed(trans), values, 1);
  } else {
    values = gpusim::blas::product(triangle, values, n, 1, n);
  }
  for (int i = 0; i < n; ++i) v[i] = values[std::size_t(i)];
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t symm(const char* name, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                    int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta,
                    T* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool left = side == CUBLAS_SIDE_LEFT;
  const int size = left ? m : n;
  const Matrix in_a = matrix(a, size, size, lda), in_b = matrix(b, m, n, ldb), out = matrix(c, m, n, ldc);
  if (!in_a.is_valid() || !in_b.is_valid() || !out.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  T factor, old;
  if (!routine.get(alpha, factor) || !routine.get(beta, old)) return CUBLAS_STATUS_INVALID_VALUE;
  bool inside = read_triangle(a, size, lda, fill, name);
  inside = in_b.read(name) && inside;
  if (old != T(0)) inside = out.read(name) && inside;
  if (!out.write(name) || !inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  const std::vector<T> symmetric = full<T>(in_a, fill, true, false), values = in_b.load<T>();
  std::vector<T> sums = left ? gpusim::blas::product(symmetric, values, m, n, m)
                             : gpusim::blas::product(values, symmetric, m, n, n);
  const std::vector<T> before = old != T(0) ? out.load<T>() : std::vector<T>(sums.size(), T(0));
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = factor * sums[i] + old * before[i];
  out.store(sums);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t syrk(const char* name, cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t trans,
                    int n, int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool transposes = is_transposed(trans);
  const Matrix in_a = transposes ? matrix(a, k, n, lda) : matrix(a, n, k, lda), out = matrix(c, n, n, ldc);
  if (!in_a.is_valid() || !out.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const Routine routine(handle, name);
  T factor, old;
  if (!routine.get(alpha, factor) || !routine.get(beta, old)) return CUBLAS_STATUS_INVALID_VALUE;
  bool inside = in_a.read(name);
  for (std::int64_t col = 0; col < n; ++col) {
    const std::int64_t first = fill == CUBLAS_FILL_MODE_LOWER ? col : 0;
    const auto bytes = std::size_t(fill == CUBLAS_FILL_MODE_LOWER ? n - col : col + 1) * sizeof(T);
    T* const at = c + first + col * ldc;
    if (old != T(0)) inside = gpusim::account_read(at, bytes, name) && inside;
    inside = gpusim::account_write(at, bytes, name) && inside;
  }
  if (!inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  const std::vector<T> sums = gpusim::blas::product<T>(in_a, transposes, in_a, !transposes);
  for (std::int64_t col = 0; col < n; ++col) {
    for (std::int64_t row = 0; row < n; ++row) {
      if (fill == CUBLAS_FILL_MODE_LOWER ? row < col : row > col) continue;
      T& to = c[row + col * ldc];
      const T sum = factor * sums[std::size_t(row + col * n)];
      to = old != T(0) ? sum + old * to : sum;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t geam(const char* name, cublasHandle_t handle, cublasOperation_t transa,
                    cublasOperation_t transb, int m, int n, const T* alpha, const T* a, int lda,
                    const T* beta, const T* b, int ldb, T* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  T one, other;
  if (!routine.get(alpha, one) || !routine.get(beta, other)) return CUBLAS_STATUS_INVALID_VALUE;
  const Matrix in_a = shape_of(a, kType<T>, transa, m, n, lda),
               in_b = shape_of(b, kType<T>, transb, m, n, ldb);
  const Matrix out = matrix(c, m, n, ldc);
  if (!out.is_valid() || (one != T(0) && !in_a.is_valid()) || (other != T(0) && !in_b.is_valid()))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool inside = true;
  if (one != T(0)) inside = in_a.read(name) && inside;
  if (other != T(0)) inside = in_b.read(name) && inside;
  if (!out.write(name) || !inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  std::vector<T> sums(std::size_t(m) * std::size_t(n), T(0));
  const auto add = [&](const Matrix& from, cublasOperation_t op, T factor) {
    if (factor == T(0)) return;
    std::vector<T> values = from.load<T>();
    if (is_transposed(op)) values = gpusim::blas::transposed(values, from.rows, from.cols);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += factor * values[i];
  };
  add(in_a, transa, one);
  add(in_b, transb, other);
  out.store(sums);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t dgmm(const char* name, cublasHandle_t handle, cublasSideMode_t side, int m, int n, const T* a,
                    int lda, const T* x, int inc, T* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Routine routine(handle, name);
  const bool left = side == CUBLAS_SIDE_LEFT;
  const Matrix in_a = matrix(a, m, n, lda), out = matrix(c, m, n, ldc);
  const Vector<T> v(x, left ? m : n, inc);
  const bool a_inside = in_a.read(name), x_inside = v.read(name);
  if (!out.write(name) || !a_inside || !x_inside) return CUBLAS_STATUS_EXECUTION_FAILED;
  const gpusim::HostRuntime runtime;
  std::vector<T> values = in_a.load<T>();
  for (int col = 0; col < n; ++col) {
    for (int row = 0; row < m; ++row) values[std::size_t(row + std::int64_t(col) * m)] *= v[left ? row : col];
  }
  out.store(values);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#define GPUSIM_CUBLAS(S, s, T)                                                                               \
  cublasStatus_t cublas##S##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y,        \
                                 int incy) {                                                                 \
    return axpy(__func__, h, n, alpha, x, incx, y, incy);                                                    \
  }                                                                                                          \
  cublasStatus_t cublas##S##copy(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {            \
    return exchange(__func__, h, n, const_cast<T*>(x), incx, y, incy, false, [](T& a, T& b) { b = a; });     \
  }                                                                                                          \
  cublasStatus_t cublas##S##swap(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {                  \
    return exchange(__func__, h, n, x, incx, y, incy, true, [](T& a, T& b) { std::swap(a, b); });            \
  }                                                                                                          \
  cublasStatus_t cublas##S##rot(cublasHandle_t h, int n, T* x, int incx, T* y, int incy, const T* c,         \
                                const T* sine) {                                                             \
    if (h == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;                                                  \
    T cs, sn;                                                                                                \
    const Routine routine(h, __func__);                                                                      \
    if (!routine.get(c, cs) || !routine.get(sine, sn)) return CUBLAS_STATUS_INVALID_VALUE;                   \
    return exchange(__func__, h, n, x, incx, y, incy, true, [&](T& a, T& b) {                                \
      const T turned = cs * a + sn * b;                                                                      \
      b = cs * b - sn * a;                                                                                   \
      a = turned;                                                                                            \
    });                                                                                                      \
  }                                                                                                          \
  cublasStatus_t cublas##S##scal(cublasHandle_t h, int n, const T* alpha, T* x, int inc) {                   \
    return scal(__func__, h, n, alpha, x, inc);                                                              \
  }                                                                                                          \
  cublasStatus_t cublas##S##dot(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy,         \
                                T* result) {                                                                 \
    const Vector<T> a(x, n, incx), b(y, n, incy);                                                            \
    return summed(h, __func__, a, &b, n, result, [&] {                                                       \
      double sum = 0;                                                                                        \
      for (int i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);                                        \
      return sum;                                                                                            \
    });                                                                                                      \
  }                                                                                                          \
  cublasStatus_t cublas##S##nrm2(cublasHandle_t h, int n, const T* x, int inc, T* result) {                  \
    const Vector<T> a(x, n, inc);                                                                            \
    return summed<T>(h, __func__, a, nullptr, n, result, [&] {                                               \
      double sum = 0;                                                                                        \
      for (int i = 0; i < n; ++i) sum += double(a[i]) * double(a[i]);                                        \
      return std::sqrt(sum);                                                                                 \
    });                                                                                                      \
  }                                                                                                          \
  cublasStatus_t cublas##S##asum(cublasHandle_t h, int n, const T* x, int inc, T* result) {                  \
    const Vector<T> a(x, n, inc);                                                                            \
    return summed<T>(h, __func__, a, nullptr, n, result, [&] {                                               \
      double sum = 0;                                                                                        \
      for (int i = 0; i < n; ++i) sum += std::fabs(double(a[i]));                                            \
      return sum;                                                                                            \
    });                                                                                                      \
  }                                                                                                          \
  cublasStatus_t cublasI##s##amax(cublasHandle_t h, int n, const T* x, int inc, int* result) {               \
    return extreme(h, __func__, n, x, inc, result, [](T a, T b) { return a > b; });                          \
  }                                                                                                          \
  cublasStatus_t cublasI##s##amin(cublasHandle_t h, int n, const T* x, int inc, int* result) {               \
    return extreme(h, __func__, n, x, inc, result, [](T a, T b) { return a < b; });                          \
  }                                                                                                          \
  cublasStatus_t cublas##S##gemv(cublasHandle_t h, cublasOperation_t trans, int m, int n, const T* alpha,    \
                                 const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) { \
    return gemv(__func__, h, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);                            \
  }                                                                                                          \
  cublasStatus_t cublas##S##symv(cublasHandle_t h, cublasFillMode_t fill, int n, const T* alpha, const T* a, \
                                 int lda, const T* x, int incx, const T* beta, T* y, int incy) {             \
    return gemv(__func__, h, CUBLAS_OP_N, n, n, alpha, a, lda, x, incx, beta, y, incy, &fill);               \
  }                                                                                                          \
  cublasStatus_t cublas##S##ger(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx,        \
                                const T* y, int incy, T* a, int lda) {                                       \
    return ger(__func__, h, m, n, alpha, x, incx, y, incy, a, lda);                                          \
  }                                                                                                          \
  cublasStatus_t cublas##S##trsv(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t trans,           \
                                 cublasDiagType_t diag, int n, const T* a, int lda, T* x, int inc) {         \
    return triangular_vector(__func__, h, fill, trans, diag, n, a, lda, x, inc, true);                       \
  }                                                                                                          \
  cublasStatus_t cublas##S##trmv(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t trans,           \
                                 cublasDiagType_t diag, int n, const T* a, int lda, T* x, int inc) {         \
    return triangular_vector(__func__, h, fill, trans, diag, n, a, lda, x, inc, false);                      \
  }                                                                                                          \
  cublasStatus_t cublas##S##gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, \
                                 int k, const T* alpha, const T* a, int lda, const T* b, int ldb,            \
                                 const T* beta, T* c, int ldc) {                                             \
    return strided_gemm<T>(h, __func__, ta, tb, m, n, k, alpha, a, kType<T>, lda, 0, b, kType<T>, ldb, 0,    \
                           beta, c, kType<T>, ldc, 0, 1);                                                    \
  }                                                                                                          \
  cublasStatus_t cublas##S##gemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, \
                                        int n, int k, const T* alpha, const T* const* a, int lda,            \
                                        const T* const* b, int ldb, const T* beta, T* const* c, int ldc,     \
                                        int batch) {                                                         \
    return batched_gemm<T>(h, __func__, ta, tb, m, n, k, alpha, a, kType<T>, lda, b, kType<T>, ldb, beta, c, \
                           kType<T>, ldc, batch);                                                            \
  }                                                                                                          \
  cublasStatus_t cublas##S##gemmStridedBatched(                                                              \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,     \
      const T* a, int lda, long long stride_a, const T* b, int ldb, long long stride_b, const T* beta, T* c, \
      int ldc, long long stride_c, int batch) {                                                              \
    return strided_gemm<T>(h, __func__, ta, tb, m, n, k, alpha, a, kType<T>, lda, stride_a, b, kType<T>,     \
                           ldb, stride_b, beta, c, kType<T>, ldc, stride_c, batch);                          \
  }                                                                                                          \
  cublasStatus_t cublas##S##symm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, int m,      \
                                 int n, const T* alpha, const T* a, int lda, const T* b, int ldb,            \
                                 const T* beta, T* c, int ldc) {                                             \
    return symm(__func__, h, side, fill, m, n, alpha, a, lda, b, ldb, beta, c, ldc);                         \
  }                                                                                                          \
  cublasStatus_t cublas##S##syrk(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t trans, int n,    \
                                 int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) { \
    return syrk(__func__, h, fill, trans, n, k, alpha, a, lda, beta, c, ldc);                                \
  }                                                                                                          \
  cublasStatus_t cublas##S##trsm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,             \
                                 cublasOperation_t trans, cublasDiagType_t diag, int m, int n,               \
                                 const T* alpha, const T* a, int lda, T* b, int ldb) {                       \
    return triangular(h, __func__, side, fill, trans, diag, m, n, alpha, a, lda, b, ldb, b, ldb, true);      \
  }                                                                                                          \
  cublasStatus_t cublas##S##trmm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,             \
                                 cublasOperation_t trans, cublasDiagType_t diag, int m, int n,               \
                                 const T* alpha, const T* a, int lda, const T* b, int ldb, T* c, int ldc) {  \
    return triangular(h, __func__, side, fill, trans, diag, m, n, alpha, a, lda, b, ldb, c, ldc, false);     \
  }                                                                                                          \
  cublasStatus_t cublas##S##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, \
                                 const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb,    \
                                 T* c, int ldc) {                                                            \
    return geam(__func__, h, ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                             \
  }                                                                                                          \
  cublasStatus_t cublas##S##dgmm(cublasHandle_t h, cublasSideMode_t side, int m, int n, const T* a, int lda, \
                                 const T* x, int inc, T* c, int ldc) {                                       \
    return dgmm(__func__, h, side, m, n, a, lda, x, inc, c, ldc);                                            \
  }
GPUSIM_CUBLAS(S, s, float)
GPUSIM_CUBLAS(D, d, double)
#undef GPUSIM_CUBLAS

cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                           int k, const __half* alpha, const __half* a, int lda, const __half* b, int ldb,
                           const __half* beta, __half* c, int ldc) {
  return strided_gemm<float>(handle, __func__, ta, tb, m, n, k, alpha, a, CUDA_R_16F, lda, 0, b, CUDA_R_16F,
                             ldb, 0, beta, c, CUDA_R_16F, ldc, 0, 1);
}
cublasStatus_t cublasHgemmBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                                  int n, int k, const __half* alpha, const __half* const* a, int lda,
                                  const __half* const* b, int ldb, const __half* beta, __half* const* c,
                                  int ldc, int batch) {
  return batched_gemm<float>(handle, __func__, ta, tb, m, n, k, alpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb,
                             beta, c, CUDA_R_16F, ldc, batch);
}
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                         int m, int n, int k, const __half* alpha, const __half* a, int lda,
                                         long long stride_a, const __half* b, int ldb, long long stride_b,
                                         const __half* beta, __half* c, int ldc, long long stride_c,
                                         int batch) {
  return strided_gemm<float>(handle, __func__, ta, tb, m, n, k, alpha, a, CUDA_R_16F, lda, stride_a, b,
                             CUDA_R_16F, ldb, stride_b, beta, c, CUDA_R_16F, ldc, stride_c, batch);
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                             int k, const float* alpha, const void* a, cudaDataType a_type, int lda,
                             const void* b, cudaDataType b_type, int ldb, const float* beta, void* c,
                             cudaDataType c_type, int ldc) {
  if (bytes_of(a_type) == 0 || bytes_of(b_type) == 0 || bytes_of(c_type) == 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return strided_gemm<float>(handle, __func__, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                             beta, c, c_type, ldc, 0, 1);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                            const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const char* const name = __func__;
  return with_compute_type(compute, {a_type, b_type, c_type}, [&]<class Sum, class Scalar>(Sum, Scalar) {
    return strided_gemm<Sum>(handle, name, ta, tb, m, n, k, static_cast<const Scalar*>(alpha), a, a_type, lda,
                             0, b, b_type, ldb, 0, static_cast<const Scalar*>(beta), c, c_type, ldc, 0, 1);
  });
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                                   int n, int k, const void* alpha, const void* const* a, cudaDataType a_type,
                                   int lda, const void* const* b, cudaDataType b_type, int ldb,
                                   const void* beta, void* const* c, cudaDataType c_type, int ldc, int batch,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
  const char* const name = __func__;
  return with_compute_type(compute, {a_type, b_type, c_type}, [&]<class Sum, class Scalar>(Sum, Scalar) {
    return batched_gemm<Sum>(handle, name, ta, tb, m, n, k, static_cast<const Scalar*>(alpha), a, a_type, lda,
                             b, b_type, ldb, static_cast<const Scalar*>(beta), c, c_type, ldc, batch);
  });
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                          int m, int n, int k, const void* alpha, const void* a,
                                          cudaDataType a_type, int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b, const void* beta,
                                          void* c, cudaDataType c_type, int ldc, long long stride_c,
                                          int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const char* const name = __func__;
  return with_compute_type(compute, {a_type, b_type, c_type}, [&]<class Sum, class Scalar>(Sum, Scalar) {
    return strided_gemm<Sum>(handle, name, ta, tb, m, n, k, static_cast<const Scalar*>(alpha), a, a_type, lda,
                             stride_a, b, b_type, ldb, stride_b, static_cast<const Scalar*>(beta), c, c_type,
                             ldc, stride_c, batch);
  });
}
