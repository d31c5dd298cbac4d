/// @file
/// Simulated global memory: one reserved range of addresses, so that "is this address global?" is one
/// subtraction and one comparison, with shadow memory at fixed distances from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpusim/runtime/grid_order.hpp"
#include "gpusim/runtime/grid_races.hpp"
#include "gpusim/runtime/published.hpp"
#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// One cudaMalloc.
struct Allocation {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  ///< begin + the requested bytes
  std::string name;
  bool live = false;
  std::vector<std::uintptr_t> callers;  ///< of cudaMalloc(), as long as the name does not come from them
  // Of the tensor in it, if the program has told:
  std::uintptr_t tensor = 0;  ///< its address
  std::vector<std::int64_t> shape;
  std::string type;  ///< "f32"
};

class Arena {
 public:
  static Arena& instance();

  /// nullptr if the simulated device does not have that much memory left.
  void* allocate(std::size_t bytes);
  /// False if the pointer is not the start of a live allocation.
  bool release(void* pointer);
  /// Gives the allocation that holds the pointer a name.
  void set_name(const void* pointer, const std::string& name);
  /// Gives allocations without names those that the program's sources have. Looks up source lines.
  /// @return  the old and the new name of each
  const std::map<std::string, std::string>& find_names();
  void set_tensor(const void* pointer, const std::vector<std::int64_t>& shape, const std::string& type);

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }

  std::uintptr_t base() const { return base_; }
  std::size_t size() const { return size_; }
  bool contains(std::uintptr_t address) const { return address - base_ < size_; }

  /// Index of the allocation that holds all of [address, address + bytes), or 0.
  [[gnu::always_inline]] std::uint32_t find(std::uintptr_t address, std::size_t bytes) const {
    const std::uint32_t id = page_owner_[(address - base_) >> kPageBits];
    return id != 0 && address + bytes <= allocations_[id].end ? id : 0;
  }
  const Allocation& allocation(std::uint32_t id) const { return allocations_[id]; }
  std::size_t allocation_count() const { return allocations_.size(); }

  /// The live allocation that is nearest to an address; 0 if there is none.
  std::uint32_t nearest(std::uintptr_t address) const;
  /// The position of an address in words: in an allocation, in one that has been released, or near one.
  std::string place_of(std::uintptr_t address) const;

  /// One byte per word: bit b is set when byte b of the word has been written.
  /// Makes all ones of the bytes in a range that are in no allocation.
  void poison(std::uintptr_t address, std::size_t bytes) const {
    for (std::uintptr_t a = address; a < address + bytes; ++a) {
      if (contains(a) && find(a, 1) == 0) *reinterpret_cast<volatile std::uint8_t*>(a) = 0xff;
    }
  }

  std::uint8_t* initialized(std::uintptr_t address) const { return &init_[(address - base_) >> 2]; }
  void mark(std::uintptr_t address, std::size_t bytes, bool initialized);
  /// The number of consecutive bytes from the address on that have been written, up to `bytes`.
  std::size_t written_prefix(std::uintptr_t address, std::size_t bytes) const;

  GridRaces& grid_races() { return grid_races_; }
  GridOrder& grid_order() { return *grid_order_; }
  const Publishers& publishers() const { return publishers_; }

 private:
  static constexpr int kPageBits = 12;
  /// Addresses before the first allocation that are the device's, so that an access there is reported as one
  /// before the allocation, not as one of the host's memory.
  static constexpr std::uintptr_t kFirstGap = 16 << 20;

  Arena();
  std::uintptr_t take_range(std::size_t length);
  void give_range(std::uintptr_t begin, std::size_t length);

  std::uintptr_t base_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::uintptr_t top_ = 0;
  Reserved<std::byte> data_;
  Reserved<std::uint32_t> page_owner_;
  Reserved<std::uint8_t> init_;
  GridRaces grid_races_;
  std::unique_ptr<GridOrder> grid_order_;
  Publishers publishers_;
  std::vector<Allocation> allocations_;
  std::map<std::string, std::string> found_names_;
  std::map<std::uintptr_t, std::size_t> free_;  ///< below top_: address and bytes; no two are adjacent
};

}  // namespace gpusim
