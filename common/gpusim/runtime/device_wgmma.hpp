/// @file
/// The functions that shim/gpusim_wgmma.h calls from inside a kernel: see device.hpp. What each of them does
/// is said there and in the PTX manual, under the instruction's name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpusim/runtime/device.hpp"

namespace gpusim::device {

/// What a product's name says.
struct ProductShape {
  MmaType type;
  bool transposed_a, transposed_b;
};

void wgmma_fence();
void wgmma_commit();
/// The first half of a wait: until at most `pending` groups are in flight.
void wgmma_wait(int pending);
/// The second half, for each array that the wait names.
void wgmma_finished(const float* registers, int count, int argument);
void keep_in_place(const float* registers, int count);

/// d = a * b, plus d if `add`. @param d  `count` accumulators: the product has 2 * count columns
void wgmma(ProductShape shape, float* d, int count, std::uint64_t a, std::uint64_t b, bool add);
/// @param a  4 registers
void wgmma(ProductShape shape, float* d, int count, const std::uint32_t* a, std::uint64_t b, bool add);

void setmaxnreg_dec(int registers);
void setmaxnreg_inc(int registers);

}  // namespace gpusim::device
