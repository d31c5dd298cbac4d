/// @file
/// Simulated global memory: one reserved range of addresses, so that "is this address global?" is one
/// subtraction and one comparison, with shadow memory at fixed distances from it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpusim {

/// What is remembered of a 4-byte word of global memory during one launch: its last plain or atomic write
/// and its last read. Blocks run on several CPU threads, so the fields are relaxed atomics. `who` decides
/// between blocks; `when` is meaningful only if `who` names the block that looks at it.
struct GlobalCell {
  std::atomic<std::uint64_t> writer_who;   ///< pack_who(): block, thread, site
  std::atomic<std::uint64_t> writer_when;  ///< barrier epoch << 32 | warp tick
  std::atomic<std::uint64_t> reader_who;
  std::atomic<std::uint64_t> reader_when;
};

/// One cudaMalloc.
struct Allocation {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  ///< begin + the bytes asked for
  std::string name;
  bool live = false;
};

class Arena {
 public:
  static Arena& instance();

  /// nullptr if the simulated device has not that much memory left.
  void* allocate(std::size_t bytes);
  /// False if the pointer is not the start of a live allocation.
  bool release(void* pointer);
  void set_name(const void* pointer, const std::string& name);

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }

  bool contains(std::uintptr_t address) const { return address - base_ < size_; }

  /// Index of the allocation that holds all of [address, address + bytes), or 0.
  std::uint32_t find(std::uintptr_t address, std::size_t bytes) const {
    const std::uint32_t id = page_owner_[(address - base_) >> kPageBits];
    return id != 0 && address + bytes <= allocations_[id].end ? id : 0;
  }
  const Allocation& allocation(std::uint32_t id) const { return allocations_[id]; }
  std::size_t allocation_count() const { return allocations_.size(); }

  /// For the message of an out-of-bounds access: the live allocation that ends nearest before the address or
  /// starts nearest behind it; 0 if there is none.
  std::uint32_t nearest(std::uintptr_t address) const;

  /// One byte per word: bit b is set when byte b of the word has been written.
  std::uint8_t* initialized(std::uintptr_t address) const { return init_ + ((address - base_) >> 2); }
  void mark(std::uintptr_t address, std::size_t bytes, bool initialized);

  GlobalCell& cell(std::uintptr_t address) const { return cells_[(address - base_) >> 2]; }
  /// Cells of single bytes, for words that threads share.
  GlobalCell& byte_cell(std::uintptr_t address) const { return byte_cells_[address - base_]; }

  /// Forgets all cells: when block numbers start again from 1.
  void clear_cells();

 private:
  static constexpr int kPageBits = 12;

  Arena();

  std::uintptr_t base_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::uintptr_t top_ = 0;
  std::uint32_t* page_owner_ = nullptr;
  std::uint8_t* init_ = nullptr;
  GlobalCell* cells_ = nullptr;
  GlobalCell* byte_cells_ = nullptr;
  std::vector<Allocation> allocations_;
  std::multimap<std::size_t, std::uintptr_t> free_;  ///< by length in bytes, pages included
};

}  // namespace gpusim
