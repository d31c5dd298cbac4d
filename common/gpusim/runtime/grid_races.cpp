#include "gpusim/runtime/grid_races.hpp"

#include <bit>

namespace gpusim {
namespace {

constexpr bool conflict(int a, int b) {
  const auto is = [&](Use one, Use other) { return a == int(one) && b == int(other); };
  return !is(Use::kRead, Use::kRead) && !is(Use::kAtomic, Use::kAtomic) && !is(Use::kInTurn, Use::kInTurn);
}

/// By use: a bit for each use that is in conflict with it.
constexpr std::array<unsigned, kUses> kRivals = [] {
  std::array<unsigned, kUses> rivals{};
  for (int a = 0; a < kUses; ++a) {
    for (int b = 0; b < kUses; ++b) rivals[a] |= unsigned(conflict(a, b)) << b;
  }
  return rivals;
}();

}  // namespace

GridRaces::GridRaces(std::size_t bytes) : flags_(bytes >> kPageBits), suspects_(bytes / 4 / 64) {
  for (int unit = 0; unit < kUnits; ++unit) {
    for (Reserved<Cell>& cells : cells_[unit]) cells = Reserved<Cell>(bytes >> kUnitBits[unit]);
  }
}

GridRaces::operator bool() const {
  bool all = flags_ && suspects_;
  for (const auto& unit : cells_) {
    for (const Reserved<Cell>& cells : unit) all = all && cells;
  }
  return all;
}

/// Keeps the lowest two blocks. Each block is added at most once; but the blocks of a cluster, which run one
/// at a time, have the same number.
void GridRaces::insert(Cell& cell, std::uint64_t user) const {
  const auto is_known = [&](std::uint64_t other) {
    return is_current(other) && User{other}.block() == User{user}.block();
  };
  std::uint64_t lowest = cell.lowest.load();
  for (;;) {
    if (is_known(lowest)) return;
    if (is_current(lowest) && lowest < user) break;
    if (cell.lowest.compare_exchange_weak(lowest, user)) {
      if (!is_current(lowest)) return;
      user = lowest;  // which is now the second, or higher
      break;
    }
  }
  std::uint64_t second = cell.second.load();
  while (!is_current(second) || user < second) {
    if (is_known(second)) return;
    if (cell.second.compare_exchange_weak(second, user)) return;
  }
}

bool GridRaces::used_by_another(const Cell& cell, std::uint32_t block) const {
  const std::uint64_t lowest = cell.lowest.load();
  if (!is_current(lowest)) return false;
  return User{lowest}.block() != block || is_current(cell.second.load());
}

void GridRaces::record(std::uintptr_t offset, std::size_t bytes, Use use, User user,
                       std::vector<std::uintptr_t>& suspects) {
  publish(offset, bytes, bytes == 4 ? 2 : bytes == 2 && offset % 2 == 0 ? 1 : 0, use, user);
  find_conflict(offset, bytes, use, user, suspects);
}

void GridRaces::record_line(std::uintptr_t offset, Use use, User user,
                            std::vector<std::uintptr_t>& suspects) {
  constexpr std::uintptr_t kBytes = 1 << kUnitBits[kLine];
  publish(offset, kBytes, kLine, use, user);
  for (std::uintptr_t word = offset; word < offset + kBytes && rivals(word, use) != 0; word += 4)
    find_conflict(word, 4, use, user, suspects);
}

/// Each block first publishes its use and then looks at the others', so of two blocks at least one sees the
/// other.
void GridRaces::publish(std::uintptr_t offset, std::size_t bytes, int unit, Use use, User user) {
  auto& flags = flags_[offset >> kPageBits];
  const unsigned mine = flag(unit, int(use));
  if ((flags.load() & mine) == 0) flags.fetch_or(std::uint16_t(mine));
  const int bits = kUnitBits[unit];
  for (std::uintptr_t i = offset >> bits; i <= (offset + bytes - 1) >> bits; ++i)
    insert(cells_[unit][int(use)][i], user.bits);
}

/// Which of the uses around a byte are in conflict with this one, if they are of the same bytes: as flags.
unsigned GridRaces::rivals(std::uintptr_t offset, Use use) const {
  constexpr unsigned kEach = flag(0, 0) | flag(1, 0) | flag(2, 0) | flag(3, 0);
  return flags_[offset >> kPageBits].load() & kEach * kRivals[int(use)];
}

void GridRaces::find_conflict(std::uintptr_t offset, std::size_t bytes, Use use, User user,
                              std::vector<std::uintptr_t>& suspects) {
  for (unsigned rest = rivals(offset, use); rest != 0; rest &= rest - 1) {
    const int unit = std::countr_zero(rest) / kUses, other_use = std::countr_zero(rest) % kUses;
    const int bits = kUnitBits[unit];
    for (std::uintptr_t i = offset >> bits; i <= (offset + bytes - 1) >> bits; ++i) {
      if (!used_by_another(cells_[unit][other_use][i], user.block())) continue;
      const std::uintptr_t word = offset / 4;
      const std::uint64_t bit = std::uint64_t(1) << word % 64;
      if ((suspects_[word / 64].fetch_or(bit) & bit) == 0) suspects.push_back(word * 4);
      return;
    }
  }
}

/// The user of a byte that a cell says, whose bits it has: each lane uses a word of a line.
User GridRaces::user_of(std::uintptr_t byte, int unit, std::uint64_t bits) const {
  const User user{bits};
  if (unit != kLine) return user;
  return User::make(user.block(), user.thread() + int(byte % (1 << kUnitBits[kLine]) / 4), user.site());
}

/// The two lowest blocks with this use of a byte, whatever the size of their accesses.
std::array<User, 2> GridRaces::users(std::uintptr_t byte, int use) const {
  std::array<User, 2> result;
  const auto take = [&](int unit, std::uint64_t bits) {
    if (!is_current(bits)) return;
    const User user = user_of(byte, unit, bits);
    if (result[0].bits == 0 || user.block() < result[0].block()) {
      result[1] = result[0];
      result[0] = user;
    } else if (user.block() != result[0].block() &&
               (result[1].bits == 0 || user.block() < result[1].block())) {
      result[1] = user;
    }
  };
  const unsigned present = flags_[byte >> kPageBits].load();
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    if ((present & flag(unit, use)) == 0) continue;
    const Cell& cell = cells_[unit][use][byte >> kUnitBits[unit]];
    take(unit, cell.lowest.load());
    take(unit, cell.second.load());
  }
  return result;
}

