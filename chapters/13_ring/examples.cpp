/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#include <utility>
#include <vector>

namespace fa::examples {

#if EXERCISE == 1
struct Weights {
  float earlier, part, lse;
};
Weights merge_weights(float lse_earlier, float lse_part) {
#include "answer.inc"
}

void examples() {
  for (const auto& [earlier, part] : {std::pair{1.0f, 2.0f},
                                      {3.0f, 0.0f},
                                      {0.0f, 0.0f},
                                      {100.0f, 99.0f},
                                      {-200.0f, -201.0f},
                                      {-100.0f, 100.0f},
                                      {-INFINITY, 1.0f},
                                      {2.0f, -INFINITY}}) {
    const std::string call = words("merge_weights(%g, %g)", earlier, part);
    const Weights weights = merge_weights(earlier, part);
    example(call, "the weight of the earlier result", weights.earlier);
    example(call, "that of the part", weights.part);
    example(call, "LSE", weights.lse);
  }
}

#elif EXERCISE == 2
std::vector<int> pieces_of(int R, int rank) {
#include "answer.inc"
}

void examples() {
  for (const int R : {4, 3, 1}) {
    for (int rank = 0; rank < R; ++rank) {
      std::string pieces;
      for (const int piece : pieces_of(R, rank))
        pieces += (pieces.empty() ? "" : " and ") + std::to_string(piece);
      example(words("pieces_of(%d) of %d ranks", rank, R), "the result", pieces);
    }
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
