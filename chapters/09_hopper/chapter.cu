/// @file
/// Chapter 09 as the harness sees it.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "no_maximum.cuh"
#include "sizes.cuh"
#include "tensor_maps.cuh"
#include "tma.cuh"
#include "traffic.cuh"

namespace fa {
using namespace ch09;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr int kCapability = 90;
constexpr std::int64_t kInt = sizeof(int);

// --- how the variants are launched -------------------------------------------------------------------------

// A variant is a type with kernel tiles for each element type and head dimension, and a function that
// launches them.

template <class Tile>
std::int64_t query_tiles_of(const Shape& shape) {
  return shape.batch * shape.heads * ((shape.seq_q - 1) / Tile::Br + 1);
}

struct Tma {
  static constexpr bool kHasQueue = false;
  template <class T, int d>
  using Tile = TmaTiles<T, d>;
  template <class Tile>
  static void launch(const Args& a, cudaStream_t stream) {
    const auto attention = a.as<typename Tile::T>();
    fa::launch(tma_attention<Tile>, unsigned(query_tiles<Tile>(attention)), Tile::kThreads,
               sizeof(SharedTiles<Tile>), stream, attention, tensor_maps<Tile>(attention, 64));
  }
};

/// A block per query tile. Kernel<Tile>::get() returns the kernel.
template <template <class> class Kernel, template <int> class Choices>
struct BlockPerTile {
  static constexpr bool kHasQueue = false;
  template <class T, int d>
  using Tile = HopperTiles<T, d, Choices<d>>;
  template <class Tile>
  static void launch(const Args& a, cudaStream_t stream) {
    const auto attention = a.as<typename Tile::T>();
    fa::launch(Kernel<Tile>::get(), unsigned(query_tiles<Tile>(attention)), Tile::kThreads,
               sizeof(SharedTiles<Tile>), stream, attention, tensor_maps<Tile>(attention, Tile::Br));
  }
};

/// A block per multiprocessor. The workspace `queue` begins with the counter; the launch sets it to 0.
template <template <class> class Kernel, template <int> class Choices>
struct Persistent {
  static constexpr bool kHasQueue = true;
  template <class T, int d>
  using Tile = HopperTiles<T, d, Choices<d>>;
  template <class Tile>
  static std::int64_t queue_length(const Shape&) {
    return 1;
  }
  template <class Tile>
  static void add_queue(Traffic& to, const Shape& shape) {
    const std::int64_t bytes = query_tiles_of<Tile>(shape) * kInt;
    to.tensors["queue"] = {.read_bytes = bytes, .write_bytes = bytes};
  }
  template <class Tile>
  static void launch(const Args& a, cudaStream_t stream) {
    const auto attention = a.as<typename Tile::T>();
    int* queue = a.buffer<int>("queue");
    FA_CUDA_CHECK(cudaMemsetAsync(queue, 0, sizeof(int), stream));
    const unsigned blocks = unsigned(std::min(multiprocessors(), query_tiles<Tile>(attention)));
    if constexpr (requires { typename Kernel<Tile>::TakesMarks; }) {
      fa::launch(Kernel<Tile>::get(), blocks, Tile::kThreads, sizeof(SharedTiles<Tile>), stream, attention,
                 tensor_maps<Tile>(attention, Tile::Br), queue, nullptr);
    } else {
      fa::launch(Kernel<Tile>::get(), blocks, Tile::kThreads, sizeof(SharedTiles<Tile>), stream, attention,
                 tensor_maps<Tile>(attention, Tile::Br), queue);
    }
  }
};

template <class Tile>
struct OneWarpgroupKernel {
  static auto get() { return wgmma_attention<Tile>; }
};
template <class Tile>
struct SpecialisedKernel {
  static auto get() { return specialised_attention<Tile>; }
};
template <class Tile>
struct PersistentKernel {
  static auto get() { return persistent_attention<Tile>; }
};
template <class Tile>
struct OverlappedKernel {
  static auto get() { return overlapped_attention<Tile>; }
};
template <class Tile>
struct PingPongKernel {
  static auto get() { return ping_pong_attention<Tile>; }
};
/// `final`: without gaps where there is room for two buffers of Q.
template <class Tile>
struct FinalKernel : PingPongKernel<Tile> {};
template <class Tile>
requires(Tile::kQueryBuffers == 2) struct FinalKernel<Tile> {
  using TakesMarks = void;
  static auto get() { return gapless_attention<Tile>; }
};

struct Final : Persistent<FinalKernel, FinalChoices> {
  template <class T>
  using NarrowTile = HopperTiles<T, NarrowValueSizes::kHeadDims.back(), NarrowValues>;
};

/// Two launches: all query tiles, then those that the first one has marked. After the counter, the queue has
/// the marks.
struct WithoutMaximum {
  static constexpr bool kHasQueue = true;
  template <class T, int d>
  using Tile = HopperTiles<T, d, FinalChoices<d>>;
  template <class Tile>
  static std::int64_t queue_length(const Shape& shape) {
    return 2 + query_tiles_of<Tile>(shape);
  }
  /// Without marks: the counter, and a look at the first mark by each warp of the second launch.
  template <class Tile>
  static void add_queue(Traffic& to, const Shape& shape) {
    Persistent<FinalKernel, FinalChoices>::add_queue<Tile>(to, shape);
    const std::int64_t blocks = std::min<std::int64_t>(multiprocessors(), query_tiles_of<Tile>(shape));
    to.tensors["queue"].read_bytes += blocks * (Tile::kThreads / 32) * kInt;
    for (auto& [name, bytes] : to.tensors) bytes.at_least = true;
  }
  template <class Tile>
  static void launch(const Args& a, cudaStream_t stream) {
    const auto attention = a.as<typename Tile::T>();
    int *queue = a.buffer<int>("queue"), *marks = queue + 1;
    const int tiles = query_tiles<Tile>(attention);
    FA_CUDA_CHECK(cudaMemsetAsync(queue, 0, (2 + std::size_t(tiles)) * sizeof(int), stream));
    const unsigned blocks = unsigned(std::min(multiprocessors(), tiles));
    const TensorMaps maps = tensor_maps<Tile>(attention, Tile::Br);
    fa::launch(gapless_attention<Tile, NoMaximum<Tile>>, blocks, Tile::kThreads, sizeof(SharedTiles<Tile>),
               stream, attention, maps, queue, marks);
    fa::launch(repair_attention<Tile>, blocks, Tile::kThreads, sizeof(SharedTiles<Tile>), stream, attention,
               maps, marks);
  }
};

// --- the variants ------------------------------------------------------------------------------------------

/// Calls f(std::type_identity<Tile>()) with the tiles that a method has for these widths. Returns what it
/// returns.
/// @param of  the arguments or the shape
template <class Method, class Sizes, class Given, class F>
auto with_tile(const Given& of, const F& f) {
  if constexpr (takes_narrow_values<Method>()) {
    if (has_narrow_values(of)) return with_narrow_tile<Method>(of.dtype, of.head_dim, f);
  }
  return select<Sizes>(of.dtype, of.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    return f(std::type_identity<typename Method::template Tile<T, d>>());
  });
}

