#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "diagnosis/diagnosis.hpp"

namespace fa {
namespace {

/// The outputs of one mistake: in some sequences as given, in the others right.
Reference with_mistakes(const DecodingShape& shape, const TensorMap& inputs,
                        const std::map<std::int64_t, std::function<Reference()>>& mistaken) {
  Reference outputs = DecodingAttention::reference(shape, inputs);
  for (const auto& [number, reference] : mistaken) {
    for (const auto& [name, values] : reference())
      std::copy(values.begin(), values.end(),
                outputs.at(name).begin() + number * std::int64_t(values.size()));
  }
  return outputs;
}

/// The mistakes of AttentionForward, each made in all sequences in which it changes something.
std::vector<OtherProblem> with_mistaken_sequences(const DecodingShape& shape, const TensorMap& inputs) {
  std::map<std::string, std::map<std::int64_t, std::function<Reference()>>> mistakes;
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    if (shape.keys_of(number) == 0) continue;
    const auto sequence = std::make_shared<DecodedSequence>(sequence_of(shape, number, inputs));
    for (const OtherProblem& other : other_problems<AttentionForward>(sequence->shape, sequence->inputs)) {
      mistakes[other.change].emplace(
          number, [sequence, reference = other.reference] { return reference(); });  // keeps its inputs
    }
  }
  std::vector<OtherProblem> problems;
  for (auto& [change, of_sequences] : mistakes) {
    problems.push_back({change, [shape, &inputs, of = std::move(of_sequences)] {
                          return with_mistakes(shape, inputs, of);
                        }});
  }
  return problems;
}

/// The outputs with other scales.
OtherProblem with_scales(const DecodingShape& shape, const TensorMap& inputs, const std::string& change,
                         const std::string& name, bool of_first_head) {
  return {change, [=, &inputs] {
            TensorMap changed = inputs;
            std::vector<float>& scales = changed.at(name).data;
            std::fill(scales.begin(), scales.end(), of_first_head ? scales.front() : 1.0f);
            return DecodingAttention::reference(shape, changed);
          }};
}

/// The outputs with another table. @param page  from a sequence, a column and its last one to a number
template <class Page>
OtherProblem with_pages(const DecodingShape& shape, const TensorMap& inputs, const std::string& change,
                        Page page) {
  BlockTable table = *shape.block_table;
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    const std::int64_t used = tiles(shape.keys_of(number), table.page_size);
    for (std::int64_t column = 0; column < used; ++column) {
      const std::int64_t other = page(number, column, used - 1);
      table.numbers[std::size_t(number * table.columns + column)] =
          std::int32_t(std::clamp<std::int64_t>(other, 0, table.pages - 1));
    }
  }
  DecodingShape changed = shape;
  changed.block_table = std::make_shared<const BlockTable>(std::move(table));
  return {change, [changed, &inputs] { return DecodingAttention::reference(changed, inputs); }};
}

}  // namespace

template <>
std::vector<OtherProblem> other_problems<DecodingAttention>(const DecodingShape& shape,
                                                            const TensorMap& inputs) {
  std::vector<OtherProblem> problems = with_mistaken_sequences(shape, inputs);
  if (shape.fp8) {
    for (const char* name : {"k_scale", "v_scale"}) {
      problems.push_back(with_scales(shape, inputs, std::string("without ") + name, name, false));
      if (shape.kv_heads == 1) continue;
      problems.push_back(
          with_scales(shape, inputs, std::string("with the ") + name + " of head 0 for all", name, true));
    }
  }
  if (const BlockTable* table = shape.block_table.get()) {
    const auto given = [table](std::int64_t number, std::int64_t column) {
      return std::int64_t(table->numbers[std::size_t(number * table->columns + column)]);
    };
    problems.push_back(
        with_pages(shape, inputs, "if the pages of sequences followed each other in the cache",
                   [=](auto number, auto column, auto) { return number * table->columns + column; }));
    problems.push_back(with_pages(shape, inputs, "with the block table of sequence 0 for all",
                                  [=](auto, auto column, auto) { return given(0, column); }));
    problems.push_back(
        with_pages(shape, inputs, "with the page before it in place of the last page of each sequence",
                   [=](auto number, auto column, auto last) {
                     return given(number, column == last ? std::max<std::int64_t>(0, column - 1) : column);
                   }));
    problems.push_back(with_pages(
        shape, inputs, "with the first page in place of the last page of each sequence",
        [=](auto number, auto column, auto last) { return given(number, column == last ? 0 : column); }));
  }
  return problems;
}

}  // namespace fa
