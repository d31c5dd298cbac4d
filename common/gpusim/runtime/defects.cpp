#include "gpusim/runtime/defects.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "gpusim/runtime/array_names.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

std::string triple(const Dim3& d) {
  std::ostringstream out;
  out << '(' << d.x << ',' << d.y << ',' << d.z << ')';
  return out.str();
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead: return "Read";
    case AccessKind::kWrite: return "Write";
    case AccessKind::kAtomic: return "Atomic";
    case AccessKind::kCopyIssue: return "Async copy";
    case AccessKind::kCopyLand: return "Async copy";
  }
  return "?";
}

const char* lower_verb(AccessKind kind) {
  return kind == AccessKind::kRead ? "read" : kind == AccessKind::kAtomic ? "atomic" : "write";
}

const char* name_of(Space space) { return space == Space::kGlobal ? "__global__" : "__shared__"; }

std::string describe_race(const FindingKey& key, const Example& e, const std::string& line,
                          const std::string& rival_line) {
  std::ostringstream out;
  // Print the access first that a reader would name first: the write, or the earlier of two.
  const bool rival_first = key.rival_access != AccessKind::kRead;
  const auto side = [&](bool rival) {
    const auto thread = e.block_dim.at(std::uint64_t(rival ? e.rival_thread : e.thread));
    out << verb(rival ? key.rival_access : key.access) << " access by thread " << triple(thread);
    if (e.block != e.rival_block) {
      out << " of block " << triple(e.grid.at(rival ? e.rival_block : e.block));
    }
    out << " at " << (rival ? rival_line : line);
  };
  out << "Race reported between ";
  side(rival_first);
  out << " and ";
  side(!rival_first);
  out << "\n    " << (key.space == Space::kShared ? "shared" : "global") << " memory, " << e.place;
  if (e.block != e.rival_block) {
    out << ": blocks are not ordered; use an atomic operation";
    return out.str();
  }
  out << " in block " << triple(e.grid.at(e.block)) << ": ";
  if (key.rival_access == AccessKind::kCopyIssue) {
    out << "the copy has not been waited for";
    return out.str();
  }
  const bool same_warp = e.thread / kWarpSize == e.rival_thread / kWarpSize;
  const bool landed = key.access == AccessKind::kCopyLand || key.rival_access == AccessKind::kCopyLand;
  out << (same_warp ? "no __syncwarp() or __syncthreads()" : "no __syncthreads()") << " between "
      << (landed ? "the wait for the copy and the other access" : "the two");
  return out.str();
}

std::string describe_one(const FindingKey& key, const Example& e, const std::string& line,
                         const std::string& rival_line) {
  std::ostringstream out;
  const std::string who = " by thread " + triple(e.block_dim.at(std::uint64_t(e.thread))) + " in block " +
                          triple(e.grid.at(e.block));
  switch (key.kind) {
    case DefectKind::kRace: return describe_race(key, e, line, rival_line);
    case DefectKind::kOutOfBounds:
      if (!e.detail.empty()) {
        out << "Invalid index " << e.index << " at " << line << who << "\n    " << e.detail;
        break;
      }
      out << "Invalid " << name_of(key.space) << ' ' << lower_verb(key.access) << " of size "
          << int(key.bytes) << " bytes at " << line << who << "\n    address is " << e.place;
      break;
    case DefectKind::kMisaligned:
      out << "Misaligned " << name_of(key.space) << ' ' << lower_verb(key.access) << " of size "
          << int(key.bytes) << " bytes at " << line << who << "\n    address is " << e.place
          << ", not a multiple of " << int(key.bytes);
      break;
    case DefectKind::kUninitializedRead:
      out << "Uninitialized " << name_of(key.space) << " memory read of size " << int(key.bytes)
          << " bytes at " << line << who << "\n    address is " << e.place << ", which nothing has written";
      break;
    case DefectKind::kBarrierDivergence:
      out << "Barrier error detected. " << e.detail << " reached " << line;
      if (key.rival_pc != 0) out << ", the others are at " << rival_line;
      break;
    case DefectKind::kUnsupported:
      out << "Illegal instruction at " << line << who << "\n    " << e.detail;
      break;
  }
  return out.str();
}

std::string bytes_text(std::uintptr_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace

std::string place_in(const std::string& name, std::uintptr_t begin, std::uintptr_t end,
                     std::uintptr_t address) {
  const std::string what = '"' + name + '"';
  const std::string size = " (" + bytes_text(end - begin) + ")";
  if (address < begin) return bytes_text(begin - address) + " before the start of " + what + size;
  if (address >= end) return bytes_text(address - end) + " after the end of " + what + size;
  return "byte " + std::to_string(address - begin) + " of " + what;
}

Example* Findings::add(const FindingKey& key, std::uint64_t block, std::int64_t count) {
  auto [it, is_new] = entries_.try_emplace(key);
  it->second.count += count;
  if (!is_new && it->second.example.block <= block) return nullptr;
  it->second.example.block = block;
  return &it->second.example;
}

void Findings::merge(Findings& other) {
  for (auto& [key, entry] : other.entries_) {
    auto [it, is_new] = entries_.try_emplace(key);
    const bool take = is_new || entry.example.block < it->second.example.block;
    it->second.count += entry.count;
    if (take) it->second.example = std::move(entry.example);
  }
  other.entries_.clear();
}

std::vector<Defect> Findings::describe() const {
  std::set<std::uintptr_t> pcs;
  for (const auto& [key, entry] : entries_) {
    if (key.pc != 0) pcs.insert(key.pc);
    if (key.rival_pc != 0) pcs.insert(key.rival_pc);
  }
  const auto lines = source_lines({pcs.begin(), pcs.end()});
  const ArrayNames names;
  const auto line_of = [&](std::uintptr_t pc) {
    const auto it = lines.find(pc);
    return it == lines.end() ? std::string("?") : it->second;
  };
  // A line may have several machine instructions, so report one defect per pair of lines, whichever came first.
  std::map<std::tuple<DefectKind, Space, std::string, std::string>, std::size_t> seen;
  std::vector<Defect> defects;
  for (const auto& [key, entry] : entries_) {
    const std::string line = line_of(key.pc);
    const std::string rival_line = key.rival_pc != 0 ? line_of(key.rival_pc) : "";
    // To a reader, two branches on one line are one barrier.
    const auto pair = std::minmax(line, rival_line);
    const auto [it, is_new] =
        seen.try_emplace({key.kind, key.space, pair.first, pair.second}, defects.size());
    if (is_new) {
      Example example = entry.example;
      const std::string element = names.element(key.pc, example.variable, example.offset, example.bytes);
      if (!element.empty()) example.place = element + " (" + example.place + ")";
      defects.push_back({key.kind, describe_one(key, example, line, rival_line), entry.count});
    } else {
      defects[it->second].count += entry.count;
    }
  }
  return defects;
}

}  // namespace gpusim
