/// @file
/// Tensor maps: which are refused, and which bytes a box of one is, in shared and in global memory, compared
/// with a direct computation.
#include <cuda.h>
#include <cuda_runtime.h>
#include <gpusim_hopper.h>
#include <gpusim_ptx.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;
using Bytes = std::vector<unsigned char>;

// ---- what the driver refuses ------------------------------------------------------------------------------

struct Arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  cuuint32_t rank = 3;
  std::uintptr_t address = 0x7f0000000000;
  cuuint64_t dims[5] = {64, 100, 3, 2, 2};
  cuuint64_t strides[4] = {128, 12800, 38400, 76800};
  cuuint32_t box[5] = {64, 16, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

CUresult encode(const Arguments& a, CUtensorMap* map) {
  return cuTensorMapEncodeTiled(map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.dims, a.strides,
                                a.box, a.steps, a.interleave, a.swizzle, a.promotion, a.fill);
}

/// The rule that arguments break after a change; "" if they are accepted.
std::string broken(const std::function<void(Arguments&)>& change) {
  Arguments arguments;
  change(arguments);
  CUtensorMap map;
  testing::internal::CaptureStderr();
  const CUresult result = encode(arguments, &map);
  const std::string printed = testing::internal::GetCapturedStderr();
  const std::string rule = gpusim::last_tensor_map_error();
  EXPECT_EQ(result, rule.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(printed, rule.empty() ? "" : "gpusim: cuTensorMapEncodeTiled: " + rule + "\n");
  return rule;
}

TEST(TensorMaps, AreRefusedWithTheRuleThatTheyBreak) {
  EXPECT_EQ(broken([](Arguments&) {}), "");
  EXPECT_EQ(broken([](Arguments& a) { a.address += 8; }),
            "the global address is 0x7f0000000008: must be a multiple of 16, and not 0");
  EXPECT_EQ(broken([](Arguments& a) { a.address = 0; }),
            "the global address is 0x0: must be a multiple of 16, and not 0");
  EXPECT_EQ(broken([](Arguments& a) { a.rank = 0; }), "the rank is 0: must be 1 to 5");
  EXPECT_EQ(broken([](Arguments& a) { a.rank = 6; }), "the rank is 6: must be 1 to 5");
  for (const cuuint32_t rank : {1u, 2u, 4u, 5u}) EXPECT_EQ(broken([&](Arguments& a) { a.rank = rank; }), "");
  EXPECT_EQ(broken([](Arguments& a) { a.dims[1] = 0; }), "globalDim[1] is 0: must be 1 to 2^32");
  EXPECT_EQ(broken([](Arguments& a) { a.dims[1] = cuuint64_t(1) << 32; }), "");
  EXPECT_EQ(broken([](Arguments& a) { a.dims[1] = (cuuint64_t(1) << 32) + 1; }),
            "globalDim[1] is 4294967297: must be 1 to 2^32");
  EXPECT_EQ(broken([](Arguments& a) { a.strides[0] = 136; }),
            "globalStrides[0] is 136 bytes: must be a multiple of 16");
  EXPECT_EQ(broken([](Arguments& a) { a.strides[1] = cuuint64_t(1) << 40; }),
            "globalStrides[1] is 1099511627776 bytes: must be below 2^40");
  EXPECT_EQ(broken([](Arguments& a) { a.strides[1] = (cuuint64_t(1) << 40) - 16; }), "");
  EXPECT_EQ(broken([](Arguments& a) { a.strides[2] = 8; }), "") << "it has only three dimensions";
  EXPECT_EQ(broken([](Arguments& a) { a.box[1] = 0; }), "boxDim[1] is 0: must be 1 to 256");
  EXPECT_EQ(broken([](Arguments& a) { a.box[1] = 256; }), "");
  EXPECT_EQ(broken([](Arguments& a) { a.box[1] = 257; }), "boxDim[1] is 257: must be 1 to 256");
  EXPECT_EQ(broken([](Arguments& a) { a.steps[2] = 0; }), "elementStrides[2] is 0: must be 1 to 8");
  EXPECT_EQ(broken([](Arguments& a) { a.steps[2] = 8; }), "");
  EXPECT_EQ(broken([](Arguments& a) { a.steps[2] = 9; }), "elementStrides[2] is 9: must be 1 to 8");
  EXPECT_EQ(broken([](Arguments& a) { a.box[0] = 12; }),
            "boxDim[0] is 12, or 24 bytes: must be a multiple of 16 bytes");
  EXPECT_EQ(broken([](Arguments& a) { a.box[0] = 72; }),
            "boxDim[0] is 72, or 144 bytes: must be at most 128 bytes with CU_TENSOR_MAP_SWIZZLE_128B");
  EXPECT_EQ(broken([](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }),
            "boxDim[0] is 64, or 128 bytes: must be at most 64 bytes with CU_TENSOR_MAP_SWIZZLE_64B");
  EXPECT_EQ(broken([](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; }),
            "boxDim[0] is 64, or 128 bytes: must be at most 32 bytes with CU_TENSOR_MAP_SWIZZLE_32B");
  EXPECT_EQ(broken([](Arguments& a) {
              a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
              a.box[0] = 256;
            }),
            "");
  EXPECT_EQ(broken([](Arguments& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }),
            "the simulator knows only CU_TENSOR_MAP_INTERLEAVE_NONE");
  EXPECT_EQ(broken([](Arguments& a) { a.type = CUtensorMapDataType(40); }), "unknown data type 40");
  EXPECT_EQ(broken([](Arguments& a) { a.swizzle = CUtensorMapSwizzle(9); }), "unknown swizzle 9");
  EXPECT_EQ(broken([](Arguments& a) { a.promotion = CUtensorMapL2promotion(9); }), "unknown L2 promotion 9");
  EXPECT_EQ(broken([](Arguments& a) { a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }), "");
  EXPECT_EQ(broken([](Arguments& a) {
              a.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
              a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
            }),
            "elements outside can be NaN only for a floating-point type");
}

TEST(TensorMaps, TheEncoderIsFoundAsOnAGpu) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                             &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuTensorMapEncodeTiled));
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 11080, cudaEnableDefault, &status);
  EXPECT_EQ(status, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(function, nullptr);
  cudaGetDriverEntryPoint("cuTensorMapEncodeIm2col", &function, cudaEnableDefault, &status);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
}

