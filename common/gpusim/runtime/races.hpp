/// @file
/// Race detection: two accesses to the same bytes by different threads, at least one of them a write, with no
/// synchronisation between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/arena.hpp"

namespace gpusim {

/// Which accesses of its other lanes a lane of a warp may rely on. A tick passes at every __syncwarp().
///
/// Shuffles and votes order nothing here: CUDA gives them no memory semantics.
struct WarpClock {
  std::uint32_t tick = 1;
  std::uint32_t all_known = 0;  ///< what any lane did before this tick is known to all
  bool partial = false;         ///< some __syncwarp() named only part of the warp
  std::array<std::array<std::uint32_t, kWarpSize>, kWarpSize> known{};  ///< [b][a]: the same, of a, to b

  /// Did `earlier`'s access at tick `then` happen before whatever `now` does now?
  bool ordered(int earlier, std::uint32_t then, int now) const {
    return then < all_known || (partial && then < known[now][earlier]);
  }

  /// A __syncwarp() of these lanes has completed. @param everyone  no live lane of the warp was left out
  void synchronize(std::uint32_t lanes, bool everyone);
};

/// The other side of a race.
struct Rival {
  std::uint16_t thread;
  std::uint16_t site;
  AccessKind kind;
};

/// Who makes an access: which thread at which source site, at what time.
struct Actor {
  int thread;
  std::uint16_t site;
  AccessKind kind;
  std::uint32_t epoch;  ///< grows at every __syncthreads() and every block that the CPU thread runs
  const WarpClock* clock;

  int warp() const { return thread / kWarpSize; }
  int lane() const { return thread % kWarpSize; }
};

/// Race state of a block's shared memory: a cell per 4-byte word, and one per byte for words that were ever
/// accessed in part (two threads may write the halves of a word without disturbing each other).
class SharedShadow {
 public:
  explicit SharedShadow(std::size_t bytes);

  /// Calls on_race(rival) for every conflict of this access with an earlier one of the same epoch.
  template <class OnRace>
  void access(std::size_t offset, std::size_t bytes, const Actor& actor, OnRace&& on_race) {
    for (std::size_t end = offset + bytes; offset < end;) {
      const std::size_t word = offset / 4;
      const bool whole = offset % 4 == 0 && end - offset >= 4;
      if (whole && !cells_[word].split) [[likely]] {
        touch(cells_[word], actor, on_race);
        offset += 4;
        continue;
      }
      if (!cells_[word].split) split(word);
      do {
        touch(byte_cells_[offset], actor, on_race);
        ++offset;
      } while (offset < end && offset % 4 != 0);
    }
  }

  /// Forgets everything: after a block that did not end properly.
  void reset();

 private:
  static constexpr std::uint16_t kNobody = 0xffff;
  static constexpr std::uint8_t kNoWarp = 0xff;

  struct Cell {
    std::uint32_t epoch = 0;  ///< all but the copy below is of this epoch; older is as good as nothing
    std::uint32_t writer_tick = 0;
    std::uint32_t reader_tick = 0;
    std::uint32_t reader_lanes = 0;  ///< of reader_warp
    std::uint16_t writer = kNobody;
    std::uint16_t writer_site = 0;
    std::uint16_t reader_site = 0;
    std::uint16_t other_reader = kNobody;  ///< a thread of a warp other than reader_warp
    std::uint16_t other_reader_site = 0;
    std::uint16_t copier = kNobody;  ///< who issued an asynchronous copy that has not been waited for
    std::uint16_t copy_site = 0;
    std::uint8_t reader_warp = kNoWarp;
    bool writer_atomic : 1 = false;
    bool split : 1 = false;
  };
  static_assert(sizeof(Cell) == 32);

  void split(std::size_t word);

  template <class OnRace>
  static void touch(Cell& c, const Actor& a, OnRace&& on_race) {
    if (c.epoch != a.epoch) {
      c.epoch = a.epoch;
      c.writer = kNobody;
      c.reader_warp = kNoWarp;
      c.other_reader = kNobody;
    }
    if (c.copier != kNobody && !(a.kind == AccessKind::kCopyLand && c.copier == a.thread)) [[unlikely]] {
      on_race(Rival{c.copier, c.copy_site, AccessKind::kCopyIssue});
    }
    const bool reads = a.kind == AccessKind::kRead;
    if (c.writer != kNobody && c.writer != a.thread && !(c.writer_atomic && a.kind == AccessKind::kAtomic)) {
      if (c.writer / kWarpSize != a.warp() || !a.clock->ordered(c.writer % kWarpSize, c.writer_tick, a.lane())) {
        on_race(Rival{c.writer, c.writer_site, c.writer_atomic ? AccessKind::kAtomic : AccessKind::kWrite});
      }
    }
    if (reads) {
      if (c.reader_warp == a.warp() && c.reader_tick == a.clock->tick) {
        c.reader_lanes |= 1u << a.lane();
        return;
      }
      if (c.reader_warp != kNoWarp && c.reader_warp != a.warp()) {
        c.other_reader = std::uint16_t(c.reader_warp * kWarpSize + std::countr_zero(c.reader_lanes));
        c.other_reader_site = c.reader_site;
      }
      c.reader_warp = std::uint8_t(a.warp());
      c.reader_tick = a.clock->tick;
      c.reader_lanes = 1u << a.lane();
      c.reader_site = a.site;
      return;
    }
    if (c.reader_warp != kNoWarp) {
      if (c.reader_warp != a.warp()) {
        const int thread = c.reader_warp * kWarpSize + std::countr_zero(c.reader_lanes);
        on_race(Rival{std::uint16_t(thread), c.reader_site, AccessKind::kRead});
      } else {
        for (std::uint32_t rest = c.reader_lanes & ~(1u << a.lane()); rest != 0; rest &= rest - 1) {
          const int lane = std::countr_zero(rest);
          if (a.clock->ordered(lane, c.reader_tick, a.lane())) continue;
          on_race(Rival{std::uint16_t(a.warp() * kWarpSize + lane), c.reader_site, AccessKind::kRead});
          break;
        }
      }
      if (c.other_reader != kNobody && c.other_reader / kWarpSize != a.warp()) {
        on_race(Rival{c.other_reader, c.other_reader_site, AccessKind::kRead});
      }
    }
    if (a.kind == AccessKind::kCopyIssue) {
      c.copier = std::uint16_t(a.thread);
      c.copy_site = a.site;
      return;
    }
    if (a.kind == AccessKind::kCopyLand) c.copier = kNobody;
    c.writer = std::uint16_t(a.thread);
    c.writer_site = a.site;
    c.writer_tick = a.clock->tick;
    c.writer_atomic = a.kind == AccessKind::kAtomic;
  }

