/// @file
/// The functions that code compiled with -fsanitize=thread calls before each memory access. Linked instead of
/// libtsan. Host code in the same source file calls them too; then there is no current runner.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/bounds.hpp"
#include "gpusim/runtime/host_memory.hpp"

namespace {

using gpusim::AccessKind;
using gpusim::current_runner;

constexpr auto kRead = AccessKind::kRead;
constexpr auto kWrite = AccessKind::kWrite;

template <AccessKind kKind, std::size_t kSize>
[[gnu::always_inline]] inline void note(const void* p, const void* pc) {
  if (current_runner != nullptr) return current_runner->access<kKind, kSize>(p, pc);
  gpusim::check_on_host(p, kKind, pc);
}

template <AccessKind kKind, std::size_t kSize>
inline void note_volatile(const void* p, const void* pc) {
  if (current_runner != nullptr) return current_runner->volatile_access<kKind, kSize>(p, pc);
  gpusim::check_on_host(p, kKind, pc, true);
}

inline void note_unaligned(const void* p, std::size_t size, AccessKind kind, const void* pc) {
  if (current_runner != nullptr) return current_runner->on_access(p, size, kind, pc, false);
  gpusim::check_on_host(p, kind, pc);
}

/// A copy of a whole object, divided into the accesses that nvcc generates. The compiler calls this for
/// objects of odd sizes, and for those of up to 16 bytes that are aligned to less than 8 and less than their
/// size. For these, nvcc accesses no more at once than the alignment allows, except in shared memory, where
/// it knows every address.
void note_range(const void* p, std::size_t size, AccessKind kind, const void* pc) {
  if (current_runner == nullptr) return size == 0 ? void() : gpusim::check_on_host(p, kind, pc);
  const std::size_t widest = size > 16 || current_runner->is_shared(p) ? 16
                             : size > 4                                ? 4
                             : size == 4                               ? 2
                                                                       : 1;
  const std::size_t bits = reinterpret_cast<std::uintptr_t>(p) | size | widest;
  const std::size_t step = bits & (~bits + 1);  // the lowest bit
  for (std::size_t i = 0; i < size; i += step) {
    if (step < size) current_runner->begin_piece();
    current_runner->on_access(static_cast<const char*>(p) + i, step, kind, pc);
  }
}

/// What the compiler passes to the check of an index: the beginning of the sanitizer's own structures.
struct TypeDescriptor {
  std::uint16_t kind,
      info;  ///< of an integer: bit 0 says whether it is signed, the others are log2 of its bits
  char name[1];
};
struct OutOfBounds {
  const char* file;
  std::uint32_t line, column;
  const TypeDescriptor* array_type;
  const TypeDescriptor* index_type;
};

std::int64_t as_number(const TypeDescriptor& type, std::uintptr_t value) {
  const int unused = 64 - (1 << (type.info >> 1));
  if ((type.info & 1) == 0 || unused <= 0) return std::int64_t(value);
  return std::int64_t(value << unused) >> unused;
}

}  // namespace

#define GPUSIM_CALLER __builtin_return_address(0)

#define GPUSIM_HOOKS(size)                                                                                \
  void __tsan_read##size(void* p) { note<kRead, size>(p, GPUSIM_CALLER); }                                \
  void __tsan_write##size(void* p) { note<kWrite, size>(p, GPUSIM_CALLER); }                              \
  void __tsan_volatile_read##size(void* p) { note_volatile<kRead, size>(p, GPUSIM_CALLER); }              \
  void __tsan_volatile_write##size(void* p) { note_volatile<kWrite, size>(p, GPUSIM_CALLER); }            \
  void __tsan_unaligned_read##size(void* p) { note_unaligned(p, size, kRead, GPUSIM_CALLER); }            \
  void __tsan_unaligned_write##size(void* p) { note_unaligned(p, size, kWrite, GPUSIM_CALLER); }          \
  void __tsan_unaligned_volatile_read##size(void* p) { note_unaligned(p, size, kRead, GPUSIM_CALLER); }   \
  void __tsan_unaligned_volatile_write##size(void* p) { note_unaligned(p, size, kWrite, GPUSIM_CALLER); } \
  void __tsan_read_write##size(void* p) {                                                                 \
    note<kRead, size>(p, GPUSIM_CALLER);                                                                  \
    note<kWrite, size>(p, GPUSIM_CALLER);                                                                 \
  }                                                                                                       \
  void __tsan_unaligned_read_write##size(void* p) {                                                       \
    note_unaligned(p, size, kRead, GPUSIM_CALLER);                                                        \
    note_unaligned(p, size, kWrite, GPUSIM_CALLER);                                                       \
  }