// ---- which bytes a box is ---------------------------------------------------------------------------------

/// Loads a box to smem + offset, and copies it from there to `out` with ordinary accesses.
__global__ void dump_box(const __grid_constant__ CUtensorMap map, unsigned char* out, int offset, int bytes,
                         int x, int y, int z) {
  __shared__ std::uint64_t full;
  auto* const box = reinterpret_cast<unsigned char*>(smem) + offset;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, bytes);
    ptx::tma_load(box, &map, &full, x, y, z);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  for (int i = int(threadIdx.x); i < bytes; i += 32) out[i] = box[i];
}

/// Stores the bytes of `in`, which are as dump_box() has found them.
__global__ void store_box(const __grid_constant__ CUtensorMap map, const unsigned char* in, int offset,
                          int bytes, int x, int y, int z) {
  auto* const box = reinterpret_cast<unsigned char*>(smem) + offset;
  for (int i = int(threadIdx.x); i < bytes; i += 32) box[i] = in[i];
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::tma_store(&map, box, x, y, z);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}

struct Position {
  int x, y, z;
};

/// One element of a box: where it is in shared memory, without swizzle, and whether it is in the tensor and
/// where.
struct Element {
  std::size_t shared;
  bool inside;
  std::size_t global;
};
std::vector<Element> elements_of(const Layout& l, std::size_t size, const Position& p) {
  std::vector<Element> all;
  const auto count = [&](std::size_t d) { return (l.box[d] + l.steps[d] - 1) / l.steps[d]; };
  for (int z = 0; z < int(count(2)); ++z) {
    for (int y = 0; y < int(count(1)); ++y) {
      for (int x = 0; x < int(l.box[0]); ++x) {
        const long at[3] = {p.x + x, p.y + long(y * int(l.steps[1])), p.z + long(z * int(l.steps[2]))};
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) inside &= at[d] >= 0 && at[d] < long(l.size[d]);
        all.push_back({all.size() * size, inside,
                       inside ? std::size_t(at[0]) * size + std::size_t(at[1]) * l.row_bytes +
                                    std::size_t(at[2]) * l.plane_bytes
                              : 0});
      }
    }
  }
  return all;
}

