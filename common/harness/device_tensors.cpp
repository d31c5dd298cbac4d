#include "harness/device_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "attention/half.hpp"
#include "harness/backend.hpp"

namespace fa {
namespace {

constexpr unsigned char kPoison = 0xFF;  // as in DeviceBuffer::poison()

/// Calls f(at, number) for each row of a tensor: where it begins in memory, in elements, and its number.
template <class F>
void for_each_row(const TensorSpec& spec, F f) {
  const std::size_t dims = spec.shape.size() - 1;  // without the columns, which are neighbours
  std::vector<std::int64_t> index(dims);
  for (std::int64_t row = 0; row * spec.shape.back() < spec.elements(); ++row) {
    f(std::inner_product(index.begin(), index.end(), spec.strides.begin(), std::int64_t{0}), row);
    for (std::size_t i = dims; i-- > 0 && ++index[i] == spec.shape[i];) index[i] = 0;
  }
}

/// The elements of a dense tensor where its strides put them, in bytes. Everything in between is poison.
std::vector<std::byte> spread(const TensorSpec& spec, const void* dense) {
  const std::size_t size = size_of(spec.dtype), row_bytes = std::size_t(spec.shape.back()) * size;
  std::vector<std::byte> memory(spec.extent_bytes(), std::byte{kPoison});
  for_each_row(spec, [&](std::int64_t at, std::int64_t row) {
    std::memcpy(memory.data() + std::size_t(at) * size,
                static_cast<const std::byte*>(dense) + std::size_t(row) * row_bytes, row_bytes);
  });
  return memory;
}

/// The opposite.
void gather(const TensorSpec& spec, const std::vector<std::byte>& memory, void* dense) {
  const std::size_t size = size_of(spec.dtype), row_bytes = std::size_t(spec.shape.back()) * size;
  for_each_row(spec, [&](std::int64_t at, std::int64_t row) {
    std::memcpy(static_cast<std::byte*>(dense) + std::size_t(row) * row_bytes,
                memory.data() + std::size_t(at) * size, row_bytes);
  });
}

/// Calls f(begin, end), in bytes, for what lies between the rows of a tensor.
template <class F>
void for_each_gap(const TensorSpec& spec, F f) {
  if (spec.strides.empty()) return;
  std::vector<std::int64_t> rows;
  for_each_row(spec, [&](std::int64_t at, std::int64_t) { rows.push_back(at); });
  std::sort(rows.begin(), rows.end());
  const std::size_t size = size_of(spec.dtype);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::int64_t end_of_row = rows[i - 1] + spec.shape.back();
    if (end_of_row < rows[i]) f(std::size_t(end_of_row) * size, std::size_t(rows[i]) * size);
  }
}

void upload_elements(const TensorSpec& spec, const void* dense, DeviceBuffer& buffer) {
  if (spec.strides.empty()) {
    buffer.upload(dense);
    return;
  }
  buffer.upload(spread(spec, dense).data());
  for_each_gap(spec, [&](std::size_t begin, std::size_t end) {
    backend::mark_uninitialized(static_cast<std::byte*>(buffer.get()) + begin, end - begin);
  });
}

void upload(const std::vector<float>& values, const TensorSpec& spec, DeviceBuffer& buffer) {
  const auto upload_as = [&]<class T>(std::type_identity<T>) {
    upload_elements(spec, std::vector<T>(values.begin(), values.end()).data(), buffer);
  };
  switch (spec.dtype) {
    case DType::kFloat32: upload_elements(spec, values.data(), buffer); break;
    case DType::kFloat16:
    case DType::kBFloat16: upload_elements(spec, narrow(values, spec.dtype).data(), buffer); break;
    case DType::kInt32: upload_as(std::type_identity<std::int32_t>()); break;
    case DType::kUint8: upload_as(std::type_identity<std::uint8_t>()); break;
    case DType::kFloat8: upload_elements(spec, narrow_to_8_bits(values).data(), buffer); break;
  }
}

void download_elements(const DeviceBuffer& buffer, const TensorSpec& spec, void* dense) {
  if (spec.strides.empty()) {
    buffer.download(dense);
    return;
  }
  std::vector<std::byte> memory(buffer.bytes());
  buffer.download(memory.data());
  gather(spec, memory, dense);
}

std::vector<float> download(const DeviceBuffer& buffer, const TensorSpec& spec) {
  const auto elements_as = [&]<class T>(std::type_identity<T>) {
    std::vector<T> elements(std::size_t(spec.elements()));
    download_elements(buffer, spec, elements.data());
    return elements;
  };
  const auto widened = [](const auto& elements) {
    return std::vector<float>(elements.begin(), elements.end());
  };
  switch (spec.dtype) {
    case DType::kFloat32: return elements_as(std::type_identity<float>());
    case DType::kFloat16:
    case DType::kBFloat16: return widen(elements_as(std::type_identity<std::uint16_t>()), spec.dtype);
    case DType::kInt32: return widened(elements_as(std::type_identity<std::int32_t>()));
    case DType::kUint8: return widened(elements_as(std::type_identity<std::uint8_t>()));
    case DType::kFloat8: return widen(elements_as(std::type_identity<std::uint8_t>()));
  }
  throw std::invalid_argument("no such element type");
}

/// A type as a name of three or so letters.
const char* short_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "f32";
    case DType::kFloat16: return "f16";
    case DType::kBFloat16: return "bf16";
    case DType::kInt32: return "i32";
    case DType::kUint8: return "u8";
    case DType::kFloat8: return "f8";
  }
  return "?";
}

