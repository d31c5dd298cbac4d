#include "gpusim/check/object_file.hpp"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace gpusim::check {
namespace {

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

/// An attribute of an entry itself. 0 if it has none.
Dwarf_Word number(Dwarf_Die& entry, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(&entry, name, &attribute), &value) == 0 ? value : 0;
}

/// The line that calls an inlined function.
SourceLine caller_of(Dwarf_Die& inlined) {
  Dwarf_Die unit;
  Dwarf_Files* files = nullptr;
  dwarf_getsrcfiles(dwarf_diecu(&inlined, &unit, nullptr, nullptr), &files, nullptr);
  const char* file =
      files == nullptr ? nullptr : dwarf_filesrc(files, number(inlined, DW_AT_call_file), nullptr, nullptr);
  return {text_of(file), int(number(inlined, DW_AT_call_line))};
}

/// Collects what has been inlined into an entry.
void collect(Dwarf_Die entry, std::vector<InlinedCall>& calls) {
  std::vector<InlinedCall>* inside = &calls;
  // g++ does not name some functions that it has written itself: those that return the address of a
  // thread_local variable.
  if (dwarf_tag(&entry) == DW_TAG_inlined_subroutine && dwarf_hasattr(&entry, DW_AT_abstract_origin)) {
    Dwarf_Attribute attribute;
    const char* mangled = dwarf_formstring(dwarf_attr_integrate(&entry, DW_AT_linkage_name, &attribute));
    calls.push_back({text_of(mangled != nullptr ? mangled : dwarf_diename(&entry)),
                     text_of(dwarf_decl_file(&entry)),
                     dwarf_hasattr_integrate(&entry, DW_AT_artificial) != 0,
                     caller_of(entry),
                     {}});
    inside = &calls.back().inside;
  }
  Dwarf_Die child;
  for (int end = dwarf_child(&entry, &child); end == 0; end = dwarf_siblingof(&child, &child))
    collect(child, *inside);
}

}  // namespace

ObjectFile::ObjectFile(const std::string& path) : files_(nullptr, [](Dwfl* files) { dwfl_end(files); }) {
  static constexpr Dwfl_Callbacks kCallbacks = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                                dwfl_offline_section_address, nullptr};
  files_.reset(dwfl_begin(&kCallbacks));
  module_ = dwfl_report_offline(files_.get(), "", path.c_str(), -1);
  dwfl_report_end(files_.get(), nullptr, nullptr);
  GElf_Addr bias = 0;
  GElf_Ehdr header;
  if (module_ == nullptr || gelf_getehdr(dwfl_module_getelf(module_, &bias), &header) == nullptr)
    throw std::runtime_error(path + " is not an object file");
  if (header.e_machine != EM_X86_64) throw std::runtime_error(path + " is not an object file for x86-64");
  read_symbols();
  read_calls();

  Dwarf_Die* unit = nullptr;
  while ((unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr) {
    dwarf_getfuncs(
        unit,
        [](Dwarf_Die* function, void* entries) {
          Dwarf_Addr begin = 0;
          if (dwarf_lowpc(function, &begin) == 0)
            (*static_cast<decltype(entries_)*>(entries))[begin] = dwarf_dieoffset(function);
          return int(DWARF_CB_OK);
        },
        &entries_, 0);
  }
}

void ObjectFile::read_symbols() {
  for (int i = 1; i < dwfl_module_getsymtab(module_); ++i) {
    GElf_Sym symbol;
    GElf_Addr begin = 0;
    const char* name = dwfl_module_getsym_info(module_, i, &symbol, &begin, nullptr, nullptr, nullptr);
    if (name == nullptr) continue;
    if (GELF_ST_TYPE(symbol.st_info) == STT_FILE && source_.empty()) source_ = name;
    if (GELF_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
      functions_.push_back({name, begin, begin + symbol.st_size});
  }
}

void ObjectFile::read_calls() {
  GElf_Addr bias = 0;
  Elf* file = dwfl_module_getelf(module_, &bias);
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(file, section)) != nullptr;) {
    GElf_Shdr header, code;
    gelf_getshdr(section, &header);
    if (header.sh_type != SHT_RELA) continue;
    gelf_getshdr(elf_getscn(file, header.sh_info), &code);
    Elf_Data* data = elf_getdata(section, nullptr);
    if ((code.sh_flags & SHF_EXECINSTR) == 0 || data == nullptr) continue;
    GElf_Rela r;
    for (int i = 0; gelf_getrela(data, i, &r) != nullptr; ++i) {
      if (GELF_R_TYPE(r.r_info) != R_X86_64_PLT32) continue;
      GElf_Sym symbol;
      GElf_Addr value = 0;
      const char* name = dwfl_module_getsym_info(module_, int(GELF_R_SYM(r.r_info)), &symbol, &value, nullptr,
                                                 nullptr, nullptr);
      const bool is_defined = symbol.st_shndx != SHN_UNDEF;
      calls_.push_back(
          {code.sh_addr + r.r_offset, text_of(name), is_defined ? value + std::uint64_t(r.r_addend + 4) : 0});
    }
  }
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.address < b.address; });
}

std::vector<InlinedCall> ObjectFile::inlined_into(std::uint64_t function) const {
  std::vector<InlinedCall> calls;
  GElf_Addr bias = 0;
  Dwarf_Die entry;
  const auto it = entries_.find(function);
  if (it != entries_.end() &&
      dwarf_offdie(dwfl_module_getdwarf(module_, &bias), it->second, &entry) != nullptr)
    collect(entry, calls);
  return calls;
}

std::vector<SourceLine> ObjectFile::lines_of(std::uint64_t address) const {
  std::vector<SourceLine> lines;
  GElf_Addr bias = 0;
  for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr;) {
    Dwarf_Die *found = nullptr, *scopes = nullptr;
    // The innermost scope comes first. Only the second function says what is around it in this function.
    const int count = dwarf_getscopes(unit, address, &found) > 0 ? dwarf_getscopes_die(found, &scopes) : 0;
    if (Dwarf_Line* line = count > 0 ? dwarf_getsrc_die(unit, address) : nullptr) {
      lines.push_back({text_of(dwarf_linesrc(line, nullptr, nullptr)), 0});
      dwarf_lineno(line, &lines.back().line);
    }
    for (int i = 0; i < count; ++i) {
      if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine) lines.push_back(caller_of(scopes[i]));
    }
    std::free(found);
    std::free(scopes);
  }
  return lines;
}

}  // namespace gpusim::check
