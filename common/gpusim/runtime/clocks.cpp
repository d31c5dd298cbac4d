#include "gpusim/runtime/clocks.hpp"

namespace gpusim {

std::uint16_t ThreadClocks::new_sequence() {
  const auto sequence = std::uint16_t(kFirstSequence + sequences_++);
  if (component(sequence, first_) >= stride_) {
    const std::size_t wider = stride_ + (threads_ + 64) / kUnit * kUnit;
    std::vector<std::uint32_t> known(threads_ * wider);
    for (std::size_t t = 0; t < threads_; ++t) std::copy_n(row(int(t)), stride_, &known[t * wider]);
    known_ = std::move(known);
    stride_ = wider;
  }
  return sequence;
}

}  // namespace gpusim