// std::atomic and the __atomic builtins become calls that must also do the work.
#define GPUSIM_FETCH(bits, op, expression)                                                               \
  std::uint##bits##_t __tsan_atomic##bits##_##op(volatile std::uint##bits##_t* p, std::uint##bits##_t v, \
                                                 int) {                                                  \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);             \
    return expression;                                                                                   \
  }
#define GPUSIM_ATOMICS(bits)                                                                                 \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* p, int) {               \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);                 \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                          \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* p, std::uint##bits##_t v, int) {            \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);                 \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                          \
  GPUSIM_FETCH(bits, exchange, __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST))                                  \
  GPUSIM_FETCH(bits, fetch_add, __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST))                                  \
  GPUSIM_FETCH(bits, fetch_sub, __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST))                                  \
  GPUSIM_FETCH(bits, fetch_and, __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST))                                  \
  GPUSIM_FETCH(bits, fetch_or, __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST))                                    \
  GPUSIM_FETCH(bits, fetch_xor, __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST))                                  \
  GPUSIM_FETCH(bits, fetch_nand, __atomic_fetch_nand(p, v, __ATOMIC_SEQ_CST))                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* p, std::uint##bits##_t* e, \
                                                    std::uint##bits##_t v, int, int) {                       \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);                 \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                          \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* p, std::uint##bits##_t* e,   \
                                                  std::uint##bits##_t v, int, int) {                         \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);                 \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                          \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                            \
      volatile std::uint##bits##_t* p, std::uint##bits##_t e, std::uint##bits##_t v, int, int) {             \
    note<AccessKind::kAtomic, bits / 8>(const_cast<std::uint##bits##_t*>(p), GPUSIM_CALLER);                 \
    __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
    return e;                                                                                                \
  }

extern "C" {

GPUSIM_HOOKS(1)
GPUSIM_HOOKS(2)
GPUSIM_HOOKS(4)
GPUSIM_HOOKS(8)
GPUSIM_HOOKS(16)
GPUSIM_ATOMICS(8)
GPUSIM_ATOMICS(16)
GPUSIM_ATOMICS(32)
GPUSIM_ATOMICS(64)

void __tsan_read_range(void* p, std::size_t size) { note_range(p, size, kRead, GPUSIM_CALLER); }
void __tsan_write_range(void* p, std::size_t size) { note_range(p, size, kWrite, GPUSIM_CALLER); }
void __tsan_vptr_read(void** p) { note<kRead, sizeof(void*)>(p, GPUSIM_CALLER); }
void __tsan_vptr_update(void** p, void*) { note<kWrite, sizeof(void*)>(p, GPUSIM_CALLER); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_init() {}

// Called because of -fsanitize-coverage=trace-pc: a basic block begins.
void __sanitizer_cov_trace_pc() {
  if (current_runner != nullptr) current_runner->on_block(GPUSIM_CALLER, __builtin_dwarf_cfa());
}

// Called because of -fsanitize=bounds if an index is not below the size of its array. Weak: if the program's
// host code is under UBSan, that has a handler of its own.
[[gnu::weak]] void __ubsan_handle_out_of_bounds(const OutOfBounds* check, std::uintptr_t index) {
  const gpusim::IndexedArray array{check->file, check->line, check->column, check->array_type->name};
  const std::int64_t value = as_number(*check->index_type, index);
  if (current_runner != nullptr) current_runner->index_out_of_bounds(array, value, GPUSIM_CALLER);
  const std::string what = gpusim::describe(array);
  std::fprintf(stderr, "%s:%u: error: invalid index %lld: %s\n", array.file, array.line,
               static_cast<long long>(value), what.c_str());
  std::abort();
}

// assert() in a kernel ends the thread, not the program.
[[noreturn]] void __assert_fail(const char* condition, const char* file, unsigned line,
                                const char* function) noexcept {
  if (current_runner != nullptr) current_runner->fail_assertion(condition, GPUSIM_CALLER);
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s:%u: %s: Assertion `%s' failed.\n", program_invocation_short_name, file, line,
               function, condition);
  std::abort();
}

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

// clang calls these for memory intrinsics; up to version 14, memcpy() itself, which gpusim_kernels() diverts
// to __wrap_memcpy().
void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
  note_range(from, size, kRead, GPUSIM_CALLER);
  note_range(to, size, kWrite, GPUSIM_CALLER);
  return __builtin_memmove(to, from, size);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t size) {
  note_range(from, size, kRead, GPUSIM_CALLER);
  note_range(to, size, kWrite, GPUSIM_CALLER);
  return __builtin_memmove(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, std::size_t size) {
  note_range(from, size, kRead, GPUSIM_CALLER);
  note_range(to, size, kWrite, GPUSIM_CALLER);
  return __builtin_memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, std::size_t size) {
  note_range(to, size, kWrite, GPUSIM_CALLER);
  return __builtin_memset(to, value, size);
}

}  // extern "C"
