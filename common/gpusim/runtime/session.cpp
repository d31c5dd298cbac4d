#include "gpusim/runtime/session.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/debugging.hpp"
#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/kernel_table.hpp"
#include "gpusim/runtime/skipped_barrier.hpp"
#include "gpusim/runtime/streams.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

GlobalCounters& GlobalCounters::operator+=(const GlobalCounters& o) {
  read_bytes += o.read_bytes;
  write_bytes += o.write_bytes;
  read_sectors += o.read_sectors;
  write_sectors += o.write_sectors;
  read_requests += o.read_requests;
  write_requests += o.write_requests;
  atomic_sectors += o.atomic_sectors;
  atomic_requests += o.atomic_requests;
  return *this;
}

GlobalCounters Report::total() const {
  GlobalCounters sum;
  for (const auto& [name, counters] : tensors) sum += counters;
  return sum;
}

const char* name_of(DefectKind kind) {
  switch (kind) {
    case DefectKind::kRace: return "race";
    case DefectKind::kOutOfBounds: return "out_of_bounds";
    case DefectKind::kMisaligned: return "misaligned";
    case DefectKind::kUninitializedRead: return "uninitialized_read";
    case DefectKind::kBarrierDivergence: return "barrier_divergence";
    case DefectKind::kUnsupported: return "unsupported";
    case DefectKind::kMisuse: return "misuse";
    case DefectKind::kMissingFence: return "missing_fence";
    case DefectKind::kWgmma: return "wgmma";
    case DefectKind::kNote: return "note";
  }
  return "?";
}

Session& Session::instance() {
  // Never destroyed: the exit handler below and the pool's threads may outlive static objects.
  static Session* session = new Session;
  return *session;
}

Session::Session() {
  at_end([] {
    const Report report = instance().take();
    const bool is_told = write_kernel_table(report);
    if (report.defects.empty() && report.notes.empty()) return;
    SkippedBarrier::instance().complain();
    std::cout.flush();
    if (!is_told) std::fputs(format_defects(report).c_str(), stderr);
    if (report.defects.empty()) return;
    if (!is_told && !is_debugging())
      std::fprintf(stderr, "%sTo stop there in gdb: set GPUSIM_DEBUG=1, and break at gpusim_defect\n",
                   kMargin);
    if (ending_signal() != 0)
      std::fprintf(stderr, "%sThe program was ended by a signal: %s\n", kMargin, strsignal(ending_signal()));
    std::fflush(nullptr);
    end_process(1);
  });
}

void Session::count_launch(bool beside_transfer) {
  const std::lock_guard lock(mutex_);
  ++report_.launches;
  report_.ops.kernels_beside_transfers += beside_transfer ? 1 : 0;
}

void Session::absorb(Tally& tally) {
  const std::lock_guard lock(mutex_);
  const Arena& arena = Arena::instance();
  for (std::size_t id = 0; id < tally.allocations.size(); ++id) {
    GlobalCounters& c = tally.allocations[id];
    if (c.read_requests + c.write_requests + c.atomic_requests == 0) continue;
    report_.tensors[arena.allocation(std::uint32_t(id)).name] += c;
    c = {};
  }
  SharedCounters& to = report_.shared;
  const SharedCounters& from = tally.shared;
  to.bytes_per_block = std::max(to.bytes_per_block, from.bytes_per_block);
  to.remote_bytes += from.remote_bytes;
  to.remote_requests += from.remote_requests;
  to.load_wavefronts += from.load_wavefronts;
  to.load_wavefronts_ideal += from.load_wavefronts_ideal;
  to.store_wavefronts += from.store_wavefronts;
  to.store_wavefronts_ideal += from.store_wavefronts_ideal;
  report_.ops.barriers += tally.ops.barriers;
  report_.ops.cluster_barriers += tally.ops.cluster_barriers;
  report_.ops.warp_barriers += tally.ops.warp_barriers;
  report_.ops.shuffles += tally.ops.shuffles;
  report_.ops.votes += tally.ops.votes;
  report_.ops.transposes += tally.ops.transposes;
  report_.ops.mma += tally.ops.mma;
  report_.ops.wgmma += tally.ops.wgmma;
  report_.ops.mma_units += tally.ops.mma_units;
  report_.ops.bulk_loads += tally.ops.bulk_loads;
  report_.ops.bulk_stores += tally.ops.bulk_stores;
  report_.ops.bulk_load_bytes += tally.ops.bulk_load_bytes;
  report_.ops.mbarrier_waits += tally.ops.mbarrier_waits;
  report_.ops.mbarrier_arrivals += tally.ops.mbarrier_arrivals;
  report_.ops.named_barriers += tally.ops.named_barriers;
  report_.ops.votes_beside_products += tally.ops.votes_beside_products;
  report_.ops.accesses_beside_products += tally.ops.accesses_beside_products;
  report_.ops.arrivals_beside_products += tally.ops.arrivals_beside_products;
  report_.ops.steps_before_arrivals += tally.ops.steps_before_arrivals;
  report_.ops.arrivals_before_waits += tally.ops.arrivals_before_waits;
  report_.ops.named_barrier_threads += tally.ops.named_barrier_threads;
  report_.ops.over_waited += tally.ops.over_waited;
  for (const auto& [pc, count] : tally.blocks) blocks_[pc] += count;
  tally.blocks.clear();
  findings_.merge(tally.findings);
  for (const auto& [wait, count] : tally.early_waits) early_waits_[wait] += count;
  tally.early_waits.clear();
  suspects_.insert(suspects_.end(), tally.suspects.begin(), tally.suspects.end());
  tally.suspects.clear();
  if (!tally.atomics.empty()) atomics_.insert(tally.atomics.begin(), tally.atomics.end());
  tally.atomics.clear();
  if (std::exchange(tally.has_lost_block, false)) has_lost_block_ = true;
  muted_ += std::exchange(tally.muted, 0);
  tally.shared = {};
  tally.ops = {};
}