  std::size_t words_;
  std::unique_ptr<Cell[]> cells_;
  std::unique_ptr<Cell[]> byte_cells_;
};

/// Race state of global memory: between the blocks of a launch, and between the threads of a block.
class GlobalRaces {
 public:
  /// The blocks of the launch that runs have numbers in [first, ...).
  static std::uint32_t first_block;

  struct Block {
    std::uint32_t number;  ///< unique among all blocks of all launches
    std::uint32_t epoch;
  };

  /// Calls on_race(rival, rival_block_number) for every conflict.
  template <class OnRace>
  static void access(std::uintptr_t address, std::size_t bytes, const Block& block, const Actor& actor,
                     OnRace&& on_race) {
    Arena& arena = Arena::instance();
    if (address % 4 == 0 && bytes % 4 == 0) [[likely]] {
      for (std::uintptr_t end = address + bytes; address < end; address += 4) {
        GlobalCell& cell = arena.cell(address);
        if (cell.writer_when.load(std::memory_order_relaxed) != kSplit) [[likely]] {
          touch(cell, block, actor, on_race);
        } else {
          for (int b = 0; b < 4; ++b) touch(arena.byte_cell(address + b), block, actor, on_race);
        }
      }
      return;
    }
    for (std::uintptr_t end = address + bytes; address < end; ++address) {
      GlobalCell& word = arena.cell(address & ~std::uintptr_t(3));
      // From here on this word is followed byte by byte; what was known of it as a whole is dropped.
      word.writer_when.store(kSplit, std::memory_order_relaxed);
      touch(arena.byte_cell(address), block, actor, on_race);
    }
  }

 private:
  static constexpr std::uint64_t kSplit = ~std::uint64_t(0);
  static constexpr std::uint64_t kSeveralBlocks = 0x7fff;  // as a thread number
  static constexpr std::uint64_t kAtomicBit = 0x8000;

  static std::uint64_t who(const Block& block, std::uint64_t thread, std::uint16_t site) {
    return std::uint64_t(block.number) << 32 | thread << 16 | site;
  }

  template <class OnRace>
  static void touch(GlobalCell& c, const Block& block, const Actor& a, OnRace&& on_race) {
    constexpr auto relaxed = std::memory_order_relaxed;
    const std::uint64_t writer = c.writer_who.load(relaxed);
    const auto writer_block = std::uint32_t(writer >> 32);
    if (writer_block >= first_block) {
      const auto thread = std::uint16_t((writer >> 16) & 0x7fff);
      const bool atomic = (writer >> 16) & kAtomicBit;
      if (!(atomic && a.kind == AccessKind::kAtomic) &&
          conflicts(writer_block, thread, c.writer_when.load(relaxed), block, a)) {
        on_race(Rival{thread, std::uint16_t(writer), atomic ? AccessKind::kAtomic : AccessKind::kWrite},
                writer_block);
      }
    }
    const std::uint64_t reader = c.reader_who.load(relaxed);
    const auto reader_block = std::uint32_t(reader >> 32);
    const auto reader_thread = std::uint16_t((reader >> 16) & 0x7fff);
    const bool read_before = reader_block >= first_block;
    const std::uint64_t when = std::uint64_t(block.epoch) << 32 | a.clock->tick;
    if (a.kind == AccessKind::kRead) {
      if (read_before && reader_thread == kSeveralBlocks) return;  // no second look: K and V are read by all
      const bool others = read_before && reader_block != block.number;
      c.reader_who.store(who(block, others ? kSeveralBlocks : std::uint64_t(a.thread), a.site), relaxed);
      c.reader_when.store(when, relaxed);
      return;
    }
    if (read_before && (reader_thread == kSeveralBlocks ||
                        conflicts(reader_block, reader_thread, c.reader_when.load(relaxed), block, a))) {
      on_race(Rival{reader_thread == kSeveralBlocks ? std::uint16_t(0) : reader_thread, std::uint16_t(reader),
                    AccessKind::kRead},
              reader_block);
    }
    const std::uint64_t thread = std::uint64_t(a.thread) | (a.kind == AccessKind::kAtomic ? kAtomicBit : 0);
    c.writer_who.store(who(block, thread, a.site), relaxed);
    c.writer_when.store(when, relaxed);
  }

  static bool conflicts(std::uint32_t other_block, std::uint16_t other_thread, std::uint64_t other_when,
                        const Block& block, const Actor& a) {
    if (other_block != block.number) return true;
    if (other_thread == a.thread || std::uint32_t(other_when >> 32) != block.epoch) return false;
    return other_thread / kWarpSize != a.warp() ||
           !a.clock->ordered(other_thread % kWarpSize, std::uint32_t(other_when), a.lane());
  }
};

}  // namespace gpusim
