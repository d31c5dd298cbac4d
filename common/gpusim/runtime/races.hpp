/// @file
/// Races between the threads of a block: two accesses to the same bytes by different threads, at least one of
/// them a write, with no synchronisation between them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/async_shared.hpp"
#include "gpusim/runtime/clocks.hpp"
#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// Which accesses of other lanes in its warp a lane may rely on. A tick passes at every __syncwarp().
///
/// Shuffles and votes order nothing here: CUDA gives them no memory semantics.
struct WarpClock {
  std::uint32_t tick = 1;
  std::uint32_t all_known = 0;  ///< all lanes know what any lane did before this tick
  bool partial = false;         ///< some __syncwarp() named only part of the warp
  std::array<std::array<std::uint32_t, kWarpSize>, kWarpSize> known{};  ///< [b][a]: the same, of a, to b

  /// Whether the access of lane `earlier` at tick `then` happened before whatever lane `now` does now.
  bool ordered(int earlier, std::uint32_t then, int now) const {
    return then < all_known || (partial && then < known[now][earlier]);
  }

  /// Lane `now` knows what lane `earlier` did before this tick.
  std::uint32_t known_by(int now, int earlier) const {
    return partial ? std::max(all_known, known[now][earlier]) : all_known;
  }

  /// A __syncwarp() of these lanes has completed. @param everyone  no live lane of the warp was left out
  void synchronize(std::uint32_t lanes, bool everyone);
};

/// The other side of a race.
struct Rival {
  std::uint16_t thread;  ///< or the sequence of an asynchronous operation (ThreadClocks::kFirstSequence)
  std::uint16_t site;
  AccessKind kind;
  bool operator==(const Rival&) const = default;
};

/// The origin of an access: warp, source site, and time.
struct Actor {
  int warp;
  std::uint16_t site;
  AccessKind kind;
  std::uint32_t block_epoch;  ///< `epoch` when the block started
  std::uint32_t epoch;        ///< grows at every __syncthreads() and every block that the CPU thread runs
  const WarpClock* clock;
  /// Epoch (32 bits), time of the warp's last synchronisation (25), warp + 1 (6), 0. With clocks: the warp's
  /// tick.
  std::uint64_t tag;
  std::uint64_t reader_tag;  ///< the same for reads; for other accesses, a value that matches nothing
  const ThreadClocks*
      clocks;              ///< null: only __syncthreads() and __syncwarp() order the accesses of this block
  bool is_remote = false;  ///< it belongs to another block of the cluster than the memory, and has clocks; ..
  std::size_t first = 0;   ///< .. and this is the component of thread 0 of the block whose memory it is

  Actor(int warp_, std::uint16_t site_, AccessKind kind_, std::uint32_t block_epoch_, std::uint32_t epoch_,
        const WarpClock& clock_, const ThreadClocks* clocks_ = nullptr)
      : warp(warp_),
        site(site_),
        kind(kind_),
        block_epoch(block_epoch_),
        epoch(epoch_),
        clock(&clock_),
        tag(std::uint64_t(epoch) << 32 |
            (std::uint64_t(clocks_ == nullptr ? clock->all_known : clock->tick) << 7 & 0xffffff80u) |
            std::uint64_t(warp + 1) << 1),
        reader_tag(kind == AccessKind::kRead ? tag : ~std::uint64_t(0)),
        clocks(clocks_) {}

  /// Whether `thread`, of this warp, knows through barriers what another one did at that tick.
  bool knows(int thread, std::uint16_t other, std::uint32_t then) const {
    if (clocks == nullptr) return false;
    return is_remote ? clocks->knows(thread, other, then, first) : clocks->knows(thread, other, then);
  }
  /// The same of what it read.
  bool knows_read(int thread, std::uint16_t other, std::uint32_t then) const {
    return clocks != nullptr && clocks->knows_read(thread, other, then, is_remote ? first : clocks->first());
  }
  /// Whether what a lane does now comes after what another thread, or a sequence, did at that tick of this
  /// epoch.
  bool comes_after(int lane, std::uint16_t other, std::uint32_t then) const {
    const int thread = warp * kWarpSize + lane;
    return is_thread(thread, other) ||
           (is_in_warp(other / kWarpSize) && clock->ordered(other % kWarpSize, then, lane)) ||
           knows(thread, other, then);
  }
  bool is_in_warp(int other) const { return warp == other && !is_remote; }
  bool is_thread(int thread, int other) const { return thread == other && !is_remote; }
};

