/// @file
/// What the program calls its device memory: the variable of the host that holds the pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

/// The return addresses on the stack of the calling thread, the innermost first.
std::vector<std::uintptr_t> callers();

/// The name of the variable that receives the pointer, as the sources write it: "d_x" for
/// cudaMalloc(&d_x, bytes), "grid.cells" for a member. Empty if they do not tell.
///
/// A function that allocates for others has a pointer of its own. If it returns that, or has got its address,
/// the caller's variable is taken; if it is a constructor, the member of the caller's object.
///
/// @param frames  around the allocation, the innermost first
/// @param number  which call it is of those on its line, from 0 on
std::string allocation_name(const std::vector<Frame>& frames, std::size_t number);

}  // namespace gpusim
