/// @file
/// Files of whole numbers, and device memory in the host's, for chapters that compute on the host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "device/launch.cuh"
#include "temporary_folder.hpp"

namespace fa {

template <class T>
std::vector<T> downloaded(const T* from, std::int64_t count) {
  std::vector<T> values(std::size_t(count), T{});
  FA_CUDA_CHECK(cudaMemcpy(values.data(), from, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

/// A .npy file of whole numbers. @param type  "<i4"    @param shape  "(2, 3)"
template <class T>
void write_integers(const std::filesystem::path& path, const std::string& type, const std::string& shape,
                    const std::vector<T>& values) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = std::string("\x93NUMPY\x01", 7) + '\0' + char(header.size()) + '\0' + header;
  const std::size_t begin = file.size();
  file.resize(begin + values.size() * sizeof(T));
  std::memcpy(file.data() + begin, values.data(), values.size() * sizeof(T));
  create(path, file);
}

inline void write_int32(const std::filesystem::path& path, const std::vector<std::int32_t>& values) {
  write_integers(path, "<i4", "(" + std::to_string(values.size()) + ",)", values);
}

}  // namespace fa
