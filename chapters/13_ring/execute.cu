#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "device/launch.cuh"
#include "execute.hpp"
#include "merge.cuh"
#include "nccl.hpp"
#include "order.hpp"
#include "transfer.cuh"

namespace fa::ch13 {
namespace {

/// Something to enqueue: an operation, or transfers that begin together.
struct Unit {
  std::vector<const Operation*> operations;
  int stream;
  std::vector<std::size_t> after = {};  ///< units of other streams that must be complete
  cudaEvent_t event = nullptr;          ///< its end, if another stream waits for it
  Engine::Args args = {};               ///< of attention
  std::vector<Message> leaving = {}, arriving = {};
};

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  FA_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

/// Whatever is enqueued on the stream from now on waits for the event.
void wait_for(cudaStream_t stream, cudaEvent_t event) {
  FA_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
}

// --- launches ----------------------------------------------------------------------------------------------

/// Does nothing for `microseconds`, roughly.
///
///   grid    1
///   block   1
///   HBM     nothing
__global__ void idle(int microseconds) {
  for (int i = 0; i < microseconds; ++i) __nanosleep(1000);
}

/// Calls f with the address of a view, as T* or float*.
template <class T, class F>
void typed(const Buffers& buffers, const View& view, F f) {
  void* const address = buffers.address(view);
  view.element_bytes == sizeof(float) ? f(static_cast<float*>(address)) : f(static_cast<T*>(address));
}

/// Calls f with the number of parts, at most kMost, as a constant.
template <int kMost, class F>
void with_count(std::size_t parts, F f) {
  if constexpr (kMost > 1) {
    if (parts < kMost) return with_count<kMost - 1>(parts, f);
  }
  f(std::integral_constant<int, kMost>());
}

unsigned blocks_for(std::int64_t count, std::int64_t of_block) {
  return unsigned((count + of_block - 1) / of_block);
}

/// reads: O and LSE of what there is, and of each part.
template <class T>
void merge(const Operation& op, const Buffers& buffers, std::int64_t head_dim, cudaStream_t stream) {
  constexpr int kWarps = 8;
  const View& lse = op.reads[1];
  typed<T>(buffers, op.reads[0], [&]<class Earlier>(Earlier* earlier) {
    typed<T>(buffers, op.writes[0], [&]<class To>(To* to) {
      with_count<3>(op.reads.size() / 2 - 1, [&](auto parts) {
        Merge<parts, Earlier, T, To> merge = {.o_earlier = earlier,
                                              .parts = {},
                                              .o = to,
                                              .lse = static_cast<float*>(buffers.address(lse)),
                                              .lse_stride = lse.pitch,
                                              .tokens = int(lse.width),
                                              .heads = int(lse.rows),
                                              .head_dim = int(head_dim),
                                              .by_heads = Divisor(int(lse.rows))};
        for (std::size_t p = 0; p < parts; ++p) {
          const View &o_part = op.reads[2 + 2 * p], &lse_part = op.reads[3 + 2 * p];
          merge.parts[p] = {static_cast<const T*>(buffers.address(o_part)),
                            static_cast<const float*>(buffers.address(lse_part)), lse_part.pitch};
        }
        launch(merge_partials<kWarps, parts, Earlier, T, To>, blocks_for(lse.width * lse.rows, kWarps),
               32 * kWarps, 0, stream, merge);
      });
    });
  });
}

/// reads: what there is, and each part.
template <class T>
void add(const Operation& op, const Buffers& buffers, cudaStream_t stream) {
  const std::int64_t elements = op.writes[0].width;
  if (elements == 0) return;
  typed<T>(buffers, op.reads[0], [&]<class Earlier>(Earlier* earlier) {
    typed<T>(buffers, op.writes[0], [&]<class To>(To* to) {
      with_count<4>(op.reads.size() - 1, [&](auto parts) {
        Parts<parts, T> of_kernel;
        for (std::size_t p = 0; p < parts; ++p)
          of_kernel.part[p] = static_cast<const T*>(buffers.address(op.reads[1 + p]));
        constexpr int kCount = parts == 1 ? 4 : 2;
        launch(add_gradients<kCount, parts, Earlier, T, To>, blocks_for(elements / 4, 256 * kCount), 256, 0,
               stream, earlier, of_kernel, to, elements / 4);
      });
    });
  });
}

void copy(const View& from, const View& to, const Buffers& buffers, cudaStream_t stream) {
  if (from.bytes() == 0) return;
  const auto bytes = [&](std::int64_t elements) { return std::size_t(elements * from.element_bytes); };
  const auto pitch = [&](const View& view) { return bytes(view.rows > 1 ? view.pitch : view.width); };
  FA_CUDA_CHECK(cudaMemcpy2DAsync(buffers.address(to), pitch(to), buffers.address(from), pitch(from),
                                  bytes(from.width), std::size_t(from.rows), cudaMemcpyDeviceToDevice,
                                  stream));
}

/// The names of an engine's tensors, in the order of an operation's views.
constexpr const char* kForwardTensors[] = {"q", "k", "v", "o", "lse"};
constexpr const char* kBackwardTensors[] = {"q", "k", "v", "o", "do", "lse", "dq", "dk", "dv"};

/// The arguments of a call of attention.
Engine::Args arguments_of(const Operation& op, const AttentionShape& whole, const Engine& engine,
                          const Buffers& buffers) {
  const AttentionShape shape = shape_of(whole, op);
  const bool forward = op.kind == Kind::kAttend;
  std::map<std::string, void*> addresses;
  const char* const* name = forward ? kForwardTensors : kBackwardTensors;
  for (const auto& views : {op.reads, op.writes}) {
    for (const View& view : views) addresses[*name++] = buffers.address(view);
  }
  for (const TensorSpec& spec : forward ? engine.forward_workspace(shape) : engine.backward_workspace(shape))
    addresses[spec.name] = buffers.workspace(spec.name, op.lane);
  return AttentionForward::bind(shape, addresses);
}

}  // namespace

// --- execution ---------------------------------------------------------------------------------------------

struct Execution::Impl {
  const AttentionShape& whole;
  const Engine& engine;
  const Buffers& buffers;
  Streams streams;
  std::vector<Unit> units;
  std::vector<int> last;  ///< unit of each stream
  cudaEvent_t begin = nullptr;

