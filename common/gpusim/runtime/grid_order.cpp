#include "gpusim/runtime/grid_order.hpp"

#include <algorithm>
#include <string>

#include "gpusim/runtime/access.hpp"

namespace gpusim {

std::string name_of(Use use) {
  return use == Use::kRead ? "read" : use == Use::kWrite ? "write" : "atomic operation";
}

GridOrder::Key GridOrder::key(const User& user) { return {user.block(), user.thread() / kMaxThreads}; }

const std::vector<Arrival>& GridOrder::arrivals_of(const User& user) const {
  static const std::vector<Arrival> none;
  const auto found = arrivals_.find(key(user));
  return found != arrivals_.end() ? found->second : none;
}

GridOrder::Stamp GridOrder::stamp_of(const User& user, Use use, std::uintptr_t offset) const {
  const std::uint64_t bits = stamps(use)[offset / 4].load(std::memory_order_relaxed);
  const Stamp stamp{std::uint32_t(bits >> 32), std::uint16_t(bits >> 16), std::uint16_t(bits)};
  if (stamp.block == user.block()) return stamp;
  // That of another block of the launch: nothing is known of this one, so it is given the benefit of doubt.
  if (stamp.block >= first_block_) return {user.block(), 0, std::uint16_t(arrivals_of(user).size())};
  return {user.block(), 0, 0};  // it had not arrived
}

std::optional<GridOrder::Disorder> GridOrder::why_not(const User& first, Use first_use, const User& second,
                                                     Use second_use, std::uintptr_t offset) const {
  const std::vector<Arrival>&arrivals = arrivals_of(first), &acquisitions = arrivals_of(second);
  if (arrivals.empty()) return Disorder{};
  const Stamp released = stamp_of(first, first_use, offset), acquired = stamp_of(second, second_use, offset);
  if (released.before >= arrivals.size())
    return Disorder{{"the " + name_of(first_use) + " comes after its block's arrival at ",
                              Piece::line(arrivals.back().pc), ", which releases only what came before"}};
  const Arrival* arrival = nullptr;
  const Arrival* own = nullptr;      // of the second block, at the same counter
  const Arrival* earlier = nullptr;  // that comes before the second use
  const Arrival* acquire = nullptr;  // that acquires
  bool has_seen = false;             // it has come after the first block's
  for (std::size_t i = released.before; i < arrivals.size(); ++i) {
    const Arrival& at = arrivals[i];
    if (std::find(at.unreleased.begin(), at.unreleased.end(), offset / 4 * 4) != at.unreleased.end())
      continue;
    arrival = &at;
    for (const Arrival& a : acquisitions) own = a.counter == at.counter ? &a : own;
    for (std::size_t known = acquired.known; known != 0; known = acquisitions[known - 1].known) {
      const Arrival& a = acquisitions[known - 1];
      if (a.counter != at.counter) continue;
      earlier = &a;
      has_seen |= a.position > at.position;
      if (!a.acquires) continue;
      acquire = &a;
      if (a.position > at.position) return std::nullopt;
    }
  }
  const std::string use = name_of(second_use);
  if (arrival == nullptr)
    return Disorder{{
        "no __syncthreads() between the " + name_of(first_use) + " and its block's arrival at ",
        Piece::line(arrivals.back().pc)}};
  if (own == nullptr)
    return Disorder{{
        "the block of the " + use + " does not arrive at the counter of the other block's arrival at ",
        Piece::line(arrival->pc)}};
  if (earlier == nullptr)
    return Disorder{{"no __syncthreads() between the arrival of its block at ", Piece::line(own->pc),
                              " and the " + use}};
  if (acquire == nullptr)
    return Disorder{{"the atomic operation at ", Piece::line(earlier->pc),
                     " does not acquire: no __threadfence() after it, and it is not acq_rel"},
                    has_seen};
  return Disorder{{"the block of the " + use + " has not seen all arrivals: its own, at ",
                            Piece::line(acquire->pc), ", comes before that of the other block"}};
}

std::optional<GridOrder::Disorder> GridOrder::why_not(const GridRace& race) const {
  const auto forth = why_not(race.one, race.one_use, race.other, race.other_use, race.offset);
  if (!forth) return std::nullopt;
  const auto back = why_not(race.other, race.other_use, race.one, race.one_use, race.offset);
  if (!back) return std::nullopt;
  return race.other_use == Use::kAtomic
             ? back
             : forth;  // a write after atomic operations; or a read or write after a write
}

}  // namespace gpusim
