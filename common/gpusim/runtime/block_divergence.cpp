/// @file
/// Reports threads that wait for others of their block or their warp which do not come.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"

namespace gpusim {
namespace {

std::string mask_text(unsigned mask) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "0x%08x", mask);
  return text.data();
}

// clang does not keep basic blocks in the order of the source.
#ifdef __clang__
constexpr bool kSourceOrder = false;
#else
constexpr bool kSourceOrder = true;
#endif

}  // namespace

/// Whether a thread has returned without coming to the barrier or operation where another one waits: it has
/// accessed memory later in the program. A thread that has returned before is not waited for.
bool BlockRunner::went_past(const Thread& returned, const Thread& waiting) const {
  return kSourceOrder && returned.state == State::kDone && returned.linear < thread_count_ &&
         returned.left_at != nullptr && *returned.left_at > waiting.loops;
}

/// One of the threads that wait in this state, at the call where most of them do; of several, at the first in
/// the program.
BlockRunner::Thread& BlockRunner::most_awaited(int begin, int end, State state) {
  std::map<std::pair<const void*, unsigned>, int> arrived;  // by call and mask
  for (int i = begin; i < end; ++i) {
    if (threads_[i].state == state) ++arrived[{threads_[i].sync_pc, threads_[i].mask}];
  }
  Thread* most = nullptr;
  for (int i = begin; i < end; ++i) {
    Thread& t = threads_[i];
    if (t.state != state) continue;
    const int more =
        most == nullptr ? 1 : arrived[{t.sync_pc, t.mask}] - arrived[{most->sync_pc, most->mask}];
    if (more > 0 || (more == 0 && t.loops < most->loops)) most = &t;
  }
  return *most;
}

Whereabouts BlockRunner::whereabouts(const Thread& t, const Thread& waiting) const {
  using At = Whereabouts::State;
  const auto pc = reinterpret_cast<std::uintptr_t>(t.sync_pc);
  switch (t.state) {
    case State::kReady: return {At::kRuns, t.loops.block()};
    case State::kWarpSync:
    case State::kBlockSync:
    case State::kClusterSync:
    case State::kGridSync:
    case State::kMbarrier:
    case State::kNamedBarrier: return {At::kWaits, pc, t.mask};
    case State::kDone: break;
  }
  if (went_past(t, waiting)) return {At::kPassed, pc};
  return {At::kReturned};
}

/// Where these threads are: first those that are where `waiting` is. Only those that its mask names, if it
/// has one.
std::vector<Group> BlockRunner::groups(int begin, int end, const Thread& waiting) const {
  std::vector<Group> groups{{whereabouts(waiting, waiting), {}}};
  const unsigned mask = groups[0].where.mask;
  for (int i = begin; i < end; ++i) {
    if (mask != 0 && (mask >> (i - begin) & 1) == 0) continue;
    const Whereabouts where = whereabouts(threads_[i], waiting);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.where == where; });
    if (group == groups.end()) group = groups.insert(group, {where, {}});
    group->members.push_back(i - begin);
  }
  return groups;
}

std::string BlockRunner::block_name() const { return "block " + triple(grid_dim_.at(linear_)); }

/// @param at  a thread that waits at the call with this pc, where a debugger stops; null: the one that runs
///   now
/// @param found  without the block
void BlockRunner::add_divergence(Thread* at, const void* pc, Example found, std::uintptr_t rival_pc) {
  add_finding(at,
              {.kind = DefectKind::kBarrierDivergence,
               .pc = reinterpret_cast<std::uintptr_t>(pc),
               .rival_pc = rival_pc},
              std::move(found));
}

/// @param at  a thread that waits, where a debugger stops; null: the one that runs now
/// @param found  without the block
void BlockRunner::add_finding(Thread* at, const FindingKey& key, Example found) {
  found.block = linear_;
  found.grid = grid_dim_;
  found.block_dim = block_dim_;
  found.parameters = launch_->parameters;
  if (record_ != nullptr) record_defect(key, found, false);
  if (Example* e = tally.findings.add(key, linear_)) {
    found.order = e->order;
    *e = std::move(found);
    if (!debugging_) return;
    if (at == nullptr || at->state == State::kDone) {
      announcer_.announce(key, *e);
    } else {
      announce_in(*at, key, *e);
    }
  }
}

