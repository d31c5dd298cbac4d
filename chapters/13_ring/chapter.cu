/// @file
/// Chapter 13 as the harness sees it: the steps.
#include <iostream>

#include "methods.hpp"
#include "plan.hpp"
#include "run.hpp"

const std::vector<fa::ch13::Method>& fa::ch13::methods() {
  static const std::vector<Method> all = {
      {.name = "all_gather",
       .summary = "every rank gets all keys and values",
       .forward = all_gather_forward,
       .backward = all_gather_backward},
      {.name = "ring",
       .summary = "keys and values go round, while the previous ones are in use",
       .forward = ring_forward,
       .backward = ring_backward},
      {.name = "zigzag",
       .summary = "an early and a late piece for each rank: equal work under a causal mask",
       .forward = ring_forward,
       .backward = ring_backward,
       .zigzag = true},
      {.name = "overlapped",
       .summary = "transfers go first, steps overlap, and gradients go straight home",
       .forward = ring_forward,
       .backward = ring_or_homeward_backward,
       .zigzag = true,
       .changes = {.head_start = true, .steps = true, .parts = true, .registered = true, .homeward = true}},
      {.name = "all_to_all",
       .summary = "heads traded for tokens (Ulysses)",
       .forward = all_to_all_forward,
       .backward = all_to_all_backward,
       .trades_heads = true},
  };
  return all;
}

fa::AnyChapter fa::describe_chapter() { return ch13::ring_chapter(std::cout); }
