#include "baselines/standard_attention.hpp"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"

namespace fa::baselines {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kWarps = kBlockThreads / 32;
constexpr int kMostKeysOnChip = 12288;  ///< 48 KiB of floats: four blocks fit on a multiprocessor of an H100

/// Neighbouring elements that one instruction loads or stores.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T x[kCount];
};

/// The logits of keys key .. key + kPack - 1, with -inf for those that the query does not see.
template <int kPack, class T>
__device__ __forceinline__ Pack<float, kPack> load_logits(const T* s, int key, int visible) {
  const Pack<T, kPack> in = *reinterpret_cast<const Pack<T, kPack>*>(s + key);
  Pack<float, kPack> logits;
  for (int i = 0; i < kPack; ++i) logits.x[i] = key + i < visible ? float(in.x[i]) : -INFINITY;
  return logits;
}

}  // namespace

/// P = softmax(S) over the keys that a query sees, 0 for the others; and LSE. Chapter 02's softmax with a
/// block per row, which keeps the row in shared memory between its two passes.
///
///   grid    batch * heads * seq_q   one block per row
///   block   kBlockThreads
///   shared  4 * keys_on_chip bytes (dynamic); 8 bytes per warp
///   HBM     S: reads the visible part, in packs of kPack, and again from key `keys_on_chip` on
///           P: writes all of it; LSE: writes it
///
/// @param s  [batch, heads, seq_q, seq_k] logits, scaled
/// @param p  [batch, heads, seq_q, seq_k] probabilities
/// @tparam kPack  divides seq_k and keys_on_chip
template <class T, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    masked_softmax(Attention<T> a, const T* __restrict__ s, T* __restrict__ p, int keys_on_chip) {
  constexpr int kStep = kPack * kBlockThreads;  // keys that the block processes at a time
  extern __shared__ float4 smem[];
  float* sX = reinterpret_cast<float*>(smem);  // each thread reads only what it wrote itself: no barrier
  __shared__ MaxSum sPartial[kWarps];
  const size_t row = blockIdx.x;
  const int visible = a.visible_keys(int(row % a.seq_q));
  s += row * a.seq_k;
  p += row * a.seq_k;

  // Pass 1: maximum and sum. Each pack computes its maximum first, so that an element costs one exp() instead
  // of two.
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
  if (threadIdx.x == 0) a.lse[row] = all.m + logf(all.l);  // log(0) = -inf if the query sees no key

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

/// dS = P * (dP - D), with D = rowsum(P * dP), which is rowsum(dO * O) because O = P V; 0 for hidden keys. A
/// block per row, which keeps the row in shared memory between its two passes.
///
///   grid    batch * heads * seq_q   one block per row
///   block   kBlockThreads
///   shared  8 * keys_on_chip bytes (dynamic): P, then dP; 4 bytes per warp
///   HBM     P, dP: reads the visible part, in packs of kPack, and again from key `keys_on_chip` on; dS:
///           writes all
///
/// @param p, dp, ds  [batch, heads, seq_q, seq_k]     @tparam kPack  divides seq_k and keys_on_chip
template <class T, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_backward(Attention<T> a, const T* __restrict__ p, const T* __restrict__ dp, T* __restrict__ ds,
                     int keys_on_chip) {
  using Floats = Pack<float, kPack>;
  using Elements = Pack<T, kPack>;
  constexpr int kStep = kPack * kBlockThreads;  // keys that the block processes at a time
  extern __shared__ float4 smem[];
  float* sP = reinterpret_cast<float*>(smem);  // each thread reads only what it wrote itself: no barrier
  float* sDp = sP + keys_on_chip;
  __shared__ float sPartial[kWarps];
  const size_t row = blockIdx.x;
  const int visible = a.visible_keys(int(row % a.seq_q));
  p += row * a.seq_k;
  dp += row * a.seq_k;
  ds += row * a.seq_k;
  const auto load = [&](const T* from, int key) {
    const Elements in = *reinterpret_cast<const Elements*>(from + key);
    Floats out;
    for (int i = 0; i < kPack; ++i) out.x[i] = key + i < visible ? float(in.x[i]) : 0.0f;
    return out;
  };

  float mine = 0.0f;
  for (int first = 0; first < visible; first += kStep) {
    const int key = first + kPack * int(threadIdx.x);
    if (key >= visible) continue;
    const Floats rP = load(p, key), rDp = load(dp, key);
    for (int i = 0; i < kPack; ++i) mine += rP.x[i] * rDp.x[i];
    if (key >= keys_on_chip) continue;
    *reinterpret_cast<Floats*>(sP + key) = rP;
    *reinterpret_cast<Floats*>(sDp + key) = rDp;
  }
  const float d = block_reduce(mine, Sum(), sPartial);

  for (int first = 0; first < a.seq_k; first += kStep) {
    const int key = first + kPack * int(threadIdx.x);
    if (key >= a.seq_k) continue;
    Elements out = {};
    if (key < visible) {
      const bool on_chip = key < keys_on_chip;
      const Floats rP = on_chip ? *reinterpret_cast<const Floats*>(sP + key) : load(p, key);
      const Floats rDp = on_chip ? *reinterpret_cast<const Floats*>(sDp + key) : load(dp, key);
      for (int i = 0; i < kPack; ++i) out.x[i] = T(rP.x[i] * (rDp.x[i] - d));
    }
    *reinterpret_cast<Elements*>(ds + key) = out;
  }
}

namespace {

/// The number of elements of a row that are loaded together: every row begins at a multiple of it.
int pack_of(std::int64_t seq_k) { return seq_k % 4 == 0 ? 4 : 1; }

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
}

/// A cuBLAS handle. Creating one takes milliseconds, so all launches share one.
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
    // No TF32, and no sums in 16 bits.
    const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublasSetMathMode(handle_, cublasMath_t(mode)), "cublasSetMathMode");
  }
  ~Cublas() { cublasDestroy(handle_); }

  cublasHandle_t handle_ = nullptr;
};