/// Where a byte of a box is, as the manual draws it: the 16-byte pieces of a 32-, 64- or 128-byte span change
/// places, depending on the number of the 128-byte line.
std::size_t swizzled(std::size_t byte, CUtensorMapSwizzle swizzle) {
  const std::size_t line = byte / 128, piece = byte / 16 % 8;
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B: return line * 128 + (piece ^ (line % 2)) * 16 + byte % 16;
    case CU_TENSOR_MAP_SWIZZLE_64B: return line * 128 + (piece ^ (line % 4)) * 16 + byte % 16;
    case CU_TENSOR_MAP_SWIZZLE_128B: return line * 128 + (piece ^ (line % 8)) * 16 + byte % 16;
    default: return byte;
  }
}

struct Counts {
  std::int64_t bytes = 0, sectors = 0;
};
/// Inside the tensor: bytes, and sectors row by row.
Counts counts_of(const Layout& l, const std::vector<Element>& elements, std::size_t size) {
  Counts counts;
  for (std::size_t row = 0; row < elements.size(); row += l.box[0]) {
    std::set<std::size_t> sectors;
    for (std::size_t i = row; i < row + l.box[0]; ++i) {
      if (!elements[i].inside) continue;
      counts.bytes += std::int64_t(size);
      for (std::size_t b = 0; b < size; ++b) sectors.insert((elements[i].global + b) / 32);
    }
    counts.sectors += std::int64_t(sectors.size());
  }
  return counts;
}

/// Loads and stores a box, and compares bytes and counts.
template <class T>
void check_box(Layout l, const Position& p, int offset) {
  SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, box " << l.box[0] << "x" << l.box[1] << "x"
                                  << l.box[2] << ", swizzle " << int(l.swizzle) << ", at " << p.x << ","
                                  << p.y << "," << p.z << ", offset " << offset);
  const std::size_t tensor_bytes = l.plane_bytes * l.size[2];
  Bytes values(tensor_bytes);
  std::mt19937 random(7);
  for (unsigned char& value : values) value = static_cast<unsigned char>(random());
  const Buffer<unsigned char> tensor("tensor", values);
  const CUtensorMap map = map_of(reinterpret_cast<T*>(tensor.get()), l);
  const std::vector<Element> elements = elements_of(l, sizeof(T), p);
  const std::size_t bytes = elements.size() * sizeof(T);

  Bytes expected(bytes);
  for (const Element& e : elements) {
    for (std::size_t b = 0; b < sizeof(T); ++b) {
      const std::size_t at = swizzled(std::size_t(offset) + e.shared + b, l.swizzle) - std::size_t(offset);
      expected.at(at) = e.inside ? values[e.global + b] : 0;
    }
  }
  const Buffer<unsigned char> box("box", bytes);
  const Launch launch{1, 32, std::size_t(offset) + bytes};
  gpusim::Report report = run(launch, dump_box, map, box.get(), offset, int(bytes), p.x, p.y, p.z);
  EXPECT_TRUE(is_clean(report));
  EXPECT_TRUE(box.host() == expected);
  const Counts counts = counts_of(l, elements, sizeof(T));
  EXPECT_EQ(report.tensors["tensor"].read_bytes, counts.bytes);
  EXPECT_EQ(report.tensors["tensor"].read_sectors, counts.sectors);
  EXPECT_EQ(report.tensors["tensor"].read_requests, counts.bytes != 0);

  // Back into another tensor, in which everything else stays as it is.
  const Buffer<unsigned char> copy("copy", Bytes(tensor_bytes, 0x5a));
  Bytes stored(tensor_bytes, 0x5a);
  for (const Element& e : elements) {
    for (std::size_t b = 0; e.inside && b < sizeof(T); ++b) stored[e.global + b] = values[e.global + b];
  }
  report = run(launch, store_box, map_of(reinterpret_cast<T*>(copy.get()), l), box.get(), offset, int(bytes),
               p.x, p.y, p.z);
  EXPECT_TRUE(is_clean(report));
  EXPECT_TRUE(copy.host() == stored);
  EXPECT_EQ(report.tensors["copy"].write_bytes, counts.bytes);
  EXPECT_EQ(report.tensors["copy"].write_sectors, counts.sectors);
}

