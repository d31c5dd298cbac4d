#include "gpusim/runtime/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <string_view>

namespace gpusim {
namespace {

/// What the dynamic loader knows about the executable, which is always the first object that it lists.
struct Executable {
  std::uintptr_t base = 0;
  std::size_t tls_bytes = 0;
  void* tls_data = nullptr;  // of the calling thread
};

Executable executable() {
  Executable result;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& out = *static_cast<Executable*>(data);
        out.base = info->dlpi_addr;
        out.tls_data = info->dlpi_tls_data;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_TLS) out.tls_bytes = info->dlpi_phdr[i].p_memsz;
        }
        return 1;
      },
      &result);
  return result;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// {"tile.cuh:13", "kernel.cuh:171", "kernel.cuh:340"} -> "tile.cuh:13 (from kernel.cuh:171)": the kernel, into which all
/// others have been inlined, comes last.
std::string with_caller(const std::vector<std::string>& calls) {
  const auto file = [](const std::string& line) { return line.substr(0, line.rfind(':')); };
  const auto of_kernel = std::find_if(
      calls.begin(), calls.end(), [&](const std::string& line) { return file(line) == file(calls.back()); });
  return of_kernel == calls.begin() ? calls.front() : calls.front() + " (from " + *of_kernel + ")";
}

/// "fa::kernel<3>(float*)::partials" -> "partials"
std::string short_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  const std::string name = status == 0 ? demangled.get() : symbol;
  const std::size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

/// The executable's file. It is mapped instead of read, because only the symbols of its many megabytes are needed.
class Image {
 public:
  Image() {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat state;
    if (file >= 0 && fstat(file, &state) == 0 && state.st_size > 0) {
      void* data = mmap(nullptr, std::size_t(state.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (data != MAP_FAILED) bytes_ = {static_cast<const char*>(data), std::size_t(state.st_size)};
    }
    if (file >= 0) close(file);
  }
  ~Image() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  const char* data() const { return bytes_.data(); }

  std::span<const Elf64_Shdr> sections() const {
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return {};
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(data());
    return {reinterpret_cast<const Elf64_Shdr*>(data() + header->e_shoff), header->e_shnum};
  }
  const char* name_of(const Elf64_Shdr& section) const {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(data());
    return data() + sections()[header->e_shstrndx].sh_offset + section.sh_name;
  }

 private:
  std::string_view bytes_;
};

/// Calls f(symbol, name) for each symbol.
template <class F>
void for_each_symbol(const Image& image, F&& f) {
  for (const Elf64_Shdr& section : image.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image.data() + section.sh_offset);
    const char* names = image.data() + image.sections()[section.sh_link].sh_offset;
    for (std::size_t s = 0; s < section.sh_size / sizeof(Elf64_Sym); ++s)
      f(symbols[s], names + symbols[s].st_name);
  }
}

std::vector<TlsVariable> read_tls_variables() {
  const Image image;
  std::vector<TlsVariable> variables;
  for_each_symbol(image, [&](const Elf64_Sym& symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_shndx == SHN_UNDEF) return;
    variables.push_back({symbol.st_value, symbol.st_size, short_name(name)});
  });
  std::sort(variables.begin(), variables.end(),
            [](const TlsVariable& a, const TlsVariable& b) { return a.offset < b.offset; });
  return variables;
}

}  // namespace

std::unordered_map<std::uintptr_t, std::vector<std::string>> inlined_calls(
    const std::vector<std::uintptr_t>& return_addresses) {
  std::unordered_map<std::uintptr_t, std::vector<std::string>> calls;
  if (return_addresses.empty()) return calls;
  const Executable exe = executable();
  std::ostringstream command;
  command << "addr2line -a -i -e /proc/" << getpid() << "/exe" << std::hex;
  for (std::uintptr_t pc : return_addresses) {
    command << " 0x" << pc - exe.base - 1;  // the call is before its return address
  }
  command << " 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.str().c_str(), "r"), &pclose);
  if (!pipe) return calls;
  std::uintptr_t current = 0;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    std::string line(buffer);
    while (!line.empty() && line.back() == '\n') line.pop_back();
    if (line.rfind("0x", 0) == 0) {
      current = std::strtoull(line.c_str(), nullptr, 16) + exe.base + 1;
      continue;
    }
    if (line.rfind("??", 0) == 0 || line.find("/gpusim/shim/") != std::string::npos) continue;
    const std::size_t note = line.find(" (discriminator");
    if (note != std::string::npos) line.erase(note);
    if (line.size() > 2 && line.compare(line.size() - 2, 2, ":?") == 0) continue;
    calls[current].push_back(line);
  }
  return calls;
}

std::unordered_map<std::uintptr_t, std::string> source_lines(
    const std::vector<std::uintptr_t>& return_addresses) {
  auto calls = inlined_calls(return_addresses);
  std::unordered_map<std::uintptr_t, std::string> lines;
  for (const std::uintptr_t pc : return_addresses) {
    if (calls[pc].empty()) {
      std::ostringstream plain;
      plain << "0x" << std::hex << pc - executable().base;
      lines[pc] = plain.str();
    } else {
      for (std::string& line : calls[pc]) line = file_name(line);
      lines[pc] = with_caller(calls[pc]);
    }
  }
  return lines;
}

std::string function_at(std::uintptr_t return_address) {
  const Image image;
  const std::uintptr_t address = return_address - executable().base - 1;
  std::string function;
  for_each_symbol(image, [&](const Elf64_Sym& symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && address - symbol.st_value < symbol.st_size)
      function = name;
  });
  return function;
}

std::string section_of_executable(const std::string& name) {
  const Image image;
  for (const Elf64_Shdr& section : image.sections()) {
    if (image.name_of(section) == name) return std::string(image.data() + section.sh_offset, section.sh_size);
  }
  return "";
}

const TlsLayout& tls_layout() {
  static const TlsLayout layout{executable().tls_bytes, read_tls_variables()};
  return layout;
}

std::uintptr_t tls_block() { return reinterpret_cast<std::uintptr_t>(executable().tls_data); }

}  // namespace gpusim
