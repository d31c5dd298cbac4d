/// @file
/// A plan as a table.
#pragma once

#include <string>
#include <vector>

#include "operations.hpp"

namespace fa::ch13 {

/// A line for each operation of a rank: what it reads and what it writes, with the tokens of attention, and
/// the other rank of a transfer.
std::string table_of(const std::string& method, const Share& share, const std::vector<Plan>& plans);

}  // namespace fa::ch13
