#include "harness/device_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "attention/half.hpp"
#include "harness/backend.hpp"

namespace fa {
namespace {

void upload(const std::vector<float>& values, DType dtype, DeviceBuffer& buffer) {
  if (dtype == DType::kFloat32) {
    buffer.upload(values.data());
  } else {
    buffer.upload(narrow(values, dtype).data());
  }
}

std::vector<float> download(const DeviceBuffer& buffer, const TensorSpec& spec) {
  const auto elements = std::size_t(spec.elements());
  if (spec.dtype == DType::kFloat32) {
    std::vector<float> values(elements);
    buffer.download(values.data());
    return values;
  }
  std::vector<std::uint16_t> bits(elements);
  buffer.download(bits.data());
  return widen(bits, spec.dtype);
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
    upload(value->second.data, spec.dtype, add_buffer(spec));
  }
  for (const TensorSpec& spec : outputs_) add_buffer(spec).poison();
  for (const TensorSpec& spec : workspace) add_buffer(spec).poison();
}

DeviceBuffer& DeviceTensors::add_buffer(const TensorSpec& spec) {
  DeviceBuffer& buffer =
      buffers_.emplace(spec.name, DeviceBuffer(spec.name, spec.bytes(), guard_)).first->second;
  const char* const type = spec.dtype == DType::kFloat32   ? "f32"
                           : spec.dtype == DType::kFloat16 ? "f16"
                                                           : "bf16";
  backend::name_tensor(buffer.get(), spec.name, spec.shape, type);
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

std::size_t total_bytes(const std::vector<TensorSpec>& tensors) {
  std::size_t sum = 0;
  for (const TensorSpec& spec : tensors) sum += spec.bytes();
  return sum;
}

}  // namespace fa
