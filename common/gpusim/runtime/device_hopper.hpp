#pragma once
#include <cstdint>
namespace gpusim::device {
std::uint32_t shared_address(const void* pointer);
void fence_proxy_async();
}  // namespace gpusim::device
