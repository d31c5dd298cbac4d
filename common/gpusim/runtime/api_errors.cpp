/// @file
/// The runtime API: errors.
#include <utility>

#include "gpusim/runtime/api.hpp"

namespace gpusim::api {
namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> error_of_device = cudaSuccess;

}  // namespace

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void fail_device(cudaError_t error) { error_of_device = error; }
cudaError_t device_error() { return error_of_device.exchange(cudaSuccess); }

}  // namespace gpusim::api

const char* cudaGetErrorName(cudaError_t error) {
#define GPUSIM_NAME(name, number, text) \
  case name: return #name;
  switch (error) { GPUSIM_ERRORS(GPUSIM_NAME) }
#undef GPUSIM_NAME
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
#define GPUSIM_TEXT(name, number, text) \
  case name: return text;
  switch (error) { GPUSIM_ERRORS(GPUSIM_TEXT) }
#undef GPUSIM_TEXT
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  return std::exchange(gpusim::api::last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return gpusim::api::last_error;
}
