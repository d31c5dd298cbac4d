/// @file
/// <helper_image.h> of CUDA's samples, as programs use it: images in the PGM and PPM formats, and comparisons
/// of results.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#ifndef MIN
#define MIN(a, b) ((a < b) ? a : b)
#endif
#ifndef MAX
#define MAX(a, b) ((a > b) ? a : b)
#endif

namespace gpusim::samples {

/// Bytes of a binary PGM or PPM file. @param data  null: allocated with malloc()
inline bool load_image(const char* name, unsigned char** data, unsigned* width, unsigned* height,
                       unsigned* channels) {
  std::ifstream file(name, std::ios::binary);
  std::string magic;
  if (!(file >> magic) || (magic != "P5" && magic != "P6")) {
    std::cerr << "cannot load " << name << ": no PGM or PPM file\n";
    return false;
  }
  unsigned numbers[3];
  for (unsigned& number : numbers) {
    while ((file >> std::ws) && file.peek() == '#') file.ignore(1 << 20, '\n');
    file >> number;
  }
  file.get();
  *width = numbers[0];
  *height = numbers[1];
  *channels = magic == "P5" ? 1 : 3;
  const std::size_t bytes = std::size_t(*width) * *height * *channels;
  if (*data == nullptr) *data = static_cast<unsigned char*>(std::malloc(bytes));
  file.read(reinterpret_cast<char*>(*data), std::streamsize(bytes));
  return bool(file);
}
inline bool save_image(const char* name, const unsigned char* data, unsigned width, unsigned height,
                       unsigned channels) {
  std::ofstream file(name, std::ios::binary);
  file << (channels == 1 ? "P5" : "P6") << '\n' << width << ' ' << height << "\n255\n";
  file.write(reinterpret_cast<const char*>(data), std::streamsize(std::size_t(width) * height * channels));
  return bool(file);
}

}  // namespace gpusim::samples

template <class T>
bool sdkLoadPGM(const char* name, T** data, unsigned* width, unsigned* height) {
  unsigned char* bytes = nullptr;
  unsigned channels = 0;
  if (!gpusim::samples::load_image(name, &bytes, width, height, &channels)) return false;
  const std::size_t count = std::size_t(*width) * *height * channels;
  if (*data == nullptr) *data = static_cast<T*>(std::malloc(count * sizeof(T)));
  for (std::size_t i = 0; i < count; ++i)
    (*data)[i] = sizeof(T) == 1 ? T(bytes[i]) : T(float(bytes[i]) / 255.0f);
  std::free(bytes);
  return true;
}
template <class T>
bool sdkSavePGM(const char* name, T* data, unsigned width, unsigned height) {
  std::vector<unsigned char> bytes(std::size_t(width) * height);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = sizeof(T) == 1 ? (unsigned char)(data[i]) : (unsigned char)(float(data[i]) * 255.0f);
  return gpusim::samples::save_image(name, bytes.data(), width, height, 1);
}
/// Four bytes for each point, the last one 0.
inline bool sdkLoadPPM4ub(const char* name, unsigned char** data, unsigned* width, unsigned* height) {
  unsigned char* bytes = nullptr;
  unsigned channels = 0;
  if (!gpusim::samples::load_image(name, &bytes, width, height, &channels) || channels != 3) return false;
  const std::size_t count = std::size_t(*width) * *height;
  *data = static_cast<unsigned char*>(std::malloc(count * 4));
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(*data + 4 * i, bytes + 3 * i, 3);
    (*data)[4 * i + 3] = 0;
  }
  std::free(bytes);
  return true;
}
inline bool sdkSavePPM4ub(const char* name, unsigned char* data, unsigned width, unsigned height) {
  std::vector<unsigned char> bytes(std::size_t(width) * height * 3);
  for (std::size_t i = 0; i < bytes.size() / 3; ++i) std::memcpy(&bytes[3 * i], data + 4 * i, 3);
  return gpusim::samples::save_image(name, bytes.data(), width, height, 3);
}

/// Whether all but a fraction of the values are within epsilon.
template <class T>
bool compareData(const T* reference, const T* data, unsigned count, double epsilon, double fraction) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (!(std::fabs(double(reference[i]) - double(data[i])) <= epsilon)) ++wrong;
  }
  return fraction == 0.0 ? wrong == 0 : double(wrong) < fraction * count;
}
/// Whether the difference, as a vector, is shorter than epsilon times the reference.
inline bool sdkCompareL2fe(const float* reference, const float* data, const unsigned count,
                           const float epsilon) {
  double difference = 0.0, norm = 0.0;
  for (unsigned i = 0; i < count; ++i) {
    difference += double(reference[i] - data[i]) * double(reference[i] - data[i]);
    norm += double(reference[i]) * double(reference[i]);
  }
  return norm > 1e-14 && std::sqrt(difference) / std::sqrt(norm) < epsilon;
}
template <class T>
bool sdkReadFile(const char* name, T** data, unsigned* count, bool) {
  std::ifstream file(name);
  std::vector<T> values;
  for (T value; file >> value;) values.push_back(value);
  if (values.empty()) return false;
  if (*data == nullptr) *data = static_cast<T*>(std::malloc(values.size() * sizeof(T)));
  std::memcpy(*data, values.data(), values.size() * sizeof(T));
  *count = unsigned(values.size());
  return true;
}
template <class T, class S>
bool sdkWriteFile(const char* name, const T* data, unsigned count, const S, bool, bool append = false) {
  std::ofstream file(name, append ? std::ios::app : std::ios::trunc);
  for (unsigned i = 0; i < count; ++i) file << data[i] << ' ';
  return bool(file);
}
