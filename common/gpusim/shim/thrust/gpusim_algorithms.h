/// @file
/// Thrust's algorithms. Each counts the ranges that it reads and writes, and then runs on the host.
#pragma once

#include "gpusim_thrust.h"

namespace thrust {

namespace details {

/// The stream of the policy that the call has.
inline cudaStream_t& current_stream() {
  static cudaStream_t stream = nullptr;
  return stream;
}
struct Scope {
  explicit Scope(cudaStream_t stream) : old(std::exchange(current_stream(), stream)) {}
  ~Scope() { current_stream() = old; }
  cudaStream_t old;
};

/// An algorithm that runs: counts ranges, and may then use memory of the device.
class Run {
 public:
  explicit Run(const char* name) : routine_(name, current_stream(), true) {}
  template <class It>
  Run& reads(const It& first, std::ptrdiff_t n) {
    routine_.reads(raw(first), n);
    return *this;
  }
  template <class It>
  Run& writes(const It& first, std::ptrdiff_t n) {
    routine_.writes(raw(first), n);
    return *this;
  }
  template <class It>
  Run& changes(const It& first, std::ptrdiff_t n) {
    return reads(first, n).writes(first, n);
  }
  void begin() const {
    if (routine_.status() != cudaSuccess)
      throw system_error("an illegal memory access was encountered: the report of the simulator says where");
  }

 private:
  Routine routine_;
};
#define GPUSIM_ALGORITHM(counts) \
  Run run(__func__);             \
  run counts;                    \
  run.begin();                   \
  const Access access

template <class It>
using ValueOf = typename std::iterator_traits<It>::value_type;

template <class In, class Out, class F>
Out transform(In first, In last, Out out, F f) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  const auto in = raw(first);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = f(in[i]);
  return out + n;
}
template <class In, class In2, class Out, class F>
Out transform(In first, In last, In2 second, Out out, F f) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(second, n).writes(out, n));
  const auto in = raw(first);
  const auto in2 = raw(second);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = f(in[i], in2[i]);
  return out + n;
}
template <class In, class Out, class F, class P>
Out transform_if(In first, In last, Out out, F f, P is) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  const auto in = raw(first);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i)
    if (is(in[i])) to[i] = f(in[i]);
  return out + n;
}
template <class In, class Stencil, class Out, class F, class P>
Out transform_if(In first, In last, Stencil stencil, Out out, F f, P is) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(stencil, n).writes(out, n));
  const auto in = raw(first);
  const auto by = raw(stencil);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i)
    if (is(by[i])) to[i] = f(in[i]);
  return out + n;
}
template <class It, class N, class F>
It for_each_n(It first, N n, F f) {
  GPUSIM_ALGORITHM(.reads(first, std::ptrdiff_t(n)));
  auto in = raw(first);
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
    auto&& element = in[i];
    f(element);
  }
  return first + std::ptrdiff_t(n);
}
template <class It, class F>
It for_each(It first, It last, F f) {
  return details::for_each_n(first, last - first, f);
}
template <class It, class N, class T>
It fill_n(It first, N n, const T& value) {
  GPUSIM_ALGORITHM(.writes(first, std::ptrdiff_t(n)));
  auto to = raw(first);
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) to[i] = value;
  return first + std::ptrdiff_t(n);
}
template <class It, class T>
void fill(It first, It last, const T& value) {
  details::fill_n(first, last - first, value);
}
template <class It, class T>
void uninitialized_fill(It first, It last, const T& value) {
  details::fill_n(first, last - first, value);
}
template <class It, class T, class Step>
void sequence(It first, It last, T value, Step step) {
  GPUSIM_ALGORITHM(.writes(first, last - first));
  auto to = raw(first);
  for (std::ptrdiff_t i = 0; i < last - first; ++i) to[i] = T(value + T(i) * step);
}
template <class It, class T>
void sequence(It first, It last, T value) {
  details::sequence(first, last, value, T(1));
}
template <class It>
void sequence(It first, It last) {
  details::sequence(first, last, ValueOf<It>(0), ValueOf<It>(1));
}
template <class It, class F>
void tabulate(It first, It last, F f) {
  GPUSIM_ALGORITHM(.writes(first, last - first));
  auto to = raw(first);
  for (std::ptrdiff_t i = 0; i < last - first; ++i) to[i] = f(i);
}
template <class It, class F>
void generate(It first, It last, F f) {
  GPUSIM_ALGORITHM(.writes(first, last - first));
  auto to = raw(first);
  for (std::ptrdiff_t i = 0; i < last - first; ++i) to[i] = f();
}
template <class It, class N, class F>
It generate_n(It first, N n, F f) {
  details::generate(first, first + n, f);
  return first + n;
}
template <class In, class Out>
Out copy(In first, In last, Out out) {
  const std::ptrdiff_t n = std::distance(raw(first), raw(last));
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  auto in = raw(first);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i, ++in, ++to) *to = *in;
  if constexpr (std::is_same<Out, decltype(to)>::value)
    return to;
  else
    return out + n;
}
template <class In, class N, class Out>
Out copy_n(In first, N n, Out out) {
  return details::copy(first, first + std::ptrdiff_t(n), out);
}
/// Copies the elements i for which takes(i). @return  how many
template <class In, class Out, class Takes>
std::ptrdiff_t copy_those(Run& run, In first, std::ptrdiff_t n, Out out, Takes takes) {
  std::vector<ValueOf<In>> taken;
  {
    const Access access;
    const auto in = raw(first);
    for (std::ptrdiff_t i = 0; i < n; ++i)
      if (takes(in, i)) taken.push_back(in[i]);
  }
  const auto count = std::ptrdiff_t(taken.size());
  run.writes(out, count);
  run.begin();
  const Access access;
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = taken[std::size_t(i)];
  return count;
}
#define GPUSIM_SELECTION(counts)         \
  const std::ptrdiff_t n = last - first; \
  Run run(__func__);                     \
  run counts;                            \
  run.begin()
