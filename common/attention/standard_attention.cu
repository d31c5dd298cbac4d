#include "attention/standard_attention.hpp"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "device/launch.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"

namespace fa {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kWarps = kBlockThreads / 32;
constexpr int kMostKeysOnChip = 12288;  ///< 48 KiB of floats: four blocks fit a multiprocessor of an H100

/// Neighbouring elements that one instruction loads or stores.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T x[kCount];
};

/// The logits of the keys key .. key + kPack - 1, and -inf for those that the query does not see.
template <int kPack, class T>
__device__ __forceinline__ Pack<float, kPack> load_logits(const T* s, int key, int visible) {
  const Pack<T, kPack> in = *reinterpret_cast<const Pack<T, kPack>*>(s + key);
  Pack<float, kPack> logits;
  for (int i = 0; i < kPack; ++i) logits.x[i] = key + i < visible ? float(in.x[i]) : -INFINITY;
  return logits;
}

}  // namespace

/// P = softmax(S) over the keys that a query sees, 0 for the others; and LSE. Chapter 02's softmax with a block on
/// each row, which stays in shared memory between its two passes.
///
///   grid    batch * heads * seq_q   one block per row
///   block   kBlockThreads
///   shared  4 * keys_on_chip bytes (dynamic); 8 bytes per warp
///   HBM     S: reads what is visible, in packs of kPack, and again from key `keys_on_chip` on
///           P: writes all of it; LSE: writes it
///
/// @param s  [batch, heads, seq_q, seq_k] logits, scaled      @param p  [batch, heads, seq_q, seq_k] probabilities
/// @tparam kPack  divides seq_k and keys_on_chip
template <class T, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    masked_softmax(Attention<T> a, const T* __restrict__ s, T* __restrict__ p, int keys_on_chip) {
  constexpr int kStep = kPack * kBlockThreads;  // keys that the block takes at a time
  extern __shared__ float4 smem[];
  float* sX = reinterpret_cast<float*>(smem);  // each thread reads what it has written itself: no barrier
  __shared__ MaxSum sPartial[kWarps];
  const size_t row = blockIdx.x;
  const int visible = a.visible_keys(int(row % a.seq_q));
  s += row * a.seq_k;
  p += row * a.seq_k;

  // Pass 1: maximum and sum. A pack has its maximum first, so that an element costs one exp() and not two.
  MaxSum mine = {-FLT_MAX, 0.0f};
  for (int first = 0; first < visible; first += kStep) {
    const int key = first + kPack * int(threadIdx.x);
    if (key >= visible) continue;
    const Pack<float, kPack> logits = load_logits<kPack>(s, key, visible);
    MaxSum pack = {-FLT_MAX, 0.0f};
    for (int i = 0; i < kPack; ++i) pack.m = fmaxf(pack.m, logits.x[i]);
    for (int i = 0; i < kPack; ++i) pack.l += expf(logits.x[i] - pack.m);
    mine = merge(mine, pack);
    if (key < keys_on_chip) *reinterpret_cast<Pack<float, kPack>*>(sX + key) = logits;
  }
  const MaxSum all = block_reduce(mine, merge, sPartial);
  if (threadIdx.x == 0) a.lse[row] = all.m + logf(all.l);  // log(0) = -inf where the query sees no key

  // Pass 2: the probabilities.
  const float inv_l = inverse_or_zero(all.l);
  for (int first = 0; first < a.seq_k; first += kStep) {
    const int key = first + kPack * int(threadIdx.x);
    if (key >= a.seq_k) continue;
    Pack<T, kPack> probabilities = {};
    if (key < visible) {
      const bool on_chip = key < keys_on_chip;
      const Pack<float, kPack> logits = on_chip ? *reinterpret_cast<const Pack<float, kPack>*>(sX + key)
                                                : load_logits<kPack>(s, key, visible);
      for (int i = 0; i < kPack; ++i) probabilities.x[i] = T(expf(logits.x[i] - all.m) * inv_l);
    }
    *reinterpret_cast<Pack<T, kPack>*>(p + key) = probabilities;
  }
}

namespace {

/// How many elements of a row are loaded together: a row begins at a multiple of them.
int pack_of(std::int64_t seq_k) { return seq_k % 4 == 0 ? 4 : 1; }

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
}

/// A cuBLAS handle. Making one takes milliseconds, so there is one for all launches.
class Cublas {
 public:
  static cublasHandle_t on(cudaStream_t stream) {
    static const Cublas instance;
    check(cublasSetStream(instance.handle_, stream), "cublasSetStream");
    return instance.handle_;
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

 private:
  Cublas() {
    check(cublasCreate(&handle_), "cublasCreate");
    // Neither TF32 nor sums in 16 bits.
    const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublasSetMathMode(handle_, cublasMath_t(mode)), "cublasSetMathMode");
  }
  ~Cublas() { cublasDestroy(handle_); }

  cublasHandle_t handle_ = nullptr;
};

/// A batch of row-major matrices, one behind the other.
template <class T>
struct Matrices {
  T* data;
  int rows, cols;

  long long stride() const { return static_cast<long long>(rows) * cols; }
};