/// A batch of row-major matrices, one after the other.
template <class T>
struct Matrices {
  T* data;
  int rows, cols;

  long long stride() const { return static_cast<long long>(rows) * cols; }
};

enum class Op { kAsIs, kTransposed };

/// C = alpha * op(A) op(B) for each matrix of a batch, row-major.
///
/// cuBLAS is column-major and reads a row-major matrix as its transpose, so it computes C^T = op(B)^T
/// op(A)^T.
template <class T>
void gemm(cublasHandle_t cublas, float alpha, const Matrices<const T>& a, Op op_a, const Matrices<const T>& b,
          Op op_b, const Matrices<T>& c, int batch) {
  const auto code = [](Op op) { return op == Op::kAsIs ? CUBLAS_OP_N : CUBLAS_OP_T; };
  const int inner = op_a == Op::kAsIs ? a.cols : a.rows;
  const float beta = 0.0f;
  if constexpr (std::is_same_v<T, float>) {
    check(cublasSgemmStridedBatched(cublas, code(op_b), code(op_a), c.cols, c.rows, inner, &alpha, b.data,
                                    b.cols, b.stride(), a.data, a.cols, a.stride(), &beta, c.data, c.cols,
                                    c.stride(), batch),
          "cublasSgemmStridedBatched");
  } else {
    constexpr cudaDataType kType = std::is_same_v<T, __half> ? CUDA_R_16F : CUDA_R_16BF;
    check(cublasGemmStridedBatchedEx(cublas, code(op_b), code(op_a), c.cols, c.rows, inner, &alpha, b.data,
                                     kType, b.cols, b.stride(), a.data, kType, a.cols, a.stride(), &beta,
                                     c.data, kType, c.cols, c.stride(), batch, CUBLAS_COMPUTE_32F,
                                     CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
  }
}

/// The heads that share a head of K and V are adjacent in Q: together they form one matrix with more rows.
struct Stacked {
  explicit Stacked(const AttentionForward::Args& args)
      : rows(args.heads / args.kv_heads * args.seq_q), batch(args.batch * args.kv_heads) {}
  int rows, batch;
  unsigned blocks() const { return unsigned(rows) * unsigned(batch); }  ///< for a kernel with a block per row
};

/// S = scale * Q K^T, P = softmax(S), LSE.
template <class T>
void launch_probabilities(const Attention<T>& a, int head_dim, const Stacked& stacked, T* s, T* p,
                          cudaStream_t stream) {
  gemm<T>(Cublas::on(stream), a.scale, {a.q, stacked.rows, head_dim}, Op::kAsIs, {a.k, a.seq_k, head_dim},
          Op::kTransposed, {s, stacked.rows, a.seq_k}, stacked.batch);
  const auto softmax = pack_of(a.seq_k) == 4 ? masked_softmax<T, 4> : masked_softmax<T, 1>;
  const int keys_on_chip = std::min(a.seq_k, kMostKeysOnChip);
  launch(softmax, stacked.blocks(), kBlockThreads, std::size_t(keys_on_chip) * sizeof(float), stream, a, s, p,
         keys_on_chip);
}

template <class T>
void launch_forward(const AttentionForward::Args& args, cudaStream_t stream) {
  const Attention<T> a = args.as<T>();
  T* const p = args.buffer<T>("p");
  const Stacked stacked(args);
  launch_probabilities(a, args.head_dim, stacked, args.buffer<T>("s"), p, stream);
  gemm<T>(Cublas::on(stream), 1.0f, {p, stacked.rows, args.seq_k}, Op::kAsIs,
          {a.v, args.seq_k, args.head_dim}, Op::kAsIs, {a.o, stacked.rows, args.head_dim}, stacked.batch);
}

template <class T>
void launch_backward(const AttentionBackward::Args& args, cudaStream_t stream) {
  const Attention<T> a{.q = args.buffer<T>("q"),
                       .k = args.buffer<T>("k"),
                       .v = args.buffer<T>("v"),
                       .o = nullptr,
                       .lse = args.buffer<float>("lse"),
                       .batch = args.batch,
                       .heads = args.heads,
                       .kv_heads = args.kv_heads,
                       .seq_q = args.seq_q,
                       .seq_k = args.seq_k,
                       .scale = args.scale,
                       .exp2_scale = args.scale * kLog2e,
                       .causal = args.causal,
                       .head_dim = args.head_dim,
                       .head_dim_v = args.head_dim,
                       .q_strides = args.strides.at("q"),
                       .k_strides = args.strides.at("k"),
                       .v_strides = args.strides.at("v"),
                       .o_strides = {}};
  const T* const d_o = args.buffer<T>("do");
  T *const s = args.buffer<T>("s"), *const p = args.buffer<T>("p"), *const dp = args.buffer<T>("dp");
  T* const ds = args.buffer<T>("ds");
  const Stacked stacked(args);
  const cublasHandle_t cublas = Cublas::on(stream);
  const int rows = stacked.rows, keys = args.seq_k, d = args.head_dim, batch = stacked.batch;

  launch_probabilities(a, d, stacked, s, p, stream);
  // dV = P^T dO, and dP = dO V^T
  gemm<T>(cublas, 1.0f, {p, rows, keys}, Op::kTransposed, {d_o, rows, d}, Op::kAsIs,
          {args.buffer<T>("dv"), keys, d}, batch);
  gemm<T>(cublas, 1.0f, {d_o, rows, d}, Op::kAsIs, {a.v, keys, d}, Op::kTransposed, {dp, rows, keys}, batch);
  const auto backward = pack_of(keys) == 4 ? softmax_backward<T, 4> : softmax_backward<T, 1>;
  const int keys_on_chip = std::min(keys, kMostKeysOnChip / 2);
  launch(backward, stacked.blocks(), kBlockThreads, std::size_t(keys_on_chip) * 2 * sizeof(float), stream, a,
         p, dp, ds, keys_on_chip);
  // dQ = scale * dS K, and dK = scale * dS^T Q
  gemm<T>(cublas, args.scale, {ds, rows, keys}, Op::kAsIs, {a.k, keys, d}, Op::kAsIs,
          {args.buffer<T>("dq"), rows, d}, batch);
  gemm<T>(cublas, args.scale, {ds, rows, keys}, Op::kTransposed, {a.q, rows, d}, Op::kAsIs,
          {args.buffer<T>("dk"), keys, d}, batch);
}

/// The elements of a matrix like S that a kernel reads for one head, if it keeps `on_chip` keys of a row on
/// the chip.
std::int64_t visible_elements(const AttentionShape& shape, std::int64_t on_chip) {
  std::int64_t read = 0;
  for (std::int64_t query = 0; query < shape.seq_q; ++query) {
    const std::int64_t pack = pack_of(shape.seq_k);
    const std::int64_t seen = (shape.visible_keys(query) + pack - 1) / pack * pack;
    read += seen + std::max<std::int64_t>(0, seen - on_chip);
  }
  return read;
}

}  // namespace
}  // namespace fa::baselines

