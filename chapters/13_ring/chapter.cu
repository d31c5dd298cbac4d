/// @file
/// Chapter 13 as the harness sees it: the steps.
#include "all_gather.cuh"
#include "all_to_all.cuh"
#include "bytes.cuh"
#include "homeward.cuh"
#include "overlapped.cuh"
#include "pieces.cuh"
#include "rank.hpp"
#include "ring.cuh"
#include "run.hpp"

namespace fa::ch13 {
namespace {

Method ring(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .zigzag = false,
          .forward = ring_forward,
          .backward = ring_backward,
          .forward_links = ring_forward_links,
          .backward_links = ring_backward_links,
          .traffic = traffic_of<RingBytes>};
}

Method zigzag(const char* name, const char* summary) {
  Method method = ring(name, summary);
  method.zigzag = true;
  return method;
}

Method overlapped(const char* name, const char* summary) {
  Method method = zigzag(name, summary);
  method.priority = true;
  method.key_buffers = 3;
  method.part_buffers = kMostParts + 1;
  method.forward = overlapped_forward;
  method.backward = homeward_backward;
  method.backward_links = homeward_links;
  method.traffic = traffic_of<HomewardBytes>;
  return method;
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {.name = "all_gather",
       .summary = "every rank gets all keys and values",
       .zigzag = false,
       .forward = all_gather_forward,
       .backward = all_gather_backward,
       .forward_links = all_gather_forward_links,
       .backward_links = all_gather_backward_links,
       .traffic = traffic_of<GatherBytes>},
      ring("ring", "keys and values go round, while the previous ones are in use"),
      zigzag("zigzag", "an early and a late piece for each rank: equal work under a causal mask"),
      overlapped("overlapped", "transfers go first, steps overlap, and gradients go straight home"),
      {.name = "all_to_all",
       .summary = "heads traded for tokens (Ulysses)",
       .zigzag = false,
       .forward = all_to_all_forward,
       .backward = all_to_all_backward,
       .forward_links = all_to_all_forward_links,
       .backward_links = all_to_all_backward_links,
       .traffic = traffic_of<TradeBytes>,
       .trades_heads = true},
  };
  return all;
}

}  // namespace fa::ch13

fa::AnyChapter fa::describe_chapter() { return ch13::ring_chapter(); }
