#include "gpusim/runtime/races.hpp"

#include <utility>

namespace gpusim {

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

void RaceShadow::split(std::size_t word) {
  if (byte_cells_ == nullptr) byte_cells_ = std::make_unique<Cell[]>(words_ * 4);
  for (std::size_t b = 0; b < 4; ++b) byte_cells_[word * 4 + b] = cells_[word];
  cells_[word].split = true;
}

void RaceShadow::reset() {
  cells_.clear();
  byte_cells_.reset();
}

RaceShadow* GlobalShadow::take_page(std::size_t number) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<RaceShadow>(kPageBytes / 4));
    free_.push_back(all_.back().get());
  }
  used_.push_back(number);
  RaceShadow* page = free_.back();
  free_.pop_back();
  return page;
}

void GlobalShadow::reset() {
  for (const auto& page : all_) page->reset();
}

void GlobalShadow::next_block() {
  // In reverse, so that the next block with the same accesses finds each page at the same position.
  for (auto it = used_.rbegin(); it != used_.rend(); ++it)
    free_.push_back(std::exchange(pages_[*it], nullptr));
  used_.clear();
}

}  // namespace gpusim
