/// @file
/// <cooperative_groups/reduce.h>: reductions over groups of lanes, by shuffles.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

// With a type or, as plus<>(), for any.
#define GPUSIM_OPERATION(name, expression)                            \
  template <class T = void>                                           \
  struct name {                                                       \
    GPUSIM_INLINE T operator()(T a, T b) const { return expression; } \
  };                                                                  \
  template <>                                                         \
  struct name<void> {                                                 \
    template <class T>                                                \
    GPUSIM_INLINE T operator()(T a, T b) const {                      \
      return expression;                                              \
    }                                                                 \
  };
GPUSIM_OPERATION(plus, a + b)
GPUSIM_OPERATION(less, b < a ? b : a)
GPUSIM_OPERATION(greater, a < b ? b : a)
GPUSIM_OPERATION(bit_and, a& b)
GPUSIM_OPERATION(bit_or, a | b)
GPUSIM_OPERATION(bit_xor, a ^ b)
#undef GPUSIM_OPERATION

/// op() over the values of all threads of the tile, for each of them.
template <unsigned kSize, class Parent, class T, class Operation>
GPUSIM_INLINE T reduce(const thread_block_tile<kSize, Parent>& tile, T value, Operation&& op) {
  for (unsigned lanes = kSize / 2; lanes > 0; lanes /= 2) value = op(value, tile.shfl_xor(value, lanes));
  return value;
}
/// The same for a group of any number of lanes.
template <class T, class Operation>
GPUSIM_INLINE T reduce(const coalesced_group& group, T value, Operation&& op) {
  const unsigned size = group.size(), rank = group.thread_rank();
  for (unsigned distance = 1; distance < size; distance *= 2) {
    const T other = group.shfl_down(value, distance);
    if (rank + distance < size) value = op(value, other);
  }
  return group.shfl(value, 0);
}

}  // namespace cooperative_groups