/// Boxes of each width that a swizzle allows, inside the tensor and across each of its edges.
template <class T>
void check_all() {
  const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                         CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};
  constexpr Position kPositions[] = {{0, 0, 0},    {3, 2, 1},     {-5, 0, 0}, {0, -3, 0},
                                     {0, 0, -1},   {40, 5, 0},    {2, 9, 1},  {-3, -2, 1},
                                     {1000, 0, 0}, {0, -1000, 0}, {0, 0, 7}};
  for (const CUtensorMapSwizzle swizzle : swizzles) {
    const std::size_t span = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 192 : std::size_t(16) << int(swizzle);
    for (std::size_t width = span; width >= 16; width = width == 192 ? 128 : width / 2) {
      if (width / sizeof(T) > 256) continue;
      Layout l{.size = {45, 11, 2}, .box = {cuuint32_t(width / sizeof(T)), 8, 2}, .swizzle = swizzle};
      l.row_bytes = (45 * sizeof(T) + 15) / 16 * 16 + 16;
      l.plane_bytes = l.row_bytes * 12;
      for (std::size_t i = 0; i < std::size(kPositions); ++i)
        check_box<T>(l, kPositions[i], i % 3 == 0 ? 0 : i % 3 == 1 ? 128 : 1024 + 640);
    }
  }
}

TEST(TensorMaps, BoxesOfBytes) { check_all<unsigned char>(); }
TEST(TensorMaps, BoxesOf16BitNumbers) { check_all<unsigned short>(); }
TEST(TensorMaps, BoxesOfFloats) { check_all<float>(); }
TEST(TensorMaps, BoxesOfDoubles) { check_all<double>(); }

TEST(TensorMaps, BoxesThatTakeEveryNthRow) {
  for (const cuuint32_t rows : {1u, 7u, 8u}) {
    for (const cuuint32_t step : {2u, 3u, 8u}) {
      const Layout l{.size = {32, 11, 5},
                     .box = {16, rows, 3},
                     .row_bytes = 128,
                     .plane_bytes = 128 * 11,
                     .steps = {1, step, 2}};
      check_box<float>(l, {4, -2, 1}, 0);
    }
  }
}

// ---- four dimensions --------------------------------------------------------------------------------------

/// dump_box() and store_box() in one: a box of a tensor with four dimensions, into shared memory and from
/// there to another one.
__global__ void move_box(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                         int bytes, int x, int y, int z, int w) {
  __shared__ std::uint64_t full;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(&full, bytes);
  ptx::tma_load(smem, &from, &full, x, y, z, w);
  ptx::mbarrier_wait(&full, 0);
  ptx::tma_store(&to, smem, x, y, z, w);
  ptx::bulk_commit();
  ptx::bulk_wait<0>();
}

/// [batch, rows, heads, cols], and a map of it whose coordinates are column, row, head, batch.
struct Interleaved {
  cuuint64_t batch, rows, heads, cols;
  std::size_t at(std::size_t w, std::size_t y, std::size_t z, std::size_t x) const {
    return ((w * rows + y) * heads + z) * cols + x;
  }
  std::size_t elements() const { return batch * rows * heads * cols; }
  CUtensorMap map(unsigned short* tensor, cuuint32_t box_rows) const {
    const cuuint64_t lengths[] = {cols, rows, heads, batch};
    const cuuint64_t strides[] = {heads * cols * 2, cols * 2, rows * heads * cols * 2};
    const cuuint32_t box[] = {64, box_rows, 1, 1}, steps[] = {1, 1, 1, 1};
    CUtensorMap map;
    EXPECT_EQ(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, tensor, lengths, strides, box,
                                     steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                     CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              CUDA_SUCCESS);
    return map;
  }
};

