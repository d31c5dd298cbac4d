// Chapter 07's last kernel with other sizes for one head dimension, -DHEAD_DIM=96 or 192: which ones `final`
// should use. choices.py compiles and runs it. Prints a line of JSON for each choice: the smallest and the
// median time of `rounds`, in which all choices take turns, and how far O is from that of the first choice,
// which is the chapter's own.
//
//   choices BATCH HEADS SEQ CAUSAL ROUNDS
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "device/launch.cuh"
#include "kernel.cuh"

namespace {

using namespace fa;
using namespace fa::ch07;
using T = __nv_bfloat16;
constexpr int d = HEAD_DIM;

template <int Keys, int Slice, bool QInRegisters, int BlocksPerSm, int WarpRows = 32, int Warps = 4,
          int Stages = 2>
struct Choice : TileChoices {
  static constexpr int Bc = Keys, kSlice = Slice, kBlocksPerSm = BlocksPerSm;
  static constexpr int kWarpRows = WarpRows, kWarps = Warps, kStages = Stages;
  static constexpr bool kQInRegisters = QInRegisters;
};

/// What a launch needs, and what has been measured.
struct Candidate {
  std::string name;
  void (*kernel)(Attention<T>);
  int Br, threads;
  std::size_t shared_bytes;
  std::vector<float> ms;
  std::vector<T> o;
};

template <class Chosen>
Candidate candidate() {
  using Tile = MultiStageTiles<T, d, Chosen, true>;  // for dense tensors
  char name[100];
  std::snprintf(name, sizeof name, "Bc %d, slice %d, Q in %s, %d blocks, %d rows, %d warps, %d stages",
                Tile::Bc, Tile::kSlice, Tile::kQInRegisters ? "registers" : "shared memory",
                Tile::kBlocksPerSm, Tile::kWarpRows, Tile::kWarps, Tile::kStages);
  return {name, masked_first_attention<Tile>, Tile::Br, Tile::kThreads, std::size_t(Tile::kSharedBytes), {},
          {}};
}

template <class... Chosen>
std::vector<Candidate> candidates() {
  return {candidate<Chosen>()...};
}

std::vector<Candidate> all() {
#if HEAD_DIM == 96
  return candidates<FinalChoices<96>, Choice<64, 32, true, 2>, Choice<64, 64, true, 2>,
                    Choice<64, 32, false, 2>, Choice<96, 32, false, 2>, Choice<128, 64, true, 1>,
                    Choice<64, 32, true, 1, 32, 4, 3>>();
#elif HEAD_DIM == 192
  return candidates<FinalChoices<192>, FinalChoices<192>::WhereItFits, Choice<64, 32, false, 1, 16, 8>,
                    Choice<64, 64, false, 1, 16, 4>, Choice<32, 32, false, 1, 16, 8, 3>>();
#else
#error "HEAD_DIM must be 96 or 192"
#endif
}

/// Device memory that is freed at the end of the program.
template <class Element>
Element* allocate(std::size_t count) {
  Element* address = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&address, count * sizeof(Element)));
  return address;
}

T* random_tensor(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<T> host(count);
  for (T& x : host) x = __float2bfloat16(normal(bits));
  T* device = allocate<T>(count);
  FA_CUDA_CHECK(cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

double relative_l2(const std::vector<T>& a, const std::vector<T>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = __bfloat162float(a[i]), y = __bfloat162float(b[i]);
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return std::fprintf(stderr, "choices BATCH HEADS SEQ CAUSAL ROUNDS\n"), 2;
  const int batch = std::atoi(argv[1]), heads = std::atoi(argv[2]), seq = std::atoi(argv[3]);
  const bool causal = std::atoi(argv[4]) != 0;
  const int rounds = std::atoi(argv[5]);
  try {
    const std::size_t elements = std::size_t(batch) * heads * seq * d;
    const Strides dense = {.batch = std::int64_t(heads) * seq * d, .head = std::int64_t(seq) * d, .row = d};
    Attention<T> a = {.q = random_tensor(elements, 1),
                      .k = random_tensor(elements, 2),
                      .v = random_tensor(elements, 3),
                      .o = allocate<T>(elements),
                      .lse = allocate<float>(elements / d),
                      .batch = batch,
                      .heads = heads,
                      .kv_heads = heads,
                      .seq_q = seq,
                      .seq_k = seq,
                      .scale = 1.0f / std::sqrt(float(d)),
                      .causal = causal,
                      .head_dim = d,
                      .q_strides = dense,
                      .k_strides = dense,
                      .v_strides = dense,
                      .o_strides = dense};
    std::vector<Candidate> choices = all();
    const std::size_t limit = shared_bytes_limit();
    std::erase_if(choices, [=](const Candidate& c) { return c.shared_bytes > limit; });
    const auto enqueue = [&](const Candidate& c) {
      launch(c.kernel, unsigned((seq + c.Br - 1) / c.Br) * unsigned(batch * heads), unsigned(c.threads),
             c.shared_bytes, nullptr, a);
    };
    for (Candidate& c : choices) {
      FA_CUDA_CHECK(cudaMemset(a.o, 0xff, elements * sizeof(T)));  // NaN
      enqueue(c);
      c.o.resize(elements);
      FA_CUDA_CHECK(cudaMemcpy(c.o.data(), a.o, elements * sizeof(T), cudaMemcpyDeviceToHost));
    }
    cudaEvent_t begin, end;
    FA_CUDA_CHECK(cudaEventCreate(&begin));
    FA_CUDA_CHECK(cudaEventCreate(&end));
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t n = 0; n < choices.size(); ++n) {
        Candidate& c = choices[(n + std::size_t(round)) % choices.size()];
        enqueue(c);  // its instructions and its data are in the caches
        constexpr int kLaunches = 5;
        FA_CUDA_CHECK(cudaEventRecord(begin));
        for (int i = 0; i < kLaunches; ++i) enqueue(c);
        FA_CUDA_CHECK(cudaEventRecord(end));
        FA_CUDA_CHECK(cudaEventSynchronize(end));
        float ms = 0;
        FA_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
        c.ms.push_back(ms / kLaunches);
      }
    }
    for (Candidate& c : choices) {
      std::sort(c.ms.begin(), c.ms.end());
      std::printf("{\"choice\": \"%s\", \"min_ms\": %.6g, \"median_ms\": %.6g, \"difference\": %.3g}\n",
                  c.name.c_str(), c.ms.front(), c.ms[c.ms.size() / 2], relative_l2(c.o, choices.front().o));
    }
  } catch (const CudaError& error) {
    std::fprintf(stderr, "choices: %s\n", error.what());
    return 3;
  }
  return 0;
}
