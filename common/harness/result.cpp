#include "harness/result.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <utility>

#include "harness/text.hpp"

namespace fa {
namespace {

/// One sentence for each tensor and direction in which the two differ, or, if its formula says `at_least`, in
/// which fewer bytes were counted. A tensor that one of them lacks counts as 0 bytes.
std::vector<std::string> differences(const Traffic& predicted, const Traffic& counted) {
  std::set<std::string> names;
  for (const auto& [name, bytes] : predicted.tensors) names.insert(name);
  for (const auto& [name, bytes] : counted.tensors) names.insert(name);

  std::vector<std::string> sentences;
  const auto bytes_of = [](const Traffic& traffic, const std::string& name) {
    const auto found = traffic.tensors.find(name);
    return found == traffic.tensors.end() ? TensorTraffic{} : found->second;
  };
  for (const std::string& name : names) {
    const TensorTraffic formula = bytes_of(predicted, name);
    const TensorTraffic run = bytes_of(counted, name);
    const char* at_least = formula.at_least ? "at least " : "";
    const auto differ = [&](std::int64_t predicted_bytes, std::int64_t counted_bytes) {
      return formula.at_least ? counted_bytes < predicted_bytes : counted_bytes != predicted_bytes;
    };
    if (differ(formula.read_bytes, run.read_bytes)) {
      sentences.push_back(fmt::format("reads of {}: the formula predicts {}{} bytes, {} were counted", name,
                                      at_least, formula.read_bytes, run.read_bytes));
    }
    if (differ(formula.write_bytes, run.write_bytes)) {
      sentences.push_back(fmt::format("writes of {}: the formula predicts {}{} bytes, {} were counted", name,
                                      at_least, formula.write_bytes, run.write_bytes));
    }
  }
  return sentences;
}

/// One sentence for each rank and step that sent other bytes than the formula says.
std::vector<std::string> differences(const std::vector<std::vector<LinkBytes>>& links) {
  std::vector<std::string> sentences;
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    for (std::size_t step = 0; step < links[rank].size(); ++step) {
      const LinkBytes& bytes = links[rank][step];
      if (!bytes.counted || *bytes.counted == bytes.predicted) continue;
      sentences.push_back(
          fmt::format("rank {}, step {}: the formula predicts {} bytes to other ranks, {} were sent", rank,
                      step, bytes.predicted, *bytes.counted));
    }
  }
  return sentences;
}

}  // namespace

std::optional<double> Counters::sector_efficiency() const {
  constexpr double kSectorBytes = 32;
  // The bytes of an atomic count as both read and written, its sectors only once.
  const std::int64_t sectors = read_sectors + write_sectors + 2 * atomic_sectors;
  if (sectors == 0) return std::nullopt;
  return double(traffic.bytes()) / (kSectorBytes * double(sectors));
}

Verdict VariantResult::verdict() const {
  if (skipped) return Verdict::kSkipped;
  if (failure) return Verdict::kDidNotRun;
  if (!defects.empty()) return Verdict::kDefects;
  const bool wrong = check && !check->passed();
  if (fault || (wrong && !known_failure)) return Verdict::kWrong;
  if (counted && !differences(predicted, counted->traffic).empty()) return Verdict::kTrafficDiffers;
  if (!differences(links).empty()) return Verdict::kTrafficDiffers;
  return wrong ? Verdict::kFailsAsDeclared : Verdict::kOk;
}

std::vector<std::string> VariantResult::complaints() const {
  std::vector<std::string> sentences;
  if (failure) sentences.push_back("did not finish: " + *failure);
  if (check && !known_failure) {
    for (const auto& [output, tensor] : check->tensors) {
      if (!tensor.passed) sentences.push_back(describe_wrong(output, tensor));
    }
  }
  if (fault) sentences.push_back(*fault);
  if (counted && !failure) {
    for (std::string& sentence : differences(predicted, counted->traffic))
      sentences.push_back(std::move(sentence));
  }
  if (!failure) {
    for (std::string& sentence : differences(links)) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

std::string VariantResult::complaint() const {
  std::vector<std::string> sentences = complaints();
  for (const Defect& defect : defects) {
    sentences.push_back(
        fmt::format("{}: {}", defect.kind, defect.message.substr(0, defect.message.find('\n'))));
  }
  return fmt::format("{}", fmt::join(sentences, "; "));
}

std::string describe_wrong(const std::string& tensor, const TensorCheck& check) {
  const std::string error =
      fmt::format("{} error {}, limit {}", check.measure == Measure::kRelL2 ? "relative" : "largest",
                  scientific(check.error()), scientific(check.tolerance));
  if (!check.first_wrong) return fmt::format("{} is wrong ({})", tensor, error);
  // Poisoned memory is a NaN with the sign bit set; do not print its sign.
  const auto number = [](double value) { return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value); };
  return fmt::format("{}{} is {}, should be {} ({} of {} are wrong; {})", tensor, check.first_wrong->index,
                     number(check.first_wrong->got), number(check.first_wrong->expected),
                     check.wrong_elements, check.elements, error);
}

}  // namespace fa
