/// @file
/// Where else the values of wrong elements belong: right numbers in wrong places show which indices a kernel
/// mixes up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"

namespace fa {

using TensorIndex = std::vector<std::int64_t>;

/// How the index of a wrong element leads to the index of the element whose value it holds.
enum class Relation {
  kSameIndex,   ///< the same, but in another tensor
  kXor,         ///< along one axis: index ^ by
  kShift,       ///< along one axis: index + by
  kFixed,       ///< along one axis: always `by`
  kMap,         ///< along one axis: each index has one of its own
  kOffset,      ///< index + offset, and in the elements found there index - offset
  kTransposed,  ///< the last two exchanged
};

/// "same_index", "xor", "shift", "fixed", "map", "offset" or "transposed".
std::string_view name_of(Relation relation);

/// A rule that says what the wrong elements of a tensor hold instead of their own values.
struct Relocation {
  Relation relation = Relation::kSameIndex;
  std::string tensor;           ///< whose values they are: an output, maybe the same, or an input
  bool is_input = false;        ///< of `tensor`
  TensorIndex element, source;  ///< an example: a wrong element, and where its value belongs in `tensor`
  int axis = -1;                ///< of kXor, kShift, kFixed and kMap
  std::int64_t by = 0;          ///< of kXor, kShift and kFixed
  TensorIndex offset = {};      ///< of kOffset
  double share = 0;  ///< of the wrong elements for which it holds, except those that are 0 or not finite
};

/// Finds the rule that holds for most wrong elements of an output that failed; nothing if none holds for
/// three of four, or if it could be chance. Looks at 2048 of the wrong elements at most.
///
/// @param name        the output
/// @param references  of all outputs
/// @param inputs      may be empty
std::optional<Relocation> find_relocation(const std::string& name, const TensorMap& outputs,
                                          const Reference& references, const Tolerances& tolerances,
                                          const TensorMap& inputs);

}  // namespace fa
