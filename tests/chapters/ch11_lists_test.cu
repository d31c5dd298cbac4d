// The order in which blocks take the rows of lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "list_tiles.cuh"

namespace fa::ch11 {
namespace lists_test {

__global__ void rows_of_blocks(BlockMask lists, Masks masks, int group, HeadRow* rows) {
  const HeadRow at = row_of_block(lists, masks, group);
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) rows[block] = at;
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
    std::vector<int> lengths;         ///< [lists, rows]
    std::vector<BlockMaskRow> order;  ///< the same
    std::vector<HeadRow> blocks;
  };
  static Ordered order_of(int rows, int heads_of_batch, int group, int heads_at_once, int longest) {
    std::mt19937 random(static_cast<unsigned>(rows));
    const int lists = 2, heads = lists * heads_of_batch;
    const auto draw = [&] { return int(random() % unsigned(longest + 1)); };
    std::vector<BlockMaskRow> listed;
    for (int row = 0; row < lists * rows; ++row) listed.push_back({{draw(), draw()}, row % rows, draw()});
    const std::vector<int> key_lengths(lists, 1);
    const Masks masks = {.heads = heads_of_batch * group,
                         .seq_q = 1,
                         .seq_k = 1,
                         .causal = false,
                         .window = 2,
                         .documents = nullptr,
                         .key_documents = nullptr,
                         .key_lengths = on_device(key_lengths),
                         .blocks = nullptr,
                         .heads_of_blocks = 1,
                         .log2_size_of_blocks = 6};
    const BlockMask of = {
        .listed = on_device(listed),
        .tiles = nullptr,
        .order = on_device(std::vector<BlockMaskRow>(lists * rows, BlockMaskRow{{-1, -1}, -1, -1})),
        .rows = rows,
        .most = 2 * longest};
    HeadRow* blocks = on_device(std::vector<HeadRow>(heads * rows, HeadRow{{{-1, -1}, -1, -1}, -1}));
    launch(order_rows<64>, lists, 64, 0, nullptr, of);
    const dim3 grid(unsigned(heads_at_once), unsigned(rows), unsigned(heads / heads_at_once));
    launch(rows_of_blocks, grid, 32, 0, nullptr, of, masks, group, blocks);
    Ordered ordered = {.lengths = {},
                       .order = from_device(of.order, lists * rows),
                       .blocks = from_device(blocks, heads * rows)};
    for (const BlockMaskRow& row : listed) ordered.lengths.push_back(row.partial() + row.full());
    FA_CUDA_CHECK(cudaFree(of.listed));
    FA_CUDA_CHECK(cudaFree(of.order));
    FA_CUDA_CHECK(cudaFree(blocks));
    FA_CUDA_CHECK(cudaFree(const_cast<int*>(masks.key_lengths)));
    return ordered;
  }
};