std::uint64_t block_of(const User& user, const device::Launch& launch, std::uint32_t first) {
  const std::uint64_t index = user.block() - first;
  if (launch.cluster.x == 0) return index;
  const Dim3 grid{launch.grid.x, launch.grid.y, launch.grid.z};
  const Dim3 cluster{launch.cluster.x, launch.cluster.y, launch.cluster.z};
  return block_in_grid(grid, cluster, index, user.thread() / kMaxThreads);
}

std::pair<FindingKey, Example> finding_of(const GridRace& race, const device::Launch& launch,
                                          std::uint32_t first) {
  const Dim3 grid{launch.grid.x, launch.grid.y, launch.grid.z};
  const Dim3 block_dim{launch.block.x, launch.block.y, launch.block.z};
  const auto block = [&](const User& user) { return block_of(user, launch, first); };
  constexpr AccessKind kKinds[] = {AccessKind::kRead, AccessKind::kWrite, AccessKind::kAtomic,
                                   AccessKind::kInTurn};
  Arena& arena = Arena::instance();
  const std::optional<std::uint16_t> fence = arena.grid_races().fence();
  const std::uintptr_t address = arena.base() + race.offset;
  return {{.kind = DefectKind::kRace,
           .pc = pc_of_site(race.other.site()),
           .rival_pc = pc_of_site(race.one.site()),
           .access = kKinds[int(race.other_use)],
           .rival_access = kKinds[int(race.one_use)],
           .space = Space::kGlobal,
           .bytes = 4,
           .rule = kBetweenBlocks},
          {.block = block(race.other),
           .rival_block = block(race.one),
           .thread = race.other.thread() % kMaxThreads,
           .rival_thread = race.one.thread() % kMaxThreads,
           .grid = grid,
           .block_dim = block_dim,
           .address = address,
           .place = arena.place_of(address),
           .detail = {},
           .fence = fence ? pc_of_site(*fence) : 0}};
}

void Session::settle_grid_races(const device::Launch& launch, std::uint32_t first_block) {
  const std::lock_guard lock(mutex_);
  Arena& arena = Arena::instance();
  std::sort(suspects_.begin(), suspects_.end());
  for (const std::uintptr_t suspect : suspects_) {
    for (const GridRace& race : arena.grid_races().conflicts(suspect)) {
      auto disorder = arena.grid_order().why_not(race);
      if (!disorder) continue;
      std::vector<Piece>* const reason = &disorder->reason;
      auto [key, example] = finding_of(race, launch, first_block);
      if (disorder->is_without_fence) {  // as in most programs, and no GPU is known to be wrong with them
        key.kind = DefectKind::kNote;
        example.reason = std::move(*reason);
        if (Example* e = findings_.add(key, example.block)) *e = std::move(example);
        continue;
      }
      const auto atomic = atomics_.find(race.one.block());
      const bool is_late_read = race.one_use == Use::kWrite && race.other_use == Use::kRead;
      if (reason->empty() && is_late_read && atomic != atomics_.end())
        *reason = {"the atomic operation at ", Piece::line(atomic->second),
                   " releases nothing: no __threadfence() before it, and it is not acq_rel"};
      example.reason = std::move(*reason);
      if (record::Recorder* recorder = record::Recorder::instance()) recorder->add_race(key, example);
      if (Example* e = findings_.add(key, example.block)) *e = std::move(example);
    }
    arena.grid_races().settle(suspect);
  }
  suspects_.clear();
  atomics_.clear();
}

