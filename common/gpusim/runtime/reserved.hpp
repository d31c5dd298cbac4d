/// @file
/// Large arrays that take memory only for the parts in use.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace gpusim {

/// Address space for objects that are all zero bits until they are written.
template <class T>
class Reserved {
 public:
  Reserved() = default;
  /// Empty, and false, if the system refuses.
  explicit Reserved(std::size_t count) : bytes_(count * sizeof(T)) {
    void* p =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : static_cast<T*>(p);
  }
  Reserved(Reserved&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reserved& operator=(Reserved&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reserved() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  explicit operator bool() const { return data_ != nullptr; }
  T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }

  /// Makes the objects [first, first + count) zero again, and releases their memory.
  void clear(std::size_t first, std::size_t count) const {
    constexpr std::uintptr_t kPage = 4096;
    auto* begin = reinterpret_cast<std::byte*>(data_ + first);
    auto* end = begin + count * sizeof(T);
    auto* page = begin + (kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage) % kPage;
    auto* page_end = end - reinterpret_cast<std::uintptr_t>(end) % kPage;
    if (page >= page_end) {
      std::memset(begin, 0, std::size_t(end - begin));
      return;
    }
    std::memset(begin, 0, std::size_t(page - begin));
    madvise(page, std::size_t(page_end - page), MADV_DONTNEED);
    std::memset(page_end, 0, std::size_t(end - page_end));
  }
  void clear() const { clear(0, bytes_ / sizeof(T)); }

 private:
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gpusim
