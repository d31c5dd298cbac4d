#include "gpusim/runtime/defects.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "gpusim/runtime/allowed.hpp"
#include "gpusim/runtime/kernel_table.hpp"
#include "gpusim/runtime/source_text.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead: return "Read";
    case AccessKind::kWrite: return "Write";
    case AccessKind::kAtomic: return "Atomic";
    case AccessKind::kPublish: return "Write";
    case AccessKind::kReadPublished: return "Read";
    case AccessKind::kInTurn: return "Change in turn";
    case AccessKind::kCopyIssue: return "Async copy";
    case AccessKind::kCopyLand: return "Async copy";
    case AccessKind::kAsyncRead: return "Async read";
    case AccessKind::kCopyCommit:
    case AccessKind::kCopyWait:
    case AccessKind::kOperation:
    case AccessKind::kFence:
    case AccessKind::kArrival:
    case AccessKind::kDependency: break;
  }
  return "?";
}

const char* lower_verb(AccessKind kind) {
  return kind == AccessKind::kRead || kind == AccessKind::kReadPublished ? "read"
         : kind == AccessKind::kAtomic                                   ? "atomic"
                                                                         : "write";
}

const char* name_of(Space space) {
  switch (space) {
    case Space::kGlobal: return "__global__";
    case Space::kLocal: return "__local__";
    case Space::kShared:
    case Space::kCluster: break;
  }
  return "__shared__";
}

/// The source line of a return address.
using LineOf = std::function<SourceLine(std::uintptr_t pc)>;

/// What would have ordered two accesses of one block.
std::string what_is_missing(const FindingKey& key, const Example& e, const LineOf& line_of) {
  if (key.rival_access == AccessKind::kCopyIssue && !e.waited) {
    const std::string what = "the copy has not been waited for";
    if (e.lax_wait == 0) return what;
    return what + "; the last wait before the read, at " + line_of(e.lax_wait).text +
           ", leaves its group in flight";
  }
  if (e.early_barrier != 0) {
    return "the __syncthreads() at " + line_of(e.early_barrier).text +
           " comes before the wait for the copy, not after it";
  }
  if (e.fence != 0) {
    return "no __syncthreads() between the two: the __threadfence() at " + line_of(e.fence).text +
           " waits for no other thread";
  }
  const bool same_warp = e.thread / kWarpSize == e.rival_thread / kWarpSize;
  const bool landed =
      e.waited || key.access == AccessKind::kCopyLand || key.rival_access == AccessKind::kCopyLand;
  return std::string(same_warp ? "no __syncwarp() or __syncthreads()" : "no __syncthreads()") + " between " +
         (landed ? "the wait for the copy and the other access" : "the two");
}

/// What would order the accesses of two blocks.
std::string how_to_order_blocks(const FindingKey& key, const Example& e, const LineOf& line_of) {
  if (e.fence != 0) {
    const std::string fence = "the __threadfence() at " + line_of(e.fence).text +
                              " orders the accesses of its own thread, but no block waits for another: ";
    return fence +
           "use a second kernel, grid.sync() in a cooperative launch, or, if all blocks "
           "are resident, an atomic counter that they wait for";
  }
  if (key.access == AccessKind::kInTurn || key.rival_access == AccessKind::kInTurn)
    return "one of the blocks waits for its turn, the other does not";
  const auto reads = [](AccessKind kind) { return kind == AccessKind::kRead; };
  const bool is_sum = line_of(key.pc).text == line_of(key.rival_pc).text;  // "total[0] += 1"
  if (is_sum || (!reads(key.access) && !reads(key.rival_access)))
    return "blocks are not ordered; use an atomic operation";
  return "blocks are not ordered: no block waits for another; read in a second kernel what this one writes";
}

/// Where a kernel is launched: the first line of the program around the launch that is not the kernel's own.
std::string line_of_launch(const HostCall& call, const LineOf& line_of) {
  const std::string kernel = function_at(reinterpret_cast<std::uintptr_t>(call.kernel) + 1);
  for (const std::uintptr_t pc : call.launch) {
    const SourceLine line = line_of(pc);
    if (line.places.empty() || is_in_library(pc)) continue;
    const std::string function = function_at(pc);
    const bool launches = function.find("cudaLaunchKernel") != function.npos ||
                          function.find("cudaLaunchCooperativeKernel") != function.npos;
    if (function != kernel && !launches) return line.text;
  }
  return "";
}