template <class In, class Out, class P>
Out copy_if(In first, In last, Out out, P is) {
  GPUSIM_SELECTION(.reads(first, n));
  return out +
         copy_those(run, first, n, out, [&](const auto& in, std::ptrdiff_t i) { return bool(is(in[i])); });
}
template <class In, class Stencil, class Out, class P>
Out copy_if(In first, In last, Stencil stencil, Out out, P is) {
  GPUSIM_SELECTION(.reads(first, n).reads(stencil, n));
  const auto by = raw(stencil);
  return out + copy_those(run, first, n, out, [&](const auto&, std::ptrdiff_t i) { return bool(is(by[i])); });
}
template <class It, class P>
It remove_if(It first, It last, P is) {
  GPUSIM_SELECTION(.reads(first, n));
  return first +
         copy_those(run, first, n, first, [&](const auto& in, std::ptrdiff_t i) { return !is(in[i]); });
}
template <class It, class Stencil, class P>
It remove_if(It first, It last, Stencil stencil, P is) {
  GPUSIM_SELECTION(.reads(first, n).reads(stencil, n));
  const auto by = raw(stencil);
  return first + copy_those(run, first, n, first, [&](const auto&, std::ptrdiff_t i) { return !is(by[i]); });
}
template <class In, class Out, class P>
Out remove_copy_if(In first, In last, Out out, P is) {
  GPUSIM_SELECTION(.reads(first, n));
  return out + copy_those(run, first, n, out, [&](const auto& in, std::ptrdiff_t i) { return !is(in[i]); });
}
template <class It, class T>
It remove(It first, It last, const T& value) {
  GPUSIM_SELECTION(.reads(first, n));
  return first + copy_those(run, first, n, first,
                            [&](const auto& in, std::ptrdiff_t i) { return !(in[i] == value); });
}
template <class In, class Out>
Out unique_copy(In first, In last, Out out) {
  GPUSIM_SELECTION(.reads(first, n));
  return out + copy_those(run, first, n, out,
                          [](const auto& in, std::ptrdiff_t i) { return i == 0 || !(in[i] == in[i - 1]); });
}
template <class It>
It unique(It first, It last) {
  return details::unique_copy(first, last, first);
}
template <class It, class P>
It unique(It first, It last, P same) {
  GPUSIM_SELECTION(.reads(first, n));
  return first + copy_those(run, first, n, first, [&](const auto& in, std::ptrdiff_t i) {
           return i == 0 || !same(in[i - 1], in[i]);
         });
}
template <class K, class V>
thrust::pair<K, V> unique_by_key(K first, K last, V values) {
  GPUSIM_SELECTION(.reads(first, n).reads(values, n));
  const auto is_first = [keys = raw(first)](const auto&, std::ptrdiff_t i) {
    return i == 0 || !(keys[i] == keys[i - 1]);
  };
  const std::ptrdiff_t count = copy_those(run, values, n, values, is_first);
  copy_those(run, first, n, first, is_first);
  return {first + count, values + count};
}
template <class It, class P>
It stable_partition(It first, It last, P is) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n));
  auto in = raw(first);
  std::vector<ValueOf<It>> yes, no;
  for (std::ptrdiff_t i = 0; i < n; ++i) (is(in[i]) ? yes : no).push_back(in[i]);
  const auto count = std::ptrdiff_t(yes.size());
  yes.insert(yes.end(), no.begin(), no.end());
  for (std::ptrdiff_t i = 0; i < n; ++i) in[i] = yes[std::size_t(i)];
  return first + count;
}
template <class It, class P>
It partition(It first, It last, P is) {
  return details::stable_partition(first, last, is);
}
template <class Map, class In, class Out>
Out gather(Map first, Map last, In in, Out out) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  const auto at = raw(first);
  const auto from = raw(in);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = from[std::ptrdiff_t(at[i])];
  return out + n;
}
template <class In, class Map, class Out>
void scatter(In first, In last, Map map, Out out) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(map, n));
  const auto in = raw(first);
  const auto at = raw(map);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    run.writes(out + std::ptrdiff_t(at[i]), 1);
    run.begin();
    to[std::ptrdiff_t(at[i])] = in[i];
  }
}
template <class It, class P, class T>
void replace_if(It first, It last, P is, const T& value) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n));
  auto in = raw(first);
  for (std::ptrdiff_t i = 0; i < n; ++i)
    if (is(in[i])) in[i] = value;
}
template <class It, class T>
void replace(It first, It last, const T& old, const T& value) {
  details::replace_if(
      first, last, [&](const auto& x) { return x == old; }, value);
}
template <class It>
void reverse(It first, It last) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n));
  std::reverse(raw(first), raw(first) + n);
}
template <class In, class Out>
Out reverse_copy(In first, In last, Out out) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  for (std::ptrdiff_t i = 0; i < n; ++i) raw(out)[i] = raw(first)[n - 1 - i];
  return out + n;
}
template <class A, class B>
B swap_ranges(A first, A last, B other) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n).changes(other, n));
  std::swap_ranges(raw(first), raw(first) + n, raw(other));
  return other + n;
}
template <class In, class Out, class Op>
Out adjacent_difference(In first, In last, Out out, Op op) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  std::adjacent_difference(raw(first), raw(first) + n, raw(out), op);
  return out + n;
}
template <class In, class Out>
Out adjacent_difference(In first, In last, Out out) {
  return details::adjacent_difference(first, last, out, thrust::minus<>());
}

