/// @file
/// AddressSanitizer keeps a shadow of the current stack, so it must be notified when a fiber switches.
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

#ifdef GPUSIM_ASAN
inline constexpr bool kIsOn = true;
#else
inline constexpr bool kIsOn = false;
#endif

/// Call before leaving a stack for another. @param save  nullptr if the old stack is no longer needed
inline void leave([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) {
#ifdef GPUSIM_ASAN
  __sanitizer_start_switch_fiber(save, bottom, size);
#endif
}

/// Call after arriving. @param saved  what leave() saved for this stack; old_*: the previous stack
inline void arrive([[maybe_unused]] void* saved, [[maybe_unused]] const void** old_bottom = nullptr,
                   [[maybe_unused]] std::size_t* old_size = nullptr) {
#ifdef GPUSIM_ASAN
  __sanitizer_finish_switch_fiber(saved, old_bottom, old_size);
#endif
}

/// Call when a stack is reused: clears the poison that abandoned frames left on it.
inline void renew([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t size) {
#ifdef GPUSIM_ASAN
  __asan_unpoison_memory_region(bottom, size);
#endif
}

}  // namespace gpusim::sanitizer
