/// @file
/// Thrust, answered by the host: see gpusim_host_algorithms.h. Vectors of the device are allocations of
/// cudaMalloc().
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpusim_host_algorithms.h"

#define THRUST_VERSION 200700
#define THRUST_MAJOR_VERSION 2
#define THRUST_MINOR_VERSION 7

namespace thrust {

// ---- tuples ---------------------------------------------------------------------------------------------

template <class... Ts>
struct tuple;
template <>
struct tuple<> {
  GPUSIM_INLINE bool operator==(const tuple&) const { return true; }
  GPUSIM_INLINE bool operator<(const tuple&) const { return false; }
};
template <class T, class... Ts>
struct tuple<T, Ts...> {
  T head;
  tuple<Ts...> tail;
  tuple() = default;
  tuple(const tuple&) = default;
  GPUSIM_INLINE tuple(T h, Ts... t) : head(static_cast<T>(h)), tail(static_cast<Ts>(t)...) {}
  template <class U, class... Us, class = std::enable_if_t<sizeof...(Us) == sizeof...(Ts)>>
  GPUSIM_INLINE tuple(const tuple<U, Us...>& other) : head(static_cast<T>(other.head)), tail(other.tail) {}
  GPUSIM_INLINE tuple& operator=(const tuple& other) {
    head = other.head;
    tail = other.tail;
    return *this;
  }
  template <class U, class... Us>
  GPUSIM_INLINE tuple& operator=(const tuple<U, Us...>& other) {
    head = other.head;
    tail = other.tail;
    return *this;
  }
  template <class U, class... Us>
  GPUSIM_INLINE bool operator==(const tuple<U, Us...>& b) const {
    return head == b.head && tail == b.tail;
  }
  template <class U, class... Us>
  GPUSIM_INLINE bool operator!=(const tuple<U, Us...>& b) const {
    return !(*this == b);
  }
  template <class U, class... Us>
  GPUSIM_INLINE bool operator<(const tuple<U, Us...>& b) const {
    return head < b.head || (!(b.head < head) && tail < b.tail);
  }
};
template <std::size_t kIndex, class T>
struct tuple_element;
template <class T, class... Ts>
struct tuple_element<0, tuple<T, Ts...>> {
  using type = T;
};
template <std::size_t kIndex, class T, class... Ts>
struct tuple_element<kIndex, tuple<T, Ts...>> : tuple_element<kIndex - 1, tuple<Ts...>> {};
template <class T>
struct tuple_size;
template <class... Ts>
struct tuple_size<tuple<Ts...>> : std::integral_constant<std::size_t, sizeof...(Ts)> {};

template <std::size_t kIndex, class T, class... Ts>
GPUSIM_INLINE auto& get(tuple<T, Ts...>& t) {
  if constexpr (kIndex == 0)
    return t.head;
  else
    return get<kIndex - 1>(t.tail);
}
template <std::size_t kIndex, class T, class... Ts>
GPUSIM_INLINE const auto& get(const tuple<T, Ts...>& t) {
  if constexpr (kIndex == 0)
    return t.head;
  else
    return get<kIndex - 1>(t.tail);
}
template <class... Ts>
GPUSIM_INLINE tuple<std::decay_t<Ts>...> make_tuple(Ts&&... values) {
  return tuple<std::decay_t<Ts>...>(values...);
}
template <class... Ts>
GPUSIM_INLINE tuple<Ts&...> tie(Ts&... values) {
  return tuple<Ts&...>(values...);
}

template <class A, class B>
struct pair {
  A first;
  B second;
  pair() = default;
  GPUSIM_INLINE pair(const A& a, const B& b) : first(a), second(b) {}
  template <class C, class D>
  GPUSIM_INLINE pair(const pair<C, D>& other) : first(other.first), second(other.second) {}
  GPUSIM_INLINE bool operator==(const pair& b) const { return first == b.first && second == b.second; }
  GPUSIM_INLINE bool operator!=(const pair& b) const { return !(*this == b); }
  GPUSIM_INLINE bool operator<(const pair& b) const {
    return first < b.first || (!(b.first < first) && second < b.second);
  }
};
template <class A, class B>
GPUSIM_INLINE pair<std::decay_t<A>, std::decay_t<B>> make_pair(A&& a, B&& b) {
  return {a, b};
}
template <class T>
GPUSIM_INLINE void swap(T& a, T& b) {
  T old = a;
  a = b;
  b = old;
}
template <class T>
GPUSIM_INLINE T min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
GPUSIM_INLINE T max(const T& a, const T& b) {
  return a < b ? b : a;
}

// ---- functions ------------------------------------------------------------------------------------------

#define GPUSIM_BINARY(name, expression, result)                                          \
  template <class T = void>                                                              \
  struct name {                                                                          \
    using first_argument_type = T;                                                       \
    using second_argument_type = T;                                                      \
    GPUSIM_INLINE result operator()(const T& a, const T& b) const { return expression; } \
  };                                                                                     \
  template <>                                                                            \
  struct name<void> {                                                                    \
    template <class T, class U>                                                          \
    GPUSIM_INLINE auto operator()(const T& a, const U& b) const {                        \
      return expression;                                                                 \
    }                                                                                    \
  };
#define GPUSIM_NOTHING
GPUSIM_BINARY(plus, a + b, T)
GPUSIM_BINARY(minus, a - b, T)
GPUSIM_BINARY(multiplies, a* b, T)
GPUSIM_BINARY(divides, a / b, T)
GPUSIM_BINARY(modulus, a % b, T)
GPUSIM_BINARY(bit_and, a& b, T)
GPUSIM_BINARY(bit_or, a | b, T)
GPUSIM_BINARY(bit_xor, a ^ b, T)
GPUSIM_BINARY(equal_to, a == b, bool)
GPUSIM_BINARY(not_equal_to, a != b, bool)
GPUSIM_BINARY(less, a < b, bool)
GPUSIM_BINARY(greater, b < a, bool)
GPUSIM_BINARY(less_equal, !(b < a), bool)
GPUSIM_BINARY(greater_equal, !(a < b), bool)
GPUSIM_BINARY(logical_and, a&& b, bool)
GPUSIM_BINARY(logical_or, a || b, bool)
GPUSIM_BINARY(maximum, (a < b ? b : a), T)
GPUSIM_BINARY(minimum, (b < a ? b : a), T)
#undef GPUSIM_BINARY
#undef GPUSIM_NOTHING
#define GPUSIM_UNARY(name, expression, result)                               \
  template <class T = void>                                                  \
  struct name {                                                              \
    using argument_type = T;                                                 \
    GPUSIM_INLINE result operator()(const T& a) const { return expression; } \
  };                                                                         \
  template <>                                                                \
  struct name<void> {                                                        \
    template <class T>                                                       \
    GPUSIM_INLINE auto operator()(const T& a) const {                        \
      return expression;                                                     \
    }                                                                        \
  };
GPUSIM_UNARY(negate, -a, T)
GPUSIM_UNARY(square, a* a, T)
GPUSIM_UNARY(identity, a, T)
GPUSIM_UNARY(logical_not, !a, bool)
GPUSIM_UNARY(bit_not, ~a, T)
#undef GPUSIM_UNARY
template <class Argument, class Result>
struct unary_function {
  using argument_type = Argument;
  using result_type = Result;
};
template <class A, class B, class Result>
struct binary_function {
  using first_argument_type = A;
  using second_argument_type = B;
  using result_type = Result;
};

namespace placeholders {

/// `_1 * 2 + _2`.
template <class F>
struct Expression {
  F f;
  template <class A>
  GPUSIM_INLINE auto operator()(const A& a) const {
    return f(a, a);
  }
  template <class A, class B>
  GPUSIM_INLINE auto operator()(const A& a, const B& b) const {
    return f(a, b);
  }
};
template <class F>
GPUSIM_INLINE Expression<F> make_expression(F f) {
  return {f};
}
template <class T>
struct IsExpression : std::false_type {};
template <class F>
struct IsExpression<Expression<F>> : std::true_type {};
template <class X, class A, class B>
GPUSIM_INLINE auto value_of(const X& x, const A& a, const B& b) {
  if constexpr (IsExpression<X>::value)
    return x(a, b);
  else
    return x;
}
struct First {
  template <class A, class B>
  GPUSIM_INLINE A operator()(const A& a, const B&) const {
    return a;
  }
};
struct Second {
  template <class A, class B>
  GPUSIM_INLINE B operator()(const A&, const B& b) const {
    return b;
  }
};
inline constexpr Expression<First> _1{};
inline constexpr Expression<Second> _2{};
#define GPUSIM_OPERATOR(sign)                                                                             \
  template <class X, class Y, class = std::enable_if_t<IsExpression<X>::value || IsExpression<Y>::value>> \
  GPUSIM_INLINE auto operator sign(const X& x, const Y& y) {                                              \
    return make_expression(                                                                               \
        [x, y](const auto& a, const auto& b) { return value_of(x, a, b) sign value_of(y, a, b); });       \
  }
GPUSIM_OPERATOR(+)
GPUSIM_OPERATOR(-)
GPUSIM_OPERATOR(*)
GPUSIM_OPERATOR(/)
GPUSIM_OPERATOR(%)
GPUSIM_OPERATOR(<)
GPUSIM_OPERATOR(>)
GPUSIM_OPERATOR(<=)
GPUSIM_OPERATOR(>=)
GPUSIM_OPERATOR(==)
GPUSIM_OPERATOR(!=)
GPUSIM_OPERATOR(&&)
GPUSIM_OPERATOR(||)
#undef GPUSIM_OPERATOR

}  // namespace placeholders

// ---- policies -------------------------------------------------------------------------------------------

struct gpusim_policy {
  cudaStream_t stream = nullptr;
  gpusim_policy on(cudaStream_t s) const { return {s}; }
  template <class Allocator>
  gpusim_policy operator()(Allocator&) const {
    return *this;
  }
};
inline constexpr gpusim_policy host{}, device{}, seq{};
namespace cuda {
inline constexpr gpusim_policy par{}, par_nosync{};
}
namespace system::cuda {
inline constexpr gpusim_policy par{};
}
namespace omp {
inline constexpr gpusim_policy par{};
}
struct host_system_tag {};
struct device_system_tag {};
struct random_access_traversal_tag {};
struct use_default {};
namespace system {
class system_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
}  // namespace system
using system::system_error;

// ---- pointers and vectors -------------------------------------------------------------------------------

template <class T>
class device_ptr;

/// An element of the device's memory, which the host reads and writes by copies, and a kernel as it is.
template <class T>
class device_reference {
 public:
  GPUSIM_INLINE explicit device_reference(T* at) : at_(at) {}
  GPUSIM_INLINE device_reference(const device_reference&) = default;
  GPUSIM_INLINE operator std::remove_const_t<T>() const { return get(); }
  GPUSIM_INLINE device_reference& operator=(const std::remove_const_t<T>& value) {
    put(value);
    return *this;
  }
  GPUSIM_INLINE device_reference& operator=(const device_reference& other) {
    put(other.get());
    return *this;
  }
  template <class U>
  GPUSIM_INLINE device_reference& operator+=(const U& value) {
    put(get() + value);
    return *this;
  }
  template <class U>
  GPUSIM_INLINE device_reference& operator-=(const U& value) {
    put(get() - value);
    return *this;
  }
  GPUSIM_INLINE device_reference& operator++() {
    put(get() + 1);
    return *this;
  }
  GPUSIM_INLINE device_ptr<T> operator&() const;