std::string describe_race_of_operations(const FindingKey& key, const Example& e, const LineOf& line_of,
                                        const std::string& reason) {
  const auto side = [&](AccessKind kind, std::uintptr_t pc, const HostCall& call) {
    const std::string name = !call.routine.empty()    ? call.routine + "()"
                             : call.kernel != nullptr ? "kernel " + name_of_kernel(call.kernel)
                                                      : "a kernel";
    const std::string launch = line_of_launch(call, line_of);
    return std::string(verb(kind)) + " access by " + name + (pc == 0 ? "" : " at " + line_of(pc).text) +
           (launch.empty() ? "" : ", launched at " + launch);
  };
  const std::string first =
      "Race reported between " + side(key.rival_access, key.rival_pc, e.rival_call) + " and ";
  if (e.on_host) {
    const bool by_kernel = e.rival_call.routine.empty();
    return first + verb(key.access) + " access by the host at " + line_of(key.pc).text + "\n    " + e.place +
           ": the host does not wait for the " + (by_kernel ? "kernel" : "copy") + ": no " +
           (by_kernel ? "" : "cudaStreamSynchronize() or ") + "cudaDeviceSynchronize() between the two";
  }
  return first + side(key.access, key.pc, e.call) + "\n    global memory, " + e.place +
         (reason.empty() ? ": they are in two streams, and the later one does not wait for an event recorded "
                           "after the earlier one"
                         : ": " + reason);
}

std::string describe_race(const FindingKey& key, const Example& e, const LineOf& line_of,
                          const std::string& reason) {
  if (e.of_operations) return describe_race_of_operations(key, e, line_of, reason);
  std::ostringstream out;
  // Print the access first that a reader would name first: the write, or the earlier of two.
  const bool rival_first = key.rival_access != AccessKind::kRead;
  const auto side = [&](bool rival) {
    const auto thread = e.block_dim.at(std::uint64_t(rival ? e.rival_thread : e.thread));
    out << verb(rival ? key.rival_access : key.access) << " access by thread " << triple(thread);
    if (e.block != e.rival_block) {
      out << " of block " << triple(e.grid.at(rival ? e.rival_block : e.block));
    }
    out << " at " << line_of(rival ? key.rival_pc : key.pc).text;
  };
  out << (key.kind == DefectKind::kMissingFence ? "Missing fence" : "Race") << " reported between ";
  side(rival_first);
  out << " and ";
  side(!rival_first);
  out << "\n    " << (key.space == Space::kGlobal ? "global" : "shared") << " memory, " << e.place;
  if (e.block != e.rival_block && key.space != Space::kGlobal) {
    out << e.note << ": " << (reason.empty() ? "no barrier of the cluster between the two" : reason);
    return out.str();
  }
  if (e.block != e.rival_block) {
    out << ": " << (reason.empty() ? how_to_order_blocks(key, e, line_of) : reason);
    return out.str();
  }
  out << (e.note.empty() ? " in block " + triple(e.grid.at(e.block)) : e.note) << ": ";
  out << (reason.empty() ? what_is_missing(key, e, line_of) : reason);
  return out.str();
}

std::string describe_divergence(const FindingKey& key, const Example& e, const LineOf& line_of) {
  const std::string what = "Barrier error detected. " + e.detail + " reached ";
  if (e.groups.empty()) return what + line_of(key.pc).text;
  const bool of_warp = e.groups[0].where.mask != 0;
  const auto name = [&](int member) {
    return of_warp ? std::to_string(member) : short_name(e.block_dim, member);
  };
  return what + call_at(line_of(key.pc)) + describe(e.groups, of_warp ? "lane" : "thread", name, line_of);
}

