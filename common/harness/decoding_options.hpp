/// @file
/// --key-lengths, --page-size, ... and the other options of chapter 14, in addition to those of attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "harness/attention_options.hpp"

namespace fa {

template <>
class ProblemOptions<DecodingAttention> : public AttentionOptions<DecodingAttention> {
 protected:
  void add_more(CLI::App& app, const std::string& group) override;
  DecodingShape completed(const AttentionShape& sizes) const override;
  std::string queries_in_words() const override;
  std::string causal_in_words() const override;
  std::int64_t default_queries() const override { return 1; }
  std::int64_t default_keys(std::int64_t queries) const override;
  std::string default_keys_in_words() const override;
  void describe_more(InputSource& source) const override;
  std::vector<std::string> names() const override { return {"q", "k", "v"}; }

 private:
  std::optional<std::int64_t> page_size_, pages_, splits_;
  std::optional<std::string> key_lengths_, block_table_, cache_;
};

}  // namespace fa