namespace fa {

using namespace baselines;

std::optional<Refusal> standard_attention::refuse(const AttentionShape& shape) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  constexpr std::int64_t kMostKeys = 1 << 29;  // so that the bytes of S and P together fit into 63 bits
  if (shape.seq_k > kMostKeys) {
    return Refusal::problem("--seq-k is " + text(shape.seq_k) + ": must be at most " + text(kMostKeys) +
                            " for standard attention");
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

  return {
      .tensors = {
          {"q", {.read_bytes = q}},
          {"k", {.read_bytes = k}},
          {"v", {.read_bytes = k}},
          {"s", {.read_bytes = heads * visible_elements(shape, kMostKeysOnChip) * element, .write_bytes = s}},
          {"p", {.read_bytes = s, .write_bytes = s}},
          {"o", {.write_bytes = q}},
          {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
}

void standard_attention::launch(const AttentionForward::Args& args, cudaStream_t stream) {
  select(args.dtype, [&]<class T>(std::type_identity<T>) { launch_forward<T>(args, stream); });
}

std::vector<TensorSpec> standard_backward::workspace(const AttentionShape& shape) {
  std::vector<TensorSpec> specs = standard_attention::workspace(shape);
  for (const char* name : {"dp", "ds"}) {
    specs.push_back({.name = name, .shape = specs[0].shape, .dtype = shape.dtype});
  }
  specs.push_back({.name = "lse", .shape = {shape.batch, shape.heads, shape.seq_q}});
  return specs;
}

Traffic standard_backward::traffic(const AttentionShape& shape) {
  Traffic traffic = standard_attention::traffic(shape);
  std::map<std::string, TensorTraffic>& tensors = traffic.tensors;
  const std::int64_t q = tensors.at("q").read_bytes, k = tensors.at("k").read_bytes;
  const std::int64_t s = tensors.at("s").write_bytes;
  const std::int64_t seen = shape.batch * shape.heads * visible_elements(shape, kMostKeysOnChip / 2) *
                            std::int64_t(size_of(shape.dtype));
  tensors.erase("o");
  tensors["q"].read_bytes += q;     // S and dK
  tensors["k"].read_bytes += k;     // S and dQ
  tensors["p"].read_bytes += seen;  // dV and dS
  tensors["do"] = {.read_bytes = 2 * q};
  tensors["dp"] = {.read_bytes = seen, .write_bytes = s};
  tensors["ds"] = {.read_bytes = 2 * s, .write_bytes = s};
  tensors["dq"] = {.write_bytes = q};
  tensors["dk"] = {.write_bytes = k};
  tensors["dv"] = {.write_bytes = k};
  return traffic;
}

void standard_backward::launch(const AttentionBackward::Args& args, cudaStream_t stream) {
  select(args.dtype, [&]<class T>(std::type_identity<T>) { launch_backward<T>(args, stream); });
}

}  // namespace fa
