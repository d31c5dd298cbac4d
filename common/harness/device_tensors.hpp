/// @file
/// The tensors of a run in device memory.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "attention/tensor.hpp"
#include "harness/device_buffer.hpp"

namespace fa {

/// A filled buffer for each input, and a poisoned one for each output and each tensor of the workspace, so
/// that whatever a kernel forgets to write is a NaN. The buffers have the names and the element types of the
/// tensors: fp32 values from the host are rounded to nearest on the way in, and widened on the way out. What
/// lies between the rows of a tensor with strides is poisoned as well.
class DeviceTensors {
 public:
  /// @param guard  bytes around each buffer that overrun() checks
  /// @throws DeviceError  if there is not enough memory
  /// @throws std::invalid_argument  if an input is missing or has another shape than its spec
  DeviceTensors(const std::vector<TensorSpec>& inputs, std::vector<TensorSpec> outputs,
                const std::vector<TensorSpec>& workspace, const TensorMap& values, std::size_t guard = 0);

  /// Device addresses of all tensors, by name.
  std::map<std::string, void*> addresses() const;

  /// The current contents of the outputs.
  TensorMap download_outputs() const;

  /// A tensor with something written before or after it; empty if there is none.
  std::string overrun() const;

  /// A tensor with strides that has something written between its rows; empty if there is none.
  std::string overwritten_gap() const;

 private:
  DeviceBuffer& add_buffer(const TensorSpec& spec);

  std::vector<TensorSpec> outputs_;
  std::vector<TensorSpec> specs_;  ///< of all buffers
  std::map<std::string, DeviceBuffer> buffers_;
  std::size_t guard_;
};

/// The bytes that a list of tensors takes on the device, with what lies between their rows.
std::size_t total_bytes(const std::vector<TensorSpec>& tensors);

}  // namespace fa
