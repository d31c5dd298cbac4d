/// @file
/// If something is wrong on one rank, all end, and say the same.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <stdexcept>

#include "device/launch.cuh"
#include "harness/errors.hpp"
#include "ranks.hpp"

namespace fa::ch13 {

/// What an exception means for the program.
inline Complaint complaint_of(const std::exception& error) {
  if (const auto* refused = dynamic_cast<const Refused*>(&error))
    return {2, error.what(), refused->refusal, refused->variant};
  if (dynamic_cast<const UsageError*>(&error)) return {2, error.what()};
  if (dynamic_cast<const DeviceError*>(&error) || dynamic_cast<const CudaError*>(&error))
    return {3, error.what()};
  if (dynamic_cast<const std::bad_alloc*>(&error)) return {2, "not enough memory: choose smaller sizes"};
  return {1, error.what()};
}

/// Calls f on all ranks. If it throws on one of them, all throw the same.
template <class F>
auto together(F f) -> decltype(f()) {
  std::optional<Complaint> mine;
  decltype(f()) result = {};
  try {
    result = f();
  } catch (const std::exception& error) {
    mine = complaint_of(error);
  }
  if (const auto complaint = Ranks::instance().agree(mine)) {
    if (complaint->refusal) throw Refused(*complaint->refusal, complaint->variant);
    if (complaint->status == 2) throw UsageError(complaint->reason);
    if (complaint->status == 3) throw DeviceError(complaint->reason);
    throw std::runtime_error(complaint->reason);
  }
  return result;
}

/// Calls f, in which ranks wait for each other: if it throws on one of them, all end.
template <class F>
auto or_end_all(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& error) {
    Ranks::instance().end_all(complaint_of(error));
  }
}

}  // namespace fa::ch13
