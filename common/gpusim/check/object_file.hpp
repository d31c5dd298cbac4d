/// @file
/// An object file (ELF, x86-64), as the compiler writes it.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpusim::check {

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

/// The sections of an object file all begin at 0. Here, they are laid out one after the other, so that an address
/// identifies an instruction.
class ObjectFile {
 public:
  /// Throws std::runtime_error if it cannot be read.
  explicit ObjectFile(const std::string& path);

  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<Call>& calls() const { return calls_; }  ///< by address

  /// The contents of a debug section, with its relocations applied. Empty if there is none.
  std::string debug_section(const std::string& name) const;

  /// Section and offset of an instruction, as addr2line expects them.
  std::pair<std::string, std::uint64_t> place_of(std::uint64_t address) const;

 private:
  struct Section {
    std::string name;
    Elf64_Shdr header;
    std::uint64_t address = 0;  ///< 0 in sections that are not loaded
  };

  template <class T>
  std::vector<T> table(const Elf64_Shdr& header) const;
  std::string string_at(const Elf64_Shdr& strings, std::size_t offset) const;
  void lay_out();
  void read_symbols();
  void read_calls();
  std::uint64_t value_of(const Elf64_Sym& symbol) const;

  std::string bytes_;
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<std::string> symbol_names_;
  std::vector<Function> functions_;
  std::vector<Call> calls_;
};

}  // namespace gpusim::check
