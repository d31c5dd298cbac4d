#include "gpusim/runtime/local_reads.hpp"

#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

constexpr unsigned kInvalid = 0x01, kMaskInvalid = 0x80;  // of MXCSR

/// An SSE or AVX instruction that has trapped.
class Instruction {
 public:
  explicit Instruction(const mcontext_t& machine) : machine_(machine) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(machine.gregs[REG_RIP]);
    bool is_scalar = false, is_double = false, has_segment = false;
    std::uint8_t rex = 0;
    int map = 1, second = -1;  // second: the register that only VEX has
    for (;; ++at) {
      if (*at == 0xf3) {
        is_scalar = true;
      } else if (*at == 0xf2 || *at == 0x66) {
        is_double = true;
      } else if (*at == 0x64 || *at == 0x65) {
        has_segment = true;
      } else {
        break;
      }
    }
    if ((*at & 0xf0) == 0x40) rex = *at++;
    if (*at == 0xc5 || *at == 0xc4) {
      const bool is_long = *at++ == 0xc4;
      rex = std::uint8_t((~at[0] >> 5 & (is_long ? 7 : 4)) | (is_long ? at[1] >> 4 & 8 : 0));
      if (is_long) map = *at++ & 0x1f;
      second = ~*at >> 3 & 15;
      is_scalar = (*at & 3) == 2;
      is_double = (*at & 3) == 1 || (*at & 3) == 3;
      if (map == 2) is_double = (*at & 0x80) != 0;  // FMA: W says which
      if (map == 2) is_scalar = (at[1] & 1) != 0;
      ++at;
    } else {
      if (*at++ != 0x0f) return;
      if (*at == 0x38 || *at == 0x3a) map = *at++ == 0x38 ? 2 : 3;
    }
    const std::uint8_t opcode = *at++;
    const bool only_reads_last =
        opcode == 0x51 || opcode == 0x5a || opcode == 0x2c || opcode == 0x2d || map == 3;
    const bool compares = opcode == 0x2e || opcode == 0x2f;  // one number each, without a prefix
    if (is_double) return;
    lanes_ = is_scalar || compares ? 1 : only_reads_last && opcode != 0x51 ? 2 : 4;
    const std::uint8_t modrm = *at++;
    if (!only_reads_last) add_register((modrm >> 3 & 7) | (rex & 4) << 1);
    if (!only_reads_last && second >= 0) add_register(second);
    if (modrm >> 6 == 3) {
      add_register((modrm & 7) | (rex & 1) << 3);
    } else if (!has_segment) {
      add_memory(at, modrm, rex);
    }
  }

  /// Whether it computes with what nothing has written: a float, or a bfloat16 that has become one.
  bool reads_unwritten() const {
    return std::any_of(operands_.begin(), operands_.begin() + count_, [this](const std::uint32_t* words) {
      return std::any_of(words, words + lanes_, [](std::uint32_t word) {
        return word == kUnwrittenLocal || word == (kUnwrittenLocal & 0xffff0000u);
      });
    });
  }

 private:
  void add_register(int number) {
    operands_[count_++] = reinterpret_cast<const std::uint32_t*>(&machine_.fpregs->_xmm[number]);
  }

  /// @param at  behind the ModRM byte
  void add_memory(const std::uint8_t* at, std::uint8_t modrm, std::uint8_t rex) {
    const int mode = modrm >> 6;
    int base = modrm & 7;
    std::uintptr_t address = 0;
    if (base == 4) {  // a SIB byte
      const std::uint8_t sib = *at++;
      const int index = (sib >> 3 & 7) | (rex & 2) << 2;
      base = sib & 7;
      if (index != 4) address += general(index) << (sib >> 6);
    }
    if (mode == 0 && base == 5) return;  // relative to the instruction, or absolute: no local variable
    address += general(base | (rex & 1) << 3);
    if (mode == 1) address += std::uintptr_t(std::intptr_t(std::int8_t(*at)));
    if (mode == 2) {
      std::int32_t distance = 0;
      std::memcpy(&distance, at, sizeof distance);
      address += std::uintptr_t(std::intptr_t(distance));
    }
    operands_[count_++] = reinterpret_cast<const std::uint32_t*>(address);
  }

  std::uintptr_t general(int number) const {
    static constexpr std::array<int, 16> kRegisters = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                       REG_R12, REG_R13, REG_R14, REG_R15};
    return std::uintptr_t(machine_.gregs[kRegisters[std::size_t(number)]]);
  }

  const mcontext_t& machine_;
  std::array<const std::uint32_t*, 3> operands_{};
  std::size_t count_ = 0;
  int lanes_ = 1;
};

