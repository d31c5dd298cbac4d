/// @file
/// The names of allocations, which come from the variables of the host that hold the pointers, and comments
/// that silence a finding on their line.
#include <cuda_runtime.h>

#include <set>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

__global__ void store(float* x) { x[threadIdx.x] = 1.0f; }

void use(float* x) { try_run({1, 1}, store, x); }

#define CHECKED(call)                                        \
  do {                                                       \
    if ((call) != cudaSuccess) throw std::runtime_error(""); \
  } while (false)

float* in_namespace = nullptr;

struct Grid {
  float* cells = nullptr;
  float* next = nullptr;
};

template <class T>
T* make_array(std::size_t count) {
  T* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}

void allocate_for(void** pointer, std::size_t bytes) { CHECKED(cudaMalloc(pointer, bytes)); }

template <class T>
class Holder {
 public:
  explicit Holder(std::size_t count) {
    CHECKED(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
};

int allocate_here() {
  float* d_local = nullptr;
  cudaMalloc(&d_local, 128);
  use(d_local);
  return 0;
}

TEST(Names, OfTheVariablesOfTheHost) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // and names, which come from the lines of calls
  gpusim::take_report();
  float *d_x = nullptr, *d_y = nullptr;
  cudaMalloc(&d_x, 128);
  use(d_x);
  CHECKED(cudaMalloc(reinterpret_cast<void**>(&d_y), 128));
  use(d_y);
  cudaMalloc(&in_namespace, 128);
  use(in_namespace);
  Grid grid;
  Grid* const other = &grid;
  cudaMalloc(&grid.cells, 128);
  use(grid.cells);
  cudaMalloc(&other->next, 128);
  use(grid.next);
  float* rows[2];
  for (int i = 0; i < 2; ++i) {
    cudaMalloc(&rows[i], 128);
    use(rows[i]);
  }
  float* parts[2];
  for (float*& part : parts) {
    cudaMalloc(&part, 128);
    use(part);
  }
  auto* const made = make_array<float>(32);
  use(made);
  float* passed = nullptr;
  allocate_for(reinterpret_cast<void**>(&passed), 128);
  use(passed);
  const Holder<float> holder(32);
  use(holder.get());
  const int status = allocate_here();
  EXPECT_EQ(status, 0);
  float *first = nullptr, *second = nullptr;
  // clang-format off
  cudaMalloc(&first, 128); cudaMalloc(&second, 128);
  // clang-format on
  use(first);
  use(second);
  float* d_long = nullptr;
  CHECKED(cudaMalloc(  //
      &d_long,         //
      128));
  use(d_long);
  std::set<std::string> names;
  for (const auto& [name, counters] : gpusim::take_report().tensors) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"d_x", "d_y", "in_namespace", "grid.cells", "other->next",
                                          "rows[0]", "rows[1]", "parts[0]", "parts[1]", "made", "passed",
                                          "holder.data_", "d_local", "first", "second", "d_long"}));
}

TEST(Names, InReports) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  float* d_out = nullptr;
  cudaMalloc(&d_out, 32 * sizeof(float));
  EXPECT_TRUE(says(run({1, 33}, store, d_out), "address is 0 bytes after the end of \"d_out\" (128 bytes)"));
}

TEST(Names, ThatTheProgramGivesComeFirst) {
  float* d_out = nullptr;
  cudaMalloc(&d_out, 32 * sizeof(float));
  gpusim::name_allocation(d_out, "the result");
  EXPECT_TRUE(says(run({1, 33}, store, d_out), "after the end of \"the result\""));
}

// ---- comments ---------------------------------------------------------------------------------------------

__device__ void add_one(int* x) { *x += 1; }

__global__ void silenced(int* x) {
  x[0] = x[0] + 1;      // gpusim: allow race (it only counts roughly)
  x[1] = x[40 + x[2]];  // gpusim: allow memcheck, race
  add_one(x + 3);       // gpusim: allow race
}
__global__ void not_silenced(int* x) {
  x[0] = x[0] + 1;  // gpusim: allow memcheck
  x[1] = x[1] + 1;
}
__global__ void misspelt(int* x) {
  x[0] = x[0] + 1;  // gpusim: allow races
}

TEST(Allowed, AFindingOfAKindOnItsLine) {
  const auto x = Buffer<int>::zeros("x", 32);
  const gpusim::Report report = run({2, 64}, silenced, x.get());
  EXPECT_TRUE(is_clean(report));
  const std::string text = gpusim::format_defects(report);
  EXPECT_NE(text.find("Note: race at names_test.cu:"), std::string::npos) << text;
  EXPECT_NE(text.find("is silenced there, or on the other line, by \"gpusim: allow\"  ["), std::string::npos);
  EXPECT_NE(text.find("Note: out_of_bounds at names_test.cu:"), std::string::npos);
  EXPECT_EQ(text.find("ERROR SUMMARY"), std::string::npos);
}

TEST(Allowed, NothingElse) {
  const auto x = Buffer<int>::zeros("x", 32);
  EXPECT_EQ(told(run({2, 64}, not_silenced, x.get())).size(), 2u);
}

TEST(Allowed, AnUnknownWord) {
  const auto x = Buffer<int>::zeros("x", 32);
  const gpusim::Report report = run({2, 64}, misspelt, x.get());
  EXPECT_EQ(report.defects.size(), 1u);
  EXPECT_TRUE(says(report, "\"gpusim: allow races\" at names_test.cu:"));
  EXPECT_TRUE(says(report, "silences nothing: the words are race, memcheck, uninitialized, "));
}

}  // namespace
}  // namespace gpusim_test
