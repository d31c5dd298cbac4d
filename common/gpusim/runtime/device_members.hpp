/// @file
/// The function that shim/gpusim_members.h calls from inside a kernel.
#pragma once

#include <cstddef>
#include <string>

namespace gpusim::device {

/// What lies at a byte of an object: ".k_ring.full[1]". Empty if there is no name for it.
using MemberAt = std::string (*)(const void* object, std::size_t offset);

/// An object in shared memory has names for its bytes.
void declare_members(const void* object, std::size_t bytes, MemberAt member_at);

}  // namespace gpusim::device
