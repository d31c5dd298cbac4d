/// @file
/// Recordings: with GPUSIM_RECORD=FILE, everything that the warps of chosen blocks do, in a file for programs
/// that show it. README.md describes the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/array_names.hpp"
#include "gpusim/runtime/bulk_copy.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/runtime/dim3.hpp"

namespace gpusim::record {

inline constexpr std::uint32_t kNone = 0xffffffff;

enum class Kind : std::uint8_t {
  kAccess = 1,
  kOp,
  kWait,
  kGoOn,
  kArrive,
  kCommit,
  kCopyBegins,
  kCopyLands,
  kProductBegins,
  kProductFinished,
  kGroupLanded,
  kDefect,
  kEnd
};

/// Event::flags of an access.
enum AccessFlag : std::uint8_t { kRead, kWrite, kAtomic, kCopyAsync, kMatrixRead, kTransposedMatrixRead };

/// Event::flags of an operation.
enum class Op : std::uint8_t {
  kSyncWarp,
  kShuffle,
  kVote,
  kMma,
  kElect,
  kFence,
  kBarrierInit,
  kRegisters,
  kProductFence,
  // Only where they have a defect:
  kLocalUse,  ///< of a register, or of another local variable
  kFailed,    ///< an instruction that has not been carried out

  kTranspose
};

/// One record of the file. Before it is written, `site` is the number of a site (sites.hpp), and `array` and
/// `offset` of an access are an allocation of the arena and the byte in it, or kShared or kOfBlock + rank and
/// the byte in the TLS block.
struct Event {
  Kind kind = Kind::kAccess;
  std::uint8_t flags = 0, warp = 0, part = 0;
  std::uint32_t site = kNone;
  std::uint32_t lanes = 0;
  std::uint32_t array = kNone, pattern = kNone, offset = kNone, link = kNone;
  std::uint32_t time = 0;

  static constexpr std::uint32_t kOfBlock = 0x40000000, kShared = 0x80000000;
};
static_assert(sizeof(Event) == 32);

/// What the addresses of a warp instruction have in common with those of others, and its cost.
struct AccessPattern {
  std::uint32_t size = 0;  ///< bytes per lane
  std::uint32_t bytes = 0, sectors = 0, wavefronts = 0, ideal = 0;
  std::array<std::int32_t, kWarpSize> offsets{};  ///< from the first active lane's; 0 of others

  bool operator==(const AccessPattern&) const = default;
  struct Hash {
    std::size_t operator()(const AccessPattern& pattern) const;
  };
};

enum class BarrierKind : std::uint8_t {
  kBlock,
  kWarp,
  kMbarrier,
  kNamed,
  kCluster,
  kCopies,
  kBulk,
  kProducts
};

/// Something that a warp can wait for.
struct Barrier {
  BarrierKind kind = BarrierKind::kBlock;
  std::uint64_t id = 0;  ///< mbarrier: its address; named: its number; others: what the call is named after
  Piece name{""};
  ThreadNumbers numbers;       ///< for the name
  std::uint32_t gathered = 0;  ///< the latest arrival in this phase
  std::uint32_t complete = 0;  ///< when the latest phase was complete
  std::uint32_t phase = 0;     ///< kBlock, kNamed: how many are complete
};

/// A copy by the copy engine.
struct Copy {
  BulkCopy copy;                 ///< without data
  const BulkCopy* of = nullptr;  ///< the block's own, for comparison only
  std::uint32_t allocation = 0;  ///< of the global side; 0: nothing of it is inside the tensor
  std::uint32_t event = kNone, barrier = kNone;
  bool has_read = false, has_landed = false;
};

/// What a warp's lanes have loaded.
struct Load {
  std::uint32_t event = kNone, lanes = 0, size = 0;
  LaneAddresses addresses{};
  std::array<std::array<std::byte, 16>, kWarpSize> values{};
};

/// A committed group of cp.async.
struct Group {
  std::uint32_t number = 0, event = kNone;
  std::uint32_t landed = 0;  ///< lanes
};

/// A product that a warp has issued.
struct InFlight {
  std::uint32_t event = kNone;
  std::uint32_t group = 0, number = 0;
};

struct Operand {
  bool in_registers = true;
  std::uint32_t offset = 0;  ///< in the TLS block
  bool mn_major = false;
  std::uint32_t leading = 0, stride = 0;
  int swizzle = 0, base_offset = 0;

  auto operator<=>(const Operand&) const = default;
};

struct Product {
  int m = 0, n = 0, k = 16;
  device::MmaType type = device::MmaType::kFloat16;
  Operand a, b;

  auto operator<=>(const Product&) const = default;
};

struct RecordedDefect {
  FindingKey key;
  Example example;
  std::uint32_t event = kNone, rival_event = kNone;
  const class BlockRecord* rival_block = nullptr;  ///< which has the rival event; null: this block
};

/// A defect whose event is not there yet.
struct WaitingDefect {
  std::uint32_t number = 0;
  bool is_access = true;  ///< of memory, which will be in the log; false: not, and comes after ..
  int after = -1;         ///< .. this access in the log
};

/// A variable of shared memory that the block has, or a part of it that has a name.
struct SharedArray {
  std::string variable, name;
  std::uint32_t begin = 0, bytes = 0;  ///< in the TLS block
  std::vector<std::size_t> shape;
  std::size_t element_bytes = 0, row_bytes = 0;
  RowLayout rows;
  SharedByte first;  ///< of a member of a declared object, which has no name yet
};

/// What one block has done.
class BlockRecord {
 public:
  explicit BlockRecord(std::size_t most_events) : most_events_(most_events) {}