// ---- sums -----------------------------------------------------------------------------------------------

template <class In, class F, class T, class Op>
T transform_reduce(In first, In last, F f, T init, Op op) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  for (std::ptrdiff_t i = 0; i < last - first; ++i) init = op(init, f(in[i]));
  return init;
}
template <class In, class T, class Op>
T reduce(In first, In last, T init, Op op) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  for (std::ptrdiff_t i = 0; i < last - first; ++i) init = op(init, in[i]);
  return init;
}
template <class In, class T>
T reduce(In first, In last, T init) {
  return details::reduce(first, last, init, thrust::plus<>());
}
template <class In>
ValueOf<In> reduce(In first, In last) {
  return details::reduce(first, last, ValueOf<In>(0), thrust::plus<>());
}
template <class A, class B, class T, class Op1, class Op2>
T inner_product(A first, A last, B other, T init, Op1 sum, Op2 product) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(other, n));
  const auto a = raw(first);
  const auto b = raw(other);
  for (std::ptrdiff_t i = 0; i < n; ++i) init = sum(init, product(a[i], b[i]));
  return init;
}
template <class A, class B, class T>
T inner_product(A first, A last, B other, T init) {
  return details::inner_product(first, last, other, init, thrust::plus<>(), thrust::multiplies<>());
}
template <class K, class V, class KOut, class VOut, class Same, class Op>
thrust::pair<KOut, VOut> reduce_by_key(K first, K last, V values, KOut keys_out, VOut values_out, Same same,
                                       Op op) {
  const std::ptrdiff_t n = last - first;
  std::vector<ValueOf<K>> keys;
  std::vector<ValueOf<V>> sums;
  Run run(__func__);
  run.reads(first, n).reads(values, n);
  run.begin();
  {
    const Access access;
    const auto k = raw(first);
    const auto v = raw(values);
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      if (i == 0 || !same(k[i - 1], k[i])) {
        keys.push_back(k[i]);
        sums.push_back(v[i]);
      } else {
        sums.back() = op(sums.back(), v[i]);
      }
    }
  }
  const auto count = std::ptrdiff_t(keys.size());
  run.writes(keys_out, count).writes(values_out, count);
  run.begin();
  const Access access;
  auto to_keys = raw(keys_out);
  auto to = raw(values_out);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    to_keys[i] = keys[std::size_t(i)];
    to[i] = sums[std::size_t(i)];
  }
  return {keys_out + count, values_out + count};
}
template <class K, class V, class KOut, class VOut, class Same>
thrust::pair<KOut, VOut> reduce_by_key(K first, K last, V values, KOut keys_out, VOut values_out, Same same) {
  return details::reduce_by_key(first, last, values, keys_out, values_out, same, thrust::plus<>());
}
template <class K, class V, class KOut, class VOut>
thrust::pair<KOut, VOut> reduce_by_key(K first, K last, V values, KOut keys_out, VOut values_out) {
  return details::reduce_by_key(first, last, values, keys_out, values_out, thrust::equal_to<>(),
                                thrust::plus<>());
}
template <class In, class P>
std::ptrdiff_t count_if(In first, In last, P is) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  std::ptrdiff_t count = 0;
  for (std::ptrdiff_t i = 0; i < last - first; ++i) count += bool(is(in[i]));
  return count;
}
template <class In, class T>
std::ptrdiff_t count(In first, In last, const T& value) {
  return details::count_if(first, last, [&](const auto& x) { return x == value; });
}
/// The first element i for which is(in[i]).
template <class In, class P>
In find_if(In first, In last, P is) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  std::ptrdiff_t i = 0;
  while (i < last - first && !is(in[i])) ++i;
  return first + i;
}
template <class In, class P>
In find_if_not(In first, In last, P is) {
  return details::find_if(first, last, [&](const auto& x) { return !is(x); });
}
template <class In, class T>
In find(In first, In last, const T& value) {
  return details::find_if(first, last, [&](const auto& x) { return x == value; });
}
template <class In, class P>
bool any_of(In first, In last, P is) {
  return details::find_if(first, last, is) != last;
}
template <class In, class P>
bool all_of(In first, In last, P is) {
  return details::find_if_not(first, last, is) == last;
}
template <class In, class P>
bool none_of(In first, In last, P is) {
  return !details::any_of(first, last, is);
}
template <class In, class Less>
In min_element(In first, In last, Less less) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  std::ptrdiff_t best = 0;
  for (std::ptrdiff_t i = 1; i < last - first; ++i)
    if (less(in[i], in[best])) best = i;
  return first + best;
}
template <class In>
In min_element(In first, In last) {
  return details::min_element(first, last, thrust::less<>());
}
template <class In, class Less>
In max_element(In first, In last, Less less) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  std::ptrdiff_t best = 0;
  for (std::ptrdiff_t i = 1; i < last - first; ++i)
    if (less(in[best], in[i])) best = i;
  return first + best;
}
template <class In>
In max_element(In first, In last) {
  return details::max_element(first, last, thrust::less<>());
}
/// The last of the largest ones, as CUDA's Thrust and the standard library have it.
template <class In, class Less>
thrust::pair<In, In> minmax_element(In first, In last, Less less) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  std::ptrdiff_t least = 0, largest = 0;
  for (std::ptrdiff_t i = 1; i < last - first; ++i) {
    if (less(in[i], in[least])) least = i;
    if (!less(in[i], in[largest])) largest = i;
  }
  return {first + least, first + largest};
}
template <class In>
thrust::pair<In, In> minmax_element(In first, In last) {
  return details::minmax_element(first, last, thrust::less<>());
}
template <class A, class B, class Same>
bool equal(A first, A last, B other, Same same) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(other, n));
  const auto a = raw(first);
  const auto b = raw(other);
  for (std::ptrdiff_t i = 0; i < n; ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}
