/// @file
/// Structs that kernels lay over shared memory: reports name their members.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>
#include <gpusim_members.h>

#include <cstdint>
#include <string>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ __align__(1024) unsigned char smem[];

namespace {

using gpusim::declare_members;
namespace ptx = gpusim::ptx;

template <int kStages>
struct Ring {
  std::uint64_t full[kStages], empty[kStages];
};
struct Sum {
  float value;
  int count;
};
struct Stages {
  float tiles[2][64];
  Ring<2> ring;
  Sum sums[3];
  int first;
  alignas(16) __half halves[8];
};

/// What the kernel below does wrong.
enum class Wrong : std::uint8_t { kCount, kTile, kHalf, kBarrier, kHole };

template <Wrong kWrong>
__device__ void use(Stages& s, float* out) {
  const int i = int(threadIdx.x);
  if (kWrong == Wrong::kCount && i == 0) out[0] = float(s.sums[2].count);
  if (kWrong == Wrong::kTile) {
    if (i == 40) s.tiles[1][5] = 1.0f;
    if (i == 0) out[0] = s.tiles[1][5];
  }
  if (kWrong == Wrong::kHalf && i == 0) out[0] = float(s.halves[3]);
  if (kWrong == Wrong::kBarrier && i == 0) {
    ptx::mbarrier_init(&s.ring.full[1], 1);
    ptx::mbarrier_wait(&s.ring.full[1], 0);
  }
  if (kWrong == Wrong::kHole && i == 0) out[0] = float((&s.first)[1]);
}

template <Wrong kWrong>
__global__ void in_dynamic_memory(float* out) {
  Stages& s = *reinterpret_cast<Stages*>(smem);
  declare_members(s);
  use<kWrong>(s, out);
}
template <Wrong kWrong>
__global__ void undeclared(float* out) {
  Stages& s = *reinterpret_cast<Stages*>(smem);
  use<kWrong>(s, out);
}

template <Wrong kWrong>
gpusim::Report report_of(void (*kernel)(float*)) {
  const Buffer<float> out("out", 1);
  return run({.block = 64, .dynamic_shared_bytes = sizeof(Stages)}, kernel, out.get());
}

TEST(Members, OfAStructInAnArrayOfAStruct) {
  constexpr Wrong kWrong = Wrong::kCount;
  const std::string byte = "byte 564 of \"smem\"";
  EXPECT_TRUE(says(report_of<kWrong>(in_dynamic_memory<kWrong>),
                   "address is " + place("s.sums[2].count", byte) + ", which"));
  EXPECT_TRUE(
      says(report_of<kWrong>(undeclared<kWrong>), "address is " + place("byte 564 of s", byte) + ", which"));
}

TEST(Members, InRaces) {
  constexpr Wrong kWrong = Wrong::kTile;
  EXPECT_TRUE(says(report_of<kWrong>(in_dynamic_memory<kWrong>),
                   "shared memory, " + place("s.tiles[1][5]", "byte 276 of \"smem\"") + " in block"));
}

TEST(Members, OfATypeWithoutPublicMembers) {
  constexpr Wrong kWrong = Wrong::kHalf;
  EXPECT_TRUE(says(report_of<kWrong>(in_dynamic_memory<kWrong>),
                   "address is " + place("s.halves[3]", "byte 582 of \"smem\"") + ", which"));
}

TEST(Members, InReportsOnBarriers) {
  constexpr Wrong kWrong = Wrong::kBarrier;
#ifdef __clang__
  const std::string name = "byte 520 of \"smem\"";
#else
  const std::string name = "s.ring.full[1]";
#endif
  EXPECT_TRUE(
      says(report_of<kWrong>(in_dynamic_memory<kWrong>), "for parity 0 of " + name + ": it is in phase 0"));
}

TEST(Members, BytesBetweenThemHaveNoName) {
  constexpr Wrong kWrong = Wrong::kHole;
  EXPECT_TRUE(says(report_of<kWrong>(in_dynamic_memory<kWrong>),
                   "address is " + place("byte 572 of s", "byte 572 of \"smem\"") + ", which"));
}

__global__ void two_structs(float* out) {
  Sum& sum = *reinterpret_cast<Sum*>(smem);
  Ring<4>& ring = *reinterpret_cast<Ring<4>*>(smem + 64);
  declare_members(sum);
  declare_members(ring);
  out[0] = float(ring.empty[3]) + sum.value;
}

TEST(Members, OfSeveralStructs) {
  const Buffer<float> out("out", 1);
  const gpusim::Report report =
      run({.block = 1, .dynamic_shared_bytes = 64 + sizeof(Ring<4>)}, two_structs, out.get());
  EXPECT_TRUE(says(report, "address is " + place("ring.empty[3]", "byte 120 of \"smem\"") + ", which"));
}

__global__ void in_static_memory(float* out) {
  __shared__ Stages s;
  declare_members(s);
  out[0] = float(s.sums[1].count);
}

TEST(Members, OfAStaticStruct) {
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({.block = 1}, in_static_memory, out.get()),
                   "address is " + place("s.sums[1].count", "byte 556 of \"s\"") + ", which"));
}

struct Derived : Sum {
  int last;
};
struct Long {
  int a, b, c, d, e, f, g, h, i, j, k, l, m;
};

template <class Object>
__global__ void without_names(float* out) {
  Object& s = *reinterpret_cast<Object*>(smem);
  declare_members(s);
  out[0] = float(reinterpret_cast<int*>(&s)[2]);
}

TEST(Members, OfStructsWhoseMembersCannotBeListedHaveNoNames) {
  const Buffer<float> out("out", 1);
  const std::string words = "address is " + place("byte 8 of s", "byte 8 of \"smem\"") + ", which";
  EXPECT_TRUE(says(run({.block = 1, .dynamic_shared_bytes = 64}, without_names<Derived>, out.get()), words));
  EXPECT_TRUE(says(run({.block = 1, .dynamic_shared_bytes = 64}, without_names<Long>, out.get()), words));
}

}  // namespace
}  // namespace gpusim_test