/// The instruction that has trapped, or the call in the kernel that has led to it, as a return address.
std::uintptr_t place_in_kernel() {
  struct Search {
    bool is_behind_signal = false;
    std::uintptr_t pc = 0;
  } search;
  _Unwind_Backtrace(
      [](_Unwind_Context* frame, void* data) {
        auto& s = *static_cast<Search*>(data);
        int is_exact = 0;  // the address is that of the instruction, not the one behind a call
        const std::uintptr_t address = _Unwind_GetIPInfo(frame, &is_exact);
        s.is_behind_signal |= is_exact != 0;
        if (!s.is_behind_signal || !is_constant(address) || is_in_library(address + std::uintptr_t(is_exact)))
          return _URC_NO_REASON;
        s.pc = address + std::uintptr_t(is_exact);
        return _URC_NORMAL_STOP;
      },
      &search);
  return search.pc;
}

struct sigaction previous;

/// A signal that would end the program: if it is a kernel's code that has caused it, only its thread ends.
void on_kernel_fault(int signal, const siginfo_t* info, void* context) {
  const auto at = std::uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (current_runner == nullptr || signal == SIGABRT) return;
  BlockRunner& runner = *current_runner;
  std::uintptr_t pc = 0;
  {
    const OutsideKernel outside;
    if (!is_constant(at) || is_in_library(at + 1)) return;
    pc = place_in_kernel();
  }
  runner.fault(signal, info->si_code == FPE_INTDIV, reinterpret_cast<std::uintptr_t>(info->si_addr),
               reinterpret_cast<const void*>(pc != 0 ? pc : at + 1));
}

void on_trap(int signal, siginfo_t* info, void* context) {
  const mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  if (info->si_code != FPE_FLTINV || !HostRuntime::is_at_work()) {  // not of a kernel
    on_kernel_fault(signal, info, context);
    sigaction(signal, &previous, nullptr);
    return;  // and traps again
  }
  machine.fpregs->mxcsr = (machine.fpregs->mxcsr | kMaskInvalid) & ~kInvalid;
  if (current_runner == nullptr || !Instruction(machine).reads_unwritten()) return;
  BlockRunner& runner = *current_runner;
  const OutsideKernel outside;
  if (const std::uintptr_t pc = place_in_kernel())
    runner.read_unwritten_local(reinterpret_cast<const void*>(pc));
}

}  // namespace

void fill_with_unwritten(std::byte* begin, std::byte* end) {
  const __m128i words = _mm_set1_epi32(int(kUnwrittenLocal));
  for (; begin < end; begin += sizeof words) _mm_store_si128(reinterpret_cast<__m128i*>(begin), words);
}

void trap_invalid_operations() { _mm_setcsr(_mm_getcsr() & ~(kMaskInvalid | kInvalid)); }

void handle_invalid_operations() {
  struct sigaction action = {};
  action.sa_sigaction = &on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGFPE, &action, &previous);
  handle_kernel_faults(&on_kernel_fault);
}

void interrupt_kernels(int signal) {
  struct sigaction action = {};
  action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
    on_kernel_fault(number, info, context);
  };
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace gpusim