template <class A, class B>
bool equal(A first, A last, B other) {
  return details::equal(first, last, other, thrust::equal_to<>());
}
template <class A, class B>
thrust::pair<A, B> mismatch(A first, A last, B other) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).reads(other, n));
  std::ptrdiff_t i = 0;
  while (i < n && raw(first)[i] == raw(other)[i]) ++i;
  return {first + i, other + i};
}
template <class It, class Less>
bool is_sorted(It first, It last, Less less) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  const auto in = raw(first);
  for (std::ptrdiff_t i = 1; i < last - first; ++i)
    if (less(in[i], in[i - 1])) return false;
  return true;
}
template <class It>
bool is_sorted(It first, It last) {
  return details::is_sorted(first, last, thrust::less<>());
}

// ---- scans ----------------------------------------------------------------------------------------------

template <class In, class Out, class F, class Op>
Out transform_inclusive_scan(In first, In last, Out out, F f, Op op) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  if (n == 0) return out;
  const auto in = raw(first);
  auto to = raw(out);
  std::decay_t<decltype(f(in[0]))> sum = f(in[0]);
  to[0] = sum;
  for (std::ptrdiff_t i = 1; i < n; ++i) to[i] = sum = op(sum, f(in[i]));
  return out + n;
}
template <class In, class Out, class F, class T, class Op>
Out transform_exclusive_scan(In first, In last, Out out, F f, T init, Op op) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  const auto in = raw(first);
  auto to = raw(out);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const auto x = f(in[i]);
    to[i] = init;
    init = op(init, x);
  }
  return out + n;
}
template <class In, class Out, class Op>
Out inclusive_scan(In first, In last, Out out, Op op) {
  return details::transform_inclusive_scan(
      first, last, out, [](const ValueOf<In>& x) { return x; }, op);
}
template <class In, class Out>
Out inclusive_scan(In first, In last, Out out) {
  return details::inclusive_scan(first, last, out, thrust::plus<>());
}
template <class In, class Out, class T, class Op>
Out exclusive_scan(In first, In last, Out out, T init, Op op) {
  return details::transform_exclusive_scan(
      first, last, out, [](const ValueOf<In>& x) { return x; }, init, op);
}
template <class In, class Out, class T>
Out exclusive_scan(In first, In last, Out out, T init) {
  return details::exclusive_scan(first, last, out, init, thrust::plus<>());
}
template <class In, class Out>
Out exclusive_scan(In first, In last, Out out) {
  return details::exclusive_scan(first, last, out, ValueOf<In>(0), thrust::plus<>());
}
template <class K, class V, class Out, class T>
Out scan_by_key(Run& run, K first, K last, V values, Out out, T init, bool inclusive) {
  const std::ptrdiff_t n = last - first;
  run.reads(first, n).reads(values, n).writes(out, n);
  run.begin();
  const Access access;
  const auto keys = raw(first);
  const auto in = raw(values);
  auto to = raw(out);
  T sum = init;
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    if (i > 0 && !(keys[i] == keys[i - 1])) sum = init;
    const T x = in[i], after = sum + x;
    to[i] = inclusive ? after : sum;
    sum = after;
  }
  return out + n;
}
template <class K, class V, class Out>
Out inclusive_scan_by_key(K first, K last, V values, Out out) {
  Run run(__func__);
  return scan_by_key(run, first, last, values, out, ValueOf<V>(0), true);
}
template <class K, class V, class Out>
Out exclusive_scan_by_key(K first, K last, V values, Out out) {
  Run run(__func__);
  return scan_by_key(run, first, last, values, out, ValueOf<V>(0), false);
}

