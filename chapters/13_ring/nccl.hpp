/// @file
/// NCCL's calls, checked.
#pragma once

#include <nccl.h>

#include <stdexcept>
#include <string>

namespace fa::ch13 {

/// A call of NCCL failed.
struct NcclError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(ncclResult_t result, const char* expression) {
  if (result == ncclSuccess) return;
  std::string reason = ncclGetLastError(nullptr);
  for (char& c : reason) c = c == '\n' ? ' ' : c;
  throw NcclError(reason.empty() ? std::string(expression) + ": " + ncclGetErrorString(result) : reason);
}

#define FA_NCCL_CHECK(...) ::fa::ch13::check((__VA_ARGS__), #__VA_ARGS__)

}  // namespace fa::ch13
