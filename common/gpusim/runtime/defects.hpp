/// @file
/// Defects, from finding to report.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/array_names.hpp"
#include "gpusim/runtime/dim3.hpp"
#include "gpusim/runtime/shared_byte.hpp"
#include "gpusim/runtime/whereabouts.hpp"

namespace gpusim {

inline constexpr const char* kMargin = "========= ";  ///< of each line of a report

/// The position of an address relative to [begin, end): `byte 12 of "K"`, `4 bytes after the end of "K"
/// (65536 bytes)`.
std::string place_in(const std::string& name, std::uintptr_t begin, std::uintptr_t end,
                     std::uintptr_t address);

/// "5" in a block of one dimension, "(5,0,1)" in others.
std::string short_name(const Dim3& block_dim, int thread);

/// The text with "========= " before each line.
std::string with_margin(const std::string& text);

/// The properties that identical findings share.
struct FindingKey {
  DefectKind kind;
  std::uintptr_t pc = 0;        ///< return address of the access, or of the barrier
  std::uintptr_t rival_pc = 0;  ///< races: of the other access; divergence: where others wait
  AccessKind access = AccessKind::kRead;
  AccessKind rival_access = AccessKind::kRead;
  Space space = Space::kGlobal;
  std::uint32_t bytes = 0;
  std::uint8_t rule = 0;  ///< which of several that a kind of defect stands for; races: kBetweenBlocks or 0

  auto operator<=>(const FindingKey&) const = default;
};

/// FindingKey::rule of races over global memory between the blocks of a launch.
inline constexpr std::uint8_t kBetweenBlocks = 1;

/// A part of a report's text.
struct Piece {
  Piece(std::string words) : text(std::move(words)) {}  // NOLINT(google-explicit-constructor)
  Piece(const char* words) : text(words) {}             // NOLINT(google-explicit-constructor)
  /// The source line of a return address.
  static Piece line(const void* pc) {
    Piece piece("");
    piece.pc = reinterpret_cast<std::uintptr_t>(pc);
    return piece;
  }
  /// "mbarrier_wait() at kernel.cuh:48"
  static Piece call(const void* pc) {
    Piece piece = line(pc);
    piece.is_call = true;
    return piece;
  }

  std::string text;  ///< of a place: if it has no better name
  std::uintptr_t pc = 0;
  bool is_call = false;
  int argument =
      -1;  ///< the text is what the call passes as this argument, or `text` if the source does not tell
  SharedByte place;  ///< which is to be named as the function with that pc does
};

/// A call of the host that enqueues an operation, as reports name it.
struct HostCall {
  std::string routine;                 ///< of the host; empty: a kernel, whose accesses have lines
  const void* pc = nullptr;            ///< of a routine: the return address of its call, if it is known
  const void* kernel = nullptr;        ///< its address, if it is known
  std::vector<std::uintptr_t> launch;  ///< of a kernel: the return addresses around its launch
};

/// One complete finding. The one with the lowest block number is kept, so that reports do not depend on
/// which CPU thread was faster.
struct Example {
  std::uint64_t block = 0;                  ///< linear index in the grid
  std::uint64_t order = ~std::uint64_t(0);  ///< among those of a block; the default comes last
  std::uint64_t rival_block = 0;
  int thread = 0;  ///< linear index in the block
  int rival_thread = 0;
  Dim3 grid, block_dim;
  std::uintptr_t address = 0;            ///< global: the address
  std::string place;                     ///< its position in words: `byte 192 of "partials"`
  std::string note;                      ///< which follows it, where more is to be said
  SharedByte shared;                     ///< the address, if it is in shared memory
  std::vector<std::int64_t> parameters;  ///< of the kernel; 0 for those that are no integers
  std::string detail;                    ///< divergence: the beginning; unsupported, index: the second line
  std::int64_t index = 0;                ///< out of bounds of an array that has a detail
  std::vector<Piece> message;  ///< misuse: the second line; divergence: all of the text, if it is not empty
  std::vector<Piece> reason;   ///< races: what is missing between the two, if it is not empty
  std::vector<Group>
      groups;  ///< divergence: those that have arrived, and then the others; lanes, if they wait with a mask
  std::uintptr_t fence =
      0;  ///< races over global memory: a __threadfence() that does not order the two, or 0
  bool of_operations = false;           ///< races: between operations of two streams, or two kernels of one
  bool on_host = false;                 ///< of these: the access is one of the host's code
  HostCall call = {}, rival_call = {};  ///< these operations
  // Races with an asynchronous copy; return addresses, or 0.
  bool waited =
      false;  ///< the copy is in flight, but the reader has waited for its own copies of the same group
  std::uintptr_t lax_wait = 0;       ///< the reader's last wait, which has left them in flight
  std::uintptr_t early_barrier = 0;  ///< the __syncthreads() right before the wait
};

/// Says what findings are.
class DefectText {
 public:
  /// @param findings  all that will be asked for: looking up their source lines takes long, whether one or
  ///   many
  explicit DefectText(const std::vector<std::pair<const FindingKey*, const Example*>>& findings);

  /// The message, without the number of hazards.
  std::string of(const FindingKey& key, Example example) const;
  SourceLine line_of(std::uintptr_t pc) const;

 private:
  std::unordered_map<std::uintptr_t, SourceLine> lines_;
  ArrayNames names_;
};

/// All findings since the last report.
class Findings {
 public:
  /// @return the example to fill in, or nullptr if a lower block has already provided one
  Example* add(const FindingKey& key, std::uint64_t block, std::int64_t count = 1);
  void merge(Findings& other);
  bool empty() const { return entries_.empty(); }

  /// The findings as text, one defect per pair of source lines. It looks up source lines, so call it once per
  /// report.
  std::vector<Defect> describe() const;

 private:
  struct Entry {
    std::int64_t count = 0;
    Example example;
  };
  std::map<FindingKey, Entry> entries_;
  std::uint64_t added_ = 0;
};

}  // namespace gpusim
