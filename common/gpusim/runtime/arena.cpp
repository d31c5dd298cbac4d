#include "gpusim/runtime/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "gpusim/runtime/allocation_names.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

namespace gpusim {
namespace {

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// A file of ones in memory, which large allocations show as long as they are not written; -1: there is none.
constexpr std::size_t kOnesBytes = std::size_t(16) << 20;
int file_of_ones() {
  static const int file = [] {
    const int made = memfd_create("ones", MFD_CLOEXEC);
    if (made < 0) return -1;
    const std::vector<char> ones(kOnesBytes, char(0xff));
    return write(made, ones.data(), kOnesBytes) == ssize_t(kOnesBytes) ? made : -1;
  }();
  return file;
}

/// Whole pages. NaN in every floating-point type.
void fill_with_ones(std::uintptr_t begin, std::size_t bytes) {
  const auto map = [&] {
    const int file = file_of_ones();
    if (file < 0) return false;
    for (std::size_t done = 0; done < bytes; done += kOnesBytes) {
      void* const part = reinterpret_cast<void*>(begin + done);
      if (mmap(part, std::min(bytes - done, kOnesBytes), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED)
        return false;
    }
    return true;
  };
  if (bytes < 4 * kOnesBytes || !map()) std::memset(reinterpret_cast<void*>(begin), 0xff, bytes);
}

}  // namespace

Arena& Arena::instance() {
  // Never destroyed: static objects of the program may release device memory at exit.
  static Arena* arena = new Arena;
  return *arena;
}

Arena::Arena() {
  const std::size_t physical = std::size_t(sysconf(_SC_PHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE));
  const std::size_t wanted =
      std::clamp(std::bit_ceil(2 * physical), std::size_t(32) << 30, std::size_t(512) << 30);
  for (std::size_t size = wanted; base_ == 0 && size >= std::size_t(256) << 20; size /= 2) {
    Reserved<std::byte> data(size);
    Reserved<std::uint32_t> owners(size >> kPageBits);
    Reserved<std::uint8_t> init(size / 4);
    GridRaces races(size);
    Publishers publishers(size);
    auto order = std::make_unique<GridOrder>(size);
    if (!data || !owners || !init || !races || !*order || !publishers) continue;
    base_ = reinterpret_cast<std::uintptr_t>(data.data());
    size_ = size;
    device_range = {base_, size_};
    data_ = std::move(data);
    page_owner_ = std::move(owners);
    init_ = std::move(init);
    grid_races_ = std::move(races);
    grid_order_ = std::move(order);
    publishers_ = std::move(publishers);
  }
  if (base_ == 0) throw std::runtime_error("gpusim: cannot reserve address space (ulimit -v?)");
  // Only what a program uses costs memory: for a byte that is both read and written, 1 byte of data, 1/4 byte
  // of initialisation state and 8 of race state.
  capacity_ = std::min(size_ / 2, physical / 4 * 3);
  top_ = base_ + kFirstGap;
  allocations_.emplace_back();  // index 0 means "none"
}

/// The lowest range of addresses that is free; 0 if there is none.
std::uintptr_t Arena::take_range(std::size_t length) {
  const auto it = std::find_if(free_.begin(), free_.end(), [&](const auto& r) { return r.second >= length; });
  if (it == free_.end()) {
    if (length > base_ + size_ - top_) return 0;
    return std::exchange(top_, top_ + length);
  }
  const auto [begin, available] = *it;
  free_.erase(it);
  if (available > length) free_.emplace(begin + length, available - length);
  return begin;
}

void Arena::give_range(std::uintptr_t begin, std::size_t length) {
  auto after = free_.lower_bound(begin);
  if (after != free_.end() && begin + length == after->first) {
    length += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      length += before->second;
      free_.erase(before);
    }
  }
  if (begin + length == top_) {
    top_ = begin;
  } else {
    free_.emplace(begin, length);
  }
}

void* Arena::allocate(std::size_t bytes) {
  const OneHostThread turn;
  if (bytes == 0 || bytes > capacity_ - used_) return nullptr;
  // An unowned page after every allocation, so that running past the end never reaches the next one.
  const std::size_t length = round_up(bytes, std::size_t(1) << kPageBits) + (std::size_t(1) << kPageBits);
  const std::uintptr_t begin = take_range(length);
  if (begin == 0) return nullptr;
  const auto id = std::uint32_t(allocations_.size());
  allocations_.push_back({begin, begin + bytes, "allocation " + std::to_string(id), true, callers()});
  const std::size_t pages = (length >> kPageBits) - 1;
  std::fill_n(&page_owner_[(begin - base_) >> kPageBits], pages, id);
  fill_with_ones(begin, length - (std::size_t(1) << kPageBits));
  used_ += bytes;
  return reinterpret_cast<void*>(begin);
}

bool Arena::release(void* pointer) {
  const OneHostThread turn;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (!contains(begin)) return false;
  const std::uint32_t id = page_owner_[(begin - base_) >> kPageBits];
  if (id == 0 || allocations_[id].begin != begin) return false;
  Allocation& a = allocations_[id];
  const std::size_t length = round_up(a.end - begin, std::size_t(1) << kPageBits);
  std::fill_n(&page_owner_[(begin - base_) >> kPageBits], length >> kPageBits, 0u);
  data_.clear(begin - base_, length);
  init_.clear((begin - base_) / 4, length / 4);
  grid_races_.forget(begin - base_, length);
  publishers_.forget(begin - base_, length);
  Streams::instance().forget(begin - base_, length);
  used_ -= a.end - begin;
  a.live = false;
  give_range(begin, length + (std::size_t(1) << kPageBits));
  return true;
}

void Arena::set_name(const void* pointer, const std::string& name) {
  const OneHostThread turn;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (!contains(begin)) return;
  if (const std::uint32_t id = find(begin, 1)) {
    allocations_[id].name = name;
    allocations_[id].callers.clear();
  }
}

const std::map<std::string, std::string>& Arena::find_names() {
  std::vector<std::uintptr_t> pcs;
  for (const Allocation& a : allocations_) pcs.insert(pcs.end(), a.callers.begin(), a.callers.end());
  if (pcs.empty()) return found_names_;
  std::sort(pcs.begin(), pcs.end());
  pcs.erase(std::unique(pcs.begin(), pcs.end()), pcs.end());
  const auto known = frames_at(pcs);
  std::map<std::vector<std::uintptr_t>, std::string> by_place;  // most programs allocate in a few places
  std::map<std::string, int> elements;                          // of arrays of pointers
  // Several calls on a line: their order is that of their addresses.
  std::map<std::string, std::set<std::uintptr_t>> calls;
  const auto innermost = [&](const std::vector<std::uintptr_t>& stack) {
    return std::find_if(stack.begin(), stack.end(), [&](std::uintptr_t pc) { return known.contains(pc); });
  };
  for (const Allocation& a : allocations_) {
    if (const auto pc = innermost(a.callers); pc != a.callers.end())
      calls[known.at(*pc).front().place].insert(*pc);
  }
  for (Allocation& a : allocations_) {
    if (a.callers.empty()) continue;
    const auto [place, is_new] = by_place.try_emplace(std::move(a.callers));
    a.callers.clear();
    if (is_new) {
      std::vector<Frame> frames;
      for (const std::uintptr_t pc : place->first) {
        if (const auto at = known.find(pc); at != known.end())
          frames.insert(frames.end(), at->second.begin(), at->second.end());
      }
      const auto pc = innermost(place->first);
      if (pc == place->first.end()) continue;
      const std::set<std::uintptr_t>& on_line = calls[frames.front().place];
      place->second = allocation_name(frames, std::size_t(std::distance(on_line.begin(), on_line.find(*pc))));
    }
    std::string name = place->second;
    if (name.empty()) continue;
    const std::size_t open = name.find('[');
    if (open != name.npos && std::isdigit(static_cast<unsigned char>(name[open + 1])) == 0) {  // in a loop
      const std::size_t close = name.find(']', open);
      name.replace(open + 1, close - open - 1, std::to_string(elements[place->second]++));
    }
    found_names_[a.name] = name;
    a.name = name;
  }
  return found_names_;
}

void Arena::set_tensor(const void* pointer, const std::vector<std::int64_t>& shape, const std::string& type) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const std::uint32_t id = contains(begin) ? find(begin, 1) : 0;
  if (id == 0) return;
  allocations_[id].tensor = begin;
  allocations_[id].shape = shape;
  allocations_[id].type = type;
}

