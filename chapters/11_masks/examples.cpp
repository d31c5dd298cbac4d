/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#if EXERCISE <= 6
#include "11_masks/mask_mod.cuh"
#elif EXERCISE == 7
#include <atomic>
#include <barrier>
#include <bit>
#include <thread>
#include <vector>
#endif

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa::examples {

#if EXERCISE <= 6
using namespace ch11;

const char* name_of(TileKind kind) {
  const char* const names[] = {"kEmpty", "kPartial", "kFull"};
  return unsigned(kind) < 3 ? names[int(kind)] : "no kind";
}
std::string range(int first, int last) {
  return first == last ? words("%d", first) : words("%d to %d", first, last);
}
Span span(int first, int last) { return {{first, 0}, {last, 0}}; }
#endif

#if EXERCISE == 1
struct Mask {
  int shift, width;
  TileKind kind(const Rect& r) const {
#include "answer.inc"
  }
};

void examples() {
  for (const int queries : {1, 4}) {
    for (const int keys : {4, 1}) {
      for (int key = 0; key < 24; ++key) {
        const Mask mask = {.shift = 2, .width = 5};
        const Rect r = {span(10, 9 + queries), span(key, key + keys - 1)};
        example(words("kind() of queries %s and keys %s, with shift 2 and width 5",
                      range(10, 9 + queries).c_str(), range(key, key + keys - 1).c_str()),
                "the kind", name_of(mask.kind(r)));
      }
    }
  }
}

#elif EXERCISE == 2
struct Mask {
  int shift, width;
  bool sees(Token query, Token key) const {
#include "answer.inc"
  }
};

void examples() {
  for (const int shift : {2, 0}) {
    for (int key = 0; key < 24; ++key) {
      const Mask mask = {.shift = shift, .width = 5};
      example(words("sees() of query 10 and key %d, with shift %d and width 5", key, shift), "the result",
              mask.sees({10, 0}, {key, 0}) ? "true" : "false");
    }
  }
}

#elif EXERCISE == 3
struct Mask {
  int keys;
  TileKind kind(const Rect& r) const {
#include "answer.inc"
  }
};

void examples() {
  for (const int count : {4, 1}) {
    for (int key = 0; key < 12; ++key) {
      const Rect r = {span(0, 3), span(key, key + count - 1)};
      example(words("kind() of keys %s, of which 6 exist", range(key, key + count - 1).c_str()), "the kind",
              name_of(Mask{6}.kind(r)));
    }
  }
  example("kind() of keys 0 to 3, of which 0 exist", "the kind",
          name_of(Mask{0}.kind({span(0, 3), span(0, 3)})));
}

#elif EXERCISE == 4
std::string documents(int first, int last) {
  return words("document%s %s", first == last ? "" : "s", range(first, last).c_str());
}

TileKind kind(const Rect& r) {
  const Span &queries = r.queries, &keys = r.keys;
#include "answer.inc"
}

void examples() {
  constexpr int kDocuments = 4;
  for (int first_query = 0; first_query < kDocuments; ++first_query) {
    for (int last_query = first_query; last_query < kDocuments; ++last_query) {
      for (int first_key = 0; first_key < kDocuments; ++first_key) {
        for (int last_key = first_key; last_key < kDocuments; ++last_key) {
          const Rect r = {{{100, first_query}, {163, last_query}}, {{128, first_key}, {191, last_key}}};
          example(words("kind() of queries of %s and keys of %s", documents(first_query, last_query).c_str(),
                        documents(first_key, last_key).c_str()),
                  "the kind", name_of(kind(r)));
        }
      }
    }
  }
}

#elif EXERCISE == 5
struct NextTile {
  int tile;
  TileKind kind;
};
struct Tile {
  static constexpr int Br = 64, Bc = 64, kSlice = 32, kHeadDim = 64;
};
struct VisibleTiles {
  const Masks& masks;
  const MaskMod& head_mask;
  Span queries;

  NextTile before(int tile) const {
#include "answer.inc"
  }
};

void before(const Masks& masks, int first_query, const char* which) {
  const MaskMod head_mask = masks.of(0);
  const VisibleTiles tiles = {masks, head_mask, masks.queries(first_query, Tile::Br)};
  for (int tile = 10; tile >= 0; --tile) {
    const NextTile next = tiles.before(tile);
    const std::string call =
        words("before(%d) for queries %d to %d, %s", tile, first_query, first_query + Tile::Br - 1, which);
    example(call, "the tile", next.tile < 0 ? "negative" : words("%d", next.tile));
    if (next.tile >= 0) example(call, "its kind", name_of(next.kind));
  }
}

void examples() {
  for (const int width :
       {194, 193, 65, 1}) {  // the first key of the window is the last of a tile, or the one after it
    const Masks masks = {.heads = 1, .seq_q = 640, .seq_k = 640, .causal = true, .window = width};
    before(masks, 512, words("under a causal mask with a window of %d", width).c_str());
    before(masks, 0, words("under a causal mask with a window of %d", width).c_str());
  }
  const std::uint8_t blocks[10][10] = {{1, 0, 1, 0, 0, 1, 1, 0, 0, 0}};
  before({.heads = 1,
          .seq_q = 640,
          .seq_k = 640,
          .causal = false,
          .window = 1280,
          .blocks = blocks[0],
          .heads_of_blocks = 1,
          .log2_size_of_blocks = 6},
         0, "which see blocks 0, 2, 5 and 6 of 64 keys");
}

#elif EXERCISE == 6
struct Tile {
  static constexpr int Bc = 128, kSlice = 32;
};
template <class>
struct WarpMaskMod {
  TileKind kind = TileKind::kPartial;
  int evaluated_at = -1;
};
/// A tile whose sub-tiles are empty, partial, full and partial.
struct SubTiles {
  int first_key = 256;
  TileKind kind(int key) const {
    const TileKind kinds[] = {TileKind::kEmpty, TileKind::kPartial, TileKind::kFull, TileKind::kPartial};
    return key < 0 || key >= Tile::Bc ? TileKind::kEmpty : kinds[key / Tile::kSlice];
  }
  WarpMaskMod<Tile> partial_mask_mod(int key) const { return {TileKind::kPartial, key}; }
  WarpMaskMod<Tile> mask_mod(int key) const {
#include "answer.inc"
  }
};

void examples() {
  for (int key = 0; key < Tile::Bc; key += Tile::kSlice) {
    const WarpMaskMod<Tile> result = SubTiles().mask_mod(key);
    const std::string call = words("mask_mod(%d) of a tile that begins at key 256, where kind(%d) is %s", key,
                                   key, name_of(SubTiles().kind(key)));
    example(call, "the kind of the result", name_of(result.kind));
    example(call, "the place where the masks are evaluated",
            result.evaluated_at < 0 ? "nowhere" : words("key %d", result.evaluated_at));
  }
}

#elif EXERCISE == 7
/// The lanes of a warp, each a thread of the CPU.
thread_local int lane = 0;
std::barrier all_lanes(32);
std::atomic<unsigned> votes;

unsigned __ballot_sync(unsigned, bool vote) {
  if (vote) votes |= 1u << lane;
  all_lanes.arrive_and_wait();
  const unsigned all = votes;
  all_lanes.arrive_and_wait();
  if (lane == 0) votes = 0;
  all_lanes.arrive_and_wait();
  return all;
}
int __popc(unsigned bits) { return std::popcount(bits); }
enum class TileKind { kEmpty, kPartial, kFull };

void examples() {
  constexpr unsigned kAllLanes = 0xffffffff;
  constexpr int kRoom = 4096;  // on both sides, for what a wrong answer writes there
  for (const char* pattern : {"pf.p", "ff", ".p", "p", "p..............................fpf.p"}) {
    const int length = int(std::strlen(pattern));
    struct {
      int most;
    } block_mask = {length};
    std::vector<int> memory(2 * kRoom + length, -1), counts(2);
    int* tiles = memory.data() + kRoom;
    std::vector<std::thread> lanes;
    for (int number = 0; number < 32; ++number) {
      lanes.emplace_back([&, number] {
        lane = number;
        int partial = 0, full = 0;
        for (int first = 0; first < block_mask.most; first += 32) {
          const int tile = first + lane;
          const char letter = tile < length ? pattern[tile] : '.';
          const TileKind kind = letter == 'p'   ? TileKind::kPartial
                                : letter == 'f' ? TileKind::kFull
                                                : TileKind::kEmpty;
#include "answer.inc"
        }
        if (lane == 31) counts = {partial, full};
      });
    }
    for (std::thread& each : lanes) each.join();
    std::string list;
    for (int i = 0; i < length; ++i) {
      if (tiles[i] >= 0)
        list += words(" %d", tiles[i]);
      else if (i == 0 || tiles[i - 1] >= 0)
        list += " ..";
    }
    const std::string call = words("a row of %d tiles, %s", length, pattern);
    example(call, "the list", list.substr(1));
    example(call, "the number of partial tiles", counts[0]);
    example(call, "the number of full tiles", counts[1]);
  }
}

#elif EXERCISE == 8
struct Bf16 {};

void examples() {
  using T = Bf16;
  for (const std::uint32_t mask : {0xffffffffu, 0xffffu, 0xffff0000u, 0u}) {
    for (const int row : {0, 3}) {
      struct {
        float l[4] = {};
      } acc;
      struct {
        std::uint32_t of;
        std::uint32_t mask(int r, int n) const { return r == 3 ? ~of : n == 5 ? of : 0; }
      } kept = {row == 3 ? ~mask : mask};
      std::uint32_t p[2][4] = {};
      const int mi = row / 2, i = 2 + row % 2, ni = 5, step = 2;
      const float left = 0.5f, right = 0.25f;
#include "answer.inc"
      const bool keeps_left = (mask & 0xffff) != 0, keeps_right = (mask >> 16) != 0;
      const std::string call = words("left = 0.5 and right = 0.25, of which dropout keeps %s, in row %d",
                                     keeps_left && keeps_right ? "both"
                                     : keeps_left              ? "the left one"
                                     : keeps_right             ? "the right one"
                                                               : "none",
                                     row);
      example(call, "what is added to l", acc.l[row]);
      example(call, "the left element of p", unpack<T>(p[mi][i]).x);
      example(call, "the right element of p", unpack<T>(p[mi][i]).y);
    }
  }
}

#elif EXERCISE == 9 || EXERCISE == 10
struct ModifiedScore {
  float score, derivative;
};
#if EXERCISE == 9
struct Mod {
  float cap, inv_cap;
  ModifiedScore operator()(float s, int, int) const {
#include "answer.inc"
  }
};

void examples() {
  for (const float cap : {4.0f, 0.0f, 0.5f}) {
    for (const float s : {2.0f, -2.0f, 0.0f, 8.0f, -400.0f, 400.0f}) {
      const ModifiedScore result = Mod{cap, cap == 0.0f ? 0.0f : 1.0f / cap}(s, 0, 0);
      const std::string call =
          words("a score of %g and %s", s, cap == 0.0f ? "no cap" : words("a cap of %g", cap).c_str());
      example(call, "the score", result.score);
      example(call, "the derivative", result.derivative);
    }
  }
}
#elif EXERCISE == 10
struct Mod {
  float slope;
  int shift;
  ModifiedScore operator()(float s, int query, int key) const {
#include "answer.inc"
  }
};

void examples() {
  for (const float slope : {0.5f, 0.0f}) {
    for (const int key : {7, 4, 9}) {
      for (const int shift : {3, 0}) {
        const ModifiedScore result = Mod{slope, shift}(1.0f, 4, key);
        const std::string call =
            words("a score of 1 of query 4 and key %d, with shift %d and slope %g", key, shift, slope);
        example(call, "the score", result.score);
        example(call, "the derivative", result.derivative);
      }
    }
  }
}
#endif

#elif EXERCISE == 11
struct Bf16 {};

void examples() {
  using T = Bf16;
  for (const std::uint32_t mask : {0xffffffffu, 0xffffu, 0xffff0000u, 0u}) {
    const float scale = 2.0f;  // 1 / (1 - p)
    const struct { float minus_share, scale; } dropout = {-1.0f / scale, scale};
    const Pair delta = {3.0f, -1.0f}, minus_delta = {-delta.x / scale, -delta.y / scale};
    const float pP[] = {0.5f, 0.25f}, pdA[] = {4.0f, 8.0f};
    std::uint32_t of_p = 0, of_ds = 0;
#include "answer.inc"
    const bool keeps_left = (mask & 0xffff) != 0, keeps_right = (mask >> 16) != 0;
    const std::string call =
        words("P = (0.5, 0.25), dA = (4, 8), D = (3, -1) and scale = 2, of which dropout keeps %s",
              keeps_left && keeps_right ? "both"
              : keeps_left              ? "the left one"
              : keeps_right             ? "the right one"
                                        : "none");
    example(call, "the left element of of_p", unpack<T>(of_p).x);
    example(call, "the right element of of_p", unpack<T>(of_p).y);
    example(call, "the left element of of_ds", unpack<T>(of_ds).x);
    example(call, "the right element of of_ds", unpack<T>(of_ds).y);
  }
}

#elif EXERCISE == 12
float join_sink(unsigned thread, float& m, float& l, float sink) {
  const struct { unsigned x; } threadIdx = {thread};
#include "answer.inc"
}

void examples() {
  constexpr float kNone = -FLT_MAX;  // the maximum of a row without keys
  for (const auto& [m, sink] : {std::pair{2.0f, 1.0f},
                                {1.0f, 3.0f},
                                {-200.0f, -203.0f},
                                {2.0f, -INFINITY},
                                {kNone, 1.0f},
                                {-3.0f, 400.0f}}) {
    const float l = m == kNone ? 0.0f : 2.0f;
    const std::string call =
        words("join_sink() with m = %g, l = %g in each of four lanes, and a sink of %g", m, l, sink);
    float sum = 0.0f, m_new = 0.0f, correction = 0.0f;
    for (const unsigned lane : {36, 37, 38, 39}) {
      float l_of_lane = l;
      m_new = m;
      correction = join_sink(lane, m_new, l_of_lane, sink);
      sum += l_of_lane;
    }
    example(call, "m", m_new);
    example(call, "the sum of l over the lanes", sum);
    example(call, "what is returned", correction);
  }
}

#elif EXERCISE == 13
void examples() {
  for (const auto& [sink, of_row] :
       {std::pair{1.0f, 3.0f}, {-2.0f, -1.0f}, {300.0f, 300.5f}, {-INFINITY, 2.0f}}) {
    for (const float d : {0.5f, -2.0f}) {
      const int query = 3, n = 1;
      float sum = 0.0f;
#include "answer.inc"
      example(words("a sink of %g, a row with LSE = %g and D = %g", sink, of_row, d),
              "what is added to the gradient", sum);
    }
  }
}

#elif EXERCISE == 14
float join_sink(float& m, float& l, float sink) {
  const float m_new = std::fmax(m, sink), correction = std::exp2(m - m_new);
  l = l * correction + std::exp2(sink - m_new);
  m = m_new;
  return correction;
}
int waits = 0;
namespace ptx {
template <int, class... Registers>
void wgmma_wait(Registers&...) {
  ++waits;
}
}  // namespace ptx
namespace ch09 {
void scale_rows(float (&rO)[32], const float (&by)[2]) {
  for (int i = 0; i < 32; ++i) rO[i] *= by[i / 2 % 2];
}
}  // namespace ch09

struct Consumer {
  int waits_before = 0;
  struct {
    float m[2], l[2];
  } state;
  float rO[32];
  float inv_l[2] = {}, lse[2] = {};
  void finish_rows() {
    waits_before = waits;
    for (int row = 0; row < 2; ++row) {
      inv_l[row] = state.l[row] == 0.0f ? 0.0f : 1 / state.l[row];
      lse[row] = (state.m[row] + std::log2(state.l[row])) * kLn2;
    }
  }
};

void examples() {
  for (const float sink : {3.0f, -1.0f, -INFINITY}) {
    waits = 0;
    Consumer consumer = {.state = {{2.0f, 4.0f}, {8.0f, 2.0f}}};
    std::fill(std::begin(consumer.rO), std::end(consumer.rO), 1.0f);
#include "answer.inc"
    const std::string call = words("rows with m = 2 and 4, and l = 8 and 2, and a sink of %g", sink);
    example(call, "the number of waits for products before the rows are finished", consumer.waits_before);
    for (int row = 0; row < 2; ++row) {
      example(call, row == 0 ? "the factor of O of row 0" : "the factor of O of row 1",
              consumer.rO[2 * row] * consumer.inv_l[row]);
      example(call, row == 0 ? "lse[0]" : "lse[1]", consumer.lse[row]);
    }
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
