#include "gpusim/runtime/kernel_table.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/recorder.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/symbols.hpp"
#include "gpusim/runtime/watchdog.hpp"

namespace gpusim {
namespace {

using Numbers = std::vector<std::pair<const char*, std::int64_t>>;

Numbers numbers_of(const GlobalCounters& c) {
  return {{"read_bytes", c.read_bytes},         {"write_bytes", c.write_bytes},
          {"read_sectors", c.read_sectors},     {"write_sectors", c.write_sectors},
          {"read_requests", c.read_requests},   {"write_requests", c.write_requests},
          {"atomic_sectors", c.atomic_sectors}, {"atomic_requests", c.atomic_requests}};
}

Numbers numbers_of(const SharedCounters& c) {
  return {{"bytes_per_block", c.bytes_per_block},
          {"load_wavefronts", c.load_wavefronts},
          {"load_wavefronts_ideal", c.load_wavefronts_ideal},
          {"store_wavefronts", c.store_wavefronts},
          {"store_wavefronts_ideal", c.store_wavefronts_ideal}};
}

Numbers numbers_of(const OpCounters& c) {
  return {{"barriers", c.barriers},
          {"warp_barriers", c.warp_barriers},
          {"named_barriers", c.named_barriers},
          {"cluster_barriers", c.cluster_barriers},
          {"shuffles", c.shuffles},
          {"votes", c.votes},
          {"mma", c.mma},
          {"wgmma", c.wgmma},
          {"bulk_loads", c.bulk_loads},
          {"bulk_stores", c.bulk_stores},
          {"mbarrier_waits", c.mbarrier_waits}};
}

/// What the launches of a kernel have done.
struct Kernel {
  std::int64_t launches = 0, first_launch = 0;
  double seconds = 0;
  device::Index grid{}, block{};  ///< of the largest launch
  std::uint64_t threads = 0;      ///< it has
  std::map<std::string, std::vector<std::int64_t>> tensors;
  std::vector<std::int64_t> shared, ops;

  /// Those that have been looked through.
  struct Checked {
    std::int64_t launches = 0, work = 0;
  };
  std::map<std::array<std::uint64_t, 7>, Checked> checked;  ///< by grid, block and dynamic shared memory
  std::int64_t repetitions = 0;
};

std::array<std::uint64_t, 7> geometry_of(const device::Launch& l) {
  return {l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.dynamic_shared_bytes};
}

/// How many accesses by warps have been counted, about.
std::int64_t work_of(const Report& report) {
  const GlobalCounters global = report.total();
  return global.read_requests + global.write_requests + global.atomic_requests +
         report.shared.load_wavefronts + report.shared.store_wavefronts;
}

struct Table {
  std::string file;
  std::vector<std::pair<const void*, Kernel>> kernels;
  std::int64_t launches = 0;

  Kernel& of(const void* address) {
    for (auto& [known, kernel] : kernels) {
      if (known == address) return kernel;
    }
    return kernels.emplace_back(address, Kernel{}).second;
  }
};

/// Null without GPUSIM_KERNELS. It is used until the program has ended.
Table* table() {
  static Table* const instance = [] {
    const char* const file = std::getenv("GPUSIM_KERNELS");
    return file == nullptr || *file == '\0' ? nullptr : new Table{file, {}, 0};
  }();
  return instance;
}

/// Adds what has been counted since `before`.
template <class Counters>
void add_difference(std::vector<std::int64_t>& sums, const Counters& before, const Counters& after) {
  const Numbers from = numbers_of(before), to = numbers_of(after);
  sums.resize(to.size());
  for (std::size_t i = 0; i < to.size(); ++i) sums[i] += to[i].second - from[i].second;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
      result += code;
    } else {
      result += c;
    }
  }
  return result + '"';
}

template <class Counters>
std::string object(const std::vector<std::int64_t>& sums) {
  std::string text = "{";
  const Numbers names = numbers_of(Counters{});
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0 ? "\"" : ", \"") + names[i].first + "\": " + std::to_string(sums[i]);
  return text + "}";
}

std::string text_of(const device::Index& index) {
  return "[" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) +
         "]";
}

/// With what the sources call the allocations.
std::map<std::string, std::vector<std::int64_t>> by_found_name(
    const std::map<std::string, std::vector<std::int64_t>>& tensors) {
  const std::map<std::string, std::string>& names = Arena::instance().find_names();
  std::map<std::string, std::vector<std::int64_t>> result;
  for (const auto& [name, counters] : tensors) {
    const auto found = names.find(name);
    std::vector<std::int64_t>& sums = result[found == names.end() ? name : found->second];
    sums.resize(counters.size());
    for (std::size_t i = 0; i < counters.size(); ++i) sums[i] += counters[i];
  }
  return result;
}