/// @param extra  its message or its reason
std::string describe_one(const FindingKey& key, const Example& e, const LineOf& line_of,
                         const std::string& extra) {
  const std::string line = line_of(key.pc).text;
  std::ostringstream out;
  const std::string who = " by thread " + triple(e.block_dim.at(std::uint64_t(e.thread))) + " in block " +
                          triple(e.grid.at(e.block));
  switch (key.kind) {
    case DefectKind::kRace:
    case DefectKind::kMissingFence: return describe_race(key, e, line_of, extra);
    case DefectKind::kOutOfBounds:
      if (!e.detail.empty()) {
        out << "Invalid index " << e.index << " at " << line << who << "\n    " << e.detail;
        break;
      }
      out << "Invalid " << name_of(key.space) << ' ' << lower_verb(key.access) << " of size " << key.bytes
          << " bytes at " << line << who << "\n    address is " << e.place << e.note;
      break;
    case DefectKind::kMisaligned:
      out << "Misaligned " << name_of(key.space) << ' ' << lower_verb(key.access) << " of size " << key.bytes
          << " bytes at " << line << who << "\n    address is " << e.place << e.note << ", not a multiple of "
          << key.bytes;
      break;
    case DefectKind::kUninitializedRead:
      if (key.space == Space::kLocal) {
        out << "Uninitialized __local__ memory read of size " << key.bytes << " bytes at " << line << who
            << "\n    a local variable has no value yet: nothing has written it";
        break;
      }
      out << "Uninitialized " << name_of(key.space) << " memory read of size " << key.bytes << " bytes at "
          << line << who << "\n    address is " << e.place << e.note << ", which nothing has written";
      break;
    case DefectKind::kBarrierDivergence: return extra.empty() ? describe_divergence(key, e, line_of) : extra;
    case DefectKind::kUnsupported:
      out << "Illegal instruction at " << line << who << "\n    " << e.detail;
      break;
    case DefectKind::kWgmma: return extra;
    case DefectKind::kNote:
      if (key.rule == kBetweenBlocks) return "Note: " + describe_race(key, e, line_of, extra);
      out << "Note: lanes of a warp store different values together at " << line << ": threads "
          << triple(e.block_dim.at(std::uint64_t(e.thread))) << " and "
          << triple(e.block_dim.at(std::uint64_t(e.rival_thread))) << " in block "
          << triple(e.grid.at(e.block)) << "\n    " << (key.space == Space::kGlobal ? "global" : "shared")
          << " memory, " << e.place << e.note << ": one of the values stays, and CUDA does not say which";
      break;
    case DefectKind::kMisuse: out << "Misuse at " << line << who << "\n    " << extra; break;
  }
  return out.str();
}

std::string text_of(const Piece& piece, const LineOf& line_of, const ArrayNames& names,
                    const ThreadNumbers& numbers) {
  if (!piece.place.variable.empty()) {
    const std::string name = names.element(piece.pc, piece.place, numbers);
    return name.empty() ? piece.text : name;
  }
  if (piece.pc == 0) return piece.text;
  if (piece.argument >= 0) {
    const SourceLine line = line_of(piece.pc);
    const std::string name = argument_of_call(source_line(line.place()), line.built_in, piece.argument);
    return name.empty() ? piece.text : name;
  }
  return piece.is_call ? call_at(line_of(piece.pc)) : line_of(piece.pc).text;
}

/// Whether a compare-and-swap in the next lines checks what a read has seen, as in
/// `old = *p; do { assumed = old; old = atomicCAS(p, assumed, ..); } while (old != assumed);`.
bool is_checked_by_swap(const SourceLine& read, const SourceLine& swap) {
  constexpr int kNextLines = 12;
  const bool swaps =
      swap.built_in.starts_with("atomicCAS") || swap.built_in.find("compare_exchange") != std::string::npos;
  if (!swaps || read.places.empty() || read.places.size() != swap.places.size()) return false;
  if (!std::equal(read.places.begin() + 1, read.places.end(), swap.places.begin() + 1)) return false;
  const std::string from = read.place(), to = swap.place();
  const std::size_t from_colon = from.rfind(':'), to_colon = to.rfind(':');
  if (from.substr(0, from_colon) != to.substr(0, to_colon)) return false;
  const int distance = std::atoi(to.c_str() + to_colon + 1) - std::atoi(from.c_str() + from_colon + 1);
  return distance >= 0 && distance <= kNextLines;
}

