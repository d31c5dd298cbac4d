/// @file
/// Makes C++ of asm statements with PTX, for the front end. The C++ calls functions of
/// shim/gpusim_inline_ptx.h.
#pragma once

#include <string>
#include <string_view>

namespace gpusim::check {

struct TranslatedAsm {
  std::string code;   ///< a statement without its semicolon; empty, like the error: it is for the CPU
  std::string error;  ///< what is wrong with the PTX, or not simulated; empty: nothing
};

/// @param statement  from `asm` to the parenthesis that closes it, preprocessed, without line markers
TranslatedAsm translate_asm(std::string_view statement);

}  // namespace gpusim::check