/// Race state of consecutive words of memory: a cell per 4-byte word, and one per byte for words that the
/// block has accessed in part (two threads may write the two halves of a word without a conflict).
class RaceShadow {
 public:
  explicit RaceShadow(std::size_t words) : words_(words), cells_(words) {
    if (!cells_) throw std::bad_alloc();
  }

  /// An access by lanes to the same bytes. Calls
  ///   on_race(lane, rival) for every earlier access of the same epoch that it conflicts with, once per word,
  ///   on_first(offset, bytes, lane) if the block has not used these bytes in this way before,
  ///   on_copied(offset) if this is the first read of a word since an asynchronous copy to it has landed.
  template <class OnRace, class OnFirst, class OnCopied>
  void access(std::size_t offset, std::size_t bytes, std::uint32_t lanes, const Actor& a, OnRace&& on_race,
              OnFirst&& on_first, OnCopied&& on_copied) {
    for (; bytes >= 4; offset += 4, bytes -= 4) {
      if (read_again(offset, lanes, a)) continue;
      if (!read_first(offset, lanes, a)) break;
      Cell& c = cells_[offset / 4];
      if ((c.uses & (kReadUse | kUnread)) == kReadUse) continue;
      if (reads_copy(c, a)) on_copied(offset);
      if ((c.uses & kReadUse) != 0) continue;
      c.uses |= kReadUse;
      on_first(offset, std::size_t(4), std::countr_zero(lanes));
    }
    if (bytes != 0) access_words(offset, bytes, lanes, a, on_race, on_first, on_copied);
  }

  /// An access follows soon.
  void prefetch(std::size_t offset) const { __builtin_prefetch(&cells_[offset / 4]); }

