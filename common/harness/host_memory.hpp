/// @file
/// Is there enough memory in this machine? Asked before it is used: Linux hands out more than there is.
#pragma once

#include <optional>
#include <string>

namespace fa {

/// Bytes that programs can still use without swapping; nothing where the system does not say.
std::optional<double> available_host_bytes();

/// @param options  the options that decide the sizes, for the message
/// @throws UsageError  naming them, if so many bytes are not available
void require_host_memory(const std::string& options, double bytes);

}  // namespace fa
