/// @file
/// Reads of local variables that a thread has never written.
///
/// The compiler puts no hooks at most local variables: they would be registers. So a thread's stack is filled
/// with a signalling NaN before the thread begins, and its floating-point arithmetic traps: the first
/// operation on such a number is an uninitialized read. With clang++ nothing traps, because it may compute a
/// number before it knows whether anybody needs it.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

namespace gpusim {

/// What a local variable holds that nothing has written: a signalling NaN as a float, and two NaNs as halves
/// or bfloat16.
inline constexpr std::uint32_t kUnwrittenLocal = 0x7fa57fa5;

/// Whether one of `count` registers of 4 bytes, an even number, holds that.
inline bool is_any_unwritten(const void* registers, int count) {
  const auto* const words = static_cast<const std::byte*>(registers);
  const __m128i unwritten = _mm_set1_epi32(int(kUnwrittenLocal));
  __m128i found = _mm_setzero_si128();
  const auto compare = [&](__m128i four) { found = _mm_or_si128(found, _mm_cmpeq_epi32(four, unwritten)); };
  for (int i = 0; i + 4 <= count; i += 4)
    compare(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words + 4 * i)));
  if (count % 4 != 0) compare(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words + 4 * (count - 2))));
  return _mm_movemask_epi8(found) != 0;
}

/// Fills [begin, end), multiples of 16 bytes.
void fill_with_unwritten(std::byte* begin, std::byte* end);

/// From here on, an invalid operation on this stack, such as one with a signalling NaN, traps, and so it does
/// on stacks that are made from here. The scheduler and its threads all begin with the same setting: a switch
/// that changes it takes longer.
void trap_invalid_operations();

/// Installs the handler of these traps. It calls BlockRunner::read_unwritten_local() for a kernel's operation
/// with kUnwrittenLocal. After any invalid operation, its stack has no traps until a block begins.
void handle_invalid_operations();

/// Makes a signal end the thread of a kernel that it interrupts in the kernel's own code.
void interrupt_kernels(int signal);

}  // namespace gpusim
