#include "harness/device_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>

namespace fa {
namespace {

/// Host tensors hold fp32, and are copied as they are.
void require_fp32(const TensorSpec& spec) {
  if (spec.dtype == DType::kFloat32) return;
  throw std::invalid_argument(
      fmt::format("{} is {}: the harness copies fp32 only", spec.name, name_of(spec.dtype)));
}

}  // namespace

DeviceTensors::DeviceTensors(const std::vector<TensorSpec>& inputs, std::vector<TensorSpec> outputs,
                             const TensorMap& values)
    : outputs_(std::move(outputs)) {
  for (const TensorSpec& spec : inputs) {
    require_fp32(spec);
    const auto value = values.find(spec.name);
    if (value == values.end()) throw std::invalid_argument("no input " + spec.name);
    if (value->second.shape != spec.shape || value->second.data.size() != std::size_t(spec.elements())) {
      throw std::invalid_argument(
          fmt::format("input {} has shape {}, should have {}", spec.name, value->second.shape, spec.shape));
    }
    const auto buffer = buffers_.emplace(spec.name, DeviceBuffer(spec.name, spec.bytes())).first;
    buffer->second.upload(value->second.data.data());
  }
  for (const TensorSpec& spec : outputs_) {
    require_fp32(spec);
    buffers_.emplace(spec.name, DeviceBuffer(spec.name, spec.bytes())).first->second.poison();
  }
}

std::map<std::string, void*> DeviceTensors::addresses() const {
  std::map<std::string, void*> addresses;
  for (const auto& [name, buffer] : buffers_) addresses[name] = buffer.get();
  return addresses;
}

TensorMap DeviceTensors::download_outputs() const {
  TensorMap values;
  for (const TensorSpec& spec : outputs_) {
    Tensor value{.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()))};
    buffers_.at(spec.name).download(value.data.data());
    values.emplace(spec.name, std::move(value));
  }
  return values;
}

std::size_t total_bytes(const std::vector<TensorSpec>& tensors) {
  std::size_t sum = 0;
  for (const TensorSpec& spec : tensors) sum += spec.bytes();
  return sum;
}

}  // namespace fa
