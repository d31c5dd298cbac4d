/// @file
/// The bytes of a plan: those that a rank exchanges with its memory, and those that it sends to other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "attend.hpp"
#include "attention/traffic.hpp"
#include "buffers.hpp"
#include "operations.hpp"

namespace fa::ch13 {

/// The bytes of a call of attention, whose tensors have the names of the operation's buffers here.
inline Traffic traffic_of(const Operation& op, const AttentionShape& whole, const Engine& engine) {
  std::map<std::string, std::string> names;
  for (const auto& views : {op.reads, op.writes}) {
    for (const View& view : views) names[kTensors[int(view.buffer.tensor)]] = name_of(view.buffer);
  }
  const AttentionShape shape = shape_of(whole, op);
  const Traffic of_call =
      op.kind == Kind::kAttend ? engine.forward_traffic(shape) : engine.backward_traffic(shape);
  Traffic traffic;
  for (const auto& [name, bytes] : of_call.tensors)
    add(traffic, names.contains(name) ? names[name] : name, bytes);
  return traffic;
}

/// What the kernels and transfers of a plan read from memory and write to it. Copies of the driver are not
/// counted.
inline Traffic traffic_of(const Plan& plan, const AttentionShape& whole, const Engine& engine, int R) {
  Traffic traffic;
  for (const Step& step : plan) {
    for (const Operation& operation : step) {
      switch (operation.kind) {
        case Kind::kAttend:
        case Kind::kDifferentiate: traffic = sum(traffic, traffic_of(operation, whole, engine)); break;
        case Kind::kCopy:
        case Kind::kClear:
        case Kind::kHoldUp: break;
        default: {
          const int times = operation.kind == Kind::kGather ? R : 1;  // read once for each rank
          for (const View& view : operation.reads) {
            if (view.bytes() > 0) add(traffic, name_of(view.buffer), {.read_bytes = times * view.bytes()});
          }
          for (const View& view : operation.writes) {
            if (view.bytes() > 0) add(traffic, name_of(view.buffer), {.write_bytes = view.bytes()});
          }
        }
      }
    }
  }
  return traffic;
}

/// Bytes that a rank sends to others, for each step with transfers.
inline std::vector<std::int64_t> link_bytes_of(const Plan& plan, const Share& share) {
  std::vector<std::int64_t> links;
  for (const Step& step : plan) {
    std::int64_t bytes = 0;
    bool transfers = false;
    for (const Operation& operation : step) {
      transfers = transfers || is_transfer(operation.kind);
      int receivers = operation.kind == Kind::kSend && operation.peer != share.rank ? 1 : 0;
      if (operation.kind == Kind::kGather) receivers = share.R() - 1;
      for (const View& view : operation.reads) bytes += receivers * view.bytes();
    }
    if (transfers) links.push_back(bytes);
  }
  return links;
}

}  // namespace fa::ch13
