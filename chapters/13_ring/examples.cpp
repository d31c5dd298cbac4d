/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#include <map>
#include <utility>
#include <vector>

namespace fa::examples {

#if EXERCISE == 1
struct Weights {
  float earlier, part, lse;
};
Weights merge_weights(float lse_earlier, float lse_part) {
#include "answer.inc"
}

void examples() {
  for (const auto& [earlier, part] : {std::pair{1.0f, 2.0f},
                                      {3.0f, 0.0f},
                                      {0.0f, 0.0f},
                                      {100.0f, 99.0f},
                                      {-200.0f, -201.0f},
                                      {-100.0f, 100.0f},
                                      {-INFINITY, 1.0f},
                                      {2.0f, -INFINITY}}) {
    const std::string call = words("merge_weights(%g, %g)", earlier, part);
    const Weights weights = merge_weights(earlier, part);
    example(call, "the weight of the earlier result", weights.earlier);
    example(call, "the weight of the part", weights.part);
    example(call, "LSE", weights.lse);
  }
}

#elif EXERCISE == 2
std::vector<int> pieces_of(int R, int rank) {
#include "answer.inc"
}

void examples() {
  for (const int R : {4, 3, 1}) {
    for (int rank = 0; rank < R; ++rank) {
      std::string pieces;
      for (const int piece : pieces_of(R, rank))
        pieces += (pieces.empty() ? "" : " and ") + std::to_string(piece);
      example(words("pieces_of(%d) of %d ranks", rank, R), "the result", pieces);
    }
  }
}

#elif EXERCISE == 3
struct Message {
  void* address;
  std::size_t bytes;
  int peer;
};

// What NCCL and CUDA are called with.
using ncclComm_t = int;
using cudaStream_t = int*;
using ncclResult_t = int;
enum ncclDataType_t {
  ncclInt8 = 1,
  ncclChar = 1,
  ncclUint8 = 1,
  ncclFloat16 = 2,
  ncclBfloat16 = 2,
  ncclFloat32 = 4,
  ncclFloat = 4,
  ncclInt32 = 4
};
std::map<int, std::string> sent, received;  // by peer
std::string others;
int groups = 0;
cudaStream_t stream_of_call = nullptr;

int message(std::map<int, std::string>& list, const void* address, std::size_t count, ncclDataType_t type,
            int peer, cudaStream_t stream) {
  std::string& of_peer = list[peer];
  of_peer += words("%s%zu bytes at %zu%s", of_peer.empty() ? "" : ", then ", count * type,
                   std::size_t(reinterpret_cast<std::uintptr_t>(address)),
                   stream == stream_of_call ? "" : ", on another stream");
  return 0;
}
int ncclSend(const void* address, std::size_t count, ncclDataType_t type, int peer, ncclComm_t,
             cudaStream_t stream) {
  return message(sent, address, count, type, peer, stream);
}
int ncclRecv(void* address, std::size_t count, ncclDataType_t type, int peer, ncclComm_t,
             cudaStream_t stream) {
  return message(received, address, count, type, peer, stream);
}
int ncclGroupStart() { return 0; }
int ncclGroupEnd() { return ++groups; }
int other(const char* name) {
  others += (others.empty() ? "" : ", ") + std::string(name);
  return 0;
}
int cudaDeviceSynchronize() { return other("cudaDeviceSynchronize"); }
int cudaStreamSynchronize(cudaStream_t) { return other("cudaStreamSynchronize"); }
template <class... Arguments>
int cudaMemsetAsync(Arguments...) {
  return other("cudaMemsetAsync");
}
#define FA_NCCL_CHECK(...) (void)(__VA_ARGS__)
#define FA_CUDA_CHECK(...) (void)(__VA_ARGS__)

void transfer(const std::vector<Message>& leaving, const std::vector<Message>& arriving, ncclComm_t comm,
              cudaStream_t stream) {
#include "answer.inc"
}

void examples() {
  const auto at = [](std::size_t address) { return reinterpret_cast<void*>(address); };
  int stream;
  stream_of_call = &stream;
  transfer({{at(1000), 256, 1}, {at(2000), 512, 1}, {at(3000), 64, 2}},
           {{at(4000), 256, 3}, {at(5000), 32, 2}, {at(6000), 128, 3}}, 0, &stream);
  const std::string call =
      "transfer() of 256 bytes at 1000 and 512 at 2000 to rank 1, 64 at 3000 to rank 2, and from rank 3 256 "
      "bytes to "
      "4000 and 128 to 6000, from rank 2 32 to 5000";
  for (const int peer : {1, 2, 3}) {
    example(call, words("what is sent to rank %d", peer).c_str(), sent.count(peer) ? sent[peer] : "nothing");
    example(call, words("what is received from rank %d", peer).c_str(),
            received.count(peer) ? received[peer] : "nothing");
  }
  example(call, "the number of groups", groups);
  example(call, "the list of other calls", others.empty() ? "empty" : others);
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
