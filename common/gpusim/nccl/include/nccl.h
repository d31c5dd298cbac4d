/// @file
/// The simulator's `<nccl.h>`: sends, receives and all-gathers between processes that mpirun has started.
///
/// Names and numbers are those of NCCL. Data travels over MPI; the bytes of each link are counted
/// (gpusim::take_links()). A call, or the outermost ncclGroupEnd(), returns when all of its transfers are
/// complete: the simulator's streams run everything at once. Ranks that wait for each other in a circle, for
/// one that has left, or with sizes that do not match get ncclInvalidUsage, and ncclGetLastError() says in
/// one line who waits for what. On GPUs, such programs hang.
///
/// All ranks of a communicator are those of MPI_COMM_WORLD, on one host. The program has called
/// MPI_Init_thread().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 0
#define NCCL_VERSION_CODE 22800
#define NCCL_UNIQUE_ID_BYTES 128

struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// What a program may ask of a communicator. The simulator knows no channels: all values are accepted.
struct ncclConfig_t {
  int blocking = 1;
  int cgaClusterSize = -1;
  int minCTAs = -1;
  int maxCTAs = -1;
};
#define NCCL_CONFIG_INITIALIZER \
  {}

extern "C" {

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
/// What has gone wrong last, in one line. @param comm  may be null
const char* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);

/// Device memory, as from cudaMalloc().
ncclResult_t ncclMemAlloc(void** address, std::size_t bytes);
/// ncclInvalidUsage if some of the memory is still registered.
ncclResult_t ncclMemFree(void* address);
/// Lets NCCL copy from this memory and to it without a buffer in between. The simulator has no such buffers:
/// what it checks is that memory is registered once and no longer than it exists.
ncclResult_t ncclCommRegister(ncclComm_t comm, void* address, std::size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
/// @param to  of each rank in turn, `count` elements
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);

}  // extern "C"
