#include <mpi.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/nccl/board.hpp"

using gpusim::nccl::Board;
using gpusim::nccl::Half;
using gpusim::nccl::Verb;

struct ncclComm {
  MPI_Comm ranks = MPI_COMM_NULL;
  int count = 0, rank = 0;
  MPI_Win window = MPI_WIN_NULL;  ///< the memory of the board
  std::unique_ptr<Board> board;
};

namespace {

std::string last_error;

ncclResult_t failed(ncclResult_t result, const std::string& reason) {
  last_error = reason;
  return result;
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
  }
  return 0;
}

/// A call of ncclSend(), ncclRecv() or, for each peer, ncclAllGather().
struct Call {
  const char* name;  ///< of the function
  Verb verb;
  int peer;
  const void* from;  ///< null: only receives
  void* to;          ///< null: only sends
  std::size_t bytes;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// Memory that ncclCommRegister() has been given, by handle.
struct Registered {
  ncclComm_t comm;
  const std::byte* begin;
  std::size_t bytes;
};
std::map<void*, std::unique_ptr<Registered>> registered;

/// Whether some of the memory is registered. @param comm  null: with any communicator
bool is_registered(ncclComm_t comm, const void* address, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(address);
  return std::any_of(registered.begin(), registered.end(), [&](const auto& entry) {
    const Registered& other = *entry.second;
    return (!comm || other.comm == comm) && begin < other.begin + other.bytes && other.begin < begin + bytes;
  });
}

int group_depth = 0;
std::vector<Call> group;

/// Waits until all peers have issued the other halves.
ncclResult_t wait_for_partners(Board& board, const std::vector<Half>& halves) {
  board.wait_for(halves);
  ncclResult_t result = ncclSuccess;
  for (int pause_us = 10;; pause_us = std::min(2 * pause_us, 1000)) {
    bool all = true;
    for (const Half& half : halves) all = all && board.is_matched(half);
    if (all) break;
    if (const auto reason = board.deadlock()) board.fail(*reason);
    if (const auto reason = board.failure()) {
      result = failed(ncclInvalidUsage, *reason);
      break;
    }
    usleep(useconds_t(pause_us));
  }
  board.go_on();
  return result;
}

/// Both halves of a transfer must have the same size.
ncclResult_t compare_sizes(Board& board, const std::vector<Half>& halves, int rank) {
  for (const Half& half : halves) {
    const std::int64_t theirs = board.partner_bytes(half);
    if (theirs == half.bytes) continue;
    const bool sends = half.verb == Verb::kSend;
    const int from = sends ? rank : half.peer, to = sends ? half.peer : rank;
    board.fail("sizes differ: rank " + std::to_string(from) + " sends " +
               std::to_string(sends ? half.bytes : theirs) + " bytes to rank " + std::to_string(to) +
               ", which receives " + std::to_string(sends ? theirs : half.bytes));
    return failed(ncclInvalidUsage, board.failure().value_or("sizes differ"));
  }
  return ncclSuccess;
}

ncclResult_t transfer(const std::vector<Call>& calls, ncclComm_t comm) {
  std::vector<MPI_Request> requests;
  for (const bool receives : {true, false}) {
    for (const Call& call : calls) {
      void* const at = receives ? call.to : const_cast<void*>(call.from);
      if (at == nullptr || call.bytes == 0) continue;
      MPI_Request& request = requests.emplace_back();
      const int tag = call.verb == Verb::kGather ? 1 : 0;
      receives ? MPI_Irecv(at, int(call.bytes), MPI_BYTE, call.peer, tag, comm->ranks, &request)
               : MPI_Isend(at, int(call.bytes), MPI_BYTE, call.peer, tag, comm->ranks, &request);
    }
  }
  for (int done = 0; done == 0;) {
    MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) break;
    if (const auto reason = comm->board->failure()) return failed(ncclRemoteError, *reason);
    usleep(20);
  }
  for (const Call& call : calls) {
    gpusim::begin_routine(call.stream, call.name);
    if (call.to != nullptr) gpusim::account_write(call.to, call.bytes, call.name);
    if (call.peer == comm->rank) continue;
    const auto bytes = std::int64_t(call.bytes);
    gpusim::account_link(call.peer, call.from != nullptr ? bytes : 0, call.to != nullptr ? bytes : 0);
  }
  return ncclSuccess;
}

