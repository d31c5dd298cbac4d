/// @file
/// The setup of a block: shared memory, threads, their stacks.
#include "gpusim/runtime/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/fiber_sanitizer.hpp"
#include "gpusim/runtime/local_reads.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

std::vector<void* (*)()>& dynamic_shared_storage() {
  static std::vector<void* (*)()> storage;
  return storage;
}

}  // namespace

void register_dynamic_shared(void* (*address)()) { dynamic_shared_storage().push_back(address); }

namespace {

/// The system gives a process 65,530 ranges of memory, and a guard page makes two of one. Of the blocks of a
/// large grid that are all there at once, the last ones go without.
constexpr int kMostGuardPages = 24'000;
std::atomic<int> guard_pages;

}  // namespace

BlockRunner::BlockRunner()
    : arena_(Arena::instance()),
      arena_base_(arena_.base()),
      arena_bytes_(arena_.size()),
      compute_capability_(emulated_device().compute_capability),
      shared_base_(tls_block()),
      shared_bytes_(tls_layout().bytes),
      copy_origins_(shared_bytes_ / 4 + 4),
      shared_shadow_(shared_bytes_ / 4 + 4),
      global_shadow_(arena_bytes_) {
  void* stacks = mmap(nullptr, kMaxThreads * kStackStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) throw std::bad_alloc();
  stacks_ = static_cast<std::byte*>(stacks);

  const TlsLayout& layout = tls_layout();
  variables_.push_back({});
  for (const TlsVariable& v : layout.variables)
    variables_.push_back({.offset = v.offset, .bytes = v.bytes, .name = v.name});
  for (auto* address : dynamic_shared_storage()) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(address()) - shared_base_;
    for (StaticVariable& v : variables_) {
      if (v.bytes != 0 && v.offset == offset) v.dynamic = true;
    }
  }
  variable_of_word_.resize(shared_bytes_ / 4 + 1);
  for (std::size_t id = 1; id < variables_.size(); ++id) {
    const StaticVariable& v = variables_[id];
    for (std::size_t b = v.offset; b < v.offset + v.bytes; b += 4 - b % 4)
      variable_of_word_[b / 4] = std::uint16_t(id);
  }
  for (const void* index : {static_cast<const void*>(&::threadIdx), static_cast<const void*>(&::blockIdx),
                            static_cast<const void*>(&::blockDim), static_cast<const void*>(&::gridDim)}) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(index) - shared_base_;
    if (StaticVariable* v = variable_at(offset)) v->is_index = true;
  }
  shared_state_.resize(shared_bytes_ / 4 + 4);
}

BlockRunner::~BlockRunner() {
  munmap(stacks_, kMaxThreads * kStackStride);
  guard_pages -= int(
      std::count_if(threads_.begin(), threads_.end(), [](const Thread& t) { return t.context != nullptr; }));
}

void BlockRunner::begin_launch(const device::Launch& launch) {
  tally.allocations.resize(arena_.allocation_count());
  grid_dim_ = {launch.grid.x, launch.grid.y, launch.grid.z};
  block_dim_ = {launch.block.x, launch.block.y, launch.block.z};
  ::blockDim = {block_dim_.x, block_dim_.y, block_dim_.z};
  ::gridDim = {grid_dim_.x, grid_dim_.y, grid_dim_.z};
  launch_ = &launch;
  follows_lost_block_ = Session::instance().has_lost_block();
  if (expects_for_ != reinterpret_cast<const void*>(launch.kernel)) {
    expects_for_ = reinterpret_cast<const void*>(launch.kernel);
    expects_clocks_ = false;
    used_stack_ = 0;
  }
  window_.clear();
  async_shadow_.forget();
  cluster_ = nullptr;
  rank_ = 0;
  thread_count_ = int(block_dim_.volume());
  warp_count_ = (thread_count_ + kWarpSize - 1) / kWarpSize;
  for (StaticVariable& v : variables_) {
    v.touched = v.dynamic;
    if (v.dynamic) v.bytes = launch.dynamic_shared_bytes;
  }
  std::fill(shared_state_.begin(), shared_state_.end(), std::uint8_t(0));
}

std::size_t BlockRunner::static_shared_bytes() const {
  std::size_t bytes = 0;
  for (const StaticVariable& v : variables_) bytes += v.touched && !v.dynamic ? v.bytes : 0;
  return bytes;
}

void BlockRunner::begin_block(std::uint64_t linear, std::uint32_t number) {
  linear_ = linear;
  number_ = number;
  const Dim3 block = grid_dim_.at(linear);
  ::blockIdx = {block.x, block.y, block.z};
  block_epoch_ = ++epoch_;
  trapped_ = false;
  idle_rounds_ = fruitless_tries_ = 0;
  waits_ = active_waits_ = 0;
  has_copies_ = false;
  operations_.clear();
  arrived_.clear();
  arrivals_.clear();
  seen_releases_.clear();
  guards_.clear();
  has_locks_ = false;
  dependencies_.clear();
  declared_.clear();
  latest_stores_.clear();
  clear_shared();
  global_shadow_.next_block();
  start_threads();
  has_clocks_ = false;
  if (expects_clocks_ && cluster_ == nullptr) start_clocks();  // a cluster starts those of all its blocks
  record_ = nullptr;
  if (record::Recorder::instance() != nullptr) begin_record();
}

void BlockRunner::clear_shared() {
  for (const StaticVariable& v : variables_) {
    if (!v.touched || v.bytes == 0) continue;
    std::memset(reinterpret_cast<void*>(shared_base_ + v.offset), 0xff, v.bytes);
    std::fill(&shared_state_[v.offset / 4], &shared_state_[(v.offset + v.bytes + 3) / 4], std::uint8_t(0));
  }
}

void BlockRunner::start_threads() {
  Dim3 index{0, 0, 0};
#ifndef __clang__
  trap_invalid_operations();
#endif
  const std::size_t to_fill =
      used_stack_ == 0 ? kLikelyStack : std::min((used_stack_ + 15) / 16 * 16, kStack);
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    std::byte* bottom = stacks_ + std::size_t(i) * kStackStride + kPage;
    if (t.context == nullptr && guard_pages.fetch_add(1) < kMostGuardPages) {
      mprotect(bottom - kPage, kPage, PROT_NONE);
    }
    std::byte* const top = bottom + kStack + kPage - shift_of(i);
    sanitizer::renew(bottom, kStack + kPage);
    fill_with_unwritten(top - to_fill, top);
    t.context = boost::context::detail::make_fcontext(top, kStack, &BlockRunner::fiber_main);
    t.index = index;
    t.linear = i;
    t.state = State::kReady;
    t.locks.clear();
    t.volatile_read = 0;
    t.reads_outside = 0;
    t.steps = -1;
    t.arrivals = 0;
    t.fence_epoch = 0;
    t.fence_pc = nullptr;
    t.loops.reset();
    t.open_group.clear();
    t.groups.clear();
    t.landed_groups = 0;
    t.copies = {};
    t.cluster = {};
    t.bulk = {};
    if (++index.x == block_dim_.x) {
      index.x = 0;
      if (++index.y == block_dim_.y) {
        index.y = 0;
        ++index.z;
      }
    }
  }
  for (int w = 0; w < warp_count_; ++w) {
    const int lanes = std::min(kWarpSize, thread_count_ - w * kWarpSize);
    warps_[w].live = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
    warps_[w].clock = {};
    warps_[w].barrier_pc = nullptr;
    warps_[w].used_groups.clear();
    warps_[w].is_blocked = false;
  }
  reset_products();
  reset_registers();
  live_ = thread_count_;
}

}  // namespace gpusim
