#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <map>

#include "gpusim/cublas/matrix.hpp"

struct cublasLtContext {};
struct cublasLtMatmulPreferenceOpaque_t {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType scale_type;
  std::map<int, std::uint64_t> attributes;
  std::uint64_t get(cublasLtMatmulDescAttributes_t attribute, std::uint64_t otherwise = 0) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? otherwise : found->second;
  }
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::uint64_t order = CUBLASLT_ORDER_COL, batch = 1;
  std::int64_t stride = 0;
};

namespace {

using gpusim::blas::bytes_of;
using gpusim::blas::Matrix;

/// Bits of an epilogue.
enum : unsigned {
  kRelu = 2,
  kBias = 4,
  kGelu = 32,
  kGradientOfGelu = 64,
  kAux = 128,
  kBiasOfA = 256,
  kBiasOfB = 512,
  kGradientOfBias = 16
};

/// The matrix as memory has it: a row-major one is the transpose of a column-major one.
Matrix stored(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, std::uint64_t batch) {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(data)) +
                      std::int64_t(batch) * layout.stride * std::int64_t(bytes_of(layout.type));
  const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
  return {begin, layout.type, std::int64_t(by_rows ? layout.cols : layout.rows),
          std::int64_t(by_rows ? layout.rows : layout.cols), layout.ld};
}
template <class T>
std::vector<T> load(const Matrix& matrix, bool transposes) {
  std::vector<T> values = matrix.load<T>();
  return transposes ? gpusim::blas::transposed(values, matrix.rows, matrix.cols) : values;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double gradient_of_gelu(double x) {
  const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = std::tanh(inner);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

template <class T>
cublasStatus_t multiply(const cublasLtMatmulDescOpaque_t& desc, T alpha, T beta, const void* a,
                        const cublasLtMatrixLayoutOpaque_t& la, const void* b,
                        const cublasLtMatrixLayoutOpaque_t& lb, const void* c,
                        const cublasLtMatrixLayoutOpaque_t& lc, void* d,
                        const cublasLtMatrixLayoutOpaque_t& ld) {
  const char* const name = "cublasLtMatmul";
  const bool transposes_a = desc.get(CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_N;
  const bool transposes_b = desc.get(CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N;
  const auto m = std::int64_t(transposes_a ? la.cols : la.rows),
             k = std::int64_t(transposes_a ? la.rows : la.cols);
  const auto n = std::int64_t(transposes_b ? lb.rows : lb.cols);
  if (std::int64_t(transposes_b ? lb.cols : lb.rows) != k || std::int64_t(ld.rows) != m ||
      std::int64_t(ld.cols) != n)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto epilogue = unsigned(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT));
  constexpr unsigned kKnown =
      1 | kRelu | kBias | kGelu | kGradientOfGelu | kAux | kBiasOfA | kBiasOfB | kGradientOfBias;
  if ((epilogue & ~kKnown) != 0 || epilogue == CUBLASLT_EPILOGUE_DRELU) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto bias_type = cudaDataType(desc.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, ld.type));
  void* const bias = reinterpret_cast<void*>(desc.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER));
  void* const aux = reinterpret_cast<void*>(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER));
  const bool writes_bias = (epilogue & (kBiasOfA | kBiasOfB | kGradientOfBias)) != 0,
             reads_bias = (epilogue & kBias) != 0;
  const std::int64_t bias_rows = (epilogue & kBiasOfB) != 0 ? n : m;
  const Matrix vector{bias, bias_type, bias_rows, 1, std::max<std::int64_t>(1, bias_rows)};
  const auto aux_ld = std::int64_t(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::uint64_t(m)));
  const bool reads_aux = (epilogue & kGradientOfGelu) != 0, writes_aux = (epilogue & kAux) != 0 && !reads_aux;
  if ((reads_bias || writes_bias) && bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if ((reads_aux || writes_aux) && aux == nullptr) return CUBLAS_STATUS_INVALID_VALUE;

  for (std::uint64_t i = 0; i < ld.batch; ++i) {
    const Matrix in_a = stored(a, la, i), in_b = stored(b, lb, i), in_c = stored(c, lc, i),
                 out = stored(d, ld, i);
    const Matrix side{static_cast<std::byte*>(aux) +
                          std::int64_t(i) *
                              std::int64_t(desc.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE)) *
                              std::int64_t(bytes_of(ld.type)),
                      ld.type, m, n, aux_ld};
    if (!in_a.is_valid() || !in_b.is_valid() || !out.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
    bool inside = in_a.read(name);
    inside = in_b.read(name) && inside;
    if (beta != T(0)) inside = in_c.read(name) && inside;
    if (reads_bias) inside = vector.read(name) && inside;
    if (reads_aux) inside = side.read(name) && inside;
    if (writes_aux) inside = side.write(name) && inside;
    if (writes_bias) inside = vector.write(name) && inside;
    inside = out.write(name) && inside;
    if (!inside) return CUBLAS_STATUS_EXECUTION_FAILED;
    const gpusim::HostRuntime runtime;
    const std::vector<T> wide_a = load<T>(in_a, (la.order == CUBLASLT_ORDER_ROW) != transposes_a);
    const std::vector<T> wide_b = load<T>(in_b, (lb.order == CUBLASLT_ORDER_ROW) != transposes_b);
    std::vector<T> sums = gpusim::blas::product(wide_a, wide_b, m, n, k);
    const std::vector<T> old =
        beta != T(0) ? load<T>(in_c, lc.order == CUBLASLT_ORDER_ROW) : std::vector<T>();
    const std::vector<T> added = reads_bias ? vector.load<T>() : std::vector<T>();
    const std::vector<T> before = reads_aux ? side.load<T>() : std::vector<T>();
    std::vector<T> kept(writes_aux ? sums.size() : 0),
        gradient(writes_bias ? std::size_t(bias_rows) : 0, T(0));
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = 0; row < m; ++row) {
        const auto at = std::size_t(row + col * m);
        T x = alpha * sums[at];
        if (beta != T(0)) x += beta * old[at];
        if (reads_bias) x += added[std::size_t(row)];
        if (writes_aux) kept[at] = x;
        if ((epilogue & kRelu) != 0) x = x > T(0) ? x : T(0);
        if ((epilogue & kGelu) != 0) x = T(gelu(double(x)));
        if ((epilogue & kGradientOfGelu) != 0) x *= T(gradient_of_gelu(double(before[at])));
        if ((epilogue & kGradientOfBias) != 0) gradient[std::size_t(row)] += x;
        sums[at] = x;
      }
    }
    for (std::int64_t inner = 0; inner < k; ++inner) {  // sums of an operand over k
      if ((epilogue & kBiasOfA) != 0)
        for (std::int64_t row = 0; row < m; ++row)
          gradient[std::size_t(row)] += wide_a[std::size_t(row + inner * m)];
      if ((epilogue & kBiasOfB) != 0)
        for (std::int64_t col = 0; col < n; ++col)
          gradient[std::size_t(col)] += wide_b[std::size_t(inner + col * k)];
    }
    if (writes_aux) side.store(kept);
    if (writes_bias) vector.store(gradient);
    out.store(ld.order == CUBLASLT_ORDER_ROW ? gpusim::blas::transposed(sums, m, n) : sums);
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* object) {
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType scale_type) {
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale_type, {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  if (desc == nullptr || value == nullptr || bytes > 8) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, bytes);
  desc->attributes[attribute] = bits;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  if (layout == nullptr || value == nullptr || bytes > 8) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, bytes);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: layout->type = cudaDataType(bits); break;
    case CUBLASLT_MATRIX_LAYOUT_ORDER: layout->order = bits; break;
    case CUBLASLT_MATRIX_LAYOUT_ROWS: layout->rows = bits; break;
    case CUBLASLT_MATRIX_LAYOUT_COLS: layout->cols = bits; break;
    case CUBLASLT_MATRIX_LAYOUT_LD: layout->ld = std::int64_t(bits); break;
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: layout->batch = bits; break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: layout->stride = std::int64_t(bits); break;
  }
  return layout->order > CUBLASLT_ORDER_ROW ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void*,
                                                    std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t,
                                              int requested, cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  if (requested < 1 || results == nullptr || returned == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t la, const void* b,
                              cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                              cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (desc == nullptr || la == nullptr || lb == nullptr || ld == nullptr || alpha == nullptr ||
      beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (lc == nullptr) lc = ld;
  for (const cublasLtMatrixLayout_t layout : {la, lb, lc, ld}) {
    if (bytes_of(layout->type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  gpusim::begin_routine(stream, "cublasLtMatmul");
  const bool on_device = desc->get(CUBLASLT_MATMUL_DESC_POINTER_MODE) == CUBLASLT_POINTER_MODE_DEVICE;
  const auto run = [&]<class Sum, class Scalar>(Sum, Scalar) {
    Scalar one, other;
    if (on_device && (!gpusim::account_read(alpha, sizeof one, "cublasLtMatmul") ||
                      !gpusim::account_read(beta, sizeof other, "cublasLtMatmul")))
      return CUBLAS_STATUS_EXECUTION_FAILED;
    {
      const gpusim::HostRuntime runtime;
      std::memcpy(static_cast<void*>(&one), alpha, sizeof one);
      std::memcpy(static_cast<void*>(&other), beta, sizeof other);
    }
    return multiply<Sum>(*desc, Sum(one), Sum(other), a, *la, b, *lb, c, *lc, d, *ld);
  };
  switch (desc->scale_type) {
    case CUDA_R_64F: return run(double{}, double{});
    case CUDA_R_32F: return run(float{}, float{});
    case CUDA_R_16F: return run(float{}, __half{});
    case CUDA_R_32I: return run(std::int32_t{}, std::int32_t{});
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
