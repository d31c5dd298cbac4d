/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

namespace fa::examples {

#if EXERCISE == 3
namespace ptx {
std::uint32_t shared_address(const void* s) { return std::uint32_t(reinterpret_cast<std::uintptr_t>(s)); }
}  // namespace ptx

std::uint64_t descriptor(const void* s, int panel_bytes) {
#include "answer.inc"
}

void examples() {
  for (const int address : {0x4400, 0x20400}) {
    for (const int panel_bytes : {8192, 16384}) {
      const std::uint64_t bits =
          descriptor(reinterpret_cast<const void*>(std::uintptr_t(address)), panel_bytes);
      const std::string call =
          words("descriptor() of address %d, with panel_bytes = %d", address, panel_bytes);
      example(call, "the start address, from bit 0,", double(bits & 0x3fff));
      example(call, "the leading distance, from bit 16,", double(bits >> 16 & 0x3fff));
      example(call, "the stride, from bit 32,", double(bits >> 32 & 0x3fff));
      example(call, "the swizzle, from bit 62,", double(bits >> 62));
      example(call, "the rest", double(bits & 0x3fffc000c000c000));
    }
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
