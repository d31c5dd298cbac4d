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

const GridOrder::Reached& GridOrder::reached_from(Key block, std::size_t arrival) const {
  const auto [known, is_new] = reached_.try_emplace({block, arrival});
  Reached& reached = known->second;
  if (!is_new) return reached;
  if (acquisitions_.empty()) {
    for (const auto& [of, arrivals] : arrivals_) {
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        if (arrivals[i].acquires) acquisitions_[arrivals[i].counter].push_back({arrivals[i].position, of, i});
      }
    }
    for (auto& [counter, all] : acquisitions_) {
      std::sort(all.begin(), all.end(),
                [](const Acquisition& a, const Acquisition& b) { return a.position < b.position; });
    }
  }
  std::map<std::uintptr_t, std::uint64_t>
      seen_from;  // by counter: acquisitions after this one have been seen
  struct Part {
    Key of;
    std::size_t begin, end;  // of its arrivals
  };
  std::vector<Part> open{{block, arrival, arrivals_.at(block).size()}};
  while (!open.empty()) {
    const auto [of, begin, end] = open.back();
    open.pop_back();
    for (std::size_t i = begin; i < end; ++i) {
      const Arrival& at = arrivals_.at(of)[i];
      const auto all = acquisitions_.find(at.counter);
      if (!at.releases || all == acquisitions_.end()) continue;
      std::uint64_t& seen = seen_from.try_emplace(at.counter, ~std::uint64_t(0)).first->second;
      if (at.position >= seen) continue;
      auto next = std::upper_bound(
          all->second.begin(), all->second.end(), at.position,
          [](std::uint64_t position, const Acquisition& a) { return position < a.position; });
      for (; next != all->second.end() && next->position <= seen; ++next) {
        const auto [best, is_first] = reached.try_emplace(next->block, next->number);
        const std::size_t to = is_first ? arrivals_.at(next->block).size() : best->second;
        if (!is_first && best->second <= next->number) continue;
        best->second = next->number;
        open.push_back({next->block, next->number, to});
      }
      seen = at.position;
    }
  }
  return reached;
}

std::optional<GridOrder::Disorder> GridOrder::why_not(const User& first, Use first_use, const User& second,
                                                      Use second_use, std::uintptr_t offset) const {
  const std::vector<Arrival>&arrivals = arrivals_of(first), &acquisitions = arrivals_of(second);
  if (std::none_of(arrivals.begin(), arrivals.end(), [](const Arrival& a) { return a.releases; }))
    return Disorder{};
  const Stamp released = stamp_of(first, first_use, offset), acquired = stamp_of(second, second_use, offset);
  if (released.before >= arrivals.size())
    return Disorder{{"the " + name_of(first_use) + " comes after its block's arrival at ",
                     Piece::line(arrivals.back().pc), ", which releases only what came before"}};
  const Arrival* arrival = nullptr;
  const Arrival* own = nullptr;      // of the second block, at the same counter
  const Arrival* earlier = nullptr;  // that comes before the second use
  const Arrival* acquire = nullptr;  // that acquires
  bool has_seen = false;             // it has come after the first block's
  std::optional<std::size_t> first_release;
  for (std::size_t i = released.before; i < arrivals.size(); ++i) {
    const Arrival& at = arrivals[i];
    if (!at.releases) continue;
    if (std::find(at.unreleased.begin(), at.unreleased.end(), offset / 4 * 4) != at.unreleased.end())
      continue;
    arrival = &at;
    if (!first_release) first_release = i;
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
  if (first_release) {
    const Reached& reached = reached_from(key(first), *first_release);
    const auto block = reached.find(key(second));
    for (std::size_t known = acquired.known; block != reached.end() && known != 0;
         known = acquisitions[known - 1].known) {
      if (known - 1 >= block->second) return std::nullopt;
    }
  }
  const std::string use = name_of(second_use);
  if (arrival == nullptr)
    return Disorder{{"no __syncthreads() between the " + name_of(first_use) + " and its block's arrival at ",
                     Piece::line(arrivals.back().pc)}};
  if (own == nullptr)
    return Disorder{
        {"the block of the " + use + " does not arrive at the counter of the other block's arrival at ",
         Piece::line(arrival->pc)}};
  if (earlier == nullptr)
    return Disorder{
        {"no __syncthreads() between the arrival of its block at ", Piece::line(own->pc), " and the " + use}};
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
  if (forth->is_without_fence != back->is_without_fence) return forth->is_without_fence ? forth : back;
  return race.other_use == Use::kAtomic
             ? back
             : forth;  // a write after atomic operations; or a read or write after a write
}

}  // namespace gpusim