template <class Method, class Sizes = LessonSizes>
Step step(const char* name, const char* summary) {
  Step step{.name = name,
            .summary = summary,
            .launch =
                [](const Args& a, cudaStream_t stream) {
                  with_tile<Method, Sizes>(a, [&]<class Tile>(std::type_identity<Tile>) {
                    Method::template launch<Tile>(a, stream);
                  });
                },
            .traffic =
                [](const Shape& shape) {
                  return with_tile<Method, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
                    Traffic traffic = traffic_of<Tile>(shape);
                    if constexpr (Method::kHasQueue) Method::template add_queue<Tile>(traffic, shape);
                    return traffic;
                  });
                },
            .refuse = refuse_unless_compiled<Sizes>,
            .takes_strides = true,
            .needs =
                [](const Shape& shape) {
                  return with_tile<Method, Sizes>(shape, []<class Tile>(std::type_identity<Tile>) {
                    return DeviceNeeds{.shared_bytes = sizeof(SharedTiles<Tile>),
                                       .compute_capability = kCapability,
                                       .exactly = true};
                  });
                }};
  if constexpr (Method::kHasQueue) {
    step.workspace = [](const Shape& shape) {
      return with_tile<Method, Sizes>(shape, [&]<class Tile>(std::type_identity<Tile>) {
        return std::vector<TensorSpec>{
            {.name = "queue", .shape = {Method::template queue_length<Tile>(shape)}}};
      });
    };
  }
  if constexpr (takes_narrow_values<Method>()) {
    step.refuse = refuse_widths<Sizes>;
    step.takes_other_widths = true;
  }
  return step;
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "09_hopper",
      .title = "Hopper: the copy engine, products of warpgroups, and who waits for whom",
      .variants = {
          step<Tma>("tma", "chapter 07's products; one thread copies whole tiles"),
          step<BlockPerTile<OneWarpgroupKernel, OneWarpgroup>>("wgmma",
                                                               "products of a warpgroup, from shared memory"),
          step<BlockPerTile<SpecialisedKernel, Specialised>>("specialised",
                                                             "one warpgroup copies, the others multiply"),
          step<Persistent<PersistentKernel, Specialised>>(
              "persistent", "a block stays and takes one query tile after the other"),
          step<Persistent<OverlappedKernel, Specialised>>(
              "overlapped", "the softmax runs during products of the same warpgroup"),
          step<Persistent<PingPongKernel, Specialised>>("ping_pong", "warpgroups take turns to multiply"),
          step<Final, AllSizes>("final", "the next query tile begins before this one ends"),
          step<WithoutMaximum, BFloat16Sizes>(
              "no_maximum", "bf16: scores of unmasked tiles are not searched for a maximum"),
      }};
}

}  // namespace fa
