/// @file
/// The options of this chapter's program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "harness/attention_options.hpp"
#include "operations.hpp"

namespace fa::ch13 {

class RingOptions : public AttentionOptions<AttentionBackward> {
 public:
  bool backward() const { return backward_; }
  /// Rows of each head and rank to check; 0: all.
  int sample() const { return sample_.value_or(0); }
  int head_start_us() const { return head_start_.value_or(kDefaultHeadStart); }
  /// The rank whose plan is printed; nothing: of none.
  std::optional<int> plan() const { return plan_; }
  /// The first option that was given and that only `overlapped` has; nothing if there is none.
  std::optional<std::string> only_of_overlapped() const;
  /// A variant's changes, but those that --without names.
  Changes left_of(Changes changes) const;

 protected:
  void add_more(CLI::App& app, const std::string& group) override;
  AttentionShape completed(const AttentionShape& shape) const override;
  void describe_more(InputSource& source) const override;
  std::vector<std::string> names() const override { return {"q", "k", "v", "do"}; }
  std::optional<std::string> why_unused(const std::string& name) const override;

 private:
  static constexpr int kDefaultHeadStart = 20;
  bool backward_ = false;
  std::optional<int> sample_, head_start_, plan_;
  std::optional<std::string> without_;
};

}  // namespace fa::ch13