std::uint32_t Arena::nearest(std::uintptr_t address) const {
  std::uint32_t nearest = 0;
  std::uintptr_t least = ~std::uintptr_t(0);
  for (std::uint32_t id = 1; id < allocations_.size(); ++id) {
    const Allocation& a = allocations_[id];
    const std::uintptr_t distance = address < a.begin  ? a.begin - address
                                    : address >= a.end ? address - a.end + 1
                                                       : 0;
    if (!a.live || distance >= least) continue;
    nearest = id;
    least = distance;
  }
  return nearest;
}

std::string Arena::place_of(std::uintptr_t address) const {
  if (address == 0) return "a null pointer";
  // Nothing is within 2 GiB of it, except for an executable that does not choose its addresses.
  constexpr std::uintptr_t kNear = std::uintptr_t(1) << 31;
  if (!is_constant(address) && !is_device_variable(address)) {
    if (address < kNear) return std::to_string(address) + " bytes after a null pointer";
    if (~address < kNear) return std::to_string(~address + 1) + " bytes before a null pointer";
  }
  if (!contains(address))
    return "in the host's memory: a kernel can use what cudaMalloc() or cudaMallocHost() returns";
  const Allocation* nearest = nullptr;
  std::uintptr_t least = ~std::uintptr_t(0);
  const Allocation* released = nullptr;  // the last one that held the address
  for (const Allocation& a : allocations_) {
    const bool before = address < a.begin;
    const bool after = address >= a.end;
    if (!a.live) {
      if (!before && !after) released = &a;
      continue;
    }
    const std::uintptr_t distance = before ? a.begin - address : after ? address - a.end + 1 : 0;
    if (distance < least) {
      nearest = &a;
      least = distance;
    }
  }
  // The page after an allocation counts as part of it.
  if (released != nullptr && least > std::uintptr_t(1) << kPageBits) {
    return place_in(released->name, released->begin, released->end, address) + ", which has been released";
  }
  return nearest == nullptr ? "in no allocation"
                            : place_in(nearest->name, nearest->begin, nearest->end, address);
}

std::size_t Arena::written_prefix(std::uintptr_t address, std::size_t bytes) const {
  for (std::size_t i = 0; i < bytes;) {
    const std::uintptr_t byte = address + i;
    const std::uint8_t state = *initialized(byte);
    if (byte % 4 == 0 && state == 0xf) {
      i += 4;
    } else if (state >> (byte % 4) & 1) {
      ++i;
    } else {
      return i;
    }
  }
  return bytes;
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

}  // namespace gpusim
