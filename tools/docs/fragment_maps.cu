/// @file
/// Prints the maps of the tensor cores' fragments as JSON, for drawings, notebooks and tests: which lane
/// holds which element, which row it passes to ldmatrix, and where a layout puts the elements of a tile.
///
///   {"chapter": {"element_of_a": [[[row, col], ... by element], ... by lane], "element_of_b",
///   "element_of_c",
///                "row_for_a": [[row, col], ... by lane], "row_for_b",
///                "RowMajor": {"32": [[offset, ... by column], ... by row], "64", "128", "256"}, "Padded",
///                "Swizzled"},
///    "device": {the same}}
///
/// "chapter": the maps written out in chapter 06, or in a learner's copy of its kernel.cuh, with which
/// ./learn look compiles this file; "device": those that later chapters include.
#include <cstdio>

#include "06_tensor_core_mma/kernel.cuh"
#include "device/fragments.cuh"
#include "device/swizzle.cuh"

namespace {

constexpr int kLanes = 32;
constexpr int kRows = 64;  // of a tile

void print_key(const char* name, const char* before = ",\n") { std::printf("%s\"%s\": ", before, name); }

/// [item(0), item(1), ...]. @param item  prints one
template <class Item>
void print_list(int count, Item item) {
  for (int i = 0; i < count; ++i) {
    std::fputs(i == 0 ? "[" : ", ", stdout);
    item(i);
  }
  std::fputs("]", stdout);
}

template <class Coord>
void print(Coord at) {
  std::printf("[%d, %d]", at.row, at.col);
}

/// @param element_of  lane, number of the element -> row and column
template <class Element>
void print_elements(int count, Element element_of) {
  print_list(kLanes, [&](int lane) { print_list(count, [&](int i) { print(element_of(lane, i)); }); });
}

/// @param row_for  lane -> row and column
template <class Row>
void print_rows(Row row_for) {
  print_list(kLanes, [&](int lane) { print(row_for(lane)); });
}

template <class Layout>
void print_offsets(int cols) {
  print_list(kRows, [&](int row) {
    print_list(cols, [&](int col) { std::printf("%d", Layout::offset(row, col)); });
  });
}

template <template <int> class Layout>
void print_layout() {
  print_key("32", "{");
  print_offsets<Layout<32>>(32);
  print_key("64");
  print_offsets<Layout<64>>(64);
  print_key("128");
  print_offsets<Layout<128>>(128);
  print_key("256");
  print_offsets<Layout<256>>(256);
  std::fputs("}", stdout);
}

template <template <int> class RowMajor, template <int> class Padded, template <int> class Swizzled,
          class Element, class Row>
void print_maps(Element element_of_a, Element element_of_b, Element element_of_c, Row row_for_a,
                Row row_for_b) {
  print_key("element_of_a", "{");
  print_elements(8, element_of_a);
  print_key("element_of_b");
  print_elements(4, element_of_b);
  print_key("element_of_c");
  print_elements(4, element_of_c);
  print_key("row_for_a");
  print_rows(row_for_a);
  print_key("row_for_b");
  print_rows(row_for_b);
  print_key("RowMajor");
  print_layout<RowMajor>();
  print_key("Padded");
  print_layout<Padded>();
  print_key("Swizzled");
  print_layout<Swizzled>();
  std::fputs("}", stdout);
}

}  // namespace

int main() {
  namespace chapter = fa::ch06;
  namespace device = fa;
  print_key("chapter", "{");
  print_maps<chapter::RowMajor, chapter::Padded, chapter::Swizzled>(
      chapter::element_of_a, chapter::element_of_b, chapter::element_of_c, chapter::row_for_a,
      chapter::row_for_b);
  print_key("device");
  print_maps<device::RowMajor, device::Padded, device::Swizzled>(
      device::element_of_a, device::element_of_b, device::element_of_c, device::row_for_a, device::row_for_b);
  std::puts("}");
}
