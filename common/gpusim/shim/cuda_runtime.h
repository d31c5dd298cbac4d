/// @file
/// The simulator's <cuda_runtime.h>, which a kernel's source includes when it is compiled for the CPU.
#pragma once

#ifndef __cplusplus  // C has the runtime API
#include "cuda_runtime_api.h"
#else

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "device_functions.h"
#include "vector_types.h"

/// Only the simulator defines this.
#define GPUSIM 1

#define __host__
#define __device__ __attribute__((abi_tag("device")))
#define __global__ __attribute__((flatten, abi_tag("kernel")))  // the hooks miss struct operands of calls
#define __constant__ \
  __attribute__((abi_tag("constant")))  // says which variables are the device's, as that of __device__
#define __grid_constant__
#define __managed__ __attribute__((abi_tag("device")))  // the host may use it as well
#define __nv_pure__
#define __inline_hint__
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__
#define __launch_bounds__(...)
/// Where sources are rewritten, the launches of the kernel get it: check/front_end.hpp.
#define __cluster_dims__(...) __attribute__((gpusim_cluster(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))

/// A CPU thread runs one block at a time, so a variable of a block is a variable of its CPU thread.
/// `extern __shared__ T name[]` needs storage: see gpusim_kernels() in the README. The alignment puts unused
/// bytes after most variables, so that running past the end of one does not reach the next. As with nvcc, no
/// code initialises them: g++ has to be told, clang++ finds out by itself.
#ifdef __clang__
#define __shared__ __attribute__((aligned(128))) thread_local
#else
#define __shared__ __attribute__((aligned(128))) __constinit thread_local
#endif

#ifdef __clang__
#define GPUSIM_WITHOUT_HOOKS __attribute__((no_sanitize("thread", "coverage")))
#else
#define GPUSIM_WITHOUT_HOOKS __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#endif

namespace gpusim::device {

/// Refuses what a real device would refuse, then runs the grid.
///
/// @param integers  the arguments; 0 for those that are no integers
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, void (*body)(const void*),
                   const void* arguments, std::size_t argument_bytes,
                   std::initializer_list<std::int64_t> integers);

template <class Call>
GPUSIM_WITHOUT_HOOKS void call_kernel(const void* call) {
  (*static_cast<const Call*>(call))();
}

/// Whether arguments of this type are passed by their address, because copies of them need a constructor or
/// a destructor.
template <class T>
inline constexpr bool kPassedByAddress =
    !std::is_trivially_copy_constructible_v<T> || !std::is_trivially_destructible_v<T> ||
    (std::is_move_constructible_v<T> && !std::is_trivially_move_constructible_v<T>);
template <class T>
using PassedAs = std::conditional_t<kPassedByAddress<T>, T&, T>;

/// A thread's copy of an argument. A device copies the bits: constructors and destructors are the host's.
template <class T, bool = kPassedByAddress<T> >
struct CopyOfThread {
  const T& value;
  GPUSIM_WITHOUT_HOOKS T get() const { return value; }
};
template <class T>
struct CopyOfThread<T, true> {
  const T& value;
  alignas(T) mutable unsigned char bits[sizeof(T)];
  GPUSIM_WITHOUT_HOOKS T& get() const {
    __builtin_memcpy(bits, static_cast<const void*>(&value), sizeof(T));
    return *reinterpret_cast<T*>(bits);
  }
};

template <class T>
std::int64_t integer_or_zero(const T& x) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return std::int64_t(x);
  return 0;
}

}  // namespace gpusim::device

/// `kernel<<<grid, block, shared, stream>>>(args...)`, in the form that a C++ compiler can read.
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  const auto launch = [&](const Params&... arguments) {
    // A copy of the arguments for every thread. Hooks here would leave something where its local variables
    // will be.
    const auto call = [kernel, ... copies = arguments]() GPUSIM_WITHOUT_HOOKS {
      if constexpr ((gpusim::device::kPassedByAddress<Params> || ...)) {
        const auto by_address = reinterpret_cast<void (*)(gpusim::device::PassedAs<Params>...)>(kernel);
        by_address(gpusim::device::CopyOfThread<Params>{copies}.get()...);
      } else {
        kernel(copies...);
      }
    };
    return gpusim::device::launch(*config, reinterpret_cast<const void*>(kernel),
                                  &gpusim::device::call_kernel<decltype(call)>, &call, sizeof call,
                                  {gpusim::device::integer_or_zero(arguments)...});
  };
  return launch(static_cast<Params>(std::forward<Args>(args))...);
}

