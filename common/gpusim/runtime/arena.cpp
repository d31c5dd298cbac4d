#include "gpusim/runtime/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace gpusim {
namespace {

/// Address space only: pages appear when they are touched, and read as zero until then.
void* reserve(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void forget(void* begin, std::size_t bytes) { madvise(begin, bytes, MADV_DONTNEED); }

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Arena& Arena::instance() {
  static Arena arena;
  return arena;
}

Arena::Arena() {
  for (size_ = std::size_t(32) << 30; size_ >= std::size_t(256) << 20; size_ /= 2) {
    void* data = reserve(size_);
    void* owners = reserve((size_ >> kPageBits) * sizeof(std::uint32_t));
    void* init = reserve(size_ / 4);
    void* cells = reserve(size_ / 4 * sizeof(GlobalCell));
    void* byte_cells = reserve(size_ * sizeof(GlobalCell));
    if (data && owners && init && cells && byte_cells) {
      base_ = reinterpret_cast<std::uintptr_t>(data);
      page_owner_ = static_cast<std::uint32_t*>(owners);
      init_ = static_cast<std::uint8_t*>(init);
      cells_ = static_cast<GlobalCell*>(cells);
      byte_cells_ = static_cast<GlobalCell*>(byte_cells);
      break;
    }
    if (data) munmap(data, size_);
    if (owners) munmap(owners, (size_ >> kPageBits) * sizeof(std::uint32_t));
    if (init) munmap(init, size_ / 4);
    if (cells) munmap(cells, size_ / 4 * sizeof(GlobalCell));
    if (byte_cells) munmap(byte_cells, size_ * sizeof(GlobalCell));
  }
  if (base_ == 0) throw std::runtime_error("gpusim: cannot reserve address space (ulimit -v?)");
  // A written byte costs 1 byte of data, 1/4 of initialisation state and 8 of race state.
  const std::size_t physical = std::size_t(sysconf(_SC_PHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE));
  capacity_ = std::min(size_ / 2, physical / 12);
  top_ = base_ + (1 << kPageBits);
  allocations_.emplace_back();  // index 0 means "none"
}

void* Arena::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > capacity_ - used_) return nullptr;
  // One unowned page behind every allocation, so that running past the end never lands in the next one.
  const std::size_t length = round_up(bytes, std::size_t(1) << kPageBits) + (std::size_t(1) << kPageBits);
  std::uintptr_t begin = 0;
  if (auto it = free_.find(length); it != free_.end()) {
    begin = it->second;
    free_.erase(it);
  } else {
    if (top_ + length > base_ + size_) return nullptr;
    begin = top_;
    top_ += length;
  }
  const auto id = std::uint32_t(allocations_.size());
  allocations_.push_back({begin, begin + bytes, "allocation " + std::to_string(id), true});
  const std::size_t pages = (length >> kPageBits) - 1;
  std::fill_n(page_owner_ + ((begin - base_) >> kPageBits), pages, id);
  std::memset(reinterpret_cast<void*>(begin), 0xff, bytes);  // NaN in every floating-point type
  used_ += bytes;
  return reinterpret_cast<void*>(begin);
}

bool Arena::release(void* pointer) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (!contains(begin)) return false;
  const std::uint32_t id = page_owner_[(begin - base_) >> kPageBits];
  if (id == 0 || allocations_[id].begin != begin) return false;
  Allocation& a = allocations_[id];
  const std::size_t length = round_up(a.end - begin, std::size_t(1) << kPageBits);
  std::fill_n(page_owner_ + ((begin - base_) >> kPageBits), length >> kPageBits, 0u);
  forget(pointer, length);
  forget(initialized(begin), length / 4);
  forget(&cell(begin), length / 4 * sizeof(GlobalCell));
  forget(&byte_cell(begin), length * sizeof(GlobalCell));
  used_ -= a.end - begin;
  a.live = false;
  free_.emplace(length + (std::size_t(1) << kPageBits), begin);
  return true;
}

void Arena::set_name(const void* pointer, const std::string& name) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (!contains(begin)) return;
  if (const std::uint32_t id = find(begin, 1)) allocations_[id].name = name;
}

std::uint32_t Arena::nearest(std::uintptr_t address) const {
  std::uint32_t best = 0;
  std::uintptr_t best_distance = ~std::uintptr_t(0);
  for (std::uint32_t id = 1; id < allocations_.size(); ++id) {
    const Allocation& a = allocations_[id];
    if (!a.live) continue;
    const std::uintptr_t distance = address >= a.end ? address - a.end : address < a.begin ? a.begin - address : 0;
    if (distance < best_distance) {
      best = id;
      best_distance = distance;
    }
  }
  return best;
}

void Arena::mark(std::uintptr_t address, std::size_t bytes, bool initialized_now) {
  for (std::uintptr_t a = address; a < address + bytes;) {
    if (a % 4 == 0 && address + bytes - a >= 4) {
      const std::size_t words = (address + bytes - a) / 4;
      std::memset(initialized(a), initialized_now ? 0xf : 0, words);
      a += words * 4;
    } else {
      const auto bit = std::uint8_t(1u << (a % 4));
      std::uint8_t& state = *initialized(a);
      state = std::uint8_t(initialized_now ? state | bit : state & ~bit);
      ++a;
    }
  }
}

void Arena::clear_cells() {
  forget(cells_, size_ / 4 * sizeof(GlobalCell));
  forget(byte_cells_, size_ * sizeof(GlobalCell));
}

}  // namespace gpusim