/// The lengths of the tensor of which this one is a slice, as it lies in memory: the dimension with the
/// largest stride first.
std::vector<std::int64_t> shape_in_memory(const TensorSpec& spec) {
  if (spec.strides.empty()) return spec.shape;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride and length
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (spec.shape[i] == 1) {
      lengths.push_back(1);
    } else {
      dims.emplace_back(spec.strides[i], spec.shape[i]);
    }
  }
  std::sort(dims.rbegin(), dims.rend());
  for (std::size_t i = 0; i < dims.size(); ++i)
    lengths.push_back(i == 0 ? dims[i].second : dims[i - 1].first / dims[i].first);
  return lengths;
}

}  // namespace

DeviceTensors::DeviceTensors(const std::vector<TensorSpec>& inputs, std::vector<TensorSpec> outputs,
                             const std::vector<TensorSpec>& workspace, const TensorMap& values,
                             std::size_t guard)
    : outputs_(std::move(outputs)), guard_(guard) {
  for (const TensorSpec& spec : inputs) {
    const auto value = values.find(spec.name);
    if (value == values.end()) throw std::invalid_argument("no input " + spec.name);
    if (value->second.shape != spec.shape || value->second.data.size() != std::size_t(spec.elements())) {
      throw std::invalid_argument(
          fmt::format("input {} has shape {}, should have {}", spec.name, value->second.shape, spec.shape));
    }
    upload(value->second.data, spec, add_buffer(spec));
  }
  for (const TensorSpec& spec : outputs_) add_buffer(spec).poison();
  for (const TensorSpec& spec : workspace) add_buffer(spec).poison();
}

DeviceBuffer& DeviceTensors::add_buffer(const TensorSpec& spec) {
  DeviceBuffer& buffer =
      buffers_.emplace(spec.name, DeviceBuffer(spec.name, spec.extent_bytes(), guard_)).first->second;
  specs_.push_back(spec);
  backend::name_tensor(buffer.get(), spec.name, shape_in_memory(spec), short_name(spec.dtype));
  return buffer;
}

std::map<std::string, void*> DeviceTensors::addresses() const {
  std::map<std::string, void*> addresses;
  for (const auto& [name, buffer] : buffers_) addresses[name] = buffer.get();
  return addresses;
}

TensorMap DeviceTensors::download_outputs() const {
  TensorMap values;
  for (const TensorSpec& spec : outputs_) {
    values.emplace(spec.name, Tensor{.shape = spec.shape, .data = download(buffers_.at(spec.name), spec)});
  }
  return values;
}

std::string DeviceTensors::overrun() const {
  for (const auto& [name, buffer] : buffers_) {
    if (!buffer.guards_intact()) return name;
  }
  return "";
}

std::string DeviceTensors::overwritten_gap() const {
  for (const TensorSpec& spec : specs_) {
    if (spec.strides.empty()) continue;
    std::vector<std::byte> memory(spec.extent_bytes());
    buffers_.at(spec.name).download(memory.data());
    bool intact = true;
    for_each_gap(spec, [&](std::size_t begin, std::size_t end) {
      for (std::size_t at = begin; at < end; ++at) intact = intact && memory[at] == std::byte{kPoison};
    });
    if (!intact) return spec.name;
  }
  return "";
}

std::size_t total_bytes(const std::vector<TensorSpec>& tensors) {
  std::size_t sum = 0;
  for (const TensorSpec& spec : tensors) sum += spec.extent_bytes();
  return sum;
}

}  // namespace fa
