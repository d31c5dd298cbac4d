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

#elif EXERCISE == 6
/// What a call does at a named barrier.
struct Visit {
  int barrier = -1, threads = 0;
  const char* how = "nothing";
} last;
namespace ptx {
void barrier_sync(int barrier, int threads) { last = {barrier, threads, "waits"}; }
void barrier_arrive(int barrier, int threads) { last = {barrier, threads, "goes on"}; }
}  // namespace ptx

template <int kConsumers>
struct Turns {
  int index;
#include "answer.inc"
};

Visit visit_of(auto call) {
  last = {};
  call();
  return last;
}

template <int kConsumers>
void turns() {
  for (int i = 0; i < kConsumers; ++i) {
    const int next = (i + 1) % kConsumers;
    const Visit pass = visit_of([&] { Turns<kConsumers>{i}.pass(); });
    const Visit take = visit_of([&] { Turns<kConsumers>{next}.take(); }),
                own = visit_of([&] { Turns<kConsumers>{i}.take(); });
    const std::string call =
        words("pass() of consumer %d and take() of consumer %d, of %d consumers", i, next, kConsumers);
    example(call, "what pass() does", pass.how);
    example(call, "what take() does", take.how);
    example(call, "the barrier of take()", take.barrier == pass.barrier ? "that of pass()" : "another one");
    example(call, "the number of threads that the barrier is for",
            take.threads == pass.threads ? words("%d", take.threads) : "not the same");
    example(call, words("the barrier of take() of consumer %d", i).c_str(),
            take.barrier != own.barrier ? "another one" : "the same");
  }
}

void examples() {
  turns<2>();
  turns<3>();
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
