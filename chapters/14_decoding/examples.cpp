/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#if EXERCISE == 8
#include <vector>

#include "14_decoding/plan.cuh"
#endif

#include <algorithm>
#include <array>

namespace fa::examples {

#if EXERCISE == 1 || EXERCISE == 2
struct float4 {
  float x, y, z, w;
};
struct RowState {
  float m, l;
};
struct Piece {
  float4 o = {0.0f, 0.0f, 0.0f, 0.0f};
#if EXERCISE == 1
#include "answer.inc"
#else
  RowState state;
#endif

  template <int kCount>
  void merge(const Piece (&others)[kCount]) {
#if EXERCISE == 2
#include "answer.inc"
#else
    float m = state.m;
    for (const Piece& other : others) m = std::fmax(m, other.state.m);
    scale(std::exp2(state.m - m));
    state.m = m;
    for (const Piece& other : others) {
      const float weight = std::exp2(other.state.m - m);
      state.l += weight * other.state.l, o.x += weight * other.o.x;
    }
#endif
  }
  void scale(float by) {
    o.x *= by, o.y *= by, o.z *= by, o.w *= by;
    state.l *= by;
  }
};
#endif

#if EXERCISE == 1
void examples() {
  for (const float m : {-500.0f, 500.0f, 0.0f, -1e30f}) {
    Piece piece, other[1];
    other[0].state = {m, 3.0f};
    other[0].o.x = 6.0f;
    piece.merge(other);
    const std::string call = words("a part without keys, and one with m = %g, l = 3 and O = 6, merged", m);
    example(call, "m", piece.state.m);
    example(call, "l", piece.state.l);
    example(call, "O", piece.o.x);
  }
  Piece piece;
  const Piece others[2];
  piece.merge(others);
  example("three parts without keys, merged", "l", piece.state.l);
  example("three parts without keys, merged", "O", piece.o.x);
}

#elif EXERCISE == 2
void examples() {
  const RowState states[][3] = {{{1, 2}, {1, 3}, {1, 4}},          {{1, 2}, {3, 3}, {0, 4}},
                                {{3, 2}, {1, 3}, {2, 4}},          {{0, 2}, {1, 3}, {3, 4}},
                                {{-300, 2}, {-302, 3}, {-301, 4}}, {{-FLT_MAX, 0}, {1, 3}, {-FLT_MAX, 0}},
                                {{200, 2}, {-200, 3}, {0, 4}}};
  for (const auto& [own, first, second] : states) {
    Piece piece = {{1, 2, 3, 4}, own};
    piece.merge<2>({{{10, 20, 30, 40}, first}, {{100, 200, 300, 400}, second}});
    const std::string call = words(
        "parts with m = %g, %g and %g, l = %g, %g and %g, and O = (1, 2, 3, 4), (10, 20, 30, 40) and (100, "
        "200, 300, 400)",
        own.m, first.m, second.m, own.l, first.l, second.l);
    example(call, "m", piece.state.m);
    example(call, "l", piece.state.l);
    example(call, "O", words("(%.4g, %.4g, %.4g, %.4g)", piece.o.x, piece.o.y, piece.o.z, piece.o.w));
  }
}

#elif EXERCISE == 3
constexpr int kBytesPerNs = 4800, kLatencyNs = 1000, kMultiprocessors = 132;
int ring_stages(int bytes) {
#include "answer.inc"
}

void examples() {
  for (const int bytes : {16384, 8192, 32768, 36363, 36364, 65536, 1000})
    example(words("ring_stages(%d)", bytes), "the result", ring_stages(bytes));
}

#elif EXERCISE == 4
struct Division {
  int blocks, each, longer;
  int first(int block) const { return block * each + (block < longer ? block : longer); }
  int block_of(int granule) const {
#include "answer.inc"
  }
};

void examples() {
  for (const Division& division : {Division{3, 2, 1}, {4, 3, 0}, {3, 1, 2}, {5, 2, 4}, {1, 6, 0}}) {
    for (int granule = 0; granule < division.first(division.blocks); ++granule) {
      example(words("block_of(%d), with blocks = %d, each = %d and longer = %d", granule, division.blocks,
                    division.each, division.longer),
              "the result", division.block_of(granule));
    }
  }
}

#elif EXERCISE == 6
struct Table {
  std::int64_t operator[](std::int64_t index) const { return 100 + index % 1000; }
};
struct Paged {
  Table table;
  int columns, page_shift;
  std::int64_t page(int batch, int key) const {
#include "answer.inc"
  }
};

void examples() {
  for (const auto& [batch, key, columns, shift] :
       {std::array{0, 5, 8, 4}, {0, 16, 8, 4}, {2, 47, 8, 4}, {3, 130, 5, 6}, {60000, 0, 40000, 4}}) {
    const Paged paged = {{}, columns, shift};
    example(words("page(%d, %d), with pages of %d keys, %d columns and table[i] = 100 + i %% 1000", batch,
                  key, 1 << shift, columns),
            "the result", double(paged.page(batch, key)));
  }
}

#elif EXERCISE == 7
struct Tile {
  static constexpr int kKeys = 32;
};

/// Lane `threadIdx.x` of a worker.
struct Ring {
  struct {
    int box_keys, page_shift;
    int page(int, int key) const { return key >> page_shift; }
  } cache_;
  struct {
    int batch, tile, length;
  } place_;
  int left_;
  struct {
    unsigned x;
  } threadIdx;
  bool copies_ = int(threadIdx.x) < Tile::kKeys / cache_.box_keys;
  int page_ = -1;

