/// @file
/// Prints what chapter 11's masks leave of each tile, and which random bits decide dropout, as JSON for
/// drawings and tests:
///
///   {"dropout": [[[call of Philox, byte of its words: 0 to 15], ... by key], ... by query of a 32 x 32
///   tile],
///    "seq": N, "tile": [Br, Bc],
///    "masks": {NAME: {"kinds": [[0 empty, 1 partial, 2 full, ... by key tile], ... by query tile],
///                     "seen": [[pairs that a query sees, ... by key tile], ... by query tile],
///                     "keys": [[[first, end], ... runs of keys that the query sees], ... by every kStep-th
///                     query]}}}
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "11_masks/mask_mod.cuh"
#include "device/dropout.cuh"

namespace {

using fa::ch11::MaskMod;
using fa::ch11::Masks;

constexpr int kSeq = 2048;  // queries and keys of one head
constexpr int kBr = 128, kBc = 64;
constexpr int kStep = 16;
constexpr int kLog2Block = 7;
constexpr int kBlocks = kSeq >> kLog2Block;

/// [item(0), item(1), ...]. @param item  prints one
template <class Item>
void print_list(int count, Item item) {
  for (int i = 0; i < count; ++i) {
    std::fputs(i == 0 ? "[" : ", ", stdout);
    item(i);
  }
  std::fputs(count == 0 ? "[]" : "]", stdout);
}

void print_runs(const std::vector<int>& ends) {
  print_list(int(ends.size() / 2), [&](int i) { std::printf("[%d, %d]", ends[2 * i], ends[2 * i + 1]); });
}

void print_masks(const char* name, const Masks& masks, const char* before = ",\n") {
  const MaskMod of_head = masks.of(0);
  const auto sees = [&](int query, int key) { return of_head.sees(masks.query(query), masks.key(key)); };
  std::printf("%s\"%s\": {\"kinds\": ", before, name);
  print_list(kSeq / kBr, [&](int row) {
    print_list(kSeq / kBc,
               [&](int col) { std::printf("%d", int(masks.kind(of_head, row * kBr, kBr, col * kBc, kBc))); });
  });
  std::fputs(",\n\"seen\": ", stdout);
  print_list(kSeq / kBr, [&](int row) {
    print_list(kSeq / kBc, [&](int col) {
      int seen = 0;
      for (int query = row * kBr; query < (row + 1) * kBr; ++query) {
        for (int key = col * kBc; key < (col + 1) * kBc; ++key) seen += sees(query, key);
      }
      std::printf("%d", seen);
    });
  });
  std::fputs(",\n\"keys\": ", stdout);
  print_list(kSeq / kStep, [&](int i) {
    std::vector<int> ends;
    bool last = false;
    for (int key = 0; key <= kSeq; ++key) {
      const bool now = key < kSeq && sees(i * kStep, key);
      if (now != last) ends.push_back(key);
      last = now;
    }
    print_runs(ends);
  });
  std::fputs("}", stdout);
}

/// The numbers of the 16 elements that a call of Philox decides, by their places.
using Numbers = std::array<std::uint32_t, 16>;
Numbers numbers_of(const fa::Dropout& dropout, int query, int key) {
  const uint4 answer = fa::philox(fa::Dropout::counter(0, query, key), dropout.keys);
  const std::uint32_t words[] = {answer.x, answer.y, answer.z, answer.w};
  Numbers numbers = {};
  for (int place = 0; place < 16; ++place) {
    for (int bit = 0; bit < 8; ++bit)
      numbers[std::size_t(place)] |= (words[bit / 2] >> (bit % 2 * 16 + place) & 1) << bit;
  }
  return numbers;
}

/// Which place an element has: the only one whose number agrees with keeps() for every seed.
int place_of(int query, int key) {
  unsigned agree = 0xffff;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    const fa::Dropout dropout = fa::Dropout::of(0.5, seed);
    const Numbers numbers = numbers_of(dropout, query, key);
    for (int place = 0; place < 16; ++place) {
      if ((numbers[std::size_t(place)] < dropout.kept) != dropout.keeps(0, query, key))
        agree &= ~(1u << place);
    }
  }
  return std::has_single_bit(agree) ? std::countr_zero(agree) : -1;
}

void print_dropout() {
  const fa::Dropout dropout = fa::Dropout::of(0.5, 1);
  std::map<Numbers, int> calls;  // numbered as they appear
  std::fputs("{\"dropout\": ", stdout);
  print_list(32, [&](int query) {
    print_list(32, [&](int key) {
      const int call = calls.emplace(numbers_of(dropout, query, key), int(calls.size())).first->second;
      std::printf("[%d, %d]", call, place_of(query, key));
    });
  });
}

}  // namespace

int main() {
  print_dropout();
  std::vector<int> documents;
  const int lengths[] = {380, 150, 610, 90, 240, 333, 245};
  for (int number = 0; number < 7; ++number) documents.insert(documents.end(), lengths[number], number);
  const int key_length = 1350;
  std::vector<std::uint8_t> butterfly;
  for (unsigned i = 0; i < kBlocks; ++i) {
    for (unsigned j = 0; j < kBlocks; ++j) butterfly.push_back(std::popcount(i ^ j) <= 1);
  }

  const Masks none = {1, kSeq, kSeq, false, 2 * kSeq, nullptr, nullptr, nullptr, nullptr, 1, kLog2Block};
  Masks causal = none, window = none, both = none, packed = none, padded = none, blocks = none;
  causal.causal = both.causal = packed.causal = true;
  window.window = both.window = 300;
  packed.documents = packed.key_documents = documents.data();
  padded.key_lengths = &key_length;
  blocks.blocks = butterfly.data();

  std::printf(",\n\"seq\": %d, \"tile\": [%d, %d],\n\"masks\": ", kSeq, kBr, kBc);
  print_masks("causal", causal, "{");
  print_masks("window", window);
  print_masks("causal window", both);
  print_masks("causal documents", packed);
  print_masks("key length", padded);
  print_masks("butterfly", blocks);
  std::puts("}}");
}