  void enqueue(const Unit& unit, cudaStream_t stream) const {
    const Operation& op = *unit.operations.front();
    switch (op.kind) {
      case Kind::kSend:
      case Kind::kReceive: return transfer(unit.leaving, unit.arriving, streams.comm, stream);
      case Kind::kGather: return gather(op, stream);
      case Kind::kAttend: return engine.forward(unit.args, stream);
      case Kind::kDifferentiate: return engine.backward(unit.args, stream);
      case Kind::kMerge:
        return whole.dtype == DType::kFloat16 ? merge<__half>(op, buffers, whole.head_dim, stream)
                                              : merge<__nv_bfloat16>(op, buffers, whole.head_dim, stream);
      case Kind::kAdd:
        return whole.dtype == DType::kFloat16 ? add<__half>(op, buffers, stream)
                                              : add<__nv_bfloat16>(op, buffers, stream);
      case Kind::kCopy: return copy(op.reads[0], op.writes[0], buffers, stream);
      case Kind::kClear:
        FA_CUDA_CHECK(
            cudaMemsetAsync(buffers.address(op.writes[0]), 0, std::size_t(op.writes[0].bytes()), stream));
        return;
      case Kind::kHoldUp:
        // NCCL's blocks need room on multiprocessors. Chapter 09's blocks take all of them and stay to the
        // last tile, so the transfer would begin when attention ends. Both become ready at the same time, and
        // who comes first is a matter of microseconds.
        if (streams.head_start_us > 0) launch(idle, 1, 1, 0, stream, streams.head_start_us);
    }
  }

