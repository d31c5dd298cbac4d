/// @file
/// A rank of a program that uses NCCL in one way or another: nccl_test.py starts several with mpirun, and
/// reads what they print.
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpusim/gpusim.hpp"

namespace {

int rank = 0, ranks = 0;
ncclComm_t comm = nullptr;
constexpr std::size_t kCount = 16;
float *out = nullptr, *in = nullptr;

int next() { return (rank + 1) % ranks; }
int previous() { return (rank + ranks - 1) % ranks; }

ncclResult_t send(int peer, std::size_t count = kCount) {
  return ncclSend(out, count, ncclFloat32, peer, comm, nullptr);
}
ncclResult_t receive(int peer, std::size_t count = kCount) {
  return ncclRecv(in, count, ncclFloat32, peer, comm, nullptr);
}
__global__ void empty_kernel() {}
ncclResult_t both(const std::function<void()>& calls) {
  ncclGroupStart();
  calls();
  return ncclGroupEnd();
}
/// The first that is not ncclSuccess.
ncclResult_t in_turn(ncclResult_t first, const std::function<ncclResult_t()>& second) {
  return first != ncclSuccess ? first : second();
}

/// A ring on one stream, or with its sends on another one; then kernels on a third.
/// @param waits  whether the kernels wait for the stream of the receives    @param same  they are on it
ncclResult_t ring_and_kernels(bool split, bool waits, bool same) {
  cudaStream_t streams[3] = {};
  cudaEvent_t event = nullptr;
  for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  cudaDeviceSynchronize();
  const ncclResult_t result = both([&] {
    ncclSend(out, kCount, ncclFloat32, next(), comm, streams[split ? 1 : 0]);
    ncclRecv(in, kCount, ncclFloat32, previous(), comm, streams[0]);
  });
  cudaEventRecord(event, streams[0]);
  cudaStream_t of_kernels = streams[same ? 0 : split ? 1 : 2];
  if (waits) cudaStreamWaitEvent(of_kernels, event, 0);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  config.stream = of_kernels;
  for (int i = 0; i < 2; ++i) cudaLaunchKernelEx(&config, empty_kernel);
  cudaDeviceSynchronize();
  return result;
}

/// What a case does. The result of the last call is printed.
const std::map<std::string, std::function<ncclResult_t()>>& cases() {
  static const std::map<std::string, std::function<ncclResult_t()>> kCases = {
      {"ring", [] { return both([] { send(next()), receive(previous()); }); }},
      {"even_odd",
       [] {
         if (rank % 2 == 0) return in_turn(send(next()), [] { return receive(previous()); });
         return in_turn(receive(previous()), [] { return send(next()); });
       }},
      {"gather", [] { return ncclAllGather(out, in, kCount, ncclFloat32, comm, nullptr); }},
      {"to_itself", [] { return both([] { send(rank), receive(rank); }); }},
      {"all_send_first", [] { return in_turn(send(next()), [] { return receive(previous()); }); }},
      {"all_receive_first", [] { return in_turn(receive(previous()), [] { return send(next()); }); }},
      {"nobody_sends", [] { return rank == 0 ? receive(1) : ncclSuccess; }},
      {"sizes", [] { return rank == 0   ? send(1)
                            : rank == 1 ? receive(0, kCount / 2)
                                        : ncclSuccess; }},
      {"no_such_rank", [] { return rank == 0 ? send(ranks) : ncclSuccess; }},
      {"gather_and_send",
       [] { return rank == 0 ? ncclAllGather(out, in, kCount, ncclFloat32, comm, nullptr) : send(0); }},
      {"unwritten",
       [] {
         float* fresh = nullptr;
         cudaMalloc(&fresh, kCount * sizeof(float));
         gpusim::name_allocation(fresh, "fresh");
         std::swap(out, fresh);
         return both([] { send(next()), receive(previous()); });
       }},
      {"registered",
       [] {
         void *memory = nullptr, *handle = nullptr;
         if (ncclMemAlloc(&memory, kCount * sizeof(float)) != ncclSuccess) return ncclSystemError;
         if (ncclCommRegister(comm, memory, kCount * sizeof(float), &handle) != ncclSuccess)
           return ncclSystemError;
         cudaMemcpy(memory, out, kCount * sizeof(float), cudaMemcpyDeviceToDevice);
         const ncclResult_t sent = both([&] {
           ncclSend(memory, kCount, ncclFloat32, next(), comm, nullptr);
           receive(previous());
         });
         return in_turn(in_turn(sent, [&] { return ncclCommDeregister(comm, handle); }),
                        [&] { return ncclMemFree(memory); });
       }},
      {"registered_twice",
       [] {
         void* handle = nullptr;
         return in_turn(ncclCommRegister(comm, out, kCount * sizeof(float), &handle),
                        [&] { return ncclCommRegister(comm, out + 1, sizeof(float), &handle); });
       }},
      {"registered_nothing",
       [] {
         void* handle = nullptr;
         return ncclCommRegister(comm, out, 0, &handle);
       }},
      {"freed_too_early",
       [] {
         void *memory = nullptr, *handle = nullptr;
         ncclMemAlloc(&memory, 4);
         ncclCommRegister(comm, memory, 4, &handle);
         return ncclMemFree(memory);
       }},
      {"deregistered_twice",
       [] {
         void* handle = nullptr;
         ncclCommRegister(comm, out, 4, &handle);
         return in_turn(ncclCommDeregister(comm, handle), [&] { return ncclCommDeregister(comm, handle); });
       }},
      {"kernels_beside", [] { return ring_and_kernels(false, false, false); }},
      {"kernels_after", [] { return ring_and_kernels(false, true, false); }},
      {"kernels_on_its_stream", [] { return ring_and_kernels(false, false, true); }},
      {"kernels_on_the_stream_of_sends", [] { return ring_and_kernels(true, false, false); }},
      {"outside", [] { return both([] { send(next(), 1000), receive(previous(), 1000); }); }},
  };
  return kCases;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ncclUniqueId id;
  if (rank == 0) ncclGetUniqueId(&id);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) {
    std::printf("rank %d: %s\n", rank, ncclGetLastError(nullptr));
    return 1;
  }
  cudaMalloc(&out, kCount * sizeof(float));
  cudaMalloc(&in, kCount * sizeof(float) * std::size_t(ranks));
  gpusim::name_allocation(out, "out");
  gpusim::name_allocation(in, "in");
  const std::vector<float> mine(kCount, float(rank));
  cudaMemcpy(out, mine.data(), kCount * sizeof(float), cudaMemcpyHostToDevice);

  const ncclResult_t result = cases().at(argv[1])();
  std::string line = "rank " + std::to_string(rank) + ": ";
  if (result != ncclSuccess) {
    line += std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm);
  } else {
    std::vector<float> got(kCount * std::size_t(ranks), -1);
    cudaMemcpy(got.data(), in, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
    line += "received " + std::to_string(int(got.front())) + " .. " + std::to_string(int(got.back()));
  }
  for (const auto& [peer, link] : gpusim::take_links()) {
    line += "; to rank " + std::to_string(peer) + ": " + std::to_string(link.sent_bytes) +
            ", from it: " + std::to_string(link.received_bytes);
  }
  const gpusim::Report report = gpusim::take_report();
  if (report.launches > 0) {
    line += "; " + std::to_string(report.ops.kernels_beside_transfers) + " of " +
            std::to_string(report.launches) + " kernels beside transfers";
  }
  for (const gpusim::Defect& defect : report.defects) {
    std::string message = defect.message;
    for (char& c : message) c = c == '\n' ? ' ' : c;
    line += std::string("; ") + gpusim::name_of(defect.kind) + ": " + message;
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  ncclCommDestroy(comm);
  MPI_Finalize();
  return 0;
}
