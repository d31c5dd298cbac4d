#include "gpusim/runtime/device_ptx.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/matrix.hpp"
#include "gpusim/shim/cuda_fp16.h"

namespace gpusim::device {

#define GPUSIM_CALLER __builtin_return_address(0)

void* pointer_of_window(std::uint32_t address) { return current_runner->pointer_of_window(address); }
std::uint32_t window_address(const void* pointer) { return current_runner->window_address(pointer); }

std::uint32_t multiprocessor() {
  return std::uint32_t(current_runner->number_in_grid() % std::uint64_t(emulated_device().multiprocessors));
}
std::uint32_t multiprocessors() { return std::uint32_t(emulated_device().multiprocessors); }
std::uint64_t clock_nanoseconds() {
  return std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::steady_clock::now().time_since_epoch())
                           .count());
}
std::uint64_t clock_cycles() { return clock_nanoseconds() * 2; }
std::uint32_t dynamic_shared_bytes() { return current_runner->dynamic_shared_bytes(); }

// --- mma -------------------------------------------------------------------------------------------------

namespace {

struct AnyMmaOperand {
  const MmaSpec* spec;
  void* d;
  const void *a, *b, *c;
};

int bits_of(Element type) {
  switch (type) {
    case Element::kFloat64: return 64;
    case Element::kTf32:
    case Element::kFloat32:
    case Element::kS32: return 32;
    case Element::kFloat16:
    case Element::kBFloat16: return 16;
    default: return 8;
  }
}

double small_float(std::uint8_t bits, int fraction_bits, int bias, bool has_infinity) {
  const int exponent_bits = 7 - fraction_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x80 ? -1.0 : 1.0;
  if (has_infinity && exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (!has_infinity && (bits & 0x7f) == 0x7f) return NAN;
  if (exponent == 0) return sign * std::ldexp(double(fraction), 1 - bias - fraction_bits);
  return sign * std::ldexp(double(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
}

/// An element of an operand. @param index  in the registers of a lane
double element_of(const void* registers, Element type, int index) {
  const auto* bytes = static_cast<const std::uint8_t*>(registers) + index * bits_of(type) / 8;
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (type) {
    case Element::kFloat64: return as(double{});
    case Element::kFloat32: return double(as(float{}));
    case Element::kTf32: {  // the lowest bits are ignored
      const std::uint32_t bits = as(std::uint32_t{}) & 0xffffe000u;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return double(value);
    }
    case Element::kS32: return double(as(std::int32_t{}));
    case Element::kFloat16: return double(float16::Binary16::widen(as(std::uint16_t{})));
    case Element::kBFloat16: return double(float16::BFloat16::widen(as(std::uint16_t{})));
    case Element::kS8: return double(as(std::int8_t{}));
    case Element::kU8: return double(*bytes);
    case Element::kE4m3: return small_float(*bytes, 3, 7, false);
    case Element::kE5m2: return small_float(*bytes, 2, 15, true);
  }
  return 0;
}

/// Row, or column, and k of an element of A, or of B. @param per_register  its elements in 32 bits
struct PlaceInOperand {
  int line, k;
};
PlaceInOperand place_in_a(const MmaSpec& s, int lane, int i) {
  const int per = std::max(1, 32 / bits_of(s.a)), g = lane / 4, t = lane % 4;
  const int reg = i / per, e = i % per;
  if (s.m == 8) return {g, per * t + e + 4 * per * reg};
  return {g + 8 * (reg % 2), per * t + e + 4 * per * (reg / 2)};
}
PlaceInOperand place_in_b(const MmaSpec& s, int lane, int i) {
  const int per = std::max(1, 32 / bits_of(s.b)), g = lane / 4, t = lane % 4;
  return {g, per * t + i % per + 4 * per * (i / per)};
}

void resolve_any_mma(void* const* lanes) {
  constexpr int kMost = 32;
  std::array<std::array<double, kMost>, 16> a{};
  std::array<std::array<double, 8>, kMost> b{};
  const MmaSpec& s = *static_cast<const AnyMmaOperand*>(lanes[0])->spec;
  const int of_a = s.m * s.k / kWarpSize, of_b = s.n * s.k / kWarpSize, of_d = s.m * s.n / kWarpSize;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& operand = *static_cast<const AnyMmaOperand*>(lanes[lane]);
    for (int i = 0; i < of_a; ++i) {
      const PlaceInOperand at = place_in_a(s, lane, i);
      a[std::size_t(at.line)][std::size_t(at.k)] = element_of(operand.a, s.a, i);
    }
    for (int i = 0; i < of_b; ++i) {
      const PlaceInOperand at = place_in_b(s, lane, i);
      b[std::size_t(at.k)][std::size_t(at.line)] = element_of(operand.b, s.b, i);
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& operand = *static_cast<const AnyMmaOperand*>(lanes[lane]);
    std::array<double, 8> sums{};
    for (int i = 0; i < of_d; ++i) {
      const auto row = std::size_t(lane / 4 + 8 * (i / 2)), column = std::size_t(2 * (lane % 4) + i % 2);
      double sum = 0;
      for (std::size_t k = 0; k < std::size_t(s.k); ++k) sum += a[row][k] * b[k][column];
      sums[std::size_t(i)] = sum + element_of(operand.c, s.d, i);
    }
    for (int i = 0; i < of_d; ++i) {
      const double sum = sums[std::size_t(i)];
      auto* const to = static_cast<std::uint8_t*>(operand.d) + i * bits_of(s.d) / 8;
      const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
      switch (s.d) {
        case Element::kFloat64: put(sum); break;
        case Element::kFloat32: put(float(sum)); break;
        case Element::kS32: put(std::int32_t(std::uint32_t(std::int64_t(sum)))); break;
        case Element::kFloat16: put(float16::narrow<float16::Binary16>(sum)); break;
        default: break;
      }
    }
  }
}

struct StoreOperand {
  char* row;
  char* rows[8];  ///< the addresses that this lane writes to
  int matrices;
  bool transposed;
};
void resolve_store(void* const* lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    auto& operand = *static_cast<StoreOperand*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4 * 2;
    for (int m = 0; m < operand.matrices; ++m) {
      const auto row = [&](int r) { return static_cast<const StoreOperand*>(lanes[8 * m + r])->row; };
      operand.rows[2 * m] = operand.transposed ? row(t) + 2 * g : row(g) + 2 * t;
      operand.rows[2 * m + 1] = operand.transposed ? row(t + 1) + 2 * g : row(g) + 2 * t + 2;
    }
  }
}

}  // namespace

void mma_any(const MmaSpec& spec, void* d, const void* a, const void* b, const void* c) {
  current_runner->require(bits_of(spec.a) == 16 ? 75 : 80, "mma", GPUSIM_CALLER);
  if (spec.a == Element::kE4m3 || spec.a == Element::kE5m2) current_runner->require(89, "mma", GPUSIM_CALLER);
  AnyMmaOperand operand{&spec, d, a, b, c};
  current_runner->warp_rendezvous(~0u, WarpOp::kMma, &operand, &resolve_any_mma, GPUSIM_CALLER);
}

void store_matrices(void* row, int matrices, bool transposed, const std::uint32_t* registers) {
  const void* const pc = GPUSIM_CALLER;
  current_runner->require(90, "stmatrix", pc);
  StoreOperand operand{static_cast<char*>(row), {}, matrices, transposed};
  current_runner->warp_rendezvous(~0u, WarpOp::kMatrixLoad, &operand, &resolve_store, pc);
  for (int m = 0; m < matrices; ++m) {
    if (transposed) {
      for (int i = 0; i < 2; ++i) {
        const auto half = std::uint16_t(registers[m] >> 16 * i);
        current_runner->access<AccessKind::kWrite, 2>(operand.rows[2 * m + i], pc);
        std::memcpy(operand.rows[2 * m + i], &half, 2);
      }
    } else {
      current_runner->access<AccessKind::kWrite, 4>(operand.rows[2 * m], pc);
      std::memcpy(operand.rows[2 * m], &registers[m], 4);
    }
  }
}

// --- barriers and copies ---------------------------------------------------------------------------------

void mbarrier_expect_tx(std::uint64_t* barrier, int bytes) {
  current_runner->mbarrier_expect(barrier, bytes, GPUSIM_CALLER);
}
int mbarrier_parity(std::uint64_t* barrier) { return current_runner->mbarrier_parity(barrier); }
bool mbarrier_try_wait(std::uint64_t* barrier, int parity, bool of_cluster) {
  return current_runner->mbarrier_try_wait(barrier, parity, of_cluster, GPUSIM_CALLER);
}

namespace {

void copy_box(BulkCopy::Kind kind, const CUtensorMap* map, const void* shared, const void* barrier,
              const int* at, int rank, const char* instruction, const void* pc) {
  current_runner->require(90, instruction, pc);
  BulkCopy copy{.kind = kind};
  std::copy(at, at + rank, copy.at.begin());
  std::memcpy(static_cast<void*>(&copy.map), map, sizeof copy.map);
  copy.shared = reinterpret_cast<std::uintptr_t>(shared);
  copy.barrier = reinterpret_cast<std::uintptr_t>(barrier);
  current_runner->check_map(copy.map, map, rank, pc);
  copy.bytes = copy.map.box_bytes();
  current_runner->start_copy(std::move(copy), pc);
}

}  // namespace

void tensor_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, const int* at, int rank) {
  copy_box(BulkCopy::Kind::kLoad, map, shared, barrier, at, rank, "cp.async.bulk.tensor", GPUSIM_CALLER);
}
void tensor_store(const CUtensorMap* map, const void* shared, const int* at, int rank) {
  copy_box(BulkCopy::Kind::kStore, map, shared, nullptr, at, rank, "cp.async.bulk.tensor", GPUSIM_CALLER);
}
void tensor_reduce_add(const CUtensorMap* map, const void* shared, const int* at, int rank) {
  copy_box(BulkCopy::Kind::kAdd, map, shared, nullptr, at, rank, "cp.reduce.async.bulk.tensor",
           GPUSIM_CALLER);
}

void wgmma_wait_for_all(int pending) {
  current_runner->let_waits_cover_registers();
  current_runner->require_no_later(90, "wgmma", GPUSIM_CALLER);
  current_runner->require(90, "wgmma", GPUSIM_CALLER);
  WarpgroupOperand operand{.op = {.kind = WarpgroupOp::Kind::kWait, .pc = GPUSIM_CALLER, .count = pending}};
  current_runner->warpgroup_op(operand);
}
const std::uint32_t* wgmma_operand(const std::uint32_t* const* registers) {
  const bool in_order = registers[1] == registers[0] + 1 && registers[2] == registers[0] + 2 &&
                        registers[3] == registers[0] + 3;
  return in_order ? registers[0] : current_runner->copy_of_operand(registers);
}
void refuse_scattered_accumulators() {
  current_runner->refuse(
      "the accumulators of wgmma are simulated only if they are the elements of one array, in order",
      GPUSIM_CALLER);
}

#undef GPUSIM_CALLER

}  // namespace gpusim::device