  // Who it is.
  int launch = 0;
  const void* kernel = nullptr;
  std::uint64_t linear = 0;
  Dim3 grid, block_dim, block;
  int rank = 0, warps = 0;
  std::vector<std::int64_t> parameters;

  std::vector<Event> events;
  std::uint64_t left_out = 0;
  bool abandoned = false;
  std::vector<AccessPattern> patterns;
  std::vector<Barrier> barriers;
  std::vector<Copy> copies;
  std::vector<Product> products;
  std::vector<RecordedDefect> defects;
  std::vector<SharedArray> variables;  ///< of shared memory
  std::vector<SharedArray> members;    ///< of declared objects in them
  std::uintptr_t shared_begin = 0;     ///< the address of the TLS block

  /// @return its number; kNone if there was no room for it
  std::uint32_t add(const Event& event);
  bool is_full() const { return events.size() >= most_events_; }
  std::uint32_t pattern(const AccessPattern& pattern);
  Barrier& barrier(std::uint32_t number) { return barriers[number]; }
  /// The number of a barrier. @param make_name  called the first time
  template <class MakeName>
  std::uint32_t barrier(BarrierKind kind, std::uint64_t id, MakeName&& make_name);
  std::uint32_t product(const Product& product);
  /// Notes the number of the event of a race in the same file.
  std::uint32_t find(std::uint32_t site, int warp, std::uint32_t lanes, std::uint32_t array,
                     std::uint32_t offset) const;

  /// The time of the next instruction of a warp, which takes one unit.
  std::uint32_t take_time(int warp) { return now_[std::size_t(warp)]++; }
  std::uint32_t now(int warp) const { return now_[std::size_t(warp)]; }
  /// A wait of the warp ends, at this time or later. @return when
  std::uint32_t go_on(int warp, std::uint32_t time);

  /// The same event of several lanes is one: from here on.
  void begin_batch() { batch_ = events.size(); }
  /// The number of the event of this batch that is the same, by other lanes; kNone if there is none.
  std::uint32_t same_in_batch(const Event& event) const;

  std::set<FindingKey> known_defects;
  std::vector<WaitingDefect> waiting_defects;
  std::vector<std::vector<std::uint32_t>>
      product_times;  ///< by warpgroup and number: when the last warp has issued it

  // Of each warp:
  struct WarpState {
    std::uint32_t waiting = 0;        ///< lanes whose wait is in the record
    std::uint32_t copy_read = kNone;  ///< the latest read of global memory that may belong to a cp.async
    std::deque<Load> loads;           ///< the latest ones
    std::vector<Group> groups;        ///< of cp.async, those that have been committed
    std::vector<InFlight> products;   ///< that no wait has covered
    bool ended = false;
  };
  std::array<WarpState, kMaxWarps> warp_states;

 private:
  std::size_t most_events_;
  std::size_t batch_ = 0;
  std::array<std::uint32_t, kMaxWarps> now_{};
  std::unordered_map<AccessPattern, std::uint32_t, AccessPattern::Hash> pattern_numbers_;
  std::map<std::pair<BarrierKind, std::uint64_t>, std::uint32_t> barrier_numbers_;
  std::map<Product, std::uint32_t> product_numbers_;
};

/// An element of a tensor, "o[0,1,17,5]", or a byte of it, "o:4420".
struct Element {
  std::string text, tensor;
  std::vector<std::int64_t> index;  ///< empty: a byte
  std::uint64_t byte = 0;

  static std::optional<Element> of(const std::string& text);
};

/// What the environment asks for.
struct Settings {
  std::string path;  ///< empty: nothing is recorded
  std::optional<Element> writer_of;
  std::vector<Dim3> blocks{Dim3{0, 0, 0}};
  std::size_t most_events = 400000;
  std::optional<int> launch;
};

/// "bf16" -> 2; 1 if the type has no number.
std::uint64_t bytes_of_type(const std::string& type);

class Recorder {
 public:
  explicit Recorder(Settings settings) : settings_(std::move(settings)) {}

  /// nullptr if nothing is to be recorded. Ends the program with status 2 if the environment is wrong.
  static Recorder* instance() { return instance_; }
  /// For tests.
  static void set_instance(Recorder* recorder) { instance_ = recorder; }
  /// Reads the environment.
  static Recorder* from_environment();

  void begin_launch() { ++launch_; }
  /// The launch has ended. @param first_block  the number of the first block or cluster
  void end_launch(const device::Launch& launch, std::uint32_t first_block);
  /// The record of a block that starts; nullptr if it is not to be recorded.
  BlockRecord* begin_block(const Dim3& block);

  /// A race between two blocks of the launch that has just ended.
  void add_race(const FindingKey& key, const Example& example);

  /// The contents of the file.
  std::string contents();
  /// Writes the file when the program ends, and says who has written the element.
  void write_at_exit();

 private:
  void write();
  void tell_writer() const;

  static Recorder* instance_;

  Settings settings_;
  std::mutex mutex_;
  int launch_ = -1;
  std::vector<std::unique_ptr<BlockRecord>> blocks_;
  /// Who has written the element in the latest launch that wrote it, in words; empty if none did.
  std::string writer_;
  std::string writer_unknown_;  ///< why nothing can be said of it
  int exit_status_ = 0;         ///< not 0: the program ends with this, unless it has defects to report
};

template <class MakeName>
std::uint32_t BlockRecord::barrier(BarrierKind kind, std::uint64_t id, MakeName&& make_name) {
  const auto [it, is_new] = barrier_numbers_.try_emplace({kind, id}, std::uint32_t(barriers.size()));
  if (is_new) {
    Barrier& barrier = barriers.emplace_back();
    barrier.kind = kind;
    barrier.id = id;
    make_name(barrier);
  }
  return it->second;
}

}  // namespace gpusim::record
