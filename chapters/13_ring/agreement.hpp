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
inline Error error_of(const std::exception& thrown) {
  if (const auto* refused = dynamic_cast<const Refused*>(&thrown))
    return {2, thrown.what(), refused->refusal, refused->variant};
  if (dynamic_cast<const UsageError*>(&thrown)) return {2, thrown.what()};
  if (dynamic_cast<const DeviceError*>(&thrown) || dynamic_cast<const CudaError*>(&thrown))
    return {3, thrown.what()};
  if (dynamic_cast<const std::bad_alloc*>(&thrown)) return {2, "not enough memory: choose smaller sizes"};
  return {1, thrown.what()};
}

/// Calls f on all ranks. If it throws on one of them, all throw the same.
template <class F>
auto together(F f) -> decltype(f()) {
  std::optional<Error> mine;
  decltype(f()) result = {};
  try {
    result = f();
  } catch (const std::exception& thrown) {
    mine = error_of(thrown);
  }
  if (const auto error = Ranks::instance().agree(mine)) {
    if (error->refusal) throw Refused(*error->refusal, error->variant);
    if (error->status == 2) throw UsageError(error->reason);
    if (error->status == 3) throw DeviceError(error->reason);
    throw std::runtime_error(error->reason);
  }
  return result;
}

/// Calls f, in which ranks wait for each other: if it throws on one of them, all end.
template <class F>
auto or_end_all(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& thrown) {
    Ranks::instance().end_all(error_of(thrown));
  }
}

}  // namespace fa::ch13
