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

/// One buffer for each input, filled, and one for each output and each tensor of the workspace, poisoned so that
/// what a kernel forgets to write is a NaN. The buffers carry the names of the tensors, and hold elements of
/// their types: fp32 values of the host are rounded to nearest on the way in, and widened on the way out.
class DeviceTensors {
 public:
  /// @param guard  bytes around each buffer that overrun() looks at
  /// @throws DeviceError  if there is not enough memory
  /// @throws std::invalid_argument  if an input is missing or has another shape than its spec
  DeviceTensors(const std::vector<TensorSpec>& inputs, std::vector<TensorSpec> outputs,
                const std::vector<TensorSpec>& workspace, const TensorMap& values, std::size_t guard = 0);

  /// Device addresses of all tensors, by name.
  std::map<std::string, void*> addresses() const;

  /// The outputs as they are now.
  TensorMap download_outputs() const;

  /// A tensor before or behind which something has been written; empty if there is none.
  std::string overrun() const;

 private:
  DeviceBuffer& add_buffer(const TensorSpec& spec);

  std::vector<TensorSpec> outputs_;
  std::map<std::string, DeviceBuffer> buffers_;
  std::size_t guard_;
};

/// Bytes of all tensors of a list on the device.
std::size_t total_bytes(const std::vector<TensorSpec>& tensors);

}  // namespace fa
