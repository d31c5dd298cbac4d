/// @file
/// --window, --documents, ... and the other options of chapter 11, in addition to those of attention.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "harness/attention_options.hpp"

namespace fa {

template <>
class ProblemOptions<MaskedAttention> : public AttentionOptions<MaskedAttention> {
 protected:
  void add_more(CLI::App& app, const std::string& group) override;
  MaskedShape completed(const AttentionShape& shape) const override;
  void describe_more(InputSource& source) const override;
  std::vector<std::string> names() const override { return {"q", "k", "v", "do"}; }
  std::optional<std::string> why_unused(const std::string& name) const override;

 private:
  /// What --sinks says.
  std::shared_ptr<const std::vector<float>> sinks(const AttentionShape& shape) const;

  bool backward_ = false, alibi_ = false;
  std::optional<std::int64_t> window_, block_size_;
  std::optional<std::string> documents_, key_documents_, key_lengths_, block_mask_, alibi_slopes_;
  std::optional<std::string> sinks_;  ///< empty: random ones
  std::optional<double> dropout_, softcap_;
  std::optional<std::uint64_t> dropout_seed_;
};

}  // namespace fa
