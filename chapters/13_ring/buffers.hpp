/// @file
/// The device memory of a rank. All of it is there before step 0: what operations read and write says how
/// much that is.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend.hpp"
#include "attention/attention.hpp"
#include "operations.hpp"

namespace fa::ch13 {

/// The shape of an operation's call of attention, on token-major tensors.
AttentionShape shape_of(const AttentionShape& whole, const Operation& op);

class Buffers {
 public:
  /// @param whole  the problem    @param plans  whose buffers these are
  /// @param comm   if not null, its ranks reach the buffers directly: NCCL copies from one GPU's memory to
  ///     another's, without a buffer of its own in between
  Buffers(const Share& share, const AttentionShape& whole, const Engine& engine,
          const std::vector<Plan>& plans, ncclComm_t comm = nullptr);

  /// Where a buffer begins.
  void* address(const Buffer& buffer) const { return memory_.at(buffer).address.get(); }
  /// Where a view begins.
  void* address(const View& view) const {
    return static_cast<std::byte*>(address(view.buffer)) + view.offset();
  }
  /// Whether the rank has such a tensor. Those of the backward pass are not always there.
  bool has(Name tensor) const { return memory_.contains({tensor}); }

  /// What the kernels of a call leave for each other. Calls of two lanes may run at the same time.
  void* workspace(const std::string& name, int lane) const;

  /// All but the rank's own tokens of inputs and outputs.
  std::size_t workspace_bytes() const;

 private:
  struct Memory {
    std::size_t bytes = 0;
    std::shared_ptr<void> address = nullptr;
  };
  struct Workspace {
    std::string name;
    int set;
    Memory memory;
  };

  static int set_of(int lane) { return lane % 2; }
  void add_workspace(const std::vector<TensorSpec>& specs, int lane);
  static void allocate(const std::string& name, Memory& memory, ncclComm_t comm);

  std::map<Buffer, Memory> memory_;
  std::vector<Workspace> workspace_;
};

}  // namespace fa::ch13
