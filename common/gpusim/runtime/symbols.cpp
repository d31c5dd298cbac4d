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
#include <mutex>
#include <optional>
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
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>>
      constants;  // segments that are read-only while it runs
};

Executable executable() {
  Executable result;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& out = *static_cast<Executable*>(data);
        out.base = info->dlpi_addr;
        out.tls_data = info->dlpi_tls_data;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_TLS) out.tls_bytes = segment.p_memsz;
          const bool is_constant = segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0;
          if (!is_constant && segment.p_type != PT_GNU_RELRO) continue;
          const std::uintptr_t begin = out.base + segment.p_vaddr;
          out.constants.emplace_back(begin, begin + segment.p_memsz);
        }
        return 1;
      },
      &result);
  return result;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// {"tile.cuh:13", "kernel.cuh:171", "kernel.cuh:340"} -> "tile.cuh:13 (from kernel.cuh:171,
/// kernel.cuh:340)": the kernel, into which all others have been inlined, comes last.
std::string with_callers(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i)
    text += (i == 0 ? "" : i == 1 ? " (from " : ", ") + file_name(lines[i]);
  return text + (lines.size() > 1 ? ")" : "");
}

/// "int gpusim::shuffle[abi:device]<int>(unsigned, int)" -> "shuffle"
std::string bare_name(std::string function) {
  constexpr std::string_view kAnonymous =
      "(anonymous namespace)::";  // of the function, or of one of its parameters
  for (std::size_t at; (at = function.find(kAnonymous)) != std::string::npos;)
    function.erase(at, kAnonymous.size());
  function.resize(std::min(function.size(), function.find_first_of("<([")));
  return function.substr(function.find_last_of(" :") + 1);
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

/// The executable's file. It is mapped instead of read, because only the symbols of its many megabytes are
/// needed.
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

std::vector<std::pair<std::uintptr_t, std::uintptr_t>> device_variables() {
  const Image image;
  const std::uintptr_t base = executable().base;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  for_each_symbol(image, [&](const Elf64_Sym& symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) return;
    const std::string_view mangled = name;
    const auto has = [&](const char* tag) { return mangled.find(tag) != mangled.npos; };
    if (has("B6device") || has("B8constant") || has("B6kernel"))  // the latter: static variables in a kernel
      ranges.emplace_back(base + symbol.st_value, base + symbol.st_value + symbol.st_size);
  });
  return ranges;
}

std::optional<std::string> read_line(std::FILE* file) {
  std::string line;
  for (int c = std::fgetc(file); c != '\n'; c = std::fgetc(file)) {
    if (c == EOF) return std::nullopt;
    line += char(c);
  }
  return line;
}

/// Adds what addr2line says of a function that is called or inlined at a place.
/// @param at  "/path/kernel.cuh:48"
void add_call(Calls& place, const std::string& function, std::string at) {
  at.erase(std::min(at.find(" (discriminator"), at.size()));
  if (at.starts_with("??") || at.ends_with(":?") || at.find("/include/c++/") != std::string::npos) return;
  if (at.find("/gpusim/shim/") == std::string::npos) {
    if (place.built_in == bare_name(function)) place.built_in.clear();  // clang names the caller for both
    place.lines.push_back(at);
  } else if (place.lines.empty()) {
    place.built_in = bare_name(function);
  }
}

/// Calls f(return address, function, "/path/kernel.cuh:48") for what addr2line knows of each address, the
/// innermost inlined function first.
template <class F>
void for_each_frame(std::span<const std::uintptr_t> return_addresses, F&& f) {
  constexpr std::size_t kMost = 4096;  // addresses that fit into a command
  const Executable exe = executable();
  for (std::size_t first = 0; first < return_addresses.size(); first += kMost) {
    std::ostringstream command;
    command << "addr2line -a -i -f -C -e /proc/" << getpid() << "/exe" << std::hex;
    for (const std::uintptr_t pc :
         return_addresses.subspan(first, std::min(kMost, return_addresses.size() - first))) {
      command << " 0x" << pc - exe.base - 1;  // the call is before its return address
    }
    command << " 2>/dev/null";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.str().c_str(), "r"), &pclose);
    if (!pipe) return;
    std::uintptr_t pc = 0;
    std::string function;
    while (const std::optional<std::string> line = read_line(pipe.get())) {
      if (line->starts_with("0x")) {
        pc = std::strtoull(line->c_str(), nullptr, 16) + exe.base + 1;
        function.clear();
      } else if (pc != 0 && function.empty()) {
        function = *line;
      } else if (pc != 0) {
        f(pc, function, *line);
        function.clear();
      }
    }
  }
}

}  // namespace

