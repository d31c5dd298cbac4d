/// @file
/// Asynchronous copies: what their threads request, when others may use the bytes, and whether a wait comes
/// too early.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {

// --- inside a fiber

void BlockRunner::copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                             const void* pc) {
  has_copies_ = true;
  if (source_bytes != 0) on_access(global, source_bytes, AccessKind::kRead, pc, source_bytes == bytes);
  on_access(shared, bytes, AccessKind::kCopyIssue, pc);
  current_->open_group.push_back({shared, global, bytes, source_bytes, pc});
}

void BlockRunner::copy_commit(const void* pc) {
  Thread& t = *current_;
  t.groups.push_back(std::move(t.open_group));
  t.open_group.clear();
  note(AccessKind::kCopyCommit, t.landed_groups + t.groups.size(), pc);
}

void BlockRunner::copy_wait(int pending, const void* pc) {
  Thread& t = *current_;
  const std::size_t committed = t.landed_groups + t.groups.size();
  const auto allowed = std::size_t(std::max(pending, 0));
  note(AccessKind::kCopyWait, committed - std::min(committed, allowed), pc);
  while (t.groups.size() > allowed) {
    land(t.groups.front());
    t.groups.pop_front();
    ++t.landed_groups;
  }
}

void BlockRunner::land(std::vector<AsyncCopy>& group) {
  for (const AsyncCopy& c : group) {
    on_access(c.to, c.bytes, AccessKind::kCopyLand, c.pc);
    const OutsideKernel outside;
    std::memcpy(c.to, c.from, c.source_bytes);
    std::memset(static_cast<std::byte*>(c.to) + c.source_bytes, 0, c.bytes - c.source_bytes);
  }
  group.clear();
}

void BlockRunner::note(AccessKind kind, std::uintptr_t value, const void* pc) {
  if (debugging_) return process_note(current_->linear, kind, std::uint32_t(value), pc);
  const InstructionKey key = InstructionKey::make(pc, 0, kind, Space::kShared);
  while (!log_.append(key, current_->loops, value)) suspend();
}

// --- when the log is processed

void BlockRunner::process_note(const WarpAccess& access, int warp) {
  const auto* const pc = reinterpret_cast<const void*>(access.key.pc());
  if (record_ != nullptr) record_copy_note(access, warp);
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    process_note(warp * kWarpSize + lane, access.key.kind(), std::uint32_t(access.addresses[lane]), pc);
  }
}

void BlockRunner::process_note(int thread, AccessKind kind, std::uint32_t value, const void* pc) {
  CopyClock& clock = threads_[thread].copies;
  if (kind == AccessKind::kCopyCommit) {
    clock.committed = value;
  } else {
    clock.wait(value, pc, warps_[thread / kWarpSize].barrier_pc);
  }
}

/// Lanes of a warp start to copy to an address.
void BlockRunner::remember_origin(std::uintptr_t address, std::size_t bytes, std::uint32_t lanes, int warp) {
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int thread = warp * kWarpSize + std::countr_zero(rest);
    CopyClock& clock = threads_[thread].copies;
    clock.begun = clock.committed + 1;
    std::fill_n(&copy_origins_[(address - shared_base_) / 4], bytes / 4,
                CopyOrigin{std::uint16_t(thread), clock.committed});
  }
}

/// A warp reads a word for the first time since a copy to it has landed. If the copy's group is used for the
/// first time, counts it if two waits have covered it before: the second one would have been enough.
///
/// Whatever its own warp has done so far comes before this; what another one has done, up to the last
/// __syncthreads().
void BlockRunner::use_copy(std::size_t offset, int warp) {
  const CopyOrigin& origin = copy_origins_[offset / 4];
  const int owner = origin.thread / kWarpSize;
  std::vector<bool>& used = warps_[owner].used_groups;
  if (used.size() <= origin.group) used.resize(origin.group + 1);
  if (used[origin.group]) return;
  used[origin.group] = true;
  const CopyClock& clock = threads_[origin.thread].copies;
  const std::uint32_t twice = owner == warp ? clock.covered_twice : clock.covered_twice_before_barrier;
  if (origin.group >= twice) return;
  ++tally.ops.over_waited;
  ++tally.early_waits[reinterpret_cast<std::uintptr_t>(clock.first_wait_for(origin.group))];
}

/// Finds out what is missing between a copy and an access to its bytes.
///
/// Where the copy is in flight, its thread may be about to wait for it. So the reader serves as the measure:
/// has it waited for its own copies of a group with the same number?
void BlockRunner::explain_copy(Example& e, InstructionKey instruction, std::uintptr_t address,
                               const Rival& rival) const {
  if (instruction.space() != Space::kShared || rival.thread >= ThreadClocks::kFirstSequence) return;
  if (rival.kind == AccessKind::kCopyLand) {
    e.early_barrier = reinterpret_cast<std::uintptr_t>(threads_[rival.thread].copies.early_barrier);
    return;
  }
  if (rival.kind != AccessKind::kCopyIssue || instruction.kind() != AccessKind::kRead) return;
  // The read may be wider than the copy.
  const auto begin = &copy_origins_[(address - shared_base_) / 4];
  const auto end = begin + std::ptrdiff_t((address % 4 + instruction.size() + 3) / 4);
  const auto origin = std::find_if(begin, end, [&](const CopyOrigin& o) { return o.thread == rival.thread; });
  const CopyClock& reader = threads_[e.thread].copies;
  if (origin == end || origin->group >= reader.begun) return;  // the reader has no copies in such a group
  if (origin->group < reader.covered) {
    e.waited = true;
    e.early_barrier = reinterpret_cast<std::uintptr_t>(reader.early_barrier);
  } else if (origin->group < reader.begun_at_wait) {
    e.lax_wait = reinterpret_cast<std::uintptr_t>(reader.wait_pc);
  }
}

}  // namespace gpusim
