#include "gpusim/runtime/cost.hpp"

#include <algorithm>
#include <bit>

namespace gpusim {
namespace {

constexpr std::uint32_t kAllLanes = 0xffffffffu;

/// The addresses of the lanes that take part, in lane order. Returns how many.
int gather(const LaneAddresses& addresses, std::uint32_t lanes, LaneAddresses& active) {
  if (lanes == kAllLanes) {
    active = addresses;
    return kWarpSize;
  }
  int n = 0;
  for (; lanes != 0; lanes &= lanes - 1) active[n++] = addresses[std::countr_zero(lanes)];
  return n;
}

/// Is every address `step` bytes behind the one before it?
bool is_sequence(const LaneAddresses& active, int n, std::uintptr_t step) {
  std::uintptr_t deviation = 0;
  for (int i = 1; i < n; ++i) deviation |= active[i] - active[i - 1] - step;
  return deviation == 0;
}

/// Passes over the banks that these lanes need: the largest number of different words in one bank.
int passes(const std::uintptr_t* active, int n, std::size_t size) {
  std::array<std::uintptr_t, 4 * kWarpSize> words;
  int count = 0;
  for (int i = 0; i < n; ++i) {
    for (std::uintptr_t w = active[i] / 4; w <= (active[i] + size - 1) / 4; ++w) words[count++] = w;
  }
  std::sort(words.begin(), words.begin() + count);
  count = int(std::unique(words.begin(), words.begin() + count) - words.begin());
  std::array<int, 32> load{};
  int most = 0;
  for (int i = 0; i < count; ++i) most = std::max(most, ++load[words[i] % 32]);
  return most;
}

/// Does every active lane read what the lane `distance` bits away reads, unless that one is not active?
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
  LaneAddresses active;
  const int n = gather(addresses, lanes, active);
  if (n == 0) return {};
  if (is_sequence(active, n, size)) {
    const std::uintptr_t end = active[n - 1] + size;
    return {std::int64_t(end - active[0]), std::int64_t((end - 1) / 32 - active[0] / 32 + 1)};
  }
  if (!std::is_sorted(active.begin(), active.begin() + n)) std::sort(active.begin(), active.begin() + n);
  GlobalCost cost;
  std::uintptr_t covered = 0;       // bytes below this address are counted
  std::uintptr_t next_sector = 0;  // so are sectors below this number
  for (int i = 0; i < n; ++i) {
    const std::uintptr_t end = active[i] + size;
    cost.bytes += std::int64_t(end - std::min(end, std::max(active[i], covered)));
    covered = std::max(covered, end);
    const std::uintptr_t first = std::max(active[i] / 32, next_sector);
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
    LaneAddresses active;
    const int n = gather(addresses, part, active);
    ++cost.ideal;
    const bool fast = size >= 4 && (is_sequence(active, n, 0) || is_sequence(active, n, size));
    cost.wavefronts += fast ? 1 : passes(active.data(), n, size);
  }
  return cost;
}

}  // namespace gpusim
