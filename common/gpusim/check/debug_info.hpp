/// @file
/// What the debug information of an object file (DWARF 4 or 5) says about functions and where they have been inlined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpusim/check/object_file.hpp"

namespace gpusim::check {

struct SourceLine {
  std::string file;
  int line = 0;
};

/// A function that has been inlined, with those that have been inlined into it.
struct InlinedCall {
  std::string function;   ///< mangled; as written if the debug information has no mangled name
  std::string file;       ///< that declares the function
  bool implicit = false;  ///< the compiler has written it: a constructor, for example
  SourceLine caller;
  std::vector<InlinedCall> inside;
};

class DebugInfo {
 public:
  explicit DebugInfo(const ObjectFile& object);
  ~DebugInfo();

  /// What has been inlined into the function at this address.
  std::vector<InlinedCall> inlined_into(std::uint64_t function) const;

 private:
  struct Unit;
  struct Entry;

  void read_unit(std::size_t begin, std::size_t end);
  Entry entry_at(const Unit& unit, std::size_t& at) const;
  void find_functions(const Unit& unit);
  void collect(const Unit& unit, std::size_t& at, std::vector<InlinedCall>& calls) const;
  std::vector<std::string> file_names(std::size_t line_table) const;

  std::string info_, abbreviations_, strings_, line_strings_, lines_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::map<std::uint64_t, std::pair<const Unit*, std::size_t>> functions_;  ///< by address: its entry
};

}  // namespace gpusim::check