void Session::add(const FindingKey& key, Example example) {
  const std::lock_guard lock(mutex_);
  if (Example* e = findings_.add(key, example.block)) *e = std::move(example);
}

void Session::add(DefectKind kind, const std::string& message) {
  const std::lock_guard lock(mutex_);
  add_words(kind, message);
}

void Session::add_words(DefectKind kind, const std::string& message) {
  std::vector<Defect>& defects = report_.defects;
  const auto same =
      std::find_if(defects.begin(), defects.end(), [&](const Defect& d) { return d.message == message; });
  if (same == defects.end()) {
    defects.push_back({kind, message, 1});
  } else {
    ++same->count;
  }
}

bool Session::account(AccessKind kind, std::uintptr_t address, std::size_t bytes,
                      const std::string& routine) {
  constexpr std::uintptr_t kSectorBytes = 32, kRequestBytes = 512;
  if (bytes == 0) return true;
  const std::lock_guard lock(mutex_);
  Arena& arena = Arena::instance();
  const auto found = [&](DefectKind defect, const std::string& what, std::uintptr_t where,
                         const std::string& why) {
    const std::string message = what + " of size " + std::to_string(bytes) + " bytes by " + routine +
                                "\n    address is " + arena.place_of(where) + why;
    add_words(defect, message);
  };

  const bool is_read = kind == AccessKind::kRead;
  const std::uint32_t id = arena.contains(address) ? arena.find(address, bytes) : 0;
  if (id == 0) {
    const std::uint32_t first = arena.contains(address) ? arena.find(address, 1) : 0;
    found(DefectKind::kOutOfBounds, is_read ? "Invalid __global__ read" : "Invalid __global__ write",
          first != 0 ? arena.allocation(first).end : address, "");
    return false;
  }
  GlobalCounters& counters = report_.tensors[arena.allocation(id).name];
  const auto sectors = std::int64_t((address + bytes - 1) / kSectorBytes - address / kSectorBytes + 1);
  const auto requests = std::int64_t((bytes + kRequestBytes - 1) / kRequestBytes);
  if (is_read) {
    const std::size_t written = arena.written_prefix(address, bytes);
    if (written < bytes) {
      found(DefectKind::kUninitializedRead, "Uninitialized __global__ memory read", address + written,
            ", which nothing has written");
    }
    counters += {.read_bytes = std::int64_t(bytes), .read_sectors = sectors, .read_requests = requests};
  } else {
    arena.mark(address, bytes, true);
    counters += {.write_bytes = std::int64_t(bytes), .write_sectors = sectors, .write_requests = requests};
  }
  return true;
}

Report Session::counters() {
  const std::lock_guard lock(mutex_);
  Report copy;
  copy.tensors = report_.tensors;
  copy.shared = report_.shared;
  copy.ops = report_.ops;
  return copy;
}

namespace {

/// Replaces names like "allocation 3" by what the sources call them.
void use_found_names(Report& report) {
  const auto has_no_name = [](const auto& tensor) { return tensor.first.starts_with("allocation "); };
  const bool is_needed = !report.defects.empty() || !report.notes.empty() ||
                         std::any_of(report.tensors.begin(), report.tensors.end(), has_no_name);
  if (!is_needed) return;
  const std::map<std::string, std::string>& names = Arena::instance().find_names();
  if (names.empty()) return;
  std::map<std::string, GlobalCounters> tensors;
  for (const auto& [name, counters] : report.tensors) {
    const auto found = names.find(name);
    tensors[found == names.end() ? name : found->second] += counters;
  }
  report.tensors = std::move(tensors);
  for (auto* all : {&report.defects, &report.notes}) {
    for (Defect& defect : *all) {
      constexpr std::string_view kOld = "\"allocation ";
      for (std::size_t at = defect.message.find(kOld); at != std::string::npos;
           at = defect.message.find(kOld, at + 1)) {
        const std::size_t end = defect.message.find('"', at + 1);
        const auto found = names.find(defect.message.substr(at + 1, end - at - 1));
        if (found != names.end()) defect.message.replace(at + 1, end - at - 1, found->second);
      }
    }
  }
}

}  // namespace