/// The same with pointers to the arguments.
template <class... Params>
cudaError_t cudaLaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  const cudaLaunchConfig_t config{grid, block, dynamic_shared_bytes, stream};
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return cudaLaunchKernelEx(&config, kernel, *static_cast<Params*>(arguments[i])...);
  }
  (std::index_sequence_for<Params...>());
}

/// The same, with all blocks on the device at once, so that they can wait for each other.
template <class... Params>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Params...), dim3 grid, dim3 block, void** arguments,
                                        std::size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  const cudaLaunchConfig_t config{grid, block, dynamic_shared_bytes, stream, &attribute, 1};
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return cudaLaunchKernelEx(&config, kernel, *static_cast<Params*>(arguments[i])...);
  }
  (std::index_sequence_for<Params...>());
}

namespace gpusim::device {

/// `<<<grid, block, dynamic_shared_bytes, stream>>>`: the configuration of the kernel that is called next.
void push_launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr);
/// The clusters of kernels with __cluster_dims__, for the configuration that is taken next.
void set_cluster(unsigned x, unsigned y = 1, unsigned z = 1);
/// Takes it back. Ends the program if there is none: a kernel has been called like a function.
cudaLaunchConfig_t pop_launch(const void* kernel);

/// The host copies one element from or to the device's memory.
void copy_element(void* to, const void* from, std::size_t bytes);

/// Whether the host has called the kernel that asks, and not a thread of the device, which has a block.
GPUSIM_INLINE bool is_on_host() { return __builtin_expect(::blockDim.x == 0, 0); }

/// The type of a parameter in the type of its function: __restrict__ does not count.
template <class T>
struct PlainType {
  using type = T;
};
template <class T>
struct PlainType<T* __restrict__> {
  using type = T*;
};
template <class T>
using Plain = typename PlainType<std::remove_cv_t<T> >::type;

/// Launches a kernel of which only the address is known. It is called, and tells how.
cudaError_t launch_by_address(const cudaLaunchConfig_t& config, const void* kernel, void** arguments);
using Launcher = cudaError_t (*)(const cudaLaunchConfig_t& config, const void* kernel, void** arguments);
/// Whether launch_by_address() has called the kernel; then it learns how to launch it.
bool tell_launcher(Launcher launcher);

template <class... Params, std::size_t... i>
cudaError_t launch_unpacked(const cudaLaunchConfig_t& config, void (*kernel)(Params...), void** arguments,
                            std::index_sequence<i...>) {
  return cudaLaunchKernelEx(&config, kernel, *static_cast<Params*>(arguments[i])...);
}
template <class... Params>
GPUSIM_WITHOUT_HOOKS bool is_asked(void (*)(Params...)) {
  return tell_launcher([](const cudaLaunchConfig_t& config, const void* kernel, void** arguments) {
    return launch_unpacked(config, reinterpret_cast<void (*)(Params...)>(const_cast<void*>(kernel)),
                           arguments, std::index_sequence_for<Params...>());
  });
}

/// A parameter of a kernel, as the kernel passes it on: it does not copy what needs a constructor.
template <class T>
struct PassedOn {
  using type = std::conditional_t<kPassedByAddress<T>, const T&, T>;
};

/// What a kernel does that the host calls: it launches itself.
template <class... Params>
__attribute__((noinline)) GPUSIM_WITHOUT_HOOKS void enter_kernel(
    void (*kernel)(Params...), typename PassedOn<Params>::type... arguments) {
  const cudaLaunchConfig_t config = pop_launch(reinterpret_cast<const void*>(kernel));
  cudaLaunchKernelEx(&config, kernel, std::move(arguments)...);
}

}  // namespace gpusim::device

inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return gpusim::device::launch_by_address({grid, block, dynamic_shared_bytes, stream}, kernel, arguments);
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** arguments) {
  return gpusim::device::launch_by_address(*config, kernel, arguments);
}
inline cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                               std::size_t dynamic_shared_bytes = 0,
                                               cudaStream_t stream = nullptr) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  return gpusim::device::launch_by_address({grid, block, dynamic_shared_bytes, stream, &attribute, 1}, kernel,
                                           arguments);
}

#endif  // __cplusplus
