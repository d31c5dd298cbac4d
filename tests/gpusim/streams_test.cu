/// @file
/// Races between operations of several streams.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

__global__ void store(int* to) {
  to[threadIdx.x] = 1;  // store
}
__global__ void load(const int* from, int* to) {
  to[threadIdx.x] = from[threadIdx.x];  // load
}
__global__ void add(int* to) { atomicAdd(&to[threadIdx.x], 1); }
__global__ void store_halves(short* to) { to[2 * threadIdx.x] = 1; }

template <class... Params, class... Args>
void enqueue(cudaStream_t stream, void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  config.stream = stream;
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, args...), cudaSuccess);  // launch
}

/// Two streams that do not wait for the default stream, an event, and two tensors.
class Streams : public ::testing::Test {
 protected:
  Streams() {
    for (cudaStream_t* stream : {&one_, &two_}) cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    cudaEventCreate(&event_);
    cudaDeviceSynchronize();
    gpusim::take_report();
  }
  ~Streams() override {
    for (cudaStream_t stream : {one_, two_}) cudaStreamDestroy(stream);
    cudaEventDestroy(event_);
  }
  static void expect_clean() { EXPECT_TRUE(is_clean(gpusim::take_report())); }
  static void expect_race(const std::string& one, const std::string& other) {
    const gpusim::Report report = gpusim::take_report();
    ASSERT_EQ(report.defects.size(), 1u);
    EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
    EXPECT_EQ(report.defects[0].count, 32);
#ifndef __clang__  // its frames do not show the line of the launch
    EXPECT_TRUE(says(report, one)) << report.defects[0].message;
    EXPECT_TRUE(says(report, other)) << report.defects[0].message;
#endif
    EXPECT_TRUE(says(report, "global memory, byte 0 of \"a\": they are in two streams"))
        << report.defects[0].message;
  }
  static std::string place_of(const char* mark) { return "streams_test.cu:" + std::to_string(line_of(mark)); }
  static std::string at(const char* mark) {
    return "kernel gpusim_test::" + std::string(mark) + " at " + place_of(mark) + ", launched at " +
           place_of("launch");
  }

  cudaStream_t one_ = nullptr, two_ = nullptr;
  cudaEvent_t event_ = nullptr;
  Buffer<int> a_ = Buffer<int>::zeros("a", 32), b_ = Buffer<int>::zeros("b", 32);
};

TEST_F(Streams, AReaderThatDoesNotWaitForTheWriter) {
  enqueue(one_, store, a_.get());
  enqueue(two_, load, a_.get(), b_.get());
  expect_race("Write access by " + at("store"), "Read access by " + at("load"));
}

TEST_F(Streams, AWriterThatDoesNotWaitForTheReader) {
  enqueue(one_, load, a_.get(), b_.get());
  enqueue(two_, store, a_.get());
  expect_race("Read access by " + at("load"), "Write access by " + at("store"));
}

TEST_F(Streams, AnEventOrdersThem) {
  enqueue(one_, store, a_.get());
  cudaEventRecord(event_, one_);
  cudaStreamWaitEvent(two_, event_, 0);
  enqueue(two_, load, a_.get(), b_.get());
  expect_clean();
}

TEST_F(Streams, AnEventOrdersWhatCameBeforeIt) {
  cudaEventRecord(event_, one_);
  enqueue(one_, store, a_.get());
  cudaStreamWaitEvent(two_, event_, 0);
  enqueue(two_, load, a_.get(), b_.get());
  expect_race("Write access by " + at("store"), "Read access by " + at("load"));
}

TEST_F(Streams, EventsFormChains) {
  enqueue(one_, store, a_.get());
  cudaEventRecord(event_, one_);
  cudaStreamWaitEvent(two_, event_, 0);
  cudaStream_t three = nullptr;
  cudaStreamCreateWithFlags(&three, cudaStreamNonBlocking);
  cudaEventRecord(event_, two_);
  cudaStreamWaitEvent(three, event_, 0);
  enqueue(three, load, a_.get(), b_.get());
  cudaStreamDestroy(three);
  expect_clean();
}

TEST_F(Streams, TheHostWaits) {
  enqueue(one_, store, a_.get());
  cudaStreamSynchronize(two_);  // the wrong one
  enqueue(two_, load, a_.get(), b_.get());
  expect_race("Write access by " + at("store"), "Read access by " + at("load"));

  cudaDeviceSynchronize();
  enqueue(one_, store, a_.get());
  cudaStreamSynchronize(one_);
  enqueue(two_, store, a_.get());
  expect_clean();
}

TEST_F(Streams, ReadersAndAtomicOperationsNeedNoOrder) {
  enqueue(one_, load, a_.get(), b_.get());
  enqueue(two_, load, a_.get(), b_.get());
  const gpusim::Report report = gpusim::take_report();
  ASSERT_EQ(report.defects.size(), 1u);  // both write b
  EXPECT_TRUE(says(report, "\"b\""));

  cudaDeviceSynchronize();
  enqueue(one_, add, a_.get());
  enqueue(two_, add, a_.get());
  expect_clean();
}

TEST_F(Streams, CopiesAreOperations) {
  std::vector<int> host(32);
  enqueue(one_, store, a_.get());
  cudaMemcpyAsync(host.data(), a_, 128, cudaMemcpyDeviceToHost, two_);  // copy
  expect_race("Write access by " + at("store"),
              "Read access by cudaMemcpyAsync() at " + place_of("copy") + "\n");

  cudaDeviceSynchronize();
  cudaMemsetAsync(a_, 0, 128, one_);
  enqueue(two_, load, a_.get(), b_.get());
  expect_race("Write access by cudaMemsetAsync()", "Read access by " + at("load"));

  // cudaMemcpy() waits for the default stream alone.
  cudaDeviceSynchronize();
  enqueue(one_, store, a_.get());
  cudaMemcpy(host.data(), a_, 128, cudaMemcpyDeviceToHost);
  expect_race("Write access by " + at("store"), "Read access by cudaMemcpy()");
}