// Lengths repeat: equal ones stay as they are. 150 rows are more than the block of 64 threads takes at a
// time.
TEST_F(TileOrder, IsFromTheLongestListToTheShortest) {
  for (const int rows : {1, 5, 64, 150}) {
    const Ordered ordered = order_of(rows, 3, 1, 2, 4);
    for (int list = 0; list < 2; ++list) {
      const auto lengths = ordered.lengths.begin() + list * rows;
      std::vector<int> expected(rows);
      for (int row = 0; row < rows; ++row) expected[row] = row;
      std::stable_sort(expected.begin(), expected.end(),
                       [&](int a, int b) { return lengths[a] > lengths[b]; });
      for (int at = 0; at < rows; ++at) {
        const BlockMaskRow& row = ordered.order[list * rows + at];
        EXPECT_EQ(row.row, expected[at]) << rows << " rows, list " << list << ", place " << at;
        EXPECT_EQ(row.partial() + row.full(), lengths[row.row]);
      }
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
                         .key_documents = nullptr,
                         .key_lengths = on_device(key_lengths),
                         .blocks = nullptr,
                         .heads_of_blocks = 1,
                         .log2_size_of_blocks = 6};
    using Of = KeysOfQueries<Tile>;
    const int most = Of::most(masks), count = lists * rows;
    std::vector<std::vector<int>> results;
    for (const bool together : {false, true}) {
      int* tiles = on_device(std::vector<int>(count * most, -1));
      int* listed = on_device(std::vector<int>(2 * 4 * count, -1));  // and in order
      BlockMaskRow* of_rows = reinterpret_cast<BlockMaskRow*>(listed);
      const BlockMaskOf<Of> of = {
          {.listed = of_rows, .tiles = tiles, .order = of_rows + count, .rows = rows, .most = most}};
      if (together) {
        launch(list_and_order<kMostRows, Of>, unsigned(lists), 32 * kMostRows, 0, nullptr, masks, of);
      } else {
        launch(list_tiles<Of>, unsigned(lists * rows), 32, 0, nullptr, masks, of);
        launch(order_rows<64>, unsigned(lists), 64, 0, nullptr, of);
      }
      std::vector<int>& all = results.emplace_back(from_device(listed, 2 * 4 * count));
      const std::vector<int> named = from_device(tiles, count * most);
      for (int row = 0; row < count; ++row) {
        const auto [partial, full, number, first] =
            std::array{all[4 * row], all[4 * row + 1], all[4 * row + 2], all[4 * row + 3]};
        EXPECT_EQ(number, row % rows);
        const int at = row * most + (partial > 0 ? 0 : most - full);
        EXPECT_EQ(first, partial + full > 0 ? named[at] : -1) << "the tile to visit first";
      }
      all.insert(all.end(), named.begin(), named.end());
      for (int* data : {listed, tiles}) FA_CUDA_CHECK(cudaFree(data));
    }
    FA_CUDA_CHECK(cudaFree(const_cast<int*>(masks.key_lengths)));
    EXPECT_EQ(results[0], results[1]) << rows << " rows";
    EXPECT_GT(results[0][0] + results[0][1], 0) << "the first list names a tile";
  }
}

// 6 heads, 3 at once: blocks take the longest rows of 3 heads, then the next longest, and then the 3 heads
// that are left.
TEST_F(TileOrder, BlocksTakeEachRowOfEachHeadOnce) {
  const int rows = 7;
  for (const int group : {1, 2}) {
    for (const int at_once : {1, 3, 6}) {
      const Ordered ordered = order_of(rows, 3, group, at_once, 4);
      std::map<std::pair<int, int>, int> taken;
      for (int block = 0; block < 6 * rows; ++block) {
        const HeadRow at = ordered.blocks[block];
        ++taken[{at.head, at.row}];
        const int first_head = block / (at_once * rows) * at_once, in_group = block - first_head * rows;
        EXPECT_EQ(at.head, first_head + in_group % at_once);
        EXPECT_EQ(at.row, ordered.order[at.head / 3 * rows + in_group / at_once].row) << "block " << block;
      }
      EXPECT_EQ(taken.size(), 6u * rows);
    }
  }
}

// Of the heads, as many are taken at once as fit into two waves and divide all of them.
TEST(TileOrderGrid, HasABlockForEachRowOfEachHead) {
  for (const auto& [rows, heads, at_once] :
       {std::array{32, 128, 16}, {32, 24, 12}, {1, 3, 3}, {600, 7, 1}, {16, 31, 31}, {32, 31, 1}}) {
    const dim3 grid = grid_of_rows(
        {.listed = nullptr, .tiles = nullptr, .order = nullptr, .rows = rows, .most = 1}, heads, 2);
    EXPECT_EQ(int(grid.x), at_once) << rows << " rows, " << heads << " heads";
    EXPECT_EQ(int(grid.y), rows);
    EXPECT_EQ(int(grid.x * grid.z), heads);
  }
}

// Of 65537 heads, a prime number, one or all are taken at once.
TEST(TileOrderGrid, HasNoMoreBlocksInZThanADeviceAllows) {
  for (const int heads : {65535, 65536, 65537, 131072, 3 * 65537}) {
    const dim3 grid = grid_of_rows(
        {.listed = nullptr, .tiles = nullptr, .order = nullptr, .rows = 600, .most = 1}, heads, 2);
    EXPECT_LE(int(grid.z), kMostBlocksInYOrZ) << heads;
    EXPECT_EQ(int(grid.x * grid.z), heads);
  }
}

}  // namespace lists_test
}  // namespace fa::ch11
