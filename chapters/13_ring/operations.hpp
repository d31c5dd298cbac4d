/// @file
/// The words of a plan: what a rank does in each step, as data. There is no CUDA in it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule.hpp"
#include "topology.hpp"

namespace fa::ch13 {

enum class Name { kQ, kK, kV, kO, kLse, kDo, kDq, kDk, kDv };
constexpr const char* kTensors[] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};

enum class Role {
  kOwn,     ///< the rank's own tokens of a tensor: an input, or a result
  kIn,      ///< arrives from another rank
  kOut,     ///< leaves for another rank
  kPart,    ///< what one call of attention adds to O (with its LSE), dQ, dK or dV
  kSums,    ///< of several parts, but not yet of all: fp32
  kLate,    ///< of the late queries alone
  kAll,     ///< of all ranks
  kHeads,   ///< some heads of all ranks' tokens
  kPacked,  ///< the rank's tokens, sorted by the ranks that have their heads
};
constexpr const char* kRoles[] = {"", "_in", "_out", "_part", "_sums", "_late", "_all", "_heads", "_packed"};

/// A piece of device memory. @param number  tells buffers of one name apart
struct Buffer {
  Name tensor;
  Role role = Role::kOwn;
  int number = 0;
  auto operator<=>(const Buffer&) const = default;
};
inline std::string name_of(const Buffer& buffer) {
  return std::string(kTensors[int(buffer.tensor)]) + kRoles[int(buffer.role)];
}

/// Elements of a buffer: `rows` rows of `width` elements, the first one at `begin`, a `pitch` apart.
struct View {
  Buffer buffer;
  int element_bytes;
  std::int64_t begin = 0, width = 0, rows = 1, pitch = 0;

  std::int64_t bytes() const { return element_bytes * width * rows; }
  std::int64_t offset() const { return element_bytes * begin; }
  /// How large the buffer must be.
  std::int64_t end() const { return bytes() == 0 ? 0 : element_bytes * (begin + (rows - 1) * pitch + width); }
};

/// The lane of transfers: they have a stream of their own. Kernels of lane 0 are in another one; those of
/// lanes 1, 2, .. are in streams of falling priority, and need not wait for each other.
constexpr int kTransfers = -1;

/// One thing that a rank does. It reads and writes views, in the order that is given here.
struct Operation {
  enum class Kind {
    kSend,           ///< views, to rank `peer`
    kReceive,        ///< views, from rank `peer`
    kGather,         ///< sends views to all ranks, receives those of all
    kAttend,         ///< reads Q, K, V; writes O, LSE
    kDifferentiate,  ///< reads Q, K, V, O, dO, LSE; writes dQ, dK, dV
    kMerge,          ///< reads O and LSE of what there is, then of each part; writes O and LSE of their sum
    kAdd,            ///< reads what there is, then each part; writes their sum
    kCopy,           ///< to a view with as many rows of the same width
    kClear,          ///< a view becomes 0
    kHoldUp,         ///< kernels come some microseconds later, so that a transfer begins before them
  };
  Kind kind;
  std::vector<View> reads = {}, writes = {};
  int peer = -1;
  Call call = {};  ///< of attention: queries and keys
  int shares = 1;  ///< of attention: computes one share of all heads, of so many
  int lane = 0;
};
using Kind = Operation::Kind;
constexpr const char* kKinds[] = {"send",  "receive", "gather", "attend", "differentiate",
                                  "merge", "add",     "copy",   "clear",  "hold up"};

constexpr bool is_transfer(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kReceive || kind == Kind::kGather;
}

/// Transfers that follow each other in a step begin together.
using Step = std::vector<Operation>;
using Plan = std::vector<Step>;

/// What `overlapped` changes. Each can be left out.
struct Changes {
  bool head_start = false;  ///< the first transfer begins before the kernels beside it
  bool steps = false;       ///< a step begins as soon as the one before leaves multiprocessors idle
  bool parts = false;       ///< three parts are merged at once
  bool registered = false;  ///< NCCL writes straight into the memory of the other rank
  bool homeward = false;    ///< the backward pass goes the other way, and gradients go straight home
  bool operator==(const Changes&) const = default;

  /// Turns one of them off. @return  whether there is such a change
  bool leave_out(std::string_view name) {
    for (const auto& [known, change] : kNames) {
      if (known != name) continue;
      this->*change = false;
      return true;
    }
    return false;
  }
  static const std::pair<std::string_view, bool Changes::*> kNames[5];

  /// How many parts are merged at once, at most: merge.cuh has kernels for up to three.
  int parts_at_once() const { return parts ? 3 : 1; }
  int lane(int step) const { return steps ? 1 + step : 0; }
  /// The number of the buffer for the part of a step. While parts wait, the next step may write another one.
  int part_buffer(int step) const { return step % (parts_at_once() + steps); }
  /// There is room for K and V of so many other ranks: of each step that is under way, and of the next one.
  int key_buffers() const { return steps ? 3 : 2; }
  /// The number of the buffer in which a rank has the keys of the rank that is `distance` back, in both
  /// passes.
  int key_buffer(int distance) const { return distance % key_buffers(); }
};

inline constexpr std::pair<std::string_view, bool Changes::*> Changes::kNames[5] = {
    {"head_start", &Changes::head_start},
    {"steps", &Changes::steps},
    {"parts", &Changes::parts},
    {"registered", &Changes::registered},
    {"homeward", &Changes::homeward}};

/// A rank's share of the problem, and views of it.
struct Share {
  Split split;  ///< of the sequence
  int rank;
  std::int64_t batch, heads, kv_heads, head_dim;
  bool causal;
  int element_bytes = 2;

  int R() const { return split.R; }
  Ring ring() const { return {split.R, rank}; }
  std::int64_t tokens() const { return split.tokens_of(rank); }

  /// Elements of a token.
  std::int64_t row(Name tensor) const {
    if (tensor == Name::kLse) return batch * heads;
    const bool of_keys =
        tensor == Name::kK || tensor == Name::kV || tensor == Name::kDk || tensor == Name::kDv;
    return batch * (of_keys ? kv_heads : heads) * head_dim;
  }

  /// Tokens of a buffer [tokens, batch, heads, head_dim].
  View of(const Buffer& buffer, const Range& tokens) const {
    const std::int64_t elements = row(buffer.tensor);
    return {buffer, element_bytes, tokens.begin * elements, tokens.length() * elements};
  }
  /// The same as fp32.
  View sums(const Buffer& buffer, const Range& tokens) const {
    View view = of(buffer, tokens);
    view.element_bytes = sizeof(float);
    return view;
  }
  /// Queries of LSE [batch, heads, length].
  View lse(Role role, int number, const Range& queries, std::int64_t length) const {
    return {.buffer = {Name::kLse, role, number},
            .element_bytes = sizeof(float),
            .begin = queries.begin,
            .width = queries.length(),
            .rows = batch * heads,
            .pitch = length};
  }
  View lse(const Range& queries) const { return lse(Role::kOwn, 0, queries, tokens()); }

  /// What the rank computes with the keys of the rank that is `distance` back; nothing if it sees none of
  /// them.
  std::optional<Call> call(int distance) const {
    return call_of(split, rank, ring().previous(distance), causal);
  }
};

}  // namespace fa::ch13
