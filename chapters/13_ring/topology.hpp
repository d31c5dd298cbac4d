/// @file
/// Who sends to whom.
#pragma once

namespace fa::ch13 {

/// A rank in a ring of R ranks.
struct Ring {
  int R, rank;

  /// The rank that is `distance` further on, and the one for which this rank is that.
  int next(int distance = 1) const { return (rank + distance % R + R) % R; }
  int previous(int distance = 1) const { return next(-distance); }

  /// Whose keys are here in a step, if all pass theirs on to the next rank after each step.
  int owner(int step) const { return previous(step); }
};

}  // namespace fa::ch13
