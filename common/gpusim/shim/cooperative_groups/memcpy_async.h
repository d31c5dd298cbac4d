/// @file
/// <cooperative_groups/memcpy_async.h>: the threads of a group copy bytes together. From global to shared
/// memory, they do so asynchronously: the bytes are there after wait().
#pragma once

#include "../cooperative_groups.h"
#include "../gpusim_copy_async.h"

namespace cooperative_groups {

template <class Group, class T, class Bytes>
GPUSIM_INLINE void memcpy_async(const Group& group, T* to, const T* from, const Bytes& bytes) {
  gpusim::copy_together(to, from, std::size_t(bytes), group.thread_rank(), group.size());
  gpusim::device::copy_commit();
}
template <class Group, class Bytes>
GPUSIM_INLINE void memcpy_async(const Group& group, void* to, const void* from, const Bytes& bytes) {
  gpusim::copy_together(to, from, std::size_t(bytes), group.thread_rank(), group.size());
  gpusim::device::copy_commit();
}
/// As many elements as both have.
template <class Group, class T, class To, class From>
GPUSIM_INLINE void memcpy_async(const Group& group, T* to, const To& to_count, const T* from,
                                const From& from_count) {
  const std::size_t a = std::size_t(to_count), b = std::size_t(from_count);
  gpusim::copy_together(to, from, (a < b ? a : b) * sizeof(T), group.thread_rank(), group.size());
  gpusim::device::copy_commit();
}

/// Until all copies of the group have landed.
template <class Group>
GPUSIM_INLINE void wait(const Group& group) {
  gpusim::device::copy_wait(0);
  group.sync();
}
/// Until all but the latest `kPending` have.
template <unsigned kPending, class Group>
GPUSIM_INLINE void wait_prior(const Group& group) {
  gpusim::device::copy_wait(int(kPending));
  group.sync();
}

}  // namespace cooperative_groups
