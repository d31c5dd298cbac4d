/// @file
/// A place in shared memory, for reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpusim/runtime/device_members.hpp"

namespace gpusim {

/// An object whose members have names: see device::declare_members().
struct DeclaredObject {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  device::MemberAt member_at = nullptr;  ///< nullptr: there is none

  bool contains(std::uintptr_t address) const { return address - begin < bytes; }
};

/// The symbol of all dynamic shared arrays of sources that have been rewritten (dynamic_shared.cpp).
inline constexpr const char* kDynamicShared = "gpusim_dynamic_shared";

/// A byte of a variable of shared memory.
struct SharedByte {
  std::string variable;               ///< empty: the byte is in none
  std::size_t offset = 0, bytes = 0;  ///< of the byte in the variable, of the variable
  std::size_t offset_in_object = 0;
  DeclaredObject object;  ///< that the byte is in
};

}  // namespace gpusim