// ---- random orders ---------------------------------------------------------------------------------------

template <class In, class Out, class Engine>
void shuffle_copy(In first, In last, Out out, Engine&& engine) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.reads(first, n).writes(out, n));
  const auto in = raw(first);
  std::vector<ValueOf<In>> values;
  for (std::ptrdiff_t i = 0; i < n; ++i) values.push_back(in[i]);
  for (std::ptrdiff_t i = n - 1; i > 0; --i) {
    const double part = double(engine() - engine.min) / (double(engine.max - engine.min) + 1);
    std::swap(values[std::size_t(i)], values[std::size_t(part * double(i + 1))]);
  }
  for (std::ptrdiff_t i = 0; i < n; ++i) raw(out)[i] = values[std::size_t(i)];
}
template <class It, class Engine>
void shuffle(It first, It last, Engine&& engine) {
  details::shuffle_copy(first, last, first, engine);
}

// ---- sorting --------------------------------------------------------------------------------------------

template <class It, class Less>
void stable_sort(It first, It last, Less less) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n));
  auto in = raw(first);
  std::vector<ValueOf<It>> values;
  for (std::ptrdiff_t i = 0; i < n; ++i) values.push_back(in[i]);
  std::stable_sort(values.begin(), values.end(), less);
  for (std::ptrdiff_t i = 0; i < n; ++i) in[i] = values[std::size_t(i)];
}
template <class It>
void stable_sort(It first, It last) {
  details::stable_sort(first, last, thrust::less<>());
}
template <class It, class Less>
void sort(It first, It last, Less less) {
  details::stable_sort(first, last, less);
}
template <class It>
void sort(It first, It last) {
  details::stable_sort(first, last, thrust::less<>());
}
template <class K, class V, class Less>
void stable_sort_by_key(K first, K last, V values, Less less) {
  const std::ptrdiff_t n = last - first;
  GPUSIM_ALGORITHM(.changes(first, n).changes(values, n));
  auto keys = raw(first);
  auto v = raw(values);
  std::vector<std::pair<ValueOf<K>, ValueOf<V>>> pairs;
  for (std::ptrdiff_t i = 0; i < n; ++i) pairs.emplace_back(keys[i], v[i]);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return less(a.first, b.first); });
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    keys[i] = pairs[std::size_t(i)].first;
    v[i] = pairs[std::size_t(i)].second;
  }
}
template <class K, class V>
void stable_sort_by_key(K first, K last, V values) {
  details::stable_sort_by_key(first, last, values, thrust::less<>());
}
template <class K, class V, class Less>
void sort_by_key(K first, K last, V values, Less less) {
  details::stable_sort_by_key(first, last, values, less);
}
template <class K, class V>
void sort_by_key(K first, K last, V values) {
  details::stable_sort_by_key(first, last, values, thrust::less<>());
}
#define GPUSIM_BOUND(name)                                                                                 \
  template <class It, class T>                                                                             \
  It name(It first, It last, const T& value) {                                                             \
    GPUSIM_ALGORITHM(.reads(first, last - first));                                                         \
    return first + (std::name(raw(first), raw(last), value, thrust::less<>()) - raw(first));               \
  }                                                                                                        \
  template <class It, class V, class Out>                                                                  \
  Out name(It first, It last, V values_first, V values_last, Out out) {                                    \
    const std::ptrdiff_t n = values_last - values_first;                                                   \
    GPUSIM_ALGORITHM(.reads(first, last - first).reads(values_first, n).writes(out, n));                   \
    for (std::ptrdiff_t i = 0; i < n; ++i)                                                                 \
      raw(out)[i] = std::name(raw(first), raw(last), raw(values_first)[i], thrust::less<>()) - raw(first); \
    return out + n;                                                                                        \
  }
