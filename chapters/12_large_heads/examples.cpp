/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#include <map>

namespace fa::examples {

#if EXERCISE == 1
template <int kSharers>
struct TileOf {
  static constexpr int kKeys = 64 * kSharers, Bc = 2 * kKeys, kStep = 16, kBlocks = 2;
};

template <class Tile>
void rows() {
  for (const int rank : {0, 1}) {
    for (const int tile : {0, 2}) {
      for (int key = 0; key < Tile::Bc; key += Tile::kStep) {
#include "answer.inc"
        example(words("block %d, tile %d of %d keys, slice %d", rank, tile, Tile::Bc, key / Tile::kStep),
                "its first row", row);
      }
    }
  }
}

void examples() {
  rows<TileOf<1>>();
  rows<TileOf<2>>();
}

#elif EXERCISE == 4
using float2 = Pair;
struct Half {
  std::uint16_t bits;
};

/// A lane of a warpgroup. The other block's P is there.
struct Lane {
  using T = Half;
  static constexpr int index = 1;
  float rS[32];
  struct {
    Half received[2][64];
  } s;

  static float p(int i) { return float(i + 1) / 32.0f; }
  int place(int n, int half) const { return 2 * (2 * n + half); }
  void wait_received() {}
  void leave_received() {}

  void score_gradients(const float2 (&delta)[8]) {
#include "answer.inc"
  }
};

void examples() {
  Lane lane;
  for (int i = 0; i < 32; i += 2) {
    const std::uint32_t word = pack<Half>(Lane::p(i), Lane::p(i + 1));
    std::memcpy(lane.s.received[Lane::index] + i, &word, sizeof word);
  }
  float2 delta[8];
  for (int n = 0; n < 8; ++n) delta[n] = {float(n), -2.0f * float(n)};
  for (int i = 0; i < 32; ++i) lane.rS[i] = float(i % 5);
  const Lane before = lane;
  lane.score_gradients(delta);
  for (int n = 0; n < 8; ++n) {
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * n + 2 * half;
      const std::string call =
          words("n = %d, half = %d, with P = (%g, %g), dP = (%g, %g) and delta[n] = (%g, %g)", n, half,
                Lane::p(i), Lane::p(i + 1), before.rS[i], before.rS[i + 1], delta[n].x, delta[n].y);
      example(call, words("rS[%d]", i).c_str(), lane.rS[i]);
      example(call, words("rS[%d]", i + 1).c_str(), lane.rS[i + 1]);
    }
  }
}

#elif EXERCISE == 5
/// The barriers of a block.
struct Barriers {
  std::uint64_t own_free[2], received_full[2], rows_full, rows_empty;
};
Barriers of_block[2];
int own_rank = 0, fences = 0;
std::map<std::string, int> arrivals;  // how many, by barrier and kind

void arrive(const std::uint64_t* barrier, const char* kind) {
  std::string name = "another barrier";
  for (int block = 0; block < 2; ++block) {
    for (int index = 0; index < 2; ++index) {
      if (barrier == &of_block[block].own_free[index]) name = words("own_free[%d] of block %d", index, block);
      if (barrier == &of_block[block].received_full[index])
        name = words("received_full[%d] of block %d", index, block);
    }
  }
  ++arrivals[name + kind];
}
namespace ptx {
std::uint64_t* mapa(std::uint64_t* barrier, int block) {
  return reinterpret_cast<std::uint64_t*>(&of_block[block]) +
         (barrier - reinterpret_cast<std::uint64_t*>(&of_block[own_rank]));
}
void mbarrier_arrive_cluster_relaxed(std::uint64_t* barrier) { arrive(barrier, ", relaxed"); }
void mbarrier_arrive_cluster(std::uint64_t* barrier) {
  arrive(barrier, ", which publishes what was written");
}
void mbarrier_arrive(std::uint64_t* barrier) { arrive(barrier, ""); }
void fence_proxy_async() { ++fences; }
}  // namespace ptx
void __syncwarp() {}
void __threadfence() { ++fences; }
void __threadfence_block() { ++fences; }

/// A thread of a warpgroup.
struct Thread {
  Barriers& s;
  int index, rank;
  struct {
    int x;
  } threadIdx;
  void leave_received() {
#include "answer.inc"
  }
};

void examples() {
  for (const int rank : {0, 1}) {
    for (const int index : {0, 1}) {
      own_rank = rank, fences = 0, arrivals.clear();
      for (int lane = 0; lane < 32; ++lane)
        Thread{of_block[rank], index, rank, {128 * (1 + index) + 64 + lane}}.leave_received();
      std::string all;
      for (const auto& [name, count] : arrivals)
        all += words("%s%d at %s", all.empty() ? "" : ", ", count, name.c_str());
      const std::string call = words("leave_received() in a warp of warpgroup %d in block %d", index, rank);
      example(call, "the list of arrivals", all.empty() ? "empty" : all);
      example(call, "the number of fences", fences);
    }
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