// Rows and columns past the end are neither read nor written, although other heads and batches lie there.
TEST(TensorMaps, BoxesOfAHeadAmongOthers) {
  for (const cuuint64_t cols : {8u, 40u, 64u, 72u, 120u}) {
    const Interleaved t{.batch = 2, .rows = 11, .heads = 3, .cols = cols};
    std::vector<unsigned short> values(t.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned short>(i + 1);
    for (const int y : {0, 8}) {
      for (int x = 0; x < int(cols); x += 64) {
        const Buffer<unsigned short> from("from", values);
        const auto to = Buffer<unsigned short>::zeros("to", values.size());
        gpusim::Report report =
            run({1, 1, 1024}, move_box, t.map(from.get(), 8), t.map(to.get(), 8), 1024, x, y, 2, 1);
        EXPECT_TRUE(is_clean(report)) << cols;
        std::vector<unsigned short> expected(values.size(), 0);
        std::int64_t bytes = 0, sectors = 0;
        for (std::size_t row = std::size_t(y); row < std::min<std::size_t>(11, std::size_t(y) + 8); ++row) {
          const std::size_t end = std::min<std::size_t>(cols, std::size_t(x) + 64);
          std::set<std::size_t> of_row;
          for (std::size_t col = std::size_t(x); col < end; ++col) {
            const std::size_t i = t.at(1, row, 2, col);
            expected[i] = values[i];
            bytes += 2;
            of_row.insert(2 * i / 32);
          }
          sectors += std::int64_t(of_row.size());
        }
        EXPECT_EQ(to.host(), expected) << cols << ' ' << x << ' ' << y;
        EXPECT_EQ(report.tensors["from"].read_bytes, bytes) << cols;
        EXPECT_EQ(report.tensors["from"].read_sectors, sectors) << cols;
        EXPECT_EQ(report.tensors["to"].write_bytes, bytes) << cols;
        EXPECT_EQ(report.tensors["to"].write_sectors, sectors) << cols;
      }
    }
  }
}

// ---- five dimensions --------------------------------------------------------------------------------------

/// Loads a box with a policy for the cache, and copies it with ordinary accesses.
__global__ void load_box_of_five(const __grid_constant__ CUtensorMap map, std::uint16_t* out, int bytes,
                                 int y, int w, int v) {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, bytes);
    ptx::tma_load_hint(smem, &map, &full, ptx::create_evict_first_policy(), 0, y, 0, w, v);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  for (int i = int(threadIdx.x); i < bytes / 2; i += 32) out[i] = reinterpret_cast<std::uint16_t*>(smem)[i];
}

