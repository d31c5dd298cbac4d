/// @file
/// The products of the warpgroups of a block: what has been issued, what is in flight, and who has touched
/// which registers.
///
/// Registers are local variables here. Those that a product names are on the stack of their thread, and the
/// hooks see each access to them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/device_wgmma.hpp"
#include "gpusim/runtime/reserved.hpp"
#include "gpusim/runtime/wgmma.hpp"

namespace gpusim {

/// The latest use of a word of a stack, in one number that is larger the later it was.
struct RegisterUse {
  std::uint64_t bits = 0;

  static constexpr std::uint32_t kInFlight = 0x7fffffff;  ///< a time: a product reads or writes the register
  static constexpr std::uint32_t kUnnamed =
      0x7ffffffe;  ///< it has finished, but no wait has named the register
  static constexpr std::uint32_t kFresh =
      0x7ffffffd;  ///< it has finished, and nothing has used the register yet

  /// @param time  see RegisterUses::time
  static RegisterUse make(std::uint32_t time, bool write, const void* pc) {
    return {std::uint64_t(time) << 33 | std::uint64_t(write) << 32 |
            std::uint32_t(reinterpret_cast<std::uintptr_t>(pc))};
  }
  std::uint32_t time() const { return std::uint32_t(bits >> 33); }
  bool is_write() const { return (bits >> 32 & 1) != 0; }
  /// The return address. @param near  any address of the program: all of them are within 4 GiB
  std::uintptr_t pc(std::uintptr_t near) const {
    const auto low = std::uint32_t(bits);
    return near + std::uintptr_t(std::intptr_t(std::int32_t(low - std::uint32_t(near))));
  }
};

/// The uses of the words of all stacks of a block. Takes memory for those parts of the stacks that are used.
class RegisterUses {
 public:
  static constexpr std::size_t kWord = 4;

  /// Before the first use.
  void cover(const void* stacks, std::size_t bytes) {
    if (bytes_ != 0) return;
    uses_ = Reserved<RegisterUse>(bytes / kWord);
    if (!uses_) throw std::bad_alloc();
    base_ = reinterpret_cast<std::uintptr_t>(stacks);
    bytes_ = bytes;
  }

  bool contains(std::uintptr_t address) const { return address - base_ < bytes_; }
  bool contains(const void* address) const { return contains(reinterpret_cast<std::uintptr_t>(address)); }
  RegisterUse& at(std::uintptr_t address) const { return uses_[(address - base_) / kWord]; }
  RegisterUse& at(const void* address) const { return at(reinterpret_cast<std::uintptr_t>(address)); }
  void clear() const { uses_.clear(); }

  /// The time of accesses: it grows with each wgmma_fence() of a warp, and is the time of its threads until
  /// their next.
  std::uint32_t next_time() { return ++time_; }

 private:
  std::uintptr_t base_ = 0;
  std::size_t bytes_ = 0;
  Reserved<RegisterUse> uses_;
  std::uint32_t time_ = 0;
};

/// The rules that a report of DefectKind::kWgmma may be about.
enum ProductRule : std::uint8_t {
  kAccumulatorInFlight = 1,
  kOperandInFlight,
  kUnnamedAccumulator,
  kNamedInFlight,
  kNoFence,
  kNeverWaited,
  kDifferentOps,
  kDifferentOperands,
  kNoWarpgroup,
  kOtherShape,
  kBadDescriptor,
  kOtherLayout,
  kOtherFactors,
};

inline std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Return addresses that a report names; null where there are fewer.
using Places = std::array<const void*, 3>;
/// The text with source lines instead of {0}, {1} and {2}, and with what the call at {1} passes as argument
/// 0, as it is written there, instead of {1:0|d}; `d` if the source does not tell.
std::vector<Piece> with_lines(const std::string& text, const Places& places);

/// What all threads of a warpgroup have to say in the same way.
struct WarpgroupOp {
  enum class Kind : std::uint8_t { kFence, kProduct, kCommit, kWait, kDecrease, kIncrease };
  Kind kind = Kind::kFence;
  const void* pc = nullptr;
  device::ProductShape shape{};
  bool add = false, a_in_registers = false;
  int count =
      0;  ///< kProduct: accumulators of a thread; kWait: pending groups; kDecrease, kIncrease: registers
  std::uint64_t a = 0, b = 0;  ///< descriptors
};

/// What a thread brings along.
struct WarpgroupOperand {
  WarpgroupOp op;
  float* d = nullptr;
  const std::uint32_t* a = nullptr;
};

/// What of a tensor is an operand's first element, if the copy engine has brought it.
struct OperandPlace {
  std::uintptr_t tensor = 0;  ///< its address; 0: unknown
  int k = 0, mn = 0;
  std::array<int, 2> plane{};  ///< the coordinates beyond the rows

