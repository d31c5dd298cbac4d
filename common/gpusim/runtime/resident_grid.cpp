#include "gpusim/runtime/resident_grid.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "gpusim/runtime/session.hpp"

namespace gpusim {

std::uint32_t ResidentGrid::run(const device::Launch& launch, std::uint32_t number) {
  count_ = std::size_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  const auto size = std::uint32_t(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    if (i == blocks_.size()) blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_[i];
    block.thread.run([&] {
      if (!block.runner) block.runner = std::make_unique<BlockRunner>();
      block.runner->begin_launch(launch);
      block.runner->begin_block(i, number + std::uint32_t(i));
    });
  }
  std::uint32_t parts = 1;
  const auto runs = [&](std::size_t i) { return blocks_[i]->runner->live_ > 0; };
  for (bool given_up = false; !given_up;) {
    bool progress = false, any = false;
    for (std::size_t i = 0; i < count_ && !given_up; ++i) {
      if (!runs(i)) continue;
      any = true;
      BlockRunner& runner = *blocks_[i]->runner;
      blocks_[i]->thread.run([&] { progress |= runner.go_on(); });
      given_up = runner.trapped_;
    }
    if (!any) break;
    if (!given_up && is_complete()) {
      settle(launch, number);
      number += size;
      ++parts;
      open_barrier(number);
    } else if (!given_up && !progress &&
               std::none_of(blocks_.begin(), blocks_.begin() + std::ptrdiff_t(count_),
                            [](const auto& block) { return block->runner->end_tries(); })) {
      report_divergence();
      given_up = true;
    }
    for (std::size_t i = 0; given_up && i < count_; ++i) blocks_[i]->runner->abandon();
  }
  settle(launch, number);
  return parts;
}

/// Whether all threads of the grid wait at its barrier. Threads that have returned are not waited for, but
/// each block has to come.
bool ResidentGrid::is_complete() const {
  return std::all_of(blocks_.begin(), blocks_.begin() + std::ptrdiff_t(count_), [](const auto& block) {
    const BlockRunner& runner = *block->runner;
    if (runner.live_ == 0) return false;
    const BlockRunner::Thread* waiting = nullptr;
    for (int i = 0; i < runner.thread_count_; ++i) {
      const BlockRunner::Thread& t = runner.threads_[i];
      if (t.state == BlockRunner::State::kDone) continue;
      if (t.state != BlockRunner::State::kGridSync) return false;
      waiting = &t;
    }
    return std::none_of(runner.threads_.begin(), runner.threads_.begin() + runner.thread_count_,
                        [&](const BlockRunner::Thread& t) { return runner.went_past(t, *waiting); });
  });
}

/// Lets all threads go on. @param number  of the first block in the part that begins
void ResidentGrid::open_barrier(std::uint32_t number) {
  Arena::instance().grid_races().begin(number);
  Arena::instance().grid_order().begin(number);
  for (std::size_t i = 0; i < count_; ++i) {
    blocks_[i]->thread.run([&] { blocks_[i]->runner->pass_grid_barrier(number + std::uint32_t(i)); });
  }
}

/// The end of a part: what its blocks have counted and found, and the races between them.
void ResidentGrid::settle(const device::Launch& launch, std::uint32_t number) {
  for (std::size_t i = 0; i < count_; ++i) {
    BlockRunner& runner = *blocks_[i]->runner;
    static_bytes_ = std::max(static_bytes_, runner.static_shared_bytes());
    if (runner.live_ > 0) runner.set_arrivals();
    runner.tally.shared.bytes_per_block =
        std::int64_t(launch.dynamic_shared_bytes + runner.static_shared_bytes());
    Session::instance().absorb(runner.tally);
  }
  Session::instance().settle_grid_races(launch, number);
}

void ResidentGrid::report_divergence() {
  const auto waits = [](const BlockRunner& runner) {
    return std::any_of(runner.threads_.begin(), runner.threads_.begin() + runner.thread_count_,
                       [](const auto& t) { return t.state == BlockRunner::State::kGridSync; });
  };
  // A block with a barrier of its own that does not open keeps the others waiting.
  BlockRunner* at = nullptr;
  std::size_t number = 0, arrived = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    BlockRunner& runner = *blocks_[i]->runner;
    if (runner.live_ > 0 && !waits(runner))
      return blocks_[i]->thread.run([&] { runner.report_divergence(); });
    if (waits(runner) && at == nullptr) {
      at = &runner;
      number = i;
    }
  }
  if (at == nullptr) return;
  BlockRunner::Thread& waiting = at->most_awaited(0, at->thread_count_, BlockRunner::State::kGridSync);
  Example found;
  const auto add = [&](const BlockRunner& block) {
    for (Group& group : block.groups(0, block.thread_count_, waiting)) {
      if (group.members.empty()) continue;
      if (group.where == block.whereabouts(waiting, waiting)) arrived += group.members.size();
      group.of = " of " + block.block_name();
      if (found.groups.size() < 16) found.groups.push_back(std::move(group));
    }
  };
  add(*at);  // its first group is where the report is about
  for (std::size_t i = 0; i < count_; ++i) {
    if (i != number) add(*blocks_[i]->runner);
  }
  const std::size_t threads = count_ * std::size_t(at->thread_count_);
  found.detail = "Divergent thread(s) in the grid: " + std::to_string(arrived) + " of " +
                 std::to_string(threads) + " threads";
  blocks_[number]->thread.run([&] { at->add_divergence(&waiting, waiting.sync_pc, std::move(found)); });
}

}  // namespace gpusim