  /// A read or store by all lanes of the words of a line of 128 bytes, in order, if the block has not used
  /// any of them before. @return  false: it has
  bool use_new_line(std::size_t offset, const Actor& a) {
    Cell* const line = &cells_[offset / 4];
    if (!std::all_of(line, line + kWarpSize, [&](const Cell& c) { return c.is_void(a); })) return false;
    const bool is_read = a.kind == AccessKind::kRead;
    Cell use;
    use.uses = use_of(a.kind);
    use.tag = is_read ? a.tag : std::uint64_t(a.epoch) << 32 | Cell::kDisturbed;
    (is_read ? use.reader_tick : use.writer_tick) = a.clock->tick;
    (is_read ? use.reader_site : use.writer_site) = a.site;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (is_read) {
        use.reader_lanes = 1u << lane;
      } else {
        use.writer = std::uint16_t(a.warp * kWarpSize + lane);
      }
      line[lane] = use;
    }
    return true;
  }

  /// An asynchronous copy to whole words begins, issued by a thread. From now on, they are written at some
  /// time, and whoever knows that `number` of the sequence is finished may use them.
  template <class OnRace>
  void begin_copy(std::size_t offset, std::size_t bytes, int lane, const Actor& a, Completion copy,
                  OnRace&& on_race) {
    for_each_cell(offset, bytes, a, [&](Cell& c) {
      // A __syncthreads() of the block says nothing to a thread of another one.
      const bool is_older = c.epoch() != a.epoch && c.epoch() >= a.block_epoch;
      if (a.is_remote && is_older && !c.copying && meet_writer(c, lane, a, on_race))
        tell_readers(c, lane, a, on_race);
      renew(c, a);
      touch(c, lane, a, on_race);
      c.copying = true;
      c.writer = copy.sequence;
      c.writer_site = a.site;
      c.writer_tick = copy.number;
      c.writer_atomic = a.kind == AccessKind::kAtomic;
      c.writer_copied = true;
      c.tag |= Cell::kDisturbed;
    });
  }
  /// It has landed.
  void end_copy(std::size_t offset, std::size_t bytes, const Actor& a, Completion copy) {
    for_each_cell(offset, bytes, a, [&](Cell& c) {
      if (!c.copying || c.writer != copy.sequence || c.writer_tick != copy.number) return;
      renew(c, a);
      c.copying = false;
      c.tag |= Cell::kDisturbed;
    });
  }
  /// A thread, or an asynchronous operation that it issues, reads whole words, which leaves no trace: finds
  /// the write that it would be in conflict with.
  template <class OnRace>
  void check_read(std::size_t offset, std::size_t bytes, int lane, const Actor& a, OnRace&& on_race) {
    for_each_cell(offset, bytes, a, [&](Cell& c) {
      if (c.epoch() == a.epoch || c.copying) meet_writer(c, lane, a, on_race);
    });
  }
  /// Calls f(word, thread, site, tick) for each word in a range that a thread has written in this block, as
  /// far as is known.
  template <class F>
  void for_each_writer(std::size_t first, std::size_t end, std::uint32_t block_epoch, F&& f) const {
    for (std::size_t i = first; i < end; ++i) {
      const Cell& c = cells_[i].split ? byte_cells_[4 * i] : cells_[i];
      if (c.epoch() >= block_epoch && c.writer < ThreadClocks::kFirstSequence && !c.copying)
        f(i, c.writer, c.writer_site, c.writer_tick);
    }
  }

  /// Remembers the readers of all warps, not only of two. They matter to blocks with clocks only.
  void keep_readers() {
    if (other_readers_) return;
    other_readers_ = Reserved<std::uint32_t>(words_);
    for (auto& reads : reads_) reads = Reserved<Reads>(words_);
  }

  /// Forgets everything, after a block that did not end properly.
  void reset();

 private:
  static constexpr std::uint16_t kNobody = 0xffff;

  struct Cell {
    /// Actor::tag of the warp that has read last (its number is -1 if none has), and in the lowest bit
    /// whether there is more to know. If it is of an older epoch, the whole cell is void, except for a copy
    /// in flight.
    std::uint64_t tag = 0;
    std::uint32_t writer_tick = 0;
    std::uint32_t reader_tick = 0;  ///< of the first read in that time
    std::uint32_t reader_lanes = 0;
    std::uint16_t writer = kNobody;  ///< or who issued the copy
    std::uint16_t writer_site = 0;
    std::uint16_t reader_site = 0;
    std::uint16_t other_reader = kNobody;  ///< a thread of another warp that has read the word
    std::uint16_t other_reader_site = 0;
    std::uint8_t uses = 0;  ///< by this block, whatever the epoch: kReadUse | .. | kUnread
    bool writer_atomic : 1 = false;
    bool writer_copied : 1 = false;  ///< by an asynchronous copy, which has landed at the writer's wait
    bool copying : 1 = false;        ///< an asynchronous copy has been issued and not been waited for
    bool split : 1 = false;

    static constexpr std::uint64_t kDisturbed = 1;
    std::uint32_t epoch() const { return std::uint32_t(tag >> 32); }
    int reader_warp() const { return int(tag >> 1 & 63) - 1; }
    /// Whether the block has not used it.
    bool is_void(const Actor& a) const { return epoch() < a.block_epoch && !split && !copying; }
  };
  static_assert(sizeof(Cell) == 32);

  static constexpr std::uint8_t kReadUse = 1, kWriteUse = 2, kAtomicUse = 4;
  static constexpr std::uint8_t kUnread = 8;  ///< an asynchronous copy has landed, and nobody has used it yet
  static std::uint8_t use_of(AccessKind kind) {
    return kind == AccessKind::kRead ? kReadUse : kind == AccessKind::kAtomic ? kAtomicUse : kWriteUse;
  }

  /// The common case: the warp has read the word since its last synchronisation, and no thread writes it.
  bool read_again(std::size_t offset, std::uint32_t lanes, const Actor& a) {
    Cell& c = cells_[offset / 4];
    if (c.tag != a.reader_tag || offset % 4 != 0) return false;
    c.reader_lanes |= lanes;
    return true;
  }

  /// The next most common case: the warp's first read of a word in this epoch, and no thread writes it.
  bool read_first(std::size_t offset, std::uint32_t lanes, const Actor& a) {
    Cell& c = cells_[offset / 4];
    if (a.kind != AccessKind::kRead || c.split || c.copying || offset % 4 != 0) return false;
    if (c.epoch() != a.epoch) {
      if (c.epoch() < a.block_epoch) c.uses = 0;
      c.tag = 0;
      c.writer = kNobody;
      c.other_reader = kNobody;
    } else if (c.writer != kNobody) {
      return false;
    }
    note_read(c, lanes, a);
    return true;
  }

  template <class OnRace, class OnFirst, class OnCopied>
  [[gnu::noinline]] void access_words(std::size_t offset, std::size_t bytes, std::uint32_t lanes,
                                      const Actor& a, OnRace&& on_race, OnFirst&& on_first,
                                      OnCopied&& on_copied) {
    for (const std::size_t end = offset + bytes; offset < end;) {
      const std::size_t part = std::min(end - offset, 4 - offset % 4);
      Cell& c = cells_[offset / 4];
      if (c.split && c.epoch() < a.block_epoch) c = {};
      // Lanes that store together do not race with each other: each meets what was there before.
      const bool is_store = a.kind == AccessKind::kWrite && (lanes & (lanes - 1)) != 0;
      if (is_store && (part != 4 || c.split)) {
        store_bytes_together(offset, part, lanes, a, on_race, on_first);
        offset += part;
        continue;
      }
      Cell before;
      for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        if (part != 4 || c.split) {
          access_bytes(offset, part, lane, a, on_race, on_first, on_copied);
        } else {
          if (renew(c, a)) on_first(offset, part, lane);
          if (is_store && rest == lanes) {
            before = c;
          } else if (is_store) {
            c = before;
          }
          touch(c, lane, a, on_race);
          if (reads_copy(c, a)) on_copied(offset);
        }
      }
      offset += part;
    }
  }

  /// The same for lanes that store to the same bytes together.
  template <class OnRace, class OnFirst>
  void store_bytes_together(std::size_t offset, std::size_t bytes, std::uint32_t lanes, const Actor& a,
                            OnRace&& on_race, OnFirst&& on_first) {
    if (!cells_[offset / 4].split) split(offset / 4);
    std::array<Cell, 4> before;
    for (std::size_t i = 0; i < bytes; ++i) before[i] = byte_cells_[offset + i];
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      for (std::size_t i = 0; i < bytes && rest != lanes; ++i) {
        const std::uint8_t uses = byte_cells_[offset + i].uses;
        byte_cells_[offset + i] = before[i];
        byte_cells_[offset + i].uses = uses;
      }
      access_bytes(offset, bytes, std::countr_zero(rest), a, on_race, on_first, [](std::size_t) {});
    }
  }

  /// Part of a word, or a word that the block has accessed in part before.
  template <class OnRace, class OnFirst, class OnCopied>
  void access_bytes(std::size_t offset, std::size_t bytes, int lane, const Actor& a, OnRace&& on_race,
                    OnFirst&& on_first, OnCopied&& on_copied) {
    Cell& word = cells_[offset / 4];
    if (!word.split) split(offset / 4);
    word.tag = std::uint64_t(a.epoch) << 32 | Cell::kDisturbed;
    bool first = false;
    for (std::size_t i = offset; i < offset + bytes; ++i) first |= renew(byte_cells_[i], a);
    if (first) on_first(offset, bytes, lane);
    std::array<Rival, 4 * 4> told;  // the bytes of a word share most rivals
    int n = 0;
    for (std::size_t i = offset; i < offset + bytes; ++i) {
      touch(byte_cells_[i], lane, a, [&](int, const Rival& rival) {
        if (std::find(told.begin(), told.begin() + n, rival) != told.begin() + n) return;
        told[n++] = rival;
        on_race(lane, rival);
      });
    }
    bool copied = false;
    for (std::size_t i = offset; i < offset + bytes; ++i) copied |= reads_copy(byte_cells_[i], a);
    if (copied) on_copied(offset);
  }

  /// Updates a cell to the current epoch. @return whether this is the block's first use of this kind
  static bool renew(Cell& c, const Actor& a) {
    if (c.epoch() != a.epoch) {
      if (c.epoch() < a.block_epoch) c.uses = 0;
      c.tag = std::uint64_t(a.epoch) << 32 | (c.copying ? Cell::kDisturbed : 0);
      if (!c.copying) c.writer = kNobody;
      c.other_reader = kNobody;
    }
    const bool first = (c.uses & use_of(a.kind)) == 0;
    c.uses |= use_of(a.kind);
    return first;
  }

  /// Notes that a copy has landed, or has been used or overwritten. @return whether this is its first use
  static bool reads_copy(Cell& c, const Actor& a) {
    const bool unread = (c.uses & kUnread) != 0;
    c.uses = std::uint8_t(a.kind == AccessKind::kCopyLand ? c.uses | kUnread : c.uses & ~kUnread);
    return unread && (a.kind == AccessKind::kRead || a.kind == AccessKind::kAtomic);
  }

  /// Calls f(cell) for each word of a range, or for each byte of those that the block has accessed in part.
  template <class F>
  void for_each_cell(std::size_t offset, std::size_t bytes, const Actor& a, F&& f) {
    for (std::size_t word = offset / 4; word < (offset + bytes) / 4; ++word) {
      Cell& c = cells_[word];
      if (c.split && c.epoch() < a.block_epoch) c = {};
      if (!c.split) {
        f(c);
        continue;
      }
      c.tag = std::uint64_t(a.epoch) << 32 | Cell::kDisturbed;
      for (std::size_t i = 4 * word; i < 4 * word + 4; ++i) f(byte_cells_[i]);
    }
  }

  /// Finds the write that an access is in conflict with. @return false if a copy is in flight
  template <class OnRace>
  static bool meet_writer(const Cell& c, int lane, const Actor& a, OnRace&& on_race) {
    const auto thread = std::uint16_t(a.warp * kWarpSize + lane);
    if (c.copying) {
      const bool adds = c.writer_atomic && a.kind == AccessKind::kAtomic;
      if (adds || (a.kind == AccessKind::kCopyLand && a.is_thread(thread, c.writer))) return true;
      on_race(lane, Rival{c.writer, c.writer_site, AccessKind::kCopyIssue});
      return false;
    }
    if (c.writer == kNobody || (c.writer_atomic && a.kind == AccessKind::kAtomic) ||
        a.comes_after(lane, c.writer, c.writer_tick))
      return true;
    on_race(lane, Rival{c.writer, c.writer_site,
                        c.writer_atomic   ? AccessKind::kAtomic
                        : c.writer_copied ? AccessKind::kCopyLand
                                          : AccessKind::kWrite});
    return true;
  }

  template <class OnRace>
  void touch(Cell& c, int lane, const Actor& a, OnRace&& on_race) {
    const auto thread = std::uint16_t(a.warp * kWarpSize + lane);
    if (!meet_writer(c, lane, a, on_race)) return;
    if (a.kind == AccessKind::kCopyLand) c.copying = false;
    if (a.kind == AccessKind::kRead) {
      note_read(c, 1u << lane, a);
      return;
    }
    tell_readers(c, lane, a, on_race);
    // Later atomics race with a plain write, but not with each other, so keep the write.
    if (c.writer != kNobody && !c.writer_atomic && a.kind == AccessKind::kAtomic) return;
    c.tag |= Cell::kDisturbed;
    c.copying = a.kind == AccessKind::kCopyIssue;
    c.writer = thread;
    c.writer_site = a.site;
    c.writer_tick = a.clock->tick;
    c.writer_atomic = a.kind == AccessKind::kAtomic;
    c.writer_copied = a.kind == AccessKind::kCopyLand;
  }

  void note_read(Cell& c, std::uint32_t lanes, const Actor& a) {
    if ((c.tag & ~Cell::kDisturbed) == a.tag) {
      c.reader_lanes |= lanes;
      return;
    }
    const int warp = c.reader_warp();
    if (warp >= 0 && warp != a.warp) {
      if (a.clocks != nullptr) keep_reader(c);
      c.other_reader = std::uint16_t(warp * kWarpSize + std::countr_zero(c.reader_lanes));
      c.other_reader_site = c.reader_site;
    }
    c.tag = a.tag | (c.writer != kNobody ? Cell::kDisturbed : 0);
    c.reader_tick = a.clock->tick;
    c.reader_lanes = lanes;
    c.reader_site = a.site;
  }

  /// A write: finds the readers of what it overwrites.
  template <class OnRace>
  void tell_readers(Cell& c, int lane, const Actor& a, OnRace&& on_race) {
    const int warp = c.reader_warp();
    if (warp < 0) return;
    if (a.clocks != nullptr) {
      tell_all_readers(c, lane, a, on_race);
    } else if (warp != a.warp) {
      on_race(lane, Rival{std::uint16_t(warp * kWarpSize + std::countr_zero(c.reader_lanes)), c.reader_site,
                          AccessKind::kRead});
    } else {
      for (std::uint32_t rest = c.reader_lanes & ~(1u << lane); rest != 0; rest &= rest - 1) {
        const int reader = std::countr_zero(rest);
        if (a.clock->ordered(reader, c.reader_tick, lane)) continue;
        on_race(lane, Rival{std::uint16_t(warp * kWarpSize + reader), c.reader_site, AccessKind::kRead});
        break;
      }
    }
    if (a.clocks == nullptr && c.other_reader != kNobody && c.other_reader / kWarpSize != a.warp) {
      on_race(lane, Rival{c.other_reader, c.other_reader_site, AccessKind::kRead});
    }
  }

  // --- with clocks: a read by one warp may be known to a writer, and that by another one not

  /// The latest reads of a word by the lanes of a warp.
  struct Reads {
    std::uint32_t tick, lanes;
    std::uint16_t site;
  };

  /// The number of a cell's word; bytes have none.
  std::size_t word_of(const Cell& c) const {
    const auto distance = reinterpret_cast<std::uintptr_t>(&c) - reinterpret_cast<std::uintptr_t>(&cells_[0]);
    return distance / sizeof(Cell);
  }

  /// The warp that has read last makes room for another one.
  void keep_reader(const Cell& c) {
    const std::size_t word = word_of(c);
    if (!other_readers_ || word >= words_) return;
    const int warp = c.reader_warp();
    if (c.other_reader == kNobody) other_readers_[word] = 0;
    other_readers_[word] |= 1u << warp;
    reads_[std::size_t(warp)][word] = {c.reader_tick, c.reader_lanes, c.reader_site};
  }

  template <class OnRace>
  void tell_all_readers(Cell& c, int lane, const Actor& a, OnRace&& on_race) {
    const int thread = a.warp * kWarpSize + lane;
    const auto tell = [&](int warp, const Reads& reads) {
      for (std::uint32_t rest = reads.lanes; rest != 0; rest &= rest - 1) {
        const auto reader = std::uint16_t(warp * kWarpSize + std::countr_zero(rest));
        if (a.is_thread(thread, reader) || a.knows_read(thread, reader, reads.tick)) continue;
        if (a.is_in_warp(warp) && a.clock->ordered(reader % kWarpSize, reads.tick, lane)) continue;
        return on_race(lane, Rival{reader, reads.site, AccessKind::kRead});
      }
    };
    tell(c.reader_warp(), {c.reader_tick, c.reader_lanes, c.reader_site});
    const std::size_t word = word_of(c);
    if (c.other_reader == kNobody || !other_readers_ || word >= words_) return;
    for (std::uint32_t rest = other_readers_[word] & ~(1u << c.reader_warp()); rest != 0; rest &= rest - 1) {
      const int warp = std::countr_zero(rest);
      tell(warp, reads_[std::size_t(warp)][word]);
    }
  }

  void split(std::size_t word);

  std::size_t words_;
  Reserved<Cell> cells_;                ///< those that nobody has used are void: blocks begin with epoch 1
  std::unique_ptr<Cell[]> byte_cells_;  ///< from the first split on

  // See keep_readers().
  Reserved<std::uint32_t>
      other_readers_;  ///< by word: of which warps reads_ says more, if it has an other_reader
  std::array<Reserved<Reads>, kMaxWarps> reads_;  ///< by warp and word
};

/// Race state of the global memory that one block uses, made page by page.
class GlobalShadow {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  explicit GlobalShadow(std::size_t arena_bytes) : pages_(arena_bytes / kPageBytes) {}

  /// The state of the page that holds this offset into the arena.
  RaceShadow& page(std::size_t offset) {
    RaceShadow*& page = pages_[offset / kPageBytes];
    if (page == nullptr) [[unlikely]]
      page = take_page(offset / kPageBytes);
    return *page;
  }

  /// Calls f(offset, page) for each page that the block has used, with its offset into the arena.
  template <class F>
  void for_each_page(F&& f) {
    for (const std::size_t number : used_) f(number * kPageBytes, *pages_[number]);
  }

  /// The next block starts and reuses the pages of this one.
  void next_block();

  /// Forgets everything, after a block that did not end properly.
  void reset();

 private:
  RaceShadow* take_page(std::size_t number);

  Reserved<RaceShadow*> pages_;
  std::vector<std::size_t> used_;
  std::vector<std::unique_ptr<RaceShadow>> all_;
  std::vector<RaceShadow*> free_;
};

}  // namespace gpusim