GPUSIM_BOUND(lower_bound)
GPUSIM_BOUND(upper_bound)
#undef GPUSIM_BOUND
template <class It, class T>
bool binary_search(It first, It last, const T& value) {
  GPUSIM_ALGORITHM(.reads(first, last - first));
  return std::binary_search(raw(first), raw(last), value);
}
#define GPUSIM_MERGE(name)                                                                   \
  template <class A, class B, class Out>                                                     \
  Out name(A a, A a_last, B b, B b_last, Out out) {                                          \
    Run run(__func__);                                                                       \
    run.reads(a, a_last - a).reads(b, b_last - b);                                           \
    run.begin();                                                                             \
    std::vector<ValueOf<A>> values;                                                          \
    {                                                                                        \
      const Access access;                                                                   \
      std::name(raw(a), raw(a_last), raw(b), raw(b_last), std::back_inserter(values));       \
    }                                                                                        \
    run.writes(out, std::ptrdiff_t(values.size()));                                          \
    run.begin();                                                                             \
    const Access access;                                                                     \
    for (std::size_t i = 0; i < values.size(); ++i) raw(out)[std::ptrdiff_t(i)] = values[i]; \
    return out + std::ptrdiff_t(values.size());                                              \
  }
GPUSIM_MERGE(merge)
GPUSIM_MERGE(set_union)
GPUSIM_MERGE(set_intersection)
GPUSIM_MERGE(set_difference)
#undef GPUSIM_MERGE
#undef GPUSIM_SELECTION
#undef GPUSIM_ALGORITHM

}  // namespace details

