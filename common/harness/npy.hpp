/// @file
/// NumPy's .npy files: dense tensors in C order.
///
/// Format: a magic string, a version, the length of a header, the header (a Python dictionary as text, padded
/// with spaces), and the elements. Versions 1.0, 2.0 and 3.0 are read; 1.0 is written.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attention/tensor.hpp"
#include "harness/errors.hpp"

namespace fa {

/// A file that cannot be read as a tensor. The message starts with the file's name.
struct NpyError : UsageError {
  using UsageError::UsageError;
};

/// One dimension of the tensor expected in a file.
struct Axis {
  std::string name;                    ///< "rows", "seq_k", ...
  std::optional<std::int64_t> length;  ///< nothing: any length of at least 1
};

/// Reads a tensor; float16 is widened to float32, which is exact.
///
/// @param axes  the expected shape: as many dimensions, each at least 1 long
/// @throws NpyError  if the file is missing, not a regular file, not in the .npy format, in Fortran order,
///   not as long as its header says, or if it has a different shape or an element type other than
///   little-endian float32 or float16
Tensor read_npy(const std::filesystem::path& path, const std::vector<Axis>& axes);

/// Reads whole numbers: int32, int64, uint8 or bool, which is 0 or 1.
///
/// @throws NpyError  as read_npy(), if it has another element type
HostTensor<std::int64_t> read_npy_integers(const std::filesystem::path& path, const std::vector<Axis>& axes);

/// Writes a tensor as little-endian float32 in C order. The file appears complete or not at all.
///
/// @throws UsageError  naming the file, if it cannot be written
/// @throws std::invalid_argument  if the tensor's shape and its number of elements disagree
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// The same as uint8.
void write_npy_bytes(const std::filesystem::path& path, const HostTensor<std::uint8_t>& tensor);

}  // namespace fa