 private:
  GPUSIM_INLINE std::remove_const_t<T> get() const {
    if (!gpusim::device::is_on_host()) return *at_;
    alignas(T) unsigned char bytes[sizeof(T)];
    gpusim::device::copy_element(bytes, at_, sizeof(T));
    std::remove_const_t<T> value;
    __builtin_memcpy(static_cast<void*>(&value), bytes, sizeof(T));
    return value;
  }
  GPUSIM_INLINE void put(const std::remove_const_t<T>& value) {
    if (!gpusim::device::is_on_host()) {
      *at_ = value;
    } else {
      gpusim::device::copy_element(at_, &value, sizeof(T));
    }
  }
  T* at_;
};
template <class T, class Stream>
Stream& operator<<(Stream& out, const device_reference<T>& value) {
  out << std::remove_const_t<T>(value);
  return out;
}

template <class T>
class device_ptr {
 public:
  using value_type = std::remove_const_t<T>;
  using reference = device_reference<T>;
  using pointer = device_ptr;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::random_access_iterator_tag;
  GPUSIM_INLINE device_ptr() : at_(nullptr) {}
  GPUSIM_INLINE explicit device_ptr(T* at) : at_(at) {}
  GPUSIM_INLINE device_ptr(std::nullptr_t) : at_(nullptr) {}
  template <class U, class = std::enable_if_t<std::is_convertible<U*, T*>::value>>
  GPUSIM_INLINE device_ptr(const device_ptr<U>& other) : at_(other.get()) {}
  GPUSIM_INLINE T* get() const { return at_; }
  GPUSIM_INLINE reference operator*() const { return reference(at_); }
  GPUSIM_INLINE reference operator[](std::ptrdiff_t i) const { return reference(at_ + i); }
  GPUSIM_INLINE device_ptr operator+(std::ptrdiff_t i) const { return device_ptr(at_ + i); }
  GPUSIM_INLINE device_ptr operator-(std::ptrdiff_t i) const { return device_ptr(at_ - i); }
  GPUSIM_INLINE std::ptrdiff_t operator-(const device_ptr& other) const { return at_ - other.at_; }
  GPUSIM_INLINE device_ptr& operator+=(std::ptrdiff_t i) {
    at_ += i;
    return *this;
  }
  GPUSIM_INLINE device_ptr& operator-=(std::ptrdiff_t i) { return *this += -i; }
  GPUSIM_INLINE device_ptr& operator++() { return *this += 1; }
  GPUSIM_INLINE device_ptr& operator--() { return *this += -1; }
  GPUSIM_INLINE device_ptr operator++(int) {
    device_ptr old = *this;
    ++at_;
    return old;
  }
  GPUSIM_INLINE bool operator==(const device_ptr& other) const { return at_ == other.at_; }
  GPUSIM_INLINE bool operator!=(const device_ptr& other) const { return at_ != other.at_; }
  GPUSIM_INLINE bool operator<(const device_ptr& other) const { return at_ < other.at_; }
  GPUSIM_INLINE explicit operator bool() const { return at_ != nullptr; }

