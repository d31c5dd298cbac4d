#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "harness/errors.hpp"
#include "harness/options.hpp"
#include "ranks.hpp"

namespace fa::ch13 {

void RingOptions::add_more(CLI::App& app, const std::string& group) {
  app.add_flag("--backward", backward_, "compute the gradients dQ, dK and dV instead of O")->group(group);
  add_whole_number(app, "--sample", sample_,
                   "check N rows of O of each head and rank, 1 to 64, instead of all: for\nsequences that "
                   "are too long otherwise")
      ->group(group);
  add_whole_number(app, "--head-start", head_start_,
                   fmt::format("microseconds by which overlapped holds up attention so that a\ntransfer "
                               "begins first, 0 to 1000 (default {})",
                               kDefaultHeadStart))
      ->group(group);
  std::string changes;
  for (const auto& [name, change] : Changes::kNames) changes += fmt::format(" {}", name);
  add_text(app, "--without", without_,
           "changes that overlapped leaves out, with commas:\n" + changes.substr(1))
      ->group(group);
  add_whole_number(app, "--plan", plan_, "print what this rank does, step by step, before the results")
      ->group(group);
}

AttentionShape RingOptions::completed(const AttentionShape& shape) const {
  if (shape.seq_q != shape.seq_k) {
    throw UsageError(fmt::format("--seq-k {}: must be the same as --seq-q, {}: a sequence attends to itself",
                                 shape.seq_k, shape.seq_q));
  }
  const auto require_range = [](const char* name, int value, int least, int most) {
    if (value < least || value > most)
      throw UsageError(fmt::format("{} {}: must be from {} to {}", name, value, least, most));
  };
  if (sample_) require_range("--sample", *sample_, 1, 64);
  if (sample_ && backward_) throw UsageError("--sample checks O: leave out --backward, or --sample");
  require_range("--head-start", head_start_us(), 0, 1000);
  if (plan_) require_range("--plan", *plan_, 0, Ranks::instance().count() - 1);
  left_of({});
  return shape;
}

std::optional<std::string> RingOptions::only_of_overlapped() const {
  if (without_) return "--without " + *without_;
  if (head_start_) return fmt::format("--head-start {}", *head_start_);
  return std::nullopt;
}

Changes RingOptions::left_of(Changes changes) const {
  std::istringstream words(without_.value_or(""));
  for (std::string word; std::getline(words, word, ',');) {
    if (changes.leave_out(word)) continue;
    std::vector<std::string_view> known;
    for (const auto& [name, change] : Changes::kNames) known.push_back(name);
    throw UsageError(fmt::format("--without '{}': must be of {}", word, fmt::join(known, ", ")));
  }
  return changes;
}

void RingOptions::describe_more(InputSource& source) const {
  if (without_) source.insert(source.begin(), {"without", *without_});
  if (backward_) source.insert(source.begin(), {"backward", true});
}

std::optional<std::string> RingOptions::why_unused(const std::string& name) const {
  if (name != "do" || backward_) return std::nullopt;
  return "needs --backward: it is the gradient of O";
}

}  // namespace fa::ch13
