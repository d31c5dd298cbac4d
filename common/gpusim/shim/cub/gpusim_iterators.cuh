/// @file
/// CUB's iterators, operators and small types.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

#include "gpusim_host_algorithms.h"

#define CUB_VERSION 200700
#define CubDebug(e) (e)
#define CubDebugExit(e) static_cast<void>(e)

namespace cub {

template <class Key, class Value>
struct KeyValuePair {
  using Key_ = Key;
  Key key;
  Value value;
  KeyValuePair() = default;
  GPUSIM_INLINE KeyValuePair(const Key& k, const Value& v) : key(k), value(v) {}
  GPUSIM_INLINE bool operator!=(const KeyValuePair& b) const { return value != b.value || key != b.key; }
};

struct Sum {
  template <class T, class U>
  GPUSIM_INLINE auto operator()(const T& a, const U& b) const {
    return a + b;
  }
};
struct Difference {
  template <class T, class U>
  GPUSIM_INLINE auto operator()(const T& a, const U& b) const {
    return a - b;
  }
};
struct Min {
  template <class T, class U>
  GPUSIM_INLINE std::common_type_t<T, U> operator()(const T& a, const U& b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T, class U>
  GPUSIM_INLINE std::common_type_t<T, U> operator()(const T& a, const U& b) const {
    return a < b ? b : a;
  }
};
struct Equality {
  template <class T, class U>
  GPUSIM_INLINE bool operator()(const T& a, const U& b) const {
    return a == b;
  }
};
struct Inequality {
  template <class T, class U>
  GPUSIM_INLINE bool operator()(const T& a, const U& b) const {
    return a != b;
  }
};
struct ArgMin {
  template <class P>
  GPUSIM_INLINE P operator()(const P& a, const P& b) const {
    return b.value < a.value || (!(a.value < b.value) && b.key < a.key) ? b : a;
  }
};
struct ArgMax {
  template <class P>
  GPUSIM_INLINE P operator()(const P& a, const P& b) const {
    return a.value < b.value || (!(b.value < a.value) && b.key < a.key) ? b : a;
  }
};

template <class T>
struct DoubleBuffer {
  T* d_buffers[2] = {nullptr, nullptr};
  int selector = 0;
  DoubleBuffer() = default;
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() { return d_buffers[selector]; }
  T* Alternate() { return d_buffers[selector ^ 1]; }
};

/// What the iterators have in common. @tparam Self  has at(offset) and `offset_`
template <class Self, class T>
struct GpusimIterator {
  using value_type = T;
  using reference = T;
  using pointer = T*;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::random_access_iterator_tag;
  GPUSIM_INLINE T operator*() const { return self().gpusim_at(offset_); }
  GPUSIM_INLINE T operator[](std::ptrdiff_t i) const { return self().gpusim_at(offset_ + i); }
  GPUSIM_INLINE Self operator+(std::ptrdiff_t i) const {
    Self moved = self();
    moved.offset_ += i;
    return moved;
  }
  GPUSIM_INLINE Self operator-(std::ptrdiff_t i) const { return *this + -i; }
  GPUSIM_INLINE std::ptrdiff_t operator-(const Self& other) const { return offset_ - other.offset_; }
  GPUSIM_INLINE Self& operator+=(std::ptrdiff_t i) {
    offset_ += i;
    return static_cast<Self&>(*this);
  }
  GPUSIM_INLINE Self& operator++() { return *this += 1; }
  GPUSIM_INLINE Self operator++(int) {
    Self old = self();
    ++offset_;
    return old;
  }
  GPUSIM_INLINE bool operator==(const Self& other) const { return offset_ == other.offset_; }
  GPUSIM_INLINE bool operator!=(const Self& other) const { return offset_ != other.offset_; }
  GPUSIM_INLINE bool operator<(const Self& other) const { return offset_ < other.offset_; }
  GPUSIM_INLINE const Self& self() const { return static_cast<const Self&>(*this); }
  std::ptrdiff_t offset_ = 0;
};

template <class T, class Offset = std::ptrdiff_t>
struct CountingInputIterator : GpusimIterator<CountingInputIterator<T, Offset>, T> {
  GPUSIM_INLINE explicit CountingInputIterator(T first) : first_(first) {}
  GPUSIM_INLINE T gpusim_at(std::ptrdiff_t i) const { return T(first_ + T(i)); }
  T first_;
};
template <class T, class Offset = std::ptrdiff_t>
struct ConstantInputIterator : GpusimIterator<ConstantInputIterator<T, Offset>, T> {
  GPUSIM_INLINE explicit ConstantInputIterator(T value, Offset = 0) : value_(value) {}
  GPUSIM_INLINE T gpusim_at(std::ptrdiff_t) const { return value_; }
  T value_;
};
template <class T, class Op, class In, class Offset = std::ptrdiff_t>
struct TransformInputIterator : GpusimIterator<TransformInputIterator<T, Op, In, Offset>, T> {
  GPUSIM_INLINE TransformInputIterator(In in, Op op) : in_(in), op_(op) {}
  GPUSIM_INLINE T gpusim_at(std::ptrdiff_t i) const { return op_(in_[i]); }
  void gpusim_count(const gpusim::host::Routine& routine, std::ptrdiff_t n, bool writes) const {
    routine.count(in_ + this->offset_, n, writes, 0);
  }
  In in_;
  Op op_;
};
template <class In, class Offset = int, class T = gpusim::host::ValueOf<In>>
struct ArgIndexInputIterator : GpusimIterator<ArgIndexInputIterator<In, Offset, T>, KeyValuePair<Offset, T>> {
  GPUSIM_INLINE explicit ArgIndexInputIterator(In in, std::ptrdiff_t = 0) : in_(in) {}
  GPUSIM_INLINE KeyValuePair<Offset, T> gpusim_at(std::ptrdiff_t i) const { return {Offset(i), T(in_[i])}; }
  void gpusim_count(const gpusim::host::Routine& routine, std::ptrdiff_t n, bool writes) const {
    routine.count(in_ + this->offset_, n, writes, 0);
  }
  In in_;
};
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier kModifier, class T, class Offset = std::ptrdiff_t>
using CacheModifiedInputIterator = const T*;
template <CacheLoadModifier kModifier, class T>
GPUSIM_INLINE T ThreadLoad(const T* from) {
  return *from;
}
template <CacheStoreModifier kModifier, class T>
GPUSIM_INLINE void ThreadStore(T* to, std::remove_cv_t<T> value) {
  *to = value;
}

/// Memory of the device, which is released at once: nothing is kept.
struct CachingDeviceAllocator {
  explicit CachingDeviceAllocator(bool = false, bool = false) {}
  CachingDeviceAllocator(unsigned, unsigned = 1, unsigned = 9, std::size_t = 0, bool = false, bool = false) {}
  cudaError_t DeviceAllocate(void** pointer, std::size_t bytes, cudaStream_t = nullptr) {
    return cudaMalloc(pointer, bytes);
  }
  cudaError_t DeviceFree(void* pointer) { return cudaFree(pointer); }
  cudaError_t FreeAllCached() { return cudaSuccess; }
};

GPUSIM_INLINE unsigned LaneId() { return unsigned(gpusim::device::lane()); }
GPUSIM_INLINE unsigned WarpId() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
}
GPUSIM_INLINE unsigned LaneMaskLt() { return (1u << LaneId()) - 1; }
template <class T>
constexpr T DivideAndRoundUp(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace cub