  int first_key() const { return place_.tile * Tile::kKeys + int(threadIdx.x) % 32 * cache_.box_keys; }
  void look_up() {
#include "answer.inc"
  }
};

void examples() {
  for (const int shift : {4, 6}) {
    for (const int length : {100, 97, 128}) {
      for (int tile = 0; tile * Tile::kKeys < length; ++tile) {
        for (const unsigned lane : {0, 1, 2}) {
          Ring ring = {.cache_ = {std::min(1 << shift, Tile::kKeys), shift},
                       .place_ = {0, tile, length},
                       .left_ = 1,
                       .threadIdx = {lane}};
          ring.look_up();
          const bool exists =
              ring.copies_ && ring.first_key() < length;  // or else, any page that there is will do
          if (!exists && ring.page_ <= (length - 1) >> shift) ring.page_ = -1;
          example(words("lane %u, tile %d of a sequence of %d keys in pages of %d", lane, tile, length,
                        1 << shift),
                  "the page of the sequence that is looked up",
                  ring.page_ < 0 ? std::string("none") : std::to_string(ring.page_));
        }
      }
    }
  }
}

#elif EXERCISE == 8
using ch14::Granules;

bool equal_shares_are_faster(const Granules& of, int splits, int plan) {
#include "answer.inc"
}

void examples() {
  struct Call {
    std::vector<std::int32_t> lengths;
    int heads, splits, plan;
  };
  for (const Call& call : std::vector<Call>{{{640, 64}, 2, 2, 0},
                                            {{640, 64}, 2, 2, 1},
                                            {{640, 64}, 2, 2, 2},
                                            {{640, 64}, 2, 2, 3},
                                            {{500, 10, 30}, 1, 3, 0},
                                            {{330, 330, 330}, 1, 4, 0},
                                            {{900, 100, 0, 20}, 3, 3, 3},
                                            {{900, 100, 0, 20}, 3, 3, 2},
                                            {{700, 65, 65, 65}, 1, 1, 6}}) {
    std::string lengths;
    for (const std::int32_t length : call.lengths)
      lengths += (lengths.empty() ? "" : ", ") + std::to_string(length);
    const Granules of = {call.lengths.data(), int(call.lengths.size()), call.heads, 1000, 64, 0};
    example(words("lengths {%s}, heads = %d, granules of 64 keys, splits = %d and plan = %d", lengths.c_str(),
                  call.heads, call.splits, call.plan),
            "the result", equal_shares_are_faster(of, call.splits, call.plan) ? "true" : "false");
  }
  for (const int seq_k : {640, 650}) {
    const Granules of = {nullptr, 2, 3, seq_k, 64, 0};  // all sequences have the same length
    example(words("no key_lengths, but seq_k = %d, batch = 2, heads = 3, granules of 64 keys, splits = 4 and "
                  "plan = 0",
                  seq_k),
            "the result", equal_shares_are_faster(of, 4, 0) ? "true" : "false");
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