 private:
  T* at_;
};
template <class T>
GPUSIM_INLINE device_ptr<T> device_reference<T>::operator&() const {
  return device_ptr<T>(at_);
}
template <class T>
GPUSIM_INLINE device_ptr<T> device_pointer_cast(T* pointer) {
  return device_ptr<T>(pointer);
}
template <class T>
GPUSIM_INLINE device_ptr<T> device_pointer_cast(const device_ptr<T>& pointer) {
  return pointer;
}
template <class T>
GPUSIM_INLINE T* raw_pointer_cast(const device_ptr<T>& pointer) {
  return pointer.get();
}
template <class T>
GPUSIM_INLINE T* raw_pointer_cast(T* pointer) {
  return pointer;
}
template <class T>
device_ptr<T> device_malloc(std::size_t n) {
  T* at = nullptr;
  if (cudaMalloc(&at, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
  return device_ptr<T>(at);
}
template <class T>
void device_free(device_ptr<T> pointer) {
  cudaFree(pointer.get());
}
template <class T>
struct device_allocator {
  using value_type = T;
};

template <class T, class = std::allocator<T>>
class host_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  host_vector() = default;
  host_vector(const std::vector<T>& other) : std::vector<T>(other) {}
  template <class Vector, class = decltype(std::declval<const Vector&>().gpusim_copy_to(std::declval<T*>()))>
  host_vector(const Vector& other) : std::vector<T>(other.size()) {
    other.gpusim_copy_to(this->data());
  }
  template <class Vector, class = decltype(std::declval<const Vector&>().gpusim_copy_to(std::declval<T*>()))>
  host_vector& operator=(const Vector& other) {
    this->resize(other.size());
    other.gpusim_copy_to(this->data());
    return *this;
  }
};

template <class T, class Allocator = device_allocator<T>>
class device_vector {
 public:
  using value_type = T;
  using iterator = device_ptr<T>;
  using const_iterator = device_ptr<const T>;
  using pointer = device_ptr<T>;
  using reference = device_reference<T>;
  using const_reference = device_reference<const T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;

  device_vector() = default;
  explicit device_vector(std::size_t n) : device_vector(n, T()) {}
  device_vector(std::size_t n, const T& value) {
    allocate(n);
    fill(0, n, value);
  }
  device_vector(std::initializer_list<T> values) { put(values.begin(), values.size()); }
  device_vector(const std::vector<T>& values) { put(values.data(), values.size()); }
  template <class U, class A>
  device_vector(const std::vector<U, A>& values) {
    const std::vector<T> converted(values.begin(), values.end());
    put(converted.data(), converted.size());
  }
  template <class Iterator, class = typename std::iterator_traits<Iterator>::iterator_category>
  device_vector(Iterator first, Iterator last) {
    assign(first, last);
  }
  device_vector(const device_vector& other) { put(other.at_, other.size_); }
  device_vector(device_vector&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ~device_vector() { cudaFree(at_); }
  device_vector& operator=(const device_vector& other) {
    if (this != &other) put(other.at_, other.size_);
    return *this;
  }
  device_vector& operator=(device_vector&& other) noexcept {
    swap(other);
    return *this;
  }
  device_vector& operator=(const std::vector<T>& values) {
    put(values.data(), values.size());
    return *this;
  }
  device_vector& operator=(std::initializer_list<T> values) {
    put(values.begin(), values.size());
    return *this;
  }
  template <class Iterator, class = typename std::iterator_traits<Iterator>::iterator_category>
  void assign(Iterator first, Iterator last);
  void assign(std::size_t n, const T& value) {
    resize(0);
    resize(n, value);
  }

  iterator begin() { return iterator(at_); }
  iterator end() { return iterator(at_ + size_); }
  const_iterator begin() const { return const_iterator(at_); }
  const_iterator end() const { return const_iterator(at_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  pointer data() { return pointer(at_); }
  device_ptr<const T> data() const { return device_ptr<const T>(at_); }
  reference operator[](std::size_t i) { return reference(at_ + i); }
  const_reference operator[](std::size_t i) const { return const_reference(at_ + i); }
  reference front() { return (*this)[0]; }
  reference back() { return (*this)[size_ - 1]; }
  const_reference front() const { return (*this)[0]; }
  const_reference back() const { return (*this)[size_ - 1]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    T* const old = std::exchange(at_, nullptr);
    capacity_ = 0;
    const std::size_t size = size_;
    allocate(n);
    size_ = size;
    if (size != 0) cudaMemcpy(at_, old, size * sizeof(T), cudaMemcpyDeviceToDevice);
    cudaFree(old);
  }
  void resize(std::size_t n, const T& value = T()) {
    const std::size_t old = size_;
    reserve(n);
    size_ = n;
    if (n > old) fill(old, n - old, value);
  }
  void push_back(const T& value) {
    if (size_ == capacity_) reserve(2 * size_ + 1);
    ++size_;
    back() = value;
  }
  void pop_back() { --size_; }
  void shrink_to_fit() {}
  iterator erase(iterator first, iterator last) {
    const std::ptrdiff_t at = first - begin(), gone = last - first;
    const std::vector<T> tail = copy_from(at + gone);
    if (!tail.empty()) cudaMemcpy(at_ + at, tail.data(), tail.size() * sizeof(T), cudaMemcpyHostToDevice);
    size_ -= std::size_t(gone);
    return first;
  }
  iterator erase(iterator at) { return erase(at, at + 1); }
  iterator insert(iterator position, const T& value) {
    const std::ptrdiff_t at = position - begin();
    const std::vector<T> tail = copy_from(at);
    resize(size_ + 1);
    (*this)[std::size_t(at)] = value;
    if (!tail.empty()) cudaMemcpy(at_ + at + 1, tail.data(), tail.size() * sizeof(T), cudaMemcpyHostToDevice);
    return begin() + at;
  }
  void swap(device_vector& other) {
    std::swap(at_, other.at_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  friend bool operator==(const device_vector& a, const device_vector& b) {
    return a.size_ == b.size_ && a.copy_from(0) == b.copy_from(0);
  }
  operator std::vector<T>() const { return copy_from(0); }

  void gpusim_copy_to(T* to) const {
    if (size_ != 0) cudaMemcpy(to, at_, size_ * sizeof(T), cudaMemcpyDeviceToHost);
  }

 private:
  void allocate(std::size_t n) {
    if (n > capacity_) {
      cudaFree(at_);
      at_ = nullptr;
      if (cudaMalloc(&at_, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
      capacity_ = n;
    }
    size_ = n;
  }
  void put(const T* from, std::size_t n) {
    allocate(n);
    if (n != 0) cudaMemcpy(at_, from, n * sizeof(T), cudaMemcpyDefault);
  }
  void fill(std::size_t first, std::size_t n, const T& value) {
    if (n == 0) return;
    const std::vector<T> values(n, value);
    if constexpr (!std::is_same<T, bool>::value)
      cudaMemcpy(at_ + first, values.data(), n * sizeof(T), cudaMemcpyHostToDevice);
    else
      cudaMemset(at_ + first, value, n);
  }
  std::vector<T> copy_from(std::ptrdiff_t first) const {
    std::vector<T> values(size_ - std::size_t(first));
    if (!values.empty())
      cudaMemcpy(values.data(), at_ + first, values.size() * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

  T* at_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};
template <class T, class A = std::allocator<T>>
using universal_vector = device_vector<T>;

// ---- iterators ------------------------------------------------------------------------------------------

/// What the iterators have in common. @tparam Self  has at(offset)
template <class Self, class T, class Reference = T>
struct GpusimIterator {
  using value_type = T;
  using reference = Reference;
  using pointer = void;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::random_access_iterator_tag;
  GPUSIM_INLINE Reference operator*() const { return self().gpusim_at(offset_); }
  GPUSIM_INLINE Reference operator[](std::ptrdiff_t i) const { return self().gpusim_at(offset_ + i); }
  GPUSIM_INLINE Self operator+(std::ptrdiff_t i) const {
    Self moved = self();
    moved.offset_ += i;
    return moved;
  }
  GPUSIM_INLINE Self operator-(std::ptrdiff_t i) const { return *this + -i; }
  GPUSIM_INLINE std::ptrdiff_t operator-(const Self& other) const {
    return self().gpusim_position() - other.gpusim_position();
  }
  GPUSIM_INLINE Self& operator+=(std::ptrdiff_t i) {
    offset_ += i;
    return static_cast<Self&>(*this);
  }
  GPUSIM_INLINE Self& operator++() { return *this += 1; }
  GPUSIM_INLINE Self& operator--() { return *this += -1; }
  GPUSIM_INLINE Self operator++(int) {
    Self old = self();
    ++offset_;
    return old;
  }
  GPUSIM_INLINE bool operator==(const Self& other) const { return *this - other == 0; }
  GPUSIM_INLINE bool operator!=(const Self& other) const { return *this - other != 0; }
  GPUSIM_INLINE bool operator<(const Self& other) const { return *this - other < 0; }
  GPUSIM_INLINE std::ptrdiff_t gpusim_position() const { return offset_; }
  GPUSIM_INLINE const Self& self() const { return static_cast<const Self&>(*this); }
  std::ptrdiff_t offset_ = 0;
};

namespace details {

using ::gpusim::host::Access;
using ::gpusim::host::Routine;

/// An iterator as the host uses it: device_ptr becomes a pointer.
template <class T>
GPUSIM_INLINE T* raw(const device_ptr<T>& pointer) {
  return pointer.get();
}
template <class Iterator>
GPUSIM_INLINE auto raw(const Iterator& iterator, int) -> decltype(iterator.gpusim_raw()) {
  return iterator.gpusim_raw();
}
template <class Iterator>
GPUSIM_INLINE Iterator raw(const Iterator& iterator, long) {
  return iterator;
}
template <class Iterator>
GPUSIM_INLINE auto raw(const Iterator& iterator) -> decltype(raw(iterator, 0)) {
  return raw(iterator, 0);
}
template <class Iterator>
using Raw = decltype(raw(std::declval<Iterator>()));

template <class T>
T* address_of(const device_ptr<T>& p) {
  return p.get();
}
template <class T>
T* address_of(T* p) {
  return p;
}
template <class T, class C>
T* address_of(const __gnu_cxx::__normal_iterator<T*, C>& it) {
  return it.base();
}

}  // namespace details

template <class T>
struct counting_iterator : GpusimIterator<counting_iterator<T>, T> {
  GPUSIM_INLINE explicit counting_iterator(T first = T()) : first_(first) {}
  GPUSIM_INLINE T gpusim_at(std::ptrdiff_t i) const { return T(first_ + T(i)); }
  GPUSIM_INLINE std::ptrdiff_t gpusim_position() const { return std::ptrdiff_t(first_) + this->offset_; }
  T first_;
};
template <class T>
struct constant_iterator : GpusimIterator<constant_iterator<T>, T> {
  GPUSIM_INLINE explicit constant_iterator(const T& value, std::ptrdiff_t offset = 0) : value_(value) {
    this->offset_ = offset;
  }
  GPUSIM_INLINE T gpusim_at(std::ptrdiff_t) const { return value_; }
  T value_;
};
struct discard_iterator : GpusimIterator<discard_iterator, int, int&> {
  int& gpusim_at(std::ptrdiff_t) const {
    static int nothing;
    return nothing;
  }
};
template <class It>
using iterator_traits = std::iterator_traits<It>;
template <class It>
struct iterator_value {
  using type = typename std::iterator_traits<It>::value_type;
};
template <class It>
struct iterator_difference {
  using type = typename std::iterator_traits<It>::difference_type;
};
template <class It>
struct iterator_reference {
  using type = typename std::iterator_traits<It>::reference;
};
template <class It>
struct iterator_pointer {
  using type = typename std::iterator_traits<It>::pointer;
};

template <class F, class In, class Reference = use_default, class Value = use_default>
struct transform_iterator
    : GpusimIterator<transform_iterator<F, In, Reference, Value>,
                     std::decay_t<decltype(std::declval<F>()(*details::raw(std::declval<In>())))>,
                     decltype(std::declval<F>()(*details::raw(std::declval<In>())))> {
  GPUSIM_INLINE transform_iterator(In in, F f = F()) : in_(in), f_(f) {}
  GPUSIM_INLINE decltype(auto) gpusim_at(std::ptrdiff_t i) const { return f_(details::raw(in_)[i]); }
  auto gpusim_raw() const {
    transform_iterator<F, details::Raw<In>> result(details::raw(in_), f_);
    result.offset_ = this->offset_;
    return result;
  }
  GPUSIM_INLINE std::ptrdiff_t gpusim_position() const { return this->offset_; }
  GPUSIM_INLINE std::ptrdiff_t operator-(const transform_iterator& other) const {
    return (in_ - other.in_) + this->offset_ - other.offset_;
  }
  GPUSIM_INLINE transform_iterator operator-(std::ptrdiff_t i) const { return *this + -i; }
  GPUSIM_INLINE bool operator==(const transform_iterator& other) const { return *this - other == 0; }
  GPUSIM_INLINE bool operator!=(const transform_iterator& other) const { return *this - other != 0; }
  void gpusim_count(const details::Routine& routine, std::ptrdiff_t n, bool writes) const {
    routine.count(details::raw(in_) + this->offset_, n, writes, 0);
  }
  In in_;
  F f_;
};
template <class In, class Indices>
struct permutation_iterator : GpusimIterator<permutation_iterator<In, Indices>,
                                             std::decay_t<decltype(*details::raw(std::declval<In>()))>,
                                             decltype(*details::raw(std::declval<In>()))> {
  GPUSIM_INLINE permutation_iterator(In in, Indices indices) : in_(in), indices_(indices) {}
  GPUSIM_INLINE decltype(auto) gpusim_at(std::ptrdiff_t i) const {
    return details::raw(in_)[std::ptrdiff_t(details::raw(indices_)[i])];
  }
  GPUSIM_INLINE std::ptrdiff_t operator-(const permutation_iterator& other) const {
    return (indices_ - other.indices_) + this->offset_ - other.offset_;
  }
  GPUSIM_INLINE bool operator==(const permutation_iterator& other) const { return *this - other == 0; }
  GPUSIM_INLINE bool operator!=(const permutation_iterator& other) const { return *this - other != 0; }
  void gpusim_count(const details::Routine& routine, std::ptrdiff_t n, bool) const {
    routine.count(details::raw(indices_) + this->offset_, n, false, 0);
  }
  In in_;
  Indices indices_;
};
template <class Tuple>
struct zip_iterator;
template <class... Its>
struct zip_iterator<tuple<Its...>>
    : GpusimIterator<zip_iterator<tuple<Its...>>,
                     tuple<std::decay_t<decltype(*details::raw(std::declval<Its>()))>...>,
                     tuple<decltype(*details::raw(std::declval<Its>()))...>> {
  using Reference = tuple<decltype(*details::raw(std::declval<Its>()))...>;
  GPUSIM_INLINE zip_iterator(const tuple<Its...>& its) : its_(its) {}
  GPUSIM_INLINE Reference gpusim_at(std::ptrdiff_t i) const {
    return at(i, std::index_sequence_for<Its...>());
  }
  auto gpusim_raw() const {
    zip_iterator<tuple<details::Raw<Its>...>> result(as_raw(std::index_sequence_for<Its...>()));
    result.offset_ = this->offset_;
    return result;
  }
  GPUSIM_INLINE std::ptrdiff_t operator-(const zip_iterator& other) const {
    return (its_.head - other.its_.head) + this->offset_ - other.offset_;
  }
  GPUSIM_INLINE zip_iterator operator-(std::ptrdiff_t i) const { return *this + -i; }
  GPUSIM_INLINE bool operator==(const zip_iterator& other) const { return *this - other == 0; }
  GPUSIM_INLINE bool operator!=(const zip_iterator& other) const { return *this - other != 0; }
  GPUSIM_INLINE const tuple<Its...>& get_iterator_tuple() const { return its_; }
  void gpusim_count(const details::Routine& routine, std::ptrdiff_t n, bool writes) const {
    count(routine, n, writes, std::index_sequence_for<Its...>());
  }
  tuple<Its...> its_;

 private:
  template <std::size_t... k>
  GPUSIM_INLINE Reference at(std::ptrdiff_t i, std::index_sequence<k...>) const {
    return Reference(details::raw(get<k>(its_))[i]...);
  }
  template <std::size_t... k>
  auto as_raw(std::index_sequence<k...>) const {
    return tuple<details::Raw<Its>...>(details::raw(get<k>(its_))...);
  }
  template <std::size_t... k>
  void count(const details::Routine& routine, std::ptrdiff_t n, bool writes,
             std::index_sequence<k...>) const {
    (routine.count(details::raw(get<k>(its_)) + this->offset_, n, writes, 0), ...);
  }
};
template <class T>
GPUSIM_INLINE counting_iterator<T> make_counting_iterator(T first) {
  return counting_iterator<T>(first);
}
template <class T>
GPUSIM_INLINE constant_iterator<T> make_constant_iterator(T value, std::ptrdiff_t offset = 0) {
  return constant_iterator<T>(value, offset);
}
template <class In, class F>
GPUSIM_INLINE transform_iterator<F, In> make_transform_iterator(In in, F f) {
  return {in, f};
}
template <class In, class Indices>
GPUSIM_INLINE permutation_iterator<In, Indices> make_permutation_iterator(In in, Indices indices) {
  return {in, indices};
}
template <class... Its>
GPUSIM_INLINE zip_iterator<tuple<Its...>> make_zip_iterator(const tuple<Its...>& its) {
  return {its};
}
template <class It, class... Its, class = typename std::iterator_traits<It>::iterator_category>
GPUSIM_INLINE zip_iterator<tuple<It, Its...>> make_zip_iterator(It it, Its... its) {
  return {tuple<It, Its...>(it, its...)};
}
inline discard_iterator make_discard_iterator() { return {}; }
template <class It>
using reverse_iterator = std::reverse_iterator<details::Raw<It>>;
template <class It>
auto make_reverse_iterator(It it) {
  return std::reverse_iterator<details::Raw<It>>(details::raw(it));
}
template <class F>
struct zip_function_of {
  F f;
  template <class... Ts>
  GPUSIM_INLINE decltype(auto) operator()(const tuple<Ts...>& t) const {
    return call(t, std::index_sequence_for<Ts...>());
  }
  template <class Tuple, std::size_t... k>
  GPUSIM_INLINE decltype(auto) call(const Tuple& t, std::index_sequence<k...>) const {
    return f(get<k>(t)...);
  }
};
template <class F>
GPUSIM_INLINE zip_function_of<F> make_zip_function(F f) {
  return {f};
}
template <class It>
std::ptrdiff_t distance(It first, It last) {
  return last - first;
}
template <class It, class N>
void advance(It& it, N n) {
  it += std::ptrdiff_t(n);
}
template <class It>
It next(It it, std::ptrdiff_t n = 1) {
  return it + n;
}

template <class T, class A>
template <class Iterator, class>
void device_vector<T, A>::assign(Iterator first, Iterator last) {
  std::vector<T> values;
  {
    const details::Access access;
    auto from = details::raw(first);
    const auto end = details::raw(last);
    for (; from != end; ++from) values.push_back(T(*from));
  }
  allocate(values.size());
  for (std::size_t i = 0; i < values.size();) {
    if constexpr (std::is_same<T, bool>::value) {
      (*this)[i] = values[i];
      ++i;
    } else {
      cudaMemcpy(at_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
      break;
    }
  }
}

}  // namespace thrust