  void gather(const Operation& op, cudaStream_t stream) const {
    FA_NCCL_CHECK(ncclGroupStart());
    for (std::size_t k = 0; k < op.reads.size(); ++k) {
      FA_NCCL_CHECK(ncclAllGather(buffers.address(op.reads[k]), buffers.address(op.writes[k]),
                                  std::size_t(op.reads[k].bytes()), ncclUint8, streams.comm, stream));
    }
    FA_NCCL_CHECK(ncclGroupEnd());
  }
};

Execution::Execution(const Plan& plan, const AttentionShape& whole, const Engine& engine,
                     const Buffers& buffers, const Streams& streams)
    : impl_(new Impl{whole, engine, buffers, streams, {}, {}, new_event()}) {
  std::vector<Unit>& units = impl_->units;
  Order order(impl_->streams);
  for (const Step& step : plan) {
    const std::size_t first = units.size();
    for (const Operation& op : step) {
      const auto is_message = [](Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; };
      const bool joins =
          units.size() > first && is_message(op.kind) && is_message(units.back().operations.front()->kind);
      if (!joins) units.push_back({.operations = {}, .stream = streams.number_of(op.lane)});
      Unit& unit = units.back();
      unit.operations.push_back(&op);
      const auto add_messages = [&](const std::vector<View>& views, std::vector<Message>& to) {
        for (const View& view : views)
          to.push_back({buffers.address(view), std::size_t(view.bytes()), op.peer});
      };
      if (op.kind == Kind::kSend) add_messages(op.reads, unit.leaving);
      if (op.kind == Kind::kReceive) add_messages(op.writes, unit.arriving);
      if (op.kind == Kind::kAttend || op.kind == Kind::kDifferentiate)
        unit.args = arguments_of(op, whole, engine, buffers);
    }
  }
  for (Unit& unit : units) unit.after = order.add(unit.operations, unit.stream);
  impl_->last = order.last();
  for (std::size_t stream = 1; stream < impl_->last.size(); ++stream) {
    const int last = impl_->last[stream];
    if (last != Order::kNone) units[std::size_t(last)].event = new_event();
  }
  for (const Unit& unit : units) {
    for (const std::size_t earlier : unit.after) {
      if (units[earlier].event == nullptr) units[earlier].event = new_event();
    }
  }
}

Execution::Execution(Execution&&) noexcept = default;

Execution::~Execution() {
  if (!impl_) return;
  cudaEventDestroy(impl_->begin);
  for (const Unit& unit : impl_->units) {
    if (unit.event != nullptr) cudaEventDestroy(unit.event);
  }
}

void Execution::enqueue(const std::function<void()>& after_transfers) const {
  const Streams& streams = impl_->streams;
  const auto for_other_streams = [&](auto f) {  // those that the plan uses
    for (int stream = 1; stream < streams.count(); ++stream) {
      const int last = impl_->last[std::size_t(stream)];
      if (last != Order::kNone) f(streams.stream(stream), impl_->units[std::size_t(last)].event);
    }
  };
  FA_CUDA_CHECK(cudaEventRecord(impl_->begin, streams.kernels));
  for_other_streams([&](cudaStream_t stream, cudaEvent_t) { wait_for(stream, impl_->begin); });
  for (const Unit& unit : impl_->units) {
    const cudaStream_t stream = streams.stream(unit.stream);
    for (const std::size_t earlier : unit.after) wait_for(stream, impl_->units[earlier].event);
    impl_->enqueue(unit, stream);
    if (unit.event != nullptr) FA_CUDA_CHECK(cudaEventRecord(unit.event, stream));
    if (is_transfer(unit.operations.front()->kind)) after_transfers();
  }
  for_other_streams([&](cudaStream_t, cudaEvent_t end) { wait_for(streams.kernels, end); });
}

}  // namespace fa::ch13