std::unordered_map<std::uintptr_t, Calls> inlined_calls(const std::vector<std::uintptr_t>& return_addresses) {
  std::unordered_map<std::uintptr_t, Calls> places;
  for_each_frame(return_addresses, [&](std::uintptr_t pc, const std::string& function,
                                       const std::string& at) { add_call(places[pc], function, at); });
  return places;
}

FramesByAddress frames_at(const std::vector<std::uintptr_t>& return_addresses) {
  FramesByAddress frames;
  for_each_frame(return_addresses,
                 [&](std::uintptr_t pc, const std::string& function, const std::string& at) {
                   Calls call;
                   add_call(call, function, at);
                   if (!call.lines.empty()) frames[pc].push_back({bare_name(function), call.lines.front()});
                 });
  return frames;
}

FunctionsByAddress functions_around(const std::vector<std::uintptr_t>& return_addresses) {
  FunctionsByAddress functions;
  for_each_frame(return_addresses, [&](std::uintptr_t pc, const std::string& function, const std::string&) {
    functions[pc].push_back(bare_name(function));
  });
  return functions;
}

std::unordered_map<std::uintptr_t, SourceLine> source_lines(
    const std::vector<std::uintptr_t>& return_addresses) {
  const auto places = inlined_calls(return_addresses);
  std::unordered_map<std::uintptr_t, SourceLine> lines;
  for (const std::uintptr_t pc : return_addresses) {
    const auto place = places.find(pc);
    if (place == places.end() || place->second.lines.empty()) {
      std::ostringstream plain;
      plain << "0x" << std::hex << pc - executable().base;
      lines[pc].text = plain.str();
    } else {
      const Calls& calls = place->second;
      lines[pc] = {with_callers(calls.lines), calls.built_in, calls.lines};
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

bool is_in_library(std::uintptr_t return_address) {
  static std::mutex mutex;
  static std::unordered_map<std::uintptr_t, bool> known;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = known.try_emplace(return_address);
  if (is_new) {
    const std::string mangled = function_at(return_address);
    std::string_view name = mangled;
    const bool is_nested = name.starts_with("_ZN");
    name.remove_prefix(is_nested ? 3 : std::min<std::size_t>(2, name.size()));
    if (is_nested) name.remove_prefix(std::min(name.find_first_not_of("rVKRO"), name.size()));
    it->second = name.starts_with("St") || name.starts_with("Sa") || name.starts_with("Ss") ||
                 name.starts_with("9__gnu_cxx") || name.starts_with("6gpusim") ||
                 mangled.starts_with("__sanitizer_") || mangled.starts_with("__tsan_");
  }
  return it->second;
}

std::string section_of_executable(const std::string& name) {
  const Image image;
  for (const Elf64_Shdr& section : image.sections()) {
    if (image.name_of(section) == name) return std::string(image.data() + section.sh_offset, section.sh_size);
  }
  return "";
}

Ranges::Ranges(std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges) : ranges_(std::move(ranges)) {
  std::sort(ranges_.begin(), ranges_.end());
}

bool Ranges::contain(std::uintptr_t address) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), std::pair(address, ~std::uintptr_t(0)));
  return after != ranges_.begin() && address < std::prev(after)->second;
}

const DataLayout& data_layout() {
  static const DataLayout layout{Ranges(device_variables()), Ranges(executable().constants)};
  return layout;
}

const TlsLayout& tls_layout() {
  static const TlsLayout layout{executable().tls_bytes, read_tls_variables()};
  return layout;
}

std::uintptr_t tls_block() { return reinterpret_cast<std::uintptr_t>(executable().tls_data); }

}  // namespace gpusim