/// Reports where the threads of the block, or the lanes of a warp, are: some wait in this state, and the
/// others do not come.
void BlockRunner::report_missing(int begin, int end, State state) {
  Thread& waiting = most_awaited(begin, end, state);
  Example found;
  found.groups = groups(begin, end, waiting);
  const std::string arrived = std::to_string(found.groups[0].members.size()) + " of ";
  found.detail =
      "Divergent thread(s) in " +
      (state == State::kBlockSync ? block_name() + ": " + arrived + std::to_string(thread_count_) + " threads"
                                  : "warp " + std::to_string(begin / kWarpSize) + " of " + block_name() +
                                        ": " + arrived + std::to_string(std::popcount(waiting.mask)) +
                                        " threads named in mask " + mask_text(waiting.mask));
  const auto elsewhere = std::find_if(found.groups.begin() + 1, found.groups.end(), [](const Group& group) {
    return group.where.state == Whereabouts::State::kWaits;
  });
  const std::uintptr_t rival_pc = elsewhere != found.groups.end() ? elsewhere->where.pc : 0;
  add_divergence(&waiting, waiting.sync_pc, std::move(found), rival_pc);
}

/// The first thread that waits for lanes of its warp which do not come; null if there is none.
BlockRunner::Thread* BlockRunner::divided_warp() {
  const auto end = threads_.begin() + thread_count_;
  const auto found = std::find_if(threads_.begin(), end, [&](const Thread& t) {
    return t.state == State::kWarpSync && !warps_[t.linear / kWarpSize].is_blocked;
  });
  return found == end ? nullptr : &*found;
}

/// No thread can continue. Reports which of them wait where, and what the others do that have to come there.
void BlockRunner::report_divergence() {
  const auto first = [&](auto&& holds) -> Thread* {
    for (int i = 0; i < thread_count_; ++i) {
      if (holds(threads_[i])) return &threads_[i];
    }
    return nullptr;
  };
  Thread* const in_warp = divided_warp();
  Thread* const unnamed = first([](const Thread& t) {  // by its own mask
    return t.state == State::kWarpSync && (t.mask >> t.linear % kWarpSize & 1) == 0;
  });
  Example found;
  const auto waits_for_barrier = [](const Thread& t) {
    return t.state == State::kMbarrier || t.state == State::kNamedBarrier;
  };
  Thread* const at_barrier = first(waits_for_barrier);
  if (unnamed == nullptr && in_warp == nullptr && (report_missing_registers() || report_missing_warps()))
    return;
  if (at_barrier != nullptr && unnamed == nullptr) {
    report_deadlock(*at_barrier);
  } else if (unnamed != nullptr) {
    found.message = {"Barrier error detected. Mask " + mask_text(unnamed->mask) + " in " + block_name() +
                         " does not name thread " + triple(unnamed->index) + ", which has reached ",
                     Piece::call(unnamed->sync_pc)};
    add_divergence(unnamed, unnamed->sync_pc, std::move(found));
  } else if (in_warp != nullptr) {
    const int begin = in_warp->linear / kWarpSize * kWarpSize;
    report_missing(begin, std::min(begin + kWarpSize, thread_count_), State::kWarpSync);
  } else if (first([](const Thread& t) { return t.state == State::kBlockSync; }) != nullptr) {
    report_missing(0, thread_count_, State::kBlockSync);
  } else {
    found.detail = "Thread(s) in " + block_name() +
                   (waiting_loop_.is_told ? " wait for something that no block changes: they have"
                                          : " do not end: after " + std::to_string(kLongPatience) +
                                                " memory accesses without a barrier they have");
    Thread* const running = first([](const Thread& t) { return t.state == State::kReady; });
    add_divergence(running, reinterpret_cast<const void*>(last_access_pc_), std::move(found));
  }
}