// With a policy as the first argument, or without.
#define GPUSIM_PUBLIC(name)                                       \
  template <class First, class... Rest>                           \
  decltype(auto) name(const First& first, Rest&&... rest) {       \
    if constexpr (std::is_base_of<gpusim_policy, First>::value) { \
      const details::Scope scope(first.stream);                   \
      return details::name(std::forward<Rest>(rest)...);          \
    } else {                                                      \
      return details::name(first, std::forward<Rest>(rest)...);   \
    }                                                             \
  }
GPUSIM_PUBLIC(transform)
GPUSIM_PUBLIC(transform_if)
GPUSIM_PUBLIC(for_each)
GPUSIM_PUBLIC(for_each_n)
GPUSIM_PUBLIC(fill)
GPUSIM_PUBLIC(fill_n)
GPUSIM_PUBLIC(uninitialized_fill)
GPUSIM_PUBLIC(sequence)
GPUSIM_PUBLIC(tabulate)
GPUSIM_PUBLIC(generate)
GPUSIM_PUBLIC(generate_n)
GPUSIM_PUBLIC(copy)
GPUSIM_PUBLIC(copy_n)
GPUSIM_PUBLIC(copy_if)
GPUSIM_PUBLIC(remove)
GPUSIM_PUBLIC(remove_if)
GPUSIM_PUBLIC(remove_copy_if)
GPUSIM_PUBLIC(unique)
GPUSIM_PUBLIC(unique_copy)
GPUSIM_PUBLIC(unique_by_key)
GPUSIM_PUBLIC(partition)
GPUSIM_PUBLIC(stable_partition)
GPUSIM_PUBLIC(gather)
GPUSIM_PUBLIC(scatter)
GPUSIM_PUBLIC(replace)
GPUSIM_PUBLIC(replace_if)
GPUSIM_PUBLIC(shuffle)
GPUSIM_PUBLIC(shuffle_copy)
GPUSIM_PUBLIC(reverse)
GPUSIM_PUBLIC(reverse_copy)
GPUSIM_PUBLIC(swap_ranges)
GPUSIM_PUBLIC(adjacent_difference)
GPUSIM_PUBLIC(reduce)
GPUSIM_PUBLIC(transform_reduce)
GPUSIM_PUBLIC(inner_product)
GPUSIM_PUBLIC(reduce_by_key)
GPUSIM_PUBLIC(count)
GPUSIM_PUBLIC(count_if)
GPUSIM_PUBLIC(find)
GPUSIM_PUBLIC(find_if)
GPUSIM_PUBLIC(find_if_not)
GPUSIM_PUBLIC(any_of)
GPUSIM_PUBLIC(all_of)
GPUSIM_PUBLIC(none_of)
GPUSIM_PUBLIC(min_element)
GPUSIM_PUBLIC(max_element)
GPUSIM_PUBLIC(minmax_element)
GPUSIM_PUBLIC(equal)
GPUSIM_PUBLIC(mismatch)
GPUSIM_PUBLIC(is_sorted)
GPUSIM_PUBLIC(inclusive_scan)
GPUSIM_PUBLIC(exclusive_scan)
GPUSIM_PUBLIC(transform_inclusive_scan)
GPUSIM_PUBLIC(transform_exclusive_scan)
GPUSIM_PUBLIC(inclusive_scan_by_key)
GPUSIM_PUBLIC(exclusive_scan_by_key)
GPUSIM_PUBLIC(sort)
GPUSIM_PUBLIC(stable_sort)
GPUSIM_PUBLIC(sort_by_key)
GPUSIM_PUBLIC(stable_sort_by_key)
GPUSIM_PUBLIC(lower_bound)
GPUSIM_PUBLIC(upper_bound)
GPUSIM_PUBLIC(binary_search)
GPUSIM_PUBLIC(merge)
GPUSIM_PUBLIC(set_union)
GPUSIM_PUBLIC(set_intersection)
GPUSIM_PUBLIC(set_difference)
#undef GPUSIM_PUBLIC

}  // namespace thrust