/// Pinned memory of the host, for the bytes of the tensor.
class PinnedMemory : public Streams {
 protected:
  PinnedMemory() { cudaMallocHost(&host_, 128); }
  ~PinnedMemory() override { cudaFreeHost(host_); }
  int* host_ = nullptr;
};

TEST_F(PinnedMemory, TheHostReadsBeforeTheCopyHasArrived) {
  cudaMemcpyAsync(host_, a_, 128, cudaMemcpyDeviceToHost, one_);  // to host
  const int value = host_[3];                                     // early read
  EXPECT_EQ(value, 0);
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("to host"), line_of("early read")}, 1}}));
  EXPECT_TRUE(says(report, "Race reported between Write access by cudaMemcpyAsync() at " +
                               place_of("to host") + " and Read access by the host at " +
                               place_of("early read")));
  EXPECT_TRUE(
      says(report, "pinned memory, byte 12 of what the copy writes: the host does not wait for the copy"));
}

TEST_F(PinnedMemory, TheHostWritesBeforeTheCopyHasReadIt) {
  host_[0] = 1;
  cudaMemcpyAsync(a_, host_, 128, cudaMemcpyHostToDevice, one_);  // to device
  EXPECT_EQ(host_[0], 1) << "both read";
  expect_clean();
  host_[0] = 2;  // early write
  EXPECT_EQ(told(gpusim::take_report()),
            (Defects{{DefectKind::kRace, {line_of("to device"), line_of("early write")}, 1}}));
}

TEST_F(PinnedMemory, TheHostMayWaitInManyWays) {
  const auto copy = [&](cudaStream_t stream) {
    cudaMemcpyAsync(host_, a_, 128, cudaMemcpyDeviceToHost, stream);
  };
  copy(one_);
  cudaStreamSynchronize(one_);
  EXPECT_EQ(host_[0], 0);
  copy(one_);
  cudaDeviceSynchronize();
  EXPECT_EQ(host_[0], 0);
  copy(one_);
  EXPECT_EQ(cudaStreamQuery(one_), cudaSuccess);
  EXPECT_EQ(host_[0], 0);
  copy(one_);
  cudaEventRecord(event_, one_);
  copy(two_);
  cudaStreamWaitEvent(two_, event_);
  cudaStreamSynchronize(two_);
  EXPECT_EQ(host_[0], 0) << "through another stream";
  copy(nullptr);
  cudaMemcpy(b_.get(), a_.get(), 4, cudaMemcpyDefault);
  EXPECT_EQ(host_[0], 0);
  copy(one_);
  EXPECT_EQ(*static_cast<volatile int*>(host_), 0) << "polls";
  EXPECT_EQ(host_[0], 0);
  std::vector<int> pageable(32);
  cudaMemcpyAsync(pageable.data(), a_, 128, cudaMemcpyDeviceToHost, one_);
  EXPECT_EQ(pageable[0], 0);
  expect_clean();
}

TEST_F(PinnedMemory, TheDefaultStreamWaitsForStreamsThatBlock) {
  cudaStream_t blocking = nullptr;
  cudaStreamCreate(&blocking);
  for (const bool with_event : {false, true}) {
    cudaMemcpyAsync(host_, a_, 128, cudaMemcpyDeviceToHost, blocking);
    if (with_event) {
      cudaEventRecord(event_);
      cudaEventSynchronize(event_);
    } else {
      cudaStreamSynchronize(nullptr);
    }
    EXPECT_EQ(host_[0], 0);
  }
  expect_clean();
  cudaMemcpyAsync(host_, a_, 128, cudaMemcpyDeviceToHost, one_);
  cudaStreamSynchronize(nullptr);  // not for this one
  EXPECT_EQ(host_[0], 0);
  EXPECT_EQ(gpusim::take_report().defects.size(), 1u);
  cudaStreamDestroy(blocking);
}

TEST_F(Streams, TheDefaultStreamWaitsForBlockingStreams) {
  cudaStream_t blocking = nullptr;
  cudaStreamCreate(&blocking);
  enqueue(blocking, store, a_.get());
  enqueue(nullptr, load, a_.get(), b_.get());
  enqueue(blocking, store, a_.get());
  expect_clean();
  enqueue(nullptr, store, b_.get());
  enqueue(two_, load, b_.get(), a_.get());
  EXPECT_FALSE(gpusim::take_report().defects.empty());
  cudaStreamDestroy(blocking);
}

TEST_F(Streams, ReleasedMemoryIsForgotten) {
  void* memory = nullptr;
  cudaMalloc(&memory, 4096);
  enqueue(one_, store, static_cast<int*>(memory));
  cudaFree(memory);  // waits for all streams
  void* again = nullptr;
  cudaMalloc(&again, 4096);
  EXPECT_EQ(again, memory);
  enqueue(two_, store, static_cast<int*>(again));
  expect_clean();
  cudaFree(again);
}

TEST_F(Streams, HalvesOfAWordAreNotCompared) {
  enqueue(one_, store_halves, reinterpret_cast<short*>(a_.get()));
  enqueue(two_, store_halves, reinterpret_cast<short*>(a_.get()) + 1);
  expect_clean();
}

}  // namespace
}  // namespace gpusim_test