std::string bytes_text(std::uintptr_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace

std::string triple(const Dim3& d) {
  std::ostringstream out;
  out << '(' << d.x << ',' << d.y << ',' << d.z << ')';
  return out.str();
}

std::string short_name(const Dim3& block_dim, int thread) {
  const Dim3 t = block_dim.at(std::uint64_t(thread));
  return block_dim.y == 1 && block_dim.z == 1 ? std::to_string(t.x) : triple(t);
}

std::string place_in(const std::string& name, std::uintptr_t begin, std::uintptr_t end,
                     std::uintptr_t address) {
  const std::string what = '"' + name + '"';
  const std::string size = " (" + bytes_text(end - begin) + ")";
  if (address < begin) return bytes_text(begin - address) + " before the start of " + what + size;
  if (address >= end) return bytes_text(address - end) + " after the end of " + what + size;
  return "byte " + std::to_string(address - begin) + " of " + what;
}

std::string with_margin(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result += (result.empty() ? "" : "\n") + (kMargin + line);
  return result;
}

Example* Findings::add(const FindingKey& key, std::uint64_t block, std::int64_t count) {
  auto [it, is_new] = entries_.try_emplace(key);
  it->second.count += count;
  if (!is_new && it->second.example.block <= block) return nullptr;
  it->second.example = {.block = block, .order = added_++};
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

DefectText::DefectText(const std::vector<std::pair<const FindingKey*, const Example*>>& findings) {
  std::set<std::uintptr_t> pcs;
  for (const auto& [key, e] : findings) {
    pcs.insert({key->pc, key->rival_pc, e->lax_wait, e->early_barrier, e->fence});
    for (const HostCall* call : {&e->call, &e->rival_call})
      pcs.insert(call->launch.begin(), call->launch.end());
    for (const Group& group : e->groups) pcs.insert(group.where.pc);
    for (const Piece& piece : e->message) pcs.insert(piece.pc);
    for (const Piece& piece : e->reason) pcs.insert(piece.pc);
  }
  pcs.erase(0);
  lines_ = source_lines({pcs.begin(), pcs.end()});
}

SourceLine DefectText::line_of(std::uintptr_t pc) const {
  const auto it = lines_.find(pc);
  return it == lines_.end() ? SourceLine{"?", "", {}} : it->second;
}

std::string DefectText::of(const FindingKey& key, Example example) const {
  const auto line = [&](std::uintptr_t pc) { return line_of(pc); };
  const ThreadNumbers numbers{example.block_dim.at(std::uint64_t(example.thread)), example.block_dim,
                              example.parameters};
  const std::string element = names_.element(key.pc, example.shared, numbers);
  const std::string symbol = '"' + std::string(kDynamicShared) + '"';
  if (const std::size_t at = example.place.find(symbol); at != std::string::npos)
    example.place.replace(at, symbol.size(), '"' + names_.dynamic_variable(key.pc) + '"');
  if (!element.empty()) example.place = element + " (" + example.place + ")";
  std::string extra;
  for (const auto* pieces : {&example.message, &example.reason}) {
    for (const Piece& piece : *pieces) extra += text_of(piece, line, names_, numbers);
  }
  return describe_one(key, example, line, extra);
}

std::vector<Defect> Findings::describe() const {
  std::vector<std::pair<const FindingKey*, const Example*>> findings;
  for (const auto& [key, entry] : entries_) findings.emplace_back(&key, &entry.example);
  const DefectText text(findings);
  // A line may have several machine instructions, so report one defect per pair of lines, whichever came
  // first. What follows from a mistake comes after it: defects are reported block by block, in the order in
  // which they were found. Reads of what nothing has written come last: races are found later, when a warp
  // has made all its accesses, and may be the cause.
  using Place = std::tuple<bool, std::uint64_t, std::uint64_t>;
  std::map<std::tuple<DefectKind, Space, std::uint8_t, std::string, std::string>, std::size_t> seen;
  std::vector<std::pair<Place, Defect>> placed;
  // What a block reads before another one has written it may never have been written.
  std::set<std::uintptr_t> early_reads;
  std::set<std::uintptr_t> racy;  // what is a race needs no note
  // Races between blocks come first: of two accesses that also race inside a block, a barrier there orders
  // only those.
  std::vector<const std::pair<const FindingKey, Entry>*> entries;
  const auto is_between_blocks = [](const FindingKey& key) {
    return key.kind == DefectKind::kRace && key.rule == kBetweenBlocks;
  };
  for (const auto& entry : entries_) {
    const FindingKey& key = entry.first;
    entries.push_back(&entry);
    if (key.kind == DefectKind::kRace) racy.insert({key.pc, key.rival_pc});
    if (!is_between_blocks(key)) continue;
    if (key.access == AccessKind::kRead) early_reads.insert(key.pc);
    if (key.rival_access == AccessKind::kRead) early_reads.insert(key.rival_pc);
  }
  std::stable_partition(entries.begin(), entries.end(),
                        [&](const auto* entry) { return is_between_blocks(entry->first); });
  Allowed allowed;
  std::map<std::string, std::int64_t> silenced;
  const auto is_allowed = [&](std::uintptr_t pc, DefectKind kind) {
    if (pc == 0) return false;
    const std::vector<std::string> places = text.line_of(pc).places;
    return std::any_of(places.begin(), places.end(),
                       [&](const std::string& place) { return allowed.contains(place, kind); });
  };
  const auto is_harmless = [&](const FindingKey& key, const Example& example) {
    if (key.kind != DefectKind::kRace || example.of_operations) return false;
    const SourceLine one = text.line_of(key.pc), other = text.line_of(key.rival_pc);
    if (key.access == AccessKind::kWrite && key.rival_access == AccessKind::kWrite)
      return key.pc == key.rival_pc && stores_constants_only(source_line(one.place()));
    if (key.access == AccessKind::kRead && key.rival_access == AccessKind::kAtomic)
      return is_checked_by_swap(one, other);
    return key.access == AccessKind::kAtomic && key.rival_access == AccessKind::kRead &&
           is_checked_by_swap(other, one);
  };
  for (const auto* known : entries) {
    const auto& [key, entry] = *known;
    if (is_allowed(key.pc, key.kind) || is_allowed(key.rival_pc, key.kind)) {
      silenced[std::string("Note: ") + name_of(key.kind) + " at " + text.line_of(key.pc).text +
               " is silenced there, or on the other line, by \"gpusim: allow\""] += entry.count;
      continue;
    }
    if (is_harmless(key, entry.example)) continue;
    if (key.kind == DefectKind::kUninitializedRead && early_reads.contains(key.pc)) continue;
    if (key.kind == DefectKind::kNote && racy.contains(key.pc)) continue;
    const std::string line = text.line_of(key.pc).text;
    const std::string rival_line = key.rival_pc != 0 ? text.line_of(key.rival_pc).text : "";
    // To a reader, two branches on one line are one barrier.
    const auto pair = std::minmax(line, rival_line);
    const std::uint8_t rule = is_between_blocks(key) ? 0 : key.rule;
    const auto [it, is_new] =
        seen.try_emplace({key.kind, key.space, rule, pair.first, pair.second}, placed.size());
    const Example& example = entry.example;
    const Place place{key.kind == DefectKind::kUninitializedRead, example.block, example.order};
    if (is_new) {
      placed.push_back({place, {key.kind, text.of(key, example), entry.count}});
    } else {
      auto& [first, defect] = placed[it->second];
      first = std::min(first, place);
      defect.count += entry.count;
    }
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<Defect> defects;
  for (auto& [place, defect] : placed) defects.push_back(std::move(defect));
  for (const auto& [message, count] : silenced) defects.push_back({DefectKind::kNote, message, count});
  for (const std::string& message : allowed.mistakes()) defects.push_back({DefectKind::kNote, message, 1});
  return defects;
}

}  // namespace gpusim