void write_defects(std::ostream& out, const std::vector<Defect>& defects) {
  const char* between = "\n";
  for (const Defect& defect : defects) {
    out << between << "{\"kind\": " << quoted(name_of(defect.kind)) << ", \"count\": " << defect.count
        << ", \"message\": " << quoted(defect.message) << "}";
    between = ",\n";
  }
}

}  // namespace

/// "void scale[abi:kernel]<float>(float*, float)" -> "scale<float>"
std::string name_of_kernel(const void* address) {
  const std::string symbol = function_at(reinterpret_cast<std::uintptr_t>(address) + 1);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  for (const std::string part : {"[abi:kernel]", "[abi:device]", "(anonymous namespace)::"}) {
    for (std::size_t at; (at = name.find(part)) != name.npos;) name.erase(at, part.size());
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) name.resize(i);
  }
  return name;
}

KernelTable::KernelTable() {
  if (table() == nullptr) return;
  before_ = Session::instance().counters();
  began_ = std::chrono::steady_clock::now();
}

bool KernelTable::is_repetition(const device::Launch& launch) const {
  constexpr std::int64_t kLaunches = 8, kWork = 1 << 24;  // some seconds
  static const bool checks_all = std::getenv("GPUSIM_CHECK_ALL") != nullptr;
  if (table() == nullptr || checks_all || record::Recorder::instance() != nullptr) return false;
  const Kernel::Checked& checked = table()->of(launch.kernel).checked[geometry_of(launch)];
  return checked.launches >= kLaunches && checked.work >= kWork;
}

void KernelTable::end(const device::Launch& launch, std::size_t static_bytes) {
  if (table() == nullptr) return;
  const Report after = Session::instance().counters();
  Kernel& kernel = table()->of(launch.kernel);
  if (kernel.launches++ == 0) kernel.first_launch = table()->launches;
  ++table()->launches;
  kernel.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  if (launch.finds_races) {
    Kernel::Checked& checked = kernel.checked[geometry_of(launch)];
    ++checked.launches;
    checked.work += work_of(after) - work_of(before_);
  } else {
    ++kernel.repetitions;
  }
  const std::uint64_t threads = std::uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z *
                                launch.block.x * launch.block.y * launch.block.z;
  if (threads > kernel.threads) {
    kernel.grid = launch.grid;
    kernel.block = launch.block;
    kernel.threads = threads;
  }
  for (const auto& [name, counters] : after.tensors) {
    const auto before = before_.tensors.find(name);
    const GlobalCounters from = before == before_.tensors.end() ? GlobalCounters{} : before->second;
    std::vector<std::int64_t> difference;
    add_difference(difference, from, counters);
    if (difference == std::vector<std::int64_t>(difference.size())) continue;
    add_difference(kernel.tensors[name], from, counters);
  }
  const std::int64_t bytes = kernel.shared.empty() ? 0 : kernel.shared[0];
  add_difference(kernel.shared, before_.shared, after.shared);
  kernel.shared[0] = std::max(bytes, std::int64_t(launch.dynamic_shared_bytes + static_bytes));
  add_difference(kernel.ops, before_.ops, after.ops);
}

bool write_kernel_table(const Report& report) {
  if (table() == nullptr) return false;
  std::ostringstream out;
  out << "{\"kernels\": [";
  const char* between = "\n";
  for (const auto& [address, kernel] : table()->kernels) {
    out << between << "{\"name\": " << quoted(name_of_kernel(address))
        << ", \"launches\": " << kernel.launches << ", \"first_launch\": " << kernel.first_launch
        << ", \"repetitions\": " << kernel.repetitions << ", \"seconds\": " << kernel.seconds
        << ", \"grid\": " << text_of(kernel.grid) << ", \"block\": " << text_of(kernel.block)
        << ", \"tensors\": {";
    const char* comma = "";
    for (const auto& [name, counters] : by_found_name(kernel.tensors)) {
      out << comma << quoted(name) << ": " << object<GlobalCounters>(counters);
      comma = ", ";
    }
    out << "}, \"shared\": " << object<SharedCounters>(kernel.shared)
        << ", \"ops\": " << object<OpCounters>(kernel.ops) << "}";
    between = ",\n";
  }
  out << "],\n\"defects\": [";
  write_defects(out, report.defects);
  out << "],\n\"notes\": [";
  write_defects(out, report.notes);
  out << "],\n\"timed_out\": " << (Watchdog::is_time_up() ? "true" : "false") << ",\n\"report\": "
      << quoted(report.defects.empty() && report.notes.empty() ? "" : format_defects(report)) << "}\n";
  std::ofstream file(table()->file);
  file << out.str();
  return bool(file.flush());
}

}  // namespace gpusim