/// The streams of a group wait for each other: its transfers begin when all have come to them, and all go on
/// after them.
void join_streams(const std::vector<Call>& calls) {
  std::set<cudaStream_t> streams;
  for (const Call& call : calls) streams.insert(call.stream);
  if (streams.size() < 2) return;
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  for (cudaStream_t earlier : streams) {
    cudaEventRecord(event, earlier);
    for (cudaStream_t later : streams) cudaStreamWaitEvent(later, event, 0);
  }
  cudaEventDestroy(event);
}

/// Runs all calls of a group.
ncclResult_t run(const std::vector<Call>& calls) {
  if (calls.empty()) return ncclSuccess;
  ncclComm_t comm = calls.front().comm;
  join_streams(calls);
  for (const Call& call : calls) {
    if (call.comm != comm)
      return failed(ncclInvalidUsage, "the simulator runs groups of one communicator only");
    if (call.bytes > INT_MAX)
      return failed(ncclInvalidArgument, "the simulator transfers at most 2 GB at once");
    gpusim::begin_routine(call.stream, call.name);
    // A transfer out of an allocation is a defect, as it is for a kernel.
    if (call.from != nullptr && !gpusim::account_read(call.from, call.bytes, call.name))
      return failed(ncclInvalidArgument, std::string(call.name) + ": the " + std::to_string(call.bytes) +
                                             " bytes to send are not all in device memory");
  }
  std::vector<Half> halves;
  for (const Call& call : calls)
    halves.push_back(comm->board->issue(call.verb, call.peer, std::int64_t(call.bytes)));
  if (const ncclResult_t result = wait_for_partners(*comm->board, halves); result != ncclSuccess)
    return result;
  if (const ncclResult_t result = compare_sizes(*comm->board, halves, comm->rank); result != ncclSuccess)
    return result;
  const ncclResult_t result = transfer(calls, comm);
  join_streams(calls);
  return result;
}