std::optional<std::pair<Use, User>> GridRaces::earlier_use(std::uintptr_t offset, Use use,
                                                           std::uint32_t first) const {
  const unsigned present = flags_[offset >> kPageBits].load();
  for (const Use other : {Use::kWrite, Use::kAtomic, Use::kRead}) {
    for (int unit = 0; unit < kUnits && conflict(int(use), int(other)); ++unit) {
      if ((present & flag(unit, int(other))) == 0) continue;
      const User user =
          user_of(offset, unit, cells_[unit][int(other)][offset >> kUnitBits[unit]].lowest.load());
      if (user.block() >= first && user.block() < first_block_) return std::pair(other, user);
    }
  }
  return std::nullopt;
}

std::optional<User> GridRaces::writer(std::uintptr_t offset) const {
  for (const Use use : {Use::kWrite, Use::kAtomic, Use::kInTurn}) {
    if (const User user = users(offset, int(use))[0]; user.bits != 0) return user;
  }
  return std::nullopt;
}

void GridRaces::settle(std::uintptr_t suspect) {
  const std::uintptr_t word = suspect / 4;
  suspects_[word / 64].fetch_and(~(std::uint64_t(1) << word % 64));
}

std::vector<GridRace> GridRaces::conflicts(std::uintptr_t suspect) const {
  std::vector<GridRace> races;
  for (std::uintptr_t byte = suspect; byte < suspect + 4; ++byte) {
    std::array<std::array<User, 2>, kUses> by_use;
    for (int use = 0; use < kUses; ++use) by_use[use] = users(byte, use);
    for (const auto [a, b] : {std::array{Use::kWrite, Use::kWrite}, std::array{Use::kWrite, Use::kRead},
                              std::array{Use::kWrite, Use::kAtomic}, std::array{Use::kAtomic, Use::kRead},
                              std::array{Use::kInTurn, Use::kRead}, std::array{Use::kInTurn, Use::kWrite},
                              std::array{Use::kInTurn, Use::kAtomic}}) {
      const auto& one = by_use[int(a)];
      const auto& other = by_use[int(b)];
      GridRace race{byte, a, b, one[0], other[0]};
      if (one[0].bits == 0 || other[0].bits == 0) continue;
      if (one[0].block() == other[0].block()) {
        if (other[1].bits != 0) {
          race.other = other[1];
        } else if (one[1].bits != 0) {
          race.one = one[1];
        } else {
          continue;
        }
      }
      bool told = false;  // for another byte of the word
      for (const GridRace& r : races) {
        told |= r.one_use == a && r.other_use == b && r.one.bits == race.one.bits &&
                r.other.bits == race.other.bits;
      }
      if (!told) races.push_back(race);
    }
  }
  return races;
}

void GridRaces::forget(std::uintptr_t offset, std::size_t bytes) {
  for (int unit = 0; unit < kUnits; ++unit) {
    for (const Reserved<Cell>& cells : cells_[unit])
      cells.clear(offset >> kUnitBits[unit], bytes >> kUnitBits[unit]);
  }
  flags_.clear(offset >> kPageBits, bytes >> kPageBits);
}

void GridRaces::forget_all() {
  for (const auto& unit : cells_) {
    for (const Reserved<Cell>& cells : unit) cells.clear();
  }
  flags_.clear();
}

}  // namespace gpusim
