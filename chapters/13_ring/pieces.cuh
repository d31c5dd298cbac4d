/// @file
/// Which pieces of the sequence a rank has. Part of chapter.cu alone: other sources call what is compiled
/// there.
#pragma once

#include <vector>

#include "schedule.cuh"

namespace fa::ch13 {

/// The numbers of a rank's pieces, in the order of the sequence.
std::vector<int> Split::pieces_of(int rank) const {
  if (!zigzag) return {rank};
  // EXERCISE 2: With zigzag, there are 2 * ranks pieces. Give each rank an early and a late one, so that all have the same work under a causal mask.
  return {rank, 2 * ranks - 1 - rank};
  // END 2
}

}  // namespace fa::ch13
