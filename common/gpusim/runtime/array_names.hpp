/// @file
/// What a kernel calls the parts of its shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpusim {

/// The names that check/shared_arrays.hpp has found when the kernels were compiled.
class ArrayNames {
 public:
  ArrayNames();

  /// `sK[1028]`: a byte of a variable of shared memory, in the words of the kernel. Empty if they are not known.
  ///
  /// @param return_address  of the access
  /// @param offset          of the byte in the variable
  /// @param bytes           of the variable
  std::string element(std::uintptr_t return_address, const std::string& variable, std::size_t offset,
                      std::size_t bytes) const;

 private:
  struct Array {
    std::string variable, name;
    std::size_t offset = 0;
    std::size_t bytes = 0;                ///< of an element; 0: unknown
    bool differs = false;                 ///< between threads: this is the offset of thread (0,0,0)
    std::vector<std::size_t> dimensions;  ///< none: a pointer
  };

  static std::string element_of(const Array& array, std::size_t offset, std::size_t bytes);

  std::map<std::string, std::vector<Array>> arrays_;  ///< by kernel
};

}  // namespace gpusim
