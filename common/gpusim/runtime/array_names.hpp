/// @file
/// What a kernel calls the parts of its shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpusim/runtime/dim3.hpp"
#include "gpusim/runtime/expression.hpp"
#include "gpusim/runtime/shared_byte.hpp"

namespace gpusim {

/// The numbers on which the places of arrays depend.
struct ThreadNumbers {
  Dim3 thread, block_dim;
  std::vector<std::int64_t> parameters;  ///< of the kernel; 0 for those that are no integers
};

/// "s.full[1]" -> "s.full"
std::string without_indices(std::string name);

/// Rows that permute their elements: element (r, c) is number `places[r % period * columns + c]` of the
/// `period` rows that begin with row r / period * period.
struct RowLayout {
  std::size_t period = 0, columns = 0;  ///< 0: each row has its elements in order
  std::vector<std::int64_t> places;
};

/// The names that check/shared_arrays.hpp has found when the kernels were compiled.
class ArrayNames {
 public:
  ArrayNames();

  /// `sK, row 8, column 4`: a byte of a variable of shared memory, in the words of the kernel. Empty if they
  /// are not known.
  ///
  /// @param return_address  of the access
  /// @param numbers         of the thread that makes the access
  std::string element(std::uintptr_t return_address, const SharedByte& byte,
                      const ThreadNumbers& numbers) const;

  /// What a kernel calls the variable that holds all of its dynamic shared memory, if the sources have been
  /// rewritten: as the array that begins there.
  std::string dynamic_variable(std::uintptr_t return_address) const;

  /// An array in a variable of shared memory.
  struct Part {
    std::string name;
    std::size_t begin = 0, end = 0;  ///< in the variable
    std::size_t element_bytes = 0;   ///< 0: unknown
    std::vector<std::size_t> dimensions;
    std::size_t row_bytes = 0;  ///< 0: not declared
    RowLayout rows;
  };
  /// The arrays that a kernel makes of a variable, in order.
  ///
  /// @param return_address  of any access by the kernel
  std::vector<Part> parts(std::uintptr_t return_address, const std::string& variable, std::size_t bytes,
                          const ThreadNumbers& numbers) const;

 private:
  struct Array {
    std::string variable, name;
    Expression offset;
    std::size_t bytes = 0;                ///< of an element; 0: unknown
    std::vector<std::size_t> dimensions;  ///< none: a pointer
    Expression layout;                    ///< where element (r, c) lies; empty: not declared
  };

  static std::string name_of_object(const std::vector<Array>& arrays, const SharedByte& byte,
                                    const ThreadNumbers& numbers);

  std::map<std::string, std::vector<Array>> arrays_;  ///< by kernel
};

}  // namespace gpusim