  bool has_same_rows(const OperandPlace& other) const {
    return tensor == other.tensor && mn == other.mn && plane == other.plane;
  }
};

/// The operands of a product.
struct Factors {
  OperandPlace a, b;
  const void* a_registers = nullptr;     ///< instead of `a`
  std::vector<std::uintptr_t> a_chunks;  ///< the same if threads have stored A: its pieces of 16 bytes
  const void* pc = nullptr;
};

/// The accumulators of a warp while products are in flight that add to them.
struct AccumulatorTile {
  std::array<float*, kWarpSize> arrays{};
  int count = 0;                  ///< of each array
  std::vector<float> values;      ///< [16][n]
  std::uint32_t group = 0;        ///< of the latest product
  const void* pc = nullptr;       ///< of the latest product
  const void* left_by = nullptr;  ///< the latest wait that has left it in flight
  std::vector<Factors> factors;   ///< of the products, in the first warp of a warpgroup

  int n() const { return 2 * count; }
};

/// Accumulators that a wait has finished together with those of an older group.
struct FinishedTile {
  std::array<float*, kWarpSize> arrays{};
  int count = 0;
  std::uint32_t group = 0;
  const void* wait_pc = nullptr;
  bool waited_twice = false, used = false;
};

/// Registers of A that products in flight read.
struct OperandRegisters {
  std::array<const std::uint32_t*, kWarpSize> arrays{};
  std::uint32_t group = 0;
  const void* pc = nullptr;
  const void* left_by = nullptr;
};

/// The state of a warp.
struct WarpProducts {
  /// The groups that a wait covers which leaves so many in flight.
  std::uint32_t covered(int pending) const {
    return std::uint32_t(commits.size()) - std::min(std::uint32_t(commits.size()), std::uint32_t(pending));
  }

  std::uint32_t reached = 0;           ///< operations of the warpgroup: all that this warp has executed
  std::uint32_t time = 0;              ///< of the latest fence; 0: none
  std::uint32_t issued = 0;            ///< products
  std::vector<std::uint32_t> commits;  ///< of each group: products issued up to its end
  std::vector<std::shared_ptr<AccumulatorTile>> tiles;
  std::vector<OperandRegisters> a;
  std::vector<FinishedTile> finished;
  std::uint32_t covered_groups = 0;                    ///< by the waits so far
  std::uint16_t sequence = 0;                          ///< of the products: see async_shared.hpp
  std::array<WarpgroupOperand*, kWarpSize> arrived{};  ///< to be processed by the first lane that continues
  bool has_arrived = false;

  std::uint32_t group() const { return std::uint32_t(commits.size()); }  ///< of the next product
};

/// An operation that some warp of the warpgroup has executed and another one has not.
struct PendingOp {
  WarpgroupOp op;
  int first_thread = 0;  ///< which has executed it first
  unsigned warps = 0;    ///< those that have
  std::array<std::shared_ptr<AccumulatorTile>, kWarpgroupWarps>
      tiles{};                                     ///< a warp may end before the others
  std::vector<float> a;                            ///< [64][16], if A is in registers
  std::vector<std::uintptr_t> a_chunks, b_chunks;  ///< where the operands are in shared memory: see ChunkGrid
};

struct Warpgroup {
  std::deque<PendingOp> pending;
  std::uint32_t done = 0;      ///< operations that all warps have executed
  std::uint32_t products = 0;  ///< of these
};

}  // namespace gpusim
