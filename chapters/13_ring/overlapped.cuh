/// @file
/// The ring whose steps overlap: transfers, last tiles, and all sums but the last have products beside them.
#pragma once

#include <vector>

#include "calls.cuh"
#include "head_start.cuh"
#include "rank.hpp"
#include "ring.cuh"

namespace fa::ch13 {

/// O and LSE of the rank's queries. A step begins as soon as the one before leaves multiprocessors idle.
/// Whatever else is ready then comes first: the next transfer, and the sums of earlier steps.
inline void overlapped_forward(const Rank& r) {
  auto pieces = pieces_of<PieceOfO>(r, r.tensors.o, "o_sum");
  for (int step = 0; step < r.ranks(); ++step) {
    const Rank mine = r.begin_turn(step);
    if (step > 0) r.follow(mine.compute, r.copies);  // the keys of this step are here
    if (step + 1 < r.ranks()) {
      r.follow(r.copies, mine.compute);  // what is filled now was in use two steps ago
      rotate(r, exchange_keys(r, step, step + 1));
      if (step == 0) let_transfer_begin(mine);
      r.end_step();
    }
    attend(mine, step);
    if (step > 0) r.follow(mine.compute, r.in_turn(step - 1).compute);  // earlier sums are complete
    merge(mine, step, pieces);
  }
  r.follow(r.compute, r.in_turn(r.ranks() - 1).compute);
}

}  // namespace fa::ch13
