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
};

}  // namespace fa::ch13