/// What a thread waits for, or does instead, after its name: "waits in mbarrier_wait() at kernel.cuh:48 ...".
std::vector<Piece> BlockRunner::what_it_does(const Thread& t, bool many) const {
  const std::string waits = many ? "wait in " : "waits in ";
  switch (t.state) {
    case State::kReady:
      return {many ? "keep running at " : "keeps running at ",
              Piece::line(reinterpret_cast<const void*>(t.loops.block()))};
    case State::kDone: return {many ? "have returned" : "has returned"};
    case State::kWarpSync: {
      if (t.mask == ~0u) return {waits, Piece::call(t.sync_pc)};
      return {waits, Piece::call(t.sync_pc), " with mask " + mask_text(t.mask)};
    }
    case State::kBlockSync:
    case State::kGridSync: return {waits, Piece::call(t.sync_pc)};
    case State::kClusterSync: return {waits, Piece::call(t.sync_pc), ": " + cluster_->arrivals()};
    case State::kNamedBarrier: {
      const NamedBarrier& b = named_barriers_[std::size_t(t.value)];
      return {waits, Piece::call(t.sync_pc),
              ": " + std::to_string(b.arrived) + " of " + std::to_string(t.party) +
                  " threads have come to barrier " + std::to_string(t.value)};
    }
    case State::kMbarrier: break;
  }
  std::vector<Piece> text{waits, Piece::call(t.sync_pc), " for parity " + std::to_string(t.value) + " of ",
                          name_of(t.barrier, t.sync_pc)};
  const auto at = mbarrier_at_.find(t.barrier);
  if (at == mbarrier_at_.end()) return text;
  const Mbarrier& b = mbarriers_[at->second];
  text.push_back(": it is in " + phase_name(b.phase));
  if (b.missing != 0) {
    text.push_back("; " + std::to_string(b.missing) + " of " + std::to_string(b.expected) +
                   (b.expected == 1  ? " arrival is missing"
                    : b.missing == 1 ? " arrivals is missing"
                                     : " arrivals are missing"));
  }
  if (const std::int64_t begun = b.bytes_in_flight(); b.bytes > begun) {
    text.push_back("; " + std::to_string(b.bytes - begun) + " of " + std::to_string(b.bytes) +
                   " bytes announced at ");
    text.push_back(Piece::line(b.expect_pc));
    text.push_back(" are missing");
    const std::string boxes = b.in_flight.empty() ? "" : boxes_of(*b.in_flight.back());
    if (!boxes.empty()) text.push_back(": copies deliver " + std::to_string(begun) + boxes);
  }
  if (b.phase == 0) text.push_back("; a wait for parity 1 would return");
  return text;
}

/// A line for each place where threads of the block are. @param of_block  "" or the block's name
std::vector<Piece> BlockRunner::where_threads_are(const std::string& of_block) const {
  using Place = std::tuple<State, const void*, int, std::uintptr_t, unsigned>;
  const auto place_of_thread = [](const Thread& t) -> Place {
    switch (t.state) {
      case State::kDone: return {t.state, nullptr, 0, 0, 0};
      case State::kReady: return {t.state, nullptr, 0, t.loops.block(), 0};
      case State::kMbarrier: return {t.state, t.sync_pc, t.value, t.barrier, 0};
      case State::kNamedBarrier: return {t.state, t.sync_pc, t.value, 0, 0};
      default: return {t.state, t.sync_pc, 0, 0, t.mask};
    }
  };
  std::vector<std::pair<Place, std::vector<int>>> places;  // in the order of their first threads
  for (int i = 0; i < thread_count_; ++i) {
    const Place place = place_of_thread(threads_[i]);
    auto it = std::find_if(places.begin(), places.end(), [&](const auto& p) { return p.first == place; });
    if (it == places.end()) it = places.insert(it, {place, {}});
    it->second.push_back(i);
  }
  std::vector<Piece> text;
  for (const auto& [place, members] : places) {
    const bool many = members.size() > 1;
    const auto name = [&](int thread) { return short_name(block_dim_, thread); };
    text.push_back(std::string("\n    ") + (many ? "threads " : "thread ") + list(members, name) + of_block +
                   " ");
    for (Piece& piece : what_it_does(threads_[members.front()], many)) text.push_back(std::move(piece));
  }
  return text;
}

/// No thread can go on, and some wait for an mbarrier or a named barrier.
void BlockRunner::report_deadlock(Thread& waiting) {
  Example found;
  const bool some_run = std::any_of(threads_.begin(), threads_.begin() + thread_count_,
                                    [](const Thread& t) { return t.state == State::kReady; });
  found.message = {"Barrier error detected. " +
                   (some_run ? "Threads of " + block_name() + " wait for others, which do not come"
                             : "Deadlock in " + block_name() + ": no thread can go on")};
  for (Piece& piece : where_threads_are("")) found.message.push_back(std::move(piece));
  add_divergence(&waiting, waiting.sync_pc, std::move(found));
}

void BlockRunner::read_from_absent(unsigned mask, int source, const void* pc) {
  const OutsideKernel outside;
  const int warp = current_->linear / kWarpSize;
  const bool is_named = (mask >> source & 1) != 0;
  const bool returned = warp * kWarpSize + source < thread_count_;
  const std::string the_source = "lane " + std::to_string(source);
  const std::string state = !is_named  ? "which is not in mask " + mask_text(mask)
                            : returned ? "which has returned"
                                       : "which does not exist";
  Example found;
  found.message = {"Barrier error detected. Lane " + std::to_string(lane()) + " of warp " +
                       std::to_string(warp) + " in " + block_name() + " reads the value of " + the_source +
                       ", " + state + ", in ",
                   Piece::call(pc)};
  if (is_named) {
    found.message.push_back("\n    mask " + mask_text(mask) + " says that " + the_source +
                            " takes part: it must reach the shuffle, or be left out of the mask");
  }
  add_divergence(nullptr, pc, std::move(found));
}

}  // namespace gpusim
