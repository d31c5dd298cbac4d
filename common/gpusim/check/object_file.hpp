/// @file
/// What an object file (ELF, x86-64) and its debug information say about functions, read by elfutils' libdw.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Dwfl;
struct Dwfl_Module;

namespace gpusim::check {

struct SourceLine {
  std::string file;
  int line = 0;
};

/// A function that is defined in the file.
struct Function {
  std::string name;  ///< mangled
  std::uint64_t begin = 0, end = 0;
};

/// A call instruction.
struct Call {
  std::uint64_t address = 0;
  std::string callee;        ///< mangled; empty if it has no symbol of its own
  std::uint64_t target = 0;  ///< 0 if the file does not define it
};

/// A function that has been inlined, with those that have been inlined into it.
struct InlinedCall {
  std::string function;   ///< mangled; as written if the debug information has no mangled name
  std::string file;       ///< that declares the function
  bool implicit = false;  ///< the compiler has written it: a constructor, for example
  SourceLine caller;
  std::vector<InlinedCall> inside;
};

/// The sections of an object file all begin at 0. libdw lays them out one after the other, so that an address
/// identifies an instruction.
class ObjectFile {
 public:
  /// Throws std::runtime_error if it cannot be read.
  explicit ObjectFile(const std::string& path);

  const std::string& source() const {
    return source_;
  }  ///< name of the file that was compiled, without folder
  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<Call>& calls() const { return calls_; }  ///< by address

  /// What has been inlined into the function at this address. Empty without debug information.
  std::vector<InlinedCall> inlined_into(std::uint64_t function) const;

  /// The line of an instruction, and then those of the calls that have been inlined around it. Empty without
  /// debug information.
  std::vector<SourceLine> lines_of(std::uint64_t address) const;

 private:
  void read_symbols();
  void read_calls();

  std::unique_ptr<Dwfl, void (*)(Dwfl*)> files_;
  Dwfl_Module* module_ = nullptr;
  std::string source_;
  std::vector<Function> functions_;
  std::vector<Call> calls_;
  std::map<std::uint64_t, std::uint64_t> entries_;  ///< in the debug information, of functions by address
};

}  // namespace gpusim::check
