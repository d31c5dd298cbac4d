#include "gpusim/runtime/emulated.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "gpusim/gpusim.hpp"

namespace gpusim {
namespace {

// From the CUDA programming guide ("Compute Capabilities") and each device's data sheet.
constexpr EmulatedDevice kDevices[] = {
    {"t4", "Tesla T4", 75, 40, 64, 64, 1024, 4, 1590, 5001, 256},
    {"a100", "A100", 80, 108, 163, 164, 2048, 40, 1410, 1215, 5120},
    {"rtx3060", "GeForce RTX 3060", 86, 28, 99, 100, 1536, 3, 1777, 7501, 192},
    {"rtx4090", "GeForce RTX 4090", 89, 128, 99, 100, 1536, 72, 2520, 10501, 384},
    {"rtx5090", "GeForce RTX 5090", 120, 170, 99, 100, 1536, 96, 2407, 14001, 512},
    {"h100", "gpusim", 90, 132, 227, 228, 2048, 50, 1980, 2619, 5120},
};
constexpr const EmulatedDevice& kDefault = *(std::end(kDevices) - 1);

/// The device that GPUSIM_DEVICE names; null if it names none of them.
const EmulatedDevice* find_device() {
  const char* const key = std::getenv("GPUSIM_DEVICE");
  if (key == nullptr || *key == '\0') return &kDefault;
  const auto* const found = std::find_if(std::begin(kDevices), std::end(kDevices), [&](const auto& device) {
    return std::string_view(device.key) == key;
  });
  return found != std::end(kDevices) ? found : nullptr;
}

}  // namespace

std::optional<std::string> why_no_device() {
  if (find_device() != nullptr) return std::nullopt;
  std::string names;
  for (const EmulatedDevice& device : kDevices) {
    names += &device == std::begin(kDevices) ? "" : &device == &kDefault ? " or " : ", ";
    names += device.key;
  }
  return std::string("GPUSIM_DEVICE is ") + std::getenv("GPUSIM_DEVICE") + ": must be " + names;
}

const EmulatedDevice& emulated_device() {
  static const EmulatedDevice& device = []() -> const EmulatedDevice& {
    if (const EmulatedDevice* const found = find_device()) return *found;
    std::fprintf(stderr, "error: %s\n", why_no_device()->c_str());
    std::exit(2);
  }();
  return device;
}

}  // namespace gpusim
