/// @file
/// AddressSanitizer keeps a shadow of the stack it believes to be on; tell it when a fiber switches.
/// Without AddressSanitizer these are empty.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUSIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define GPUSIM_ASAN 1
#endif

#ifdef GPUSIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gpusim::sanitizer {

/// About to leave a stack for another. @param save  nullptr if the stack being left is done with
inline void leave([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) {
#ifdef GPUSIM_ASAN
  __sanitizer_start_switch_fiber(save, bottom, size);
#endif
}

/// Arrived. @param saved  what leave() saved when this stack was left; old_*: where we come from
inline void arrive([[maybe_unused]] void* saved, [[maybe_unused]] const void** old_bottom = nullptr,
                   [[maybe_unused]] std::size_t* old_size = nullptr) {
#ifdef GPUSIM_ASAN
  __sanitizer_finish_switch_fiber(saved, old_bottom, old_size);
#endif
}

/// A stack is used afresh: what abandoned frames left poisoned on it is void.
inline void renew([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t size) {
#ifdef GPUSIM_ASAN
  __asan_unpoison_memory_region(bottom, size);
#endif
}

}  // namespace gpusim::sanitizer
