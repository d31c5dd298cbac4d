/// @file
/// Translates addresses into what a person wrote: source lines, names of static __shared__ variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpusim {

/// "/path/kernel.cuh:48" for each return address with debug information: the line of the call, followed by the lines that
/// inlined the functions around it; without the simulator's own headers.
std::unordered_map<std::uintptr_t, std::vector<std::string>> inlined_calls(
    const std::vector<std::uintptr_t>& return_addresses);

/// "kernel.cuh:48" for each return address: file and line of the call, taking inlining into account and skipping the
/// simulator's own headers. "tile.cuh:13 (from kernel.cuh:171)" if that is in a different file than the kernel.
/// "0x4012f3" if there is no debug information.
std::unordered_map<std::uintptr_t, std::string> source_lines(
    const std::vector<std::uintptr_t>& return_addresses);

/// The mangled name of the function that contains a return address; empty if there is none.
std::string function_at(std::uintptr_t return_address);

/// The contents of a section of the executable's file; empty if there is none.
std::string section_of_executable(const std::string& name);

/// A thread_local variable of the executable.
struct TlsVariable {
  std::size_t offset;  ///< from the start of the TLS block
  std::size_t bytes;
  std::string name;  ///< without its scope: "partials"
};

/// The executable's block of thread-local variables, where static __shared__ variables live.
struct TlsLayout {
  std::size_t bytes = 0;
  std::vector<TlsVariable> variables;  ///< by offset; empty if the executable is stripped
};
const TlsLayout& tls_layout();

/// Start of the calling thread's copy of that block.
std::uintptr_t tls_block();

}  // namespace gpusim