Report Session::take() {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!is_ending_in_child()) {
    lock.lock();
  } else if (BlockRunner* const runner =
                 std::exchange(current_runner, nullptr)) {  // it has ended in a kernel
    findings_.merge(runner->tally.findings);
  }
  Report report = std::exchange(report_, {});
  if (!findings_.empty()) {
    for (Defect& defect : findings_.describe()) {
      auto& to = defect.kind == DefectKind::kNote ? report.notes : report.defects;
      to.push_back(std::move(defect));
    }
  }
  findings_ = {};
  has_lost_block_ = false;
  if (const std::int64_t muted = std::exchange(muted_, 0); muted != 0) {
    report.notes.push_back(
        {DefectKind::kNote,
         "Note: uninitialized reads of global memory after a block has been given up are not "
         "reported: it would have written there",
         muted});
  }
  use_found_names(report);
  std::vector<std::uintptr_t> waits;
  for (const auto& [wait, count] : early_waits_) waits.push_back(wait);
  const auto lines = source_lines(waits);
  for (const auto& [wait, count] : early_waits_) report.early_waits[lines.at(wait).text] += count;
  early_waits_.clear();
  report.blocks_of_function = by_function(std::exchange(blocks_, {}));
  return report;
}

namespace {
std::map<int, LinkCounters> links;
}  // namespace

void account_link(int peer, std::int64_t sent_bytes, std::int64_t received_bytes) {
  Streams::instance().mark_transfer();
  links[peer].sent_bytes += sent_bytes;
  links[peer].received_bytes += received_bytes;
}

std::map<int, LinkCounters> take_links() { return std::exchange(links, {}); }

Report take_report() { return Session::instance().take(); }

std::string format_defects(const Report& report) {
  std::ostringstream out;
  std::int64_t total = 0;
  for (const Defect& d : report.defects) {
    total += d.count;
    out << with_margin(d.message) << "  [" << d.count << (d.count == 1 ? " hazard]" : " hazards]") << "\n"
        << kMargin << "\n";
  }
  for (const Defect& note : report.notes) {
    out << with_margin(note.message) << "  [" << note.count << (note.count == 1 ? " time]" : " times]")
        << "\n"
        << kMargin << "\n";
  }
  if (report.defects.empty() && !report.notes.empty()) return out.str();
  out << kMargin << "ERROR SUMMARY: " << report.defects.size()
      << (report.defects.size() == 1 ? " defect, " : " defects, ") << total
      << (total == 1 ? " hazard\n" : " hazards\n");
  return out.str();
}

void name_allocation(const void* pointer, const std::string& name) {
  Arena::instance().set_name(pointer, name);
}

void name_allocation(const void* pointer, const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::string& type) {
  Arena::instance().set_name(pointer, name);
  Arena::instance().set_tensor(pointer, shape, type);
}

void mark_uninitialized(const void* pointer, std::size_t bytes) {
  Arena::instance().mark(reinterpret_cast<std::uintptr_t>(pointer), bytes, false);
}

void begin_routine(const void* stream, const std::string& routine) {
  Streams::instance().begin(stream, {routine});
}

namespace {

bool account(AccessKind kind, const void* pointer, std::size_t bytes, const std::string& routine) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (!Session::instance().account(kind, address, bytes, routine)) return false;
  Streams::instance().use(address - Arena::instance().base(), bytes,
                          kind == AccessKind::kRead ? Use::kRead : Use::kWrite);
  return true;
}

}  // namespace

bool account_read(const void* pointer, std::size_t bytes, const std::string& routine) {
  return account(AccessKind::kRead, pointer, bytes, routine);
}

bool account_write(const void* pointer, std::size_t bytes, const std::string& routine) {
  return account(AccessKind::kWrite, pointer, bytes, routine);
}

}  // namespace gpusim