ncclResult_t add(const Call& call) {
  if (call.comm == nullptr) return failed(ncclInvalidArgument, std::string(call.name) + ": no communicator");
  if (call.peer < 0 || call.peer >= call.comm->count) {
    return failed(ncclInvalidArgument, std::string(call.name) + ": rank " + std::to_string(call.comm->rank) +
                                           " names peer " + std::to_string(call.peer) +
                                           ": must be less than " + std::to_string(call.comm->count) +
                                           ", and not negative");
  }
  group.push_back(call);
  if (group_depth > 0) return ncclSuccess;
  return run(std::exchange(group, {}));
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  for (std::size_t at = 0; at < sizeof id->internal; at += sizeof(unsigned)) {
    const unsigned bits = random();
    std::memcpy(id->internal + at, &bits, sizeof bits);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  int size = 0, self = 0, initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) return failed(ncclInvalidUsage, "the simulator needs MPI_Init_thread() first");
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  if (ranks != size || rank != self) {
    return failed(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                           ": on the simulator, must be that of MPI, " +
                                           std::to_string(self) + " of " + std::to_string(size));
  }
  if (ranks > Board::kMostRanks) {
    return failed(ncclInvalidArgument, std::to_string(ranks) + " ranks: the simulator runs at most " +
                                           std::to_string(Board::kMostRanks));
  }
  auto created = std::make_unique<ncclComm>();
  created->count = ranks;
  created->rank = rank;
  ncclUniqueId first = id;
  MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
  int same = std::memcmp(&first, &id, sizeof id) == 0 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (same == 0) return failed(ncclInvalidUsage, "the ranks have different ids: rank 0 makes one for all");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &created->ranks);
  MPI_Comm_size(created->ranks, &size);
  if (size != ranks) return failed(ncclSystemError, "the simulator runs all ranks on one host");
  const std::size_t bytes = Board::bytes(ranks) + Board::kAlignment;
  void* memory = nullptr;
  MPI_Win_allocate_shared(MPI_Aint(rank == 0 ? bytes : 0), 1, MPI_INFO_NULL, created->ranks, &memory,
                          &created->window);
  MPI_Aint size_of_first = 0;
  int unit = 0;
  MPI_Win_shared_query(created->window, 0, &size_of_first, &unit, &memory);
  // MPI aligns the memory for its own needs. All ranks skip as many bytes: pages begin at the same places for
  // all of them.
  int skipped = int(-reinterpret_cast<std::uintptr_t>(memory) % Board::kAlignment);
  MPI_Bcast(&skipped, 1, MPI_INT, 0, created->ranks);
  memory = static_cast<char*>(memory) + skipped;
  if (rank == 0) std::memset(memory, 0, Board::bytes(ranks));
  MPI_Barrier(created->ranks);
  created->board = std::make_unique<Board>(memory, ranks, rank);
  *comm = created.release();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks) {
  *ranks = comm->count;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->board->failure() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->board->leave();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->board->leave();
  // The others may still look at the board.
  MPI_Barrier(comm->ranks);
  MPI_Win_free(&comm->window);
  MPI_Comm_free(&comm->ranks);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->board->fail("rank " + std::to_string(comm->rank) + " has aborted the communicator");
  comm->board->leave();
  return ncclSuccess;  // the board stays: the others look at it
}

ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  if (cudaMalloc(address, bytes) == cudaSuccess) return ncclSuccess;
  return failed(ncclUnhandledCudaError,
                "ncclMemAlloc(): not enough device memory for " + std::to_string(bytes) + " bytes");
}

ncclResult_t ncclMemFree(void* address) {
  if (is_registered(nullptr, address, 1))
    return failed(ncclInvalidUsage,
                  "ncclMemFree(): the memory is still registered: ncclCommDeregister() first");
  return cudaFree(address) == cudaSuccess
             ? ncclSuccess
             : failed(ncclInvalidArgument, "ncclMemFree(): not from ncclMemAlloc()");
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* address, std::size_t bytes, void** handle) {
  if (comm == nullptr || address == nullptr || bytes == 0)
    return failed(ncclInvalidArgument, "ncclCommRegister(): needs a communicator, and memory");
  if (is_registered(comm, address, bytes))
    return failed(ncclInvalidUsage, "ncclCommRegister(): some of this memory is registered already");
  auto entry = std::make_unique<Registered>(Registered{comm, static_cast<std::byte*>(address), bytes});
  *handle = entry.get();
  registered[*handle] = std::move(entry);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t, void* handle) {
  if (registered.erase(handle) == 1) return ncclSuccess;
  return failed(ncclInvalidArgument,
                "ncclCommDeregister(): no handle of ncclCommRegister(), or not any more");
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd() without ncclGroupStart()");
  if (--group_depth > 0) return ncclSuccess;
  return run(std::exchange(group, {}));
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({"ncclSend", Verb::kSend, peer, from, nullptr, count * size_of(type), comm, stream});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({"ncclRecv", Verb::kReceive, peer, nullptr, to, count * size_of(type), comm, stream});
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  if (ncclGroupStart() != ncclSuccess) return ncclInternalError;
  for (int peer = 0; peer < comm->count; ++peer)
    add({"ncclAllGather", Verb::kGather, peer, from, static_cast<char*>(to) + std::size_t(peer) * bytes,
         bytes, comm, stream});
  return ncclGroupEnd();
}
