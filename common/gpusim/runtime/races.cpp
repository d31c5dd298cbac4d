#include "gpusim/runtime/races.hpp"

#include <algorithm>

namespace gpusim {

std::uint32_t GlobalRaces::first_block = 1;

void WarpClock::synchronize(std::uint32_t lanes, bool everyone) {
  ++tick;
  if (everyone) {
    all_known = tick;
    return;
  }
  partial = true;
  std::array<std::uint32_t, kWarpSize> joined{};
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    for (int a = 0; a < kWarpSize; ++a) joined[a] = std::max(joined[a], known[lane][a]);
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) joined[std::countr_zero(rest)] = tick;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) known[std::countr_zero(rest)] = joined;
}

SharedShadow::SharedShadow(std::size_t bytes)
    : words_((bytes + 3) / 4),
      cells_(std::make_unique<Cell[]>(words_)),
      byte_cells_(std::make_unique<Cell[]>(words_ * 4)) {}

void SharedShadow::split(std::size_t word) {
  cells_[word].split = true;
  for (std::size_t b = 0; b < 4; ++b) byte_cells_[word * 4 + b] = cells_[word];
}

void SharedShadow::reset() {
  std::fill_n(cells_.get(), words_, Cell{});
  std::fill_n(byte_cells_.get(), words_ * 4, Cell{});
}

}  // namespace gpusim
