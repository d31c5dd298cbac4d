#include "gpusim/check/object_file.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace gpusim::check {

ObjectFile::ObjectFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  bytes_.assign(std::istreambuf_iterator<char>(file), {});
  Elf64_Ehdr header;
  if (bytes_.size() < sizeof header) throw std::runtime_error(path + " is not an object file");
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64) {
    throw std::runtime_error(path + " is not an object file for x86-64");
  }
  Elf64_Shdr first{};
  std::memcpy(&first, bytes_.data() + header.e_shoff, sizeof first);
  // With very many sections, the first one holds their number and the index of their names.
  const std::size_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  const std::size_t names = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  sections_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&sections_[i].header, bytes_.data() + header.e_shoff + i * sizeof first, sizeof first);
  }
  for (Section& s : sections_) s.name = string_at(sections_[names].header, s.header.sh_name);
  lay_out();
  read_symbols();
  read_calls();
}

template <class T>
std::vector<T> ObjectFile::table(const Elf64_Shdr& header) const {
  std::vector<T> entries(header.sh_size / sizeof(T));
  std::memcpy(entries.data(), bytes_.data() + header.sh_offset, entries.size() * sizeof(T));
  return entries;
}

std::string ObjectFile::string_at(const Elf64_Shdr& strings, std::size_t offset) const {
  return bytes_.data() + strings.sh_offset + offset;
}

void ObjectFile::lay_out() {
  std::uint64_t next = 0x1000;
  for (Section& s : sections_) {
    if ((s.header.sh_flags & SHF_ALLOC) == 0) continue;
    s.address = next;
    next += (s.header.sh_size + 0x1f) / 0x10 * 0x10;
  }
}

std::uint64_t ObjectFile::value_of(const Elf64_Sym& symbol) const {
  const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < sections_.size();
  return symbol.st_value + (defined ? sections_[symbol.st_shndx].address : 0);
}

void ObjectFile::read_symbols() {
  for (const Section& s : sections_) {
    if (s.header.sh_type != SHT_SYMTAB) continue;
    symbols_ = table<Elf64_Sym>(s.header);
    for (const Elf64_Sym& symbol : symbols_) {
      symbol_names_.push_back(string_at(sections_[s.header.sh_link].header, symbol.st_name));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const std::uint64_t begin = value_of(symbol);
      functions_.push_back({symbol_names_.back(), begin, begin + symbol.st_size});
    }
  }
}

void ObjectFile::read_calls() {
  for (const Section& s : sections_) {
    if (s.header.sh_type != SHT_RELA || (sections_[s.header.sh_info].header.sh_flags & SHF_EXECINSTR) == 0) {
      continue;
    }
    for (const Elf64_Rela& r : table<Elf64_Rela>(s.header)) {
      if (ELF64_R_TYPE(r.r_info) != R_X86_64_PLT32) continue;
      const Elf64_Sym& symbol = symbols_[ELF64_R_SYM(r.r_info)];
      Call call{sections_[s.header.sh_info].address + r.r_offset, symbol_names_[ELF64_R_SYM(r.r_info)], 0};
      if (symbol.st_shndx != SHN_UNDEF) call.target = value_of(symbol) + std::uint64_t(r.r_addend + 4);
      calls_.push_back(call);
    }
  }
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.address < b.address; });
}

std::string ObjectFile::debug_section(const std::string& name) const {
  const auto is_named = [&](const Section& s) { return s.name == name; };
  const auto found = std::find_if(sections_.begin(), sections_.end(), is_named);
  if (found == sections_.end() || (found->header.sh_flags & SHF_COMPRESSED) != 0) return "";
  std::string contents = bytes_.substr(found->header.sh_offset, found->header.sh_size);
  for (const Section& s : sections_) {
    if (s.header.sh_type != SHT_RELA || &sections_[s.header.sh_info] != &*found) continue;
    for (const Elf64_Rela& r : table<Elf64_Rela>(s.header)) {
      const auto type = ELF64_R_TYPE(r.r_info);
      const std::size_t size = type == R_X86_64_64 ? 8 : type == R_X86_64_32 ? 4 : 0;
      const std::uint64_t value = value_of(symbols_[ELF64_R_SYM(r.r_info)]) + std::uint64_t(r.r_addend);
      if (r.r_offset + size <= contents.size()) std::memcpy(contents.data() + r.r_offset, &value, size);
    }
  }
  return contents;
}

std::pair<std::string, std::uint64_t> ObjectFile::place_of(std::uint64_t address) const {
  for (const Section& s : sections_) {
    if (s.address != 0 && address - s.address < s.header.sh_size) return {s.name, address - s.address};
  }
  return {};
}

}  // namespace gpusim::check
