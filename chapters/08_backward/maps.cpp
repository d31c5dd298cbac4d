/// @file
/// Prints as JSON which rows of a tile the lanes pass to ldmatrix_transposed, for ./learn look:
/// {"own": {"from_a": [[row, col], .. by lane], "from_b"}, "right"}. own_9.inc is a learner's answer to
/// exercise 9, right_9.inc the solution.
#include <cstdio>

#include "device/fragments.cuh"

namespace fa {
namespace {

struct Addresses {
  Coord from_a, from_b;
};

Addresses own(int lane) {
  [[maybe_unused]] const struct { int x; } threadIdx{lane};
#include "own_9.inc"
  return {from_a, from_b};
}

Addresses right(int lane) {
#include "right_9.inc"
  return {from_a, from_b};
}

void print_rows(const char* name, Addresses (*addresses)(int), Coord Addresses::*which) {
  std::printf("\"%s\": ", name);
  for (int lane = 0; lane < 32; ++lane) {
    const Coord from = addresses(lane).*which;
    std::printf("%s[%d, %d]", lane == 0 ? "[" : ", ", from.row, from.col);
  }
  std::printf("]");
}

void print(const char* whose, Addresses (*addresses)(int)) {
  std::printf("\"%s\": {", whose);
  print_rows("from_a", addresses, &Addresses::from_a);
  std::printf(", ");
  print_rows("from_b", addresses, &Addresses::from_b);
  std::printf("}");
}

}  // namespace
}  // namespace fa

int main() {
  std::printf("{");
  fa::print("own", fa::own);
  std::printf(", ");
  fa::print("right", fa::right);
  std::printf("}\n");
}