/// C = alpha * A op(B) for each matrix of a batch, row-major.
///
/// cuBLAS is column-major, and reads a row-major matrix as its transpose: so it is asked for C^T = op(B)^T A^T.
template <class T>
void gemm(cublasHandle_t cublas, float alpha, const Matrices<const T>& a, const Matrices<const T>& b,
          bool transpose_b, const Matrices<T>& c, int batch) {
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const float beta = 0.0f;
  if constexpr (std::is_same_v<T, float>) {
    check(cublasSgemmStridedBatched(cublas, op_b, CUBLAS_OP_N, c.cols, c.rows, a.cols, &alpha, b.data, b.cols,
                                    b.stride(), a.data, a.cols, a.stride(), &beta, c.data, c.cols, c.stride(),
                                    batch),
          "cublasSgemmStridedBatched");
  } else {
    constexpr cudaDataType kType = std::is_same_v<T, __half> ? CUDA_R_16F : CUDA_R_16BF;
    check(
        cublasGemmStridedBatchedEx(cublas, op_b, CUBLAS_OP_N, c.cols, c.rows, a.cols, &alpha, b.data, kType,
                                   b.cols, b.stride(), a.data, kType, a.cols, a.stride(), &beta, c.data,
                                   kType, c.cols, c.stride(), batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  }
}

template <class T>
void launch_as(const AttentionForward::Args& args, cudaStream_t stream) {
  const Attention<T> a = args.as<T>();
  T* const s = args.buffer<T>("s");
  T* const p = args.buffer<T>("p");
  const cublasHandle_t cublas = Cublas::on(stream);

  // The heads that share one of K and V follow each other in Q: together they are one matrix with more rows.
  const int rows = args.heads / args.kv_heads * args.seq_q;
  const int batch = args.batch * args.kv_heads;
  gemm<T>(cublas, args.scale, {a.q, rows, args.head_dim}, {a.k, args.seq_k, args.head_dim}, true,
          {s, rows, args.seq_k}, batch);

  const auto softmax = pack_of(args.seq_k) == 4 ? masked_softmax<T, 4> : masked_softmax<T, 1>;
  const int keys_on_chip = std::min(args.seq_k, kMostKeysOnChip);
  launch(softmax, unsigned(rows) * unsigned(batch), kBlockThreads, std::size_t(keys_on_chip) * sizeof(float),
         stream, a, s, p, keys_on_chip);

  gemm<T>(cublas, 1.0f, {p, rows, args.seq_k}, {a.v, args.seq_k, args.head_dim}, false,
          {a.o, rows, args.head_dim}, batch);
}

}  // namespace

std::optional<std::string> standard_attention::refuse(const AttentionShape& shape) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  std::int64_t rows = shape.batch;  // of all heads: the softmax has a block for each
  if (__builtin_mul_overflow(rows, shape.heads, &rows) || __builtin_mul_overflow(rows, shape.seq_q, &rows) ||
      rows > INT_MAX) {
    return "--batch " + text(shape.batch) + " times --heads " + text(shape.heads) + " times --seq-q " +
           text(shape.seq_q) + ": must be at most " + text(INT_MAX) + " for standard attention";
  }
  constexpr std::int64_t kMostKeys = 1 << 29;  // and so the bytes of S and P together fit 63 bits
  if (shape.seq_k > kMostKeys) {
    return "--seq-k is " + text(shape.seq_k) + ": must be at most " + text(kMostKeys) +
           " for standard attention";
  }
  return std::nullopt;
}

std::vector<TensorSpec> standard_attention::workspace(const AttentionShape& shape) {
  const std::vector<std::int64_t> lengths = {shape.batch, shape.heads, shape.seq_q, shape.seq_k};
  return {{.name = "s", .shape = lengths, .dtype = shape.dtype},
          {.name = "p", .shape = lengths, .dtype = shape.dtype}};
}

Traffic standard_attention::traffic(const AttentionShape& shape) {
  const auto element = std::int64_t(size_of(shape.dtype));
  const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
  const std::int64_t q = heads * shape.seq_q * shape.head_dim * element;
  const std::int64_t k = kv_heads * shape.seq_k * shape.head_dim * element;
  const std::int64_t s = heads * shape.seq_q * shape.seq_k * element;

  std::int64_t read = 0;  // elements of S that the softmax of one head reads
  for (std::int64_t query = 0; query < shape.seq_q; ++query) {
    const std::int64_t pack = pack_of(shape.seq_k);
    const std::int64_t seen = (shape.visible_keys(query) + pack - 1) / pack * pack;
    read += seen + std::max<std::int64_t>(0, seen - kMostKeysOnChip);
  }
  return {.tensors = {{"q", {.read_bytes = q}},
                      {"k", {.read_bytes = k}},
                      {"v", {.read_bytes = k}},
                      {"s", {.read_bytes = heads * read * element, .write_bytes = s}},
                      {"p", {.read_bytes = s, .write_bytes = s}},
                      {"o", {.write_bytes = q}},
                      {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
}

void standard_attention::launch(const AttentionForward::Args& args, cudaStream_t stream) {
  switch (args.dtype) {
    case DType::kFloat32: return launch_as<float>(args, stream);
    case DType::kFloat16: return launch_as<__half>(args, stream);
    case DType::kBFloat16: return launch_as<__nv_bfloat16>(args, stream);
  }
}

}  // namespace fa
