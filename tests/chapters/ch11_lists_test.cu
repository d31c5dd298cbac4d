// The order in which blocks take the rows of lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "lists.cuh"

namespace fa::ch11 {
namespace lists_test {

__global__ void rows_of_blocks(TileLists lists, Masks masks, int heads, int group, HeadRow* rows) {
  const HeadRow at = row_of_block(blockIdx.x, lists, masks, heads, group);
  if (threadIdx.x == 0) rows[blockIdx.x] = at;
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* data = nullptr;
  FA_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data), values.size() * sizeof(T)));
  FA_CUDA_CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}
template <class T>
std::vector<T> from_device(const T* data, std::size_t count) {
  std::vector<T> values(count);
  FA_CUDA_CHECK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

class TileOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  /// Lists of two batches with lengths of their own, each for all of their heads.
  struct Ordered {
    std::vector<int> lengths;  ///< [lists, rows]
    std::vector<int> order;    ///< the same
    std::vector<HeadRow> blocks;
  };
  static Ordered order_of(int rows, int heads_of_batch, int group, int heads_at_once, int longest) {
    std::mt19937 random(static_cast<unsigned>(rows));
    const int lists = 2, heads = lists * heads_of_batch;
    std::vector<int> counts(2 * lists * rows);
    for (int& count : counts) count = int(random() % unsigned(longest + 1));
    const std::vector<int> key_lengths(lists, 1);
    const Masks masks = {.heads = heads_of_batch * group,
                         .seq_q = 1,
                         .seq_k = 1,
                         .causal = false,
                         .window = 2,
                         .documents = nullptr,
                         .key_lengths = on_device(key_lengths),
                         .blocks = nullptr,
                         .heads_of_blocks = 1,
                         .log2_size_of_blocks = 6};
    const TileLists of = {.counts = on_device(counts),
                          .tiles = nullptr,
                          .order = on_device(std::vector<int>(lists * rows, -1)),
                          .rows = rows,
                          .most = 2 * longest,
                          .heads_at_once = heads_at_once};
    HeadRow* blocks = on_device(std::vector<HeadRow>(heads * rows, HeadRow{-1, -1}));
    launch(order_rows<64>, lists, 64, 0, nullptr, of);
    launch(rows_of_blocks, unsigned(heads * rows), 32, 0, nullptr, of, masks, heads, group, blocks);
    Ordered ordered = {.lengths = {},
                       .order = from_device(of.order, lists * rows),
                       .blocks = from_device(blocks, heads * rows)};
    for (int row = 0; row < lists * rows; ++row)
      ordered.lengths.push_back(counts[2 * row] + counts[2 * row + 1]);
    FA_CUDA_CHECK(cudaFree(of.counts));
    FA_CUDA_CHECK(cudaFree(of.order));
    FA_CUDA_CHECK(cudaFree(blocks));
    FA_CUDA_CHECK(cudaFree(const_cast<int*>(masks.key_lengths)));
    return ordered;
  }
};

// Lengths repeat: equal ones stay as they are. 150 rows are more than the block of 64 threads takes at a time.
TEST_F(TileOrder, IsFromTheLongestListToTheShortest) {
  for (const int rows : {1, 5, 64, 150}) {
    const Ordered ordered = order_of(rows, 3, 1, 2, 4);
    for (int list = 0; list < 2; ++list) {
      const auto lengths = ordered.lengths.begin() + list * rows;
      std::vector<int> expected(rows);
      for (int row = 0; row < rows; ++row) expected[row] = row;
      std::stable_sort(expected.begin(), expected.end(),
                       [&](int a, int b) { return lengths[a] > lengths[b]; });
      const auto first = ordered.order.begin() + list * rows;
      EXPECT_EQ(std::vector<int>(first, first + rows), expected) << rows << " rows, list " << list;
    }
  }
}

struct Tile {
  static constexpr int Br = 64, Bc = 16;
};

// For few rows, one kernel does what otherwise two do.
TEST_F(TileOrder, IsTheSameFromOneKernelAndFromTwo) {
  constexpr int kMostRows = 32;
  for (const int rows : {1, 5, kMostRows}) {
    const std::vector<int> key_lengths = {rows * Tile::Br, rows * Tile::Br / 2};
    const int lists = int(key_lengths.size()), seq = rows * Tile::Br;
    const Masks masks = {.heads = 3,
                         .seq_q = seq,
                         .seq_k = seq,
                         .causal = true,
                         .window = 150,
                         .documents = nullptr,
                         .key_lengths = on_device(key_lengths),
                         .blocks = nullptr,
                         .heads_of_blocks = 1,
                         .log2_size_of_blocks = 6};
    using Of = KeysOfQueries<Tile>;
    const int most = Of::most(masks);
    std::vector<std::vector<int>> results;
    for (const bool together : {false, true}) {
      const TileLists of = {.counts = on_device(std::vector<int>(2 * lists * rows, -1)),
                            .tiles = on_device(std::vector<int>(lists * rows * most, -1)),
                            .order = on_device(std::vector<int>(lists * rows, -1)),
                            .rows = rows,
                            .most = most,
                            .heads_at_once = 1};
      if (together) {
        launch(list_and_order<Of, kMostRows>, unsigned(lists), 32 * kMostRows, 0, nullptr, masks, of);
      } else {
        launch(list_tiles<Of>, unsigned(lists * rows), 32, 0, nullptr, masks, of);
        launch(order_rows<64>, unsigned(lists), 64, 0, nullptr, of);
      }
      std::vector<int>& all = results.emplace_back(from_device(of.counts, 2 * lists * rows));
      for (const auto& [data, count] : {std::pair{of.tiles, lists * rows * most}, {of.order, lists * rows}}) {
        const std::vector<int> values = from_device(data, count);
        all.insert(all.end(), values.begin(), values.end());
      }
      for (int* data : {of.counts, of.tiles, of.order}) FA_CUDA_CHECK(cudaFree(data));
    }
    FA_CUDA_CHECK(cudaFree(const_cast<int*>(masks.key_lengths)));
    EXPECT_EQ(results[0], results[1]) << rows << " rows";
    EXPECT_GT(results[0][0] + results[0][1], 0) << "the first list names a tile";
  }
}

// 6 heads, 4 at once: blocks take the longest rows of 4 heads, then the next longest, and in the end the 2 heads that are left.
TEST_F(TileOrder, BlocksTakeEachRowOfEachHeadOnce) {
  const int rows = 7;
  for (const int group : {1, 2}) {
    for (const int at_once : {1, 4, 6, 100}) {
      const Ordered ordered = order_of(rows, 3, group, at_once, 4);
      std::map<std::pair<int, int>, int> taken;
      for (int block = 0; block < 6 * rows; ++block) {
        const HeadRow at = ordered.blocks[block];
        ++taken[{at.head, at.row}];
        const int first_head = block / (at_once * rows) * at_once, here = std::min(at_once, 6 - first_head);
        const int in_group = block - first_head * rows;
        EXPECT_EQ(at.head, first_head + in_group % here);
        EXPECT_EQ(at.row, ordered.order[at.head / 3 * rows + in_group / here]) << "block " << block;
      }
      EXPECT_EQ(taken.size(), 6u * rows);
    }
  }
}

}  // namespace lists_test
}  // namespace fa::ch11