// {64, token, d / 64, head, page}: all of a tile of keys in one copy. Tokens past the end are zero.
TEST(TensorMaps, BoxesOfAllColumnsOfAHead) {
  constexpr unsigned kPages = 3, kHeads = 2, kTokens = 40, kParts = 2, kCols = 64 * kParts;
  std::vector<unsigned short> values(kPages * kHeads * kTokens * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned short>(i + 1);
  const Buffer<unsigned short> cache("cache", values);
  for (const unsigned rows : {16u, 32u}) {
    const cuuint64_t lengths[] = {64, kTokens, kParts, kHeads, kPages};
    const cuuint64_t strides[] = {kCols * 2, 128, kTokens * kCols * 2, kHeads * kTokens * kCols * 2};
    const cuuint32_t box[] = {64, rows, kParts, 1, 1}, steps[] = {1, 1, 1, 1, 1};
    CUtensorMap map;
    ASSERT_EQ(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, cache.get(), lengths, strides,
                                     box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                     CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              CUDA_SUCCESS);
    for (unsigned first = 0; first < kTokens; first += rows) {
      const Buffer<std::uint16_t> out("out", rows * kCols);
      const int bytes = int(rows * kCols * 2);
      const gpusim::Report report =
          run({1, 32, std::size_t(bytes)}, load_box_of_five, map, out.get(), bytes, int(first), 1, 2);
      EXPECT_TRUE(is_clean(report));
      const unsigned inside = std::min(rows, kTokens - first);
      EXPECT_EQ(report.tensors.at("cache").read_bytes, inside * kCols * 2);
      EXPECT_EQ(report.tensors.at("cache").read_requests, 1);
      const std::vector<std::uint16_t> found = out.host();
      for (unsigned i = 0; i < rows * kCols; ++i) {
        const unsigned row = i / 64, token = row % rows, chunk = i / 8 % 8 ^ row % 8;
        const unsigned col = row / rows * 64 + 8 * chunk + i % 8;
        const unsigned at = ((2 * kHeads + 1) * kTokens + first + token) * kCols + col;
        ASSERT_EQ(found[i], token < inside ? values[at] : 0) << rows << ' ' << first << ' ' << i;
      }
    }
  }
}

// ---- mistakes ---------------------------------------------------------------------------------------------

std::string at(const std::string& tag) { return "tensor_maps_test.cu:" + std::to_string(line_of(tag)); }

__global__ void load_to(const CUtensorMap* map, int offset) {
  __shared__ std::uint64_t full;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(&full, 512);
  ptx::prefetch_tensor_map(map);
  ptx::tma_load(smem + offset, map, &full, 0, 0, 0);  // load to
  ptx::mbarrier_wait(&full, 0);
}

TEST(TensorMaps, AreCheckedWhenTheyAreUsed) {
  const auto tensor = Buffer<float>::zeros("tensor", 128);
  const Layout layout{.size = {16, 8, 1}, .box = {16, 8, 1}};
  const Launch launch{1, 1, 1024};
  const auto report_of = [&](const CUtensorMap& map, int offset) {
    const Buffer<CUtensorMap> maps("maps", std::vector<CUtensorMap>{map});
    return run(launch, load_to, maps.get(), offset);
  };
  const CUtensorMap map = map_of(tensor.get(), layout);
  EXPECT_TRUE(is_clean(report_of(map, 0))) << "a map in global memory";
  EXPECT_TRUE(says(report_of(map, 4), "Misuse at " + at("load to")));
  EXPECT_TRUE(says(report_of(map, 4), "the copy needs a shared address that is a multiple of 128"));
  EXPECT_TRUE(says(report_of(map, 224), "Invalid __shared__ write of size 512 bytes at " + at("load to") +
                                            " by thread (0,0,0) in block (0,0,0)"));
  EXPECT_TRUE(says(report_of({}, 0), "these bytes are not what cuTensorMapEncodeTiled() has made"));
  Layout too_large = layout;
  too_large.size[1] = 9;
  EXPECT_TRUE(is_clean(report_of(map_of(tensor.get(), too_large), 0)));
  too_large.box[1] = 9;
  EXPECT_TRUE(says(report_of(map_of(tensor.get(), too_large), 0), "Invalid __global__ read"));
  const Buffer<float> unwritten("unwritten", 128);
  EXPECT_TRUE(says(report_of(map_of(unwritten.get(), layout), 0), "Uninitialized __global__ memory read"));
  Arguments two;
  two.rank = 2;
  CUtensorMap flat;
  encode(two, &flat);
  EXPECT_TRUE(says(report_of(flat, 0), "the tensor map has 2 dimensions, the instruction 3"));
  const CUtensorMap deep = Interleaved{.batch = 1, .rows = 8, .heads = 1, .cols = 16}.map(
      reinterpret_cast<unsigned short*>(tensor.get()), 4);
  EXPECT_TRUE(says(report_of(deep, 0), "the tensor map has 4 dimensions, the instruction 3"));
}

__global__ void addresses(std::uint32_t* out) {
  __shared__ float single;
  __shared__ __align__(1024) float aligned[64];
  single = aligned[0] = 0.0f;
  out[0] = ptx::shared_address(smem);
  out[1] = ptx::shared_address(smem + 57000);
  out[2] = ptx::shared_address(aligned + 3);
  out[3] = ptx::shared_address(&single);
  out[4] = gpusim::device::shared_pointer(out[1]) == smem + 57000;
  out[5] = gpusim::device::shared_pointer(out[2]) == aligned + 3;
}
TEST(SharedAddresses, FitIntoADescriptor) {
  cudaFuncSetAttribute(addresses, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 - 4096);
  const Buffer<std::uint32_t> out("out", 6);
  run({1, 1, 227 * 1024 - 4096}, addresses, out.get());
  const std::vector<std::uint32_t> found = out.host();
  for (int i = 0; i < 4; ++i) EXPECT_LT(found[std::size_t(i)], 1u << 18);
  EXPECT_EQ(found[0] % 1024, 0u);
  EXPECT_EQ(found[1], found[0] + 4 * 57000);
  EXPECT_EQ(found[2] % 1024, 12u);
  EXPECT_EQ(found[3] % 4, 0u);
  EXPECT_TRUE(found[4] && found[5]);
}

}  // namespace
}  // namespace gpusim_test
