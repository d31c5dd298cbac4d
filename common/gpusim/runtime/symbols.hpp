/// @file
/// Translates addresses into what a person wrote: source lines, names of static __shared__ variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpusim {

/// A place in the program, without the simulator's own headers and those of the standard library.
struct Calls {
  std::vector<std::string>
      lines;             ///< "/path/kernel.cuh:48", and then the lines that call the functions around it
  std::string built_in;  ///< the function of CUDA that is called there: "__syncthreads"; empty if none is
};

/// The places of return addresses that have debug information.
std::unordered_map<std::uintptr_t, Calls> inlined_calls(const std::vector<std::uintptr_t>& return_addresses);

/// A function that is called or inlined at a place.
struct Frame {
  std::string function;  ///< without namespace and template arguments
  std::string place;     ///< "/path/kernel.cu:48"
};
/// Frames and functions by addresses, the innermost first.
using FramesByAddress = std::unordered_map<std::uintptr_t, std::vector<Frame>>;
using FunctionsByAddress = std::unordered_map<std::uintptr_t, std::vector<std::string>>;

/// The frames of the program's own sources around return addresses.
FramesByAddress frames_at(const std::vector<std::uintptr_t>& return_addresses);

/// The functions around return addresses, without namespace and template arguments: the innermost inlined one
/// first.
FunctionsByAddress functions_around(const std::vector<std::uintptr_t>& return_addresses);

/// A place in words.
struct SourceLine {
  std::string
      text;  ///< "kernel.cuh:48", "tile.cuh:13 (from kernel.cuh:171)", "0x4012f3" without debug information
  std::string built_in;             ///< see Calls
  std::vector<std::string> places;  ///< Calls::lines
  std::string place() const { return places.empty() ? "" : places.front(); }
};

/// The place of each return address.
std::unordered_map<std::uintptr_t, SourceLine> source_lines(
    const std::vector<std::uintptr_t>& return_addresses);

/// The mangled name of the function that contains a return address; empty if there is none.
std::string function_at(std::uintptr_t return_address);

/// Whether a return address is in a function of the standard library or of the simulator, which is not part
/// of a kernel: what kernels call is inlined into them.
bool is_in_library(std::uintptr_t return_address);

/// The contents of a section of the executable's file; empty if there is none.
std::string section_of_executable(const std::string& name);

/// Ranges of addresses that do not overlap.
class Ranges {
 public:
  /// @param ranges  where each begins and ends
  explicit Ranges(std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges = {});
  bool contain(std::uintptr_t address) const;

 private:
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges_;  ///< in order
};

/// The executable's ordinary variables.
struct DataLayout {
  Ranges device_variables;  ///< those with `__device__` or `__constant__`, which are ABI tags of their names
  Ranges constants;         ///< bytes that nobody can write
};
const DataLayout& data_layout();

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
