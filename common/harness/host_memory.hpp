/// @file
/// Checks for enough memory before it is used, because Linux hands out more than there is.
#pragma once

#include <optional>
#include <string>

namespace fa {

/// The bytes that programs can still use without swapping; nothing if the system does not say.
std::optional<double> available_host_bytes();

/// @param options  the options that determine the sizes, for the message
/// @throws UsageError  naming them, if that many bytes are not available
void require_host_memory(const std::string& options, double bytes);

}  // namespace fa
