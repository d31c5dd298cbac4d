#include "gpusim/runtime/cost.hpp"

#include <algorithm>
#include <bit>

namespace gpusim {
namespace {

constexpr std::uint32_t kAllLanes = 0xffffffffu;

/// The addresses of the lanes that take part, in lane order.
struct Active {
  const std::uintptr_t* begin;
  int count;
  LaneAddresses storage;

  Active(const LaneAddresses& addresses, std::uint32_t lanes) : begin(addresses.data()), count(kWarpSize) {
    if (lanes == kAllLanes) return;
    count = std::popcount(lanes);
    const int first = std::countr_zero(lanes);
    if (lanes >> first == (std::uint64_t(1) << count) - 1) {  // neighbours
      begin += first;
      return;
    }
    begin = storage.data();
    for (int n = 0; lanes != 0; lanes &= lanes - 1) storage[n++] = addresses[std::countr_zero(lanes)];
  }
  Active(const Active&) = delete;

  /// Whether every address is `step` bytes after the one before it.
  bool is_sequence(std::uintptr_t step) const {
    if (count > 1 && begin[1] - begin[0] != step) return false;
    std::uintptr_t deviation = 0;
    for (int i = 1; i < count; ++i) deviation |= begin[i] - begin[i - 1] - step;
    return deviation == 0;
  }
};

/// Passes over the banks that these lanes need: the largest number of different words in one bank.
///
/// @tparam kWords  the number of words that each lane requests
template <std::uint32_t kWords>
int passes(const Active& active) {
  constexpr int kBanks = 32;
  const auto for_each_word = [&](auto&& f) {
    for (int i = 0; i < active.count; ++i) {
      const auto first = std::uint32_t(active.begin[i] / 4);
      for (std::uint32_t w = first; w != first + kWords; ++w) f(w);
    }
  };
  // Nearly always only one word of each bank is requested. Then all lanes agree on the word last requested
  // there.
  std::array<std::uint32_t, kBanks> last;
  std::uint32_t conflict = 0;
  for_each_word([&](std::uint32_t w) { last[w % kBanks] = w; });
  for_each_word([&](std::uint32_t w) { conflict |= last[w % kBanks] ^ w; });
  if (conflict == 0) return 1;

  std::array<std::array<std::uint32_t, 2 * kWarpSize>, kBanks> words;  // of each bank the first load[bank]
  std::array<int, kBanks> load{};
  int most = 0;
  for_each_word([&](std::uint32_t w) {
    auto& in_bank = words[w % kBanks];
    int& n = load[w % kBanks];
    if (std::find(in_bank.begin(), in_bank.begin() + n, w) != in_bank.begin() + n) return;
    in_bank[n++] = w;
    most = std::max(most, n);
  });
  return most;
}

/// Whether every active lane reads the same as the lane at XOR distance `distance`, if that lane is active.
bool lanes_pair_up(const LaneAddresses& addresses, std::uint32_t lanes, int distance) {
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const int partner = lane ^ distance;
    if ((lanes >> partner & 1) != 0 && addresses[lane] != addresses[partner]) return false;
  }
  return true;
}

}  // namespace

GlobalCost global_cost(const LaneAddresses& addresses, std::uint32_t lanes, std::size_t size) {
  if (lanes == 0) return {};
  const Active active(addresses, lanes);
  const int n = active.count;
  if (active.is_sequence(size)) {
    const std::uintptr_t end = active.begin[n - 1] + size;
    return {std::int64_t(end - active.begin[0]), std::int64_t((end - 1) / 32 - active.begin[0] / 32 + 1)};
  }
  LaneAddresses sorted;
  std::copy_n(active.begin, n, sorted.begin());
  if (!std::is_sorted(sorted.begin(), sorted.begin() + n)) std::sort(sorted.begin(), sorted.begin() + n);
  GlobalCost cost;
  std::uintptr_t covered = 0;      // bytes below this address are counted
  std::uintptr_t next_sector = 0;  // so are sectors below this number
  for (int i = 0; i < n; ++i) {
    const std::uintptr_t end = sorted[i] + size;
    cost.bytes += std::int64_t(end - std::min(end, std::max(sorted[i], covered)));
    covered = std::max(covered, end);
    const std::uintptr_t first = std::max(sorted[i] / 32, next_sector);
    const std::uintptr_t last = (end - 1) / 32;
    if (last >= first) {
      cost.sectors += std::int64_t(last - first + 1);
      next_sector = last + 1;
    }
  }
  return cost;
}

SharedCost shared_cost(const LaneAddresses& addresses, std::uint32_t lanes, std::size_t size) {
  int lanes_at_a_time = size <= 4 ? kWarpSize : int(128 / size);
  if (size > 4 && (lanes_pair_up(addresses, lanes, 1) || lanes_pair_up(addresses, lanes, 2))) {
    lanes_at_a_time *= 2;
  }
  SharedCost cost;
  for (int first = 0; first < kWarpSize; first += lanes_at_a_time) {
    const std::uint32_t part =
        lanes_at_a_time == kWarpSize ? lanes : lanes & (((1u << lanes_at_a_time) - 1) << first);
    if (part == 0) continue;
    const Active active(addresses, part);
    ++cost.ideal;
    const bool fast = size >= 4 && (active.is_sequence(0) || active.is_sequence(size));
    cost.wavefronts += fast         ? 1
                       : size == 16 ? passes<4>(active)
                       : size == 8  ? passes<2>(active)
                                    : passes<1>(active);
  }
  return cost;
}

}  // namespace gpusim
