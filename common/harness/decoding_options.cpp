#include "harness/decoding_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>

#include "harness/options.hpp"

namespace fa {
namespace {

constexpr std::int64_t kDefaultKeys = 100;
constexpr std::string_view kFloat8Cache = "fp8";

/// @param pages  of the cache; by default as many as the table has numbers
BlockTable read_block_table(const std::string& path, std::int64_t page_size,
                            std::optional<std::int64_t> pages, const AttentionShape& shape) {
  const HostTensor<std::int64_t> given =
      read_integers("--block-table", path, {{"batch", shape.batch}, {"columns", {}}});
  BlockTable table = {.page_size = page_size,
                      .pages = pages.value_or(std::int64_t(given.data.size())),
                      .columns = given.shape[1]};
  for (const std::int64_t page : given.data) {
    if (page != std::int32_t(page))
      throw UsageError(fmt::format("--block-table {}: {} is not the number of a page: must be at most {}",
                                   path, page, std::numeric_limits<std::int32_t>::max()));
    table.numbers.push_back(std::int32_t(page));
  }
  return table;
}

}  // namespace

void ProblemOptions<DecodingAttention>::add_more(CLI::App& app, const std::string& group) {
  const auto add_file = [&](const char* name, std::optional<std::string>& target, const std::string& help) {
    add_text(app, name, target, help)->option_text("FILE")->group(group);
  };
  add_file("--key-lengths", key_lengths_,
           "how many keys each sequence has, the last of them those of its\n"
           "queries: a .npy file of int32, [batch], from 0 to seq_k");
  add_whole_number(app, "--page-size", page_size_,
                   "K and V lie in pages of 16, 64 or 256 keys, in random order")
      ->group(group);
  add_file("--block-table", block_table_, "which pages each sequence has instead: int32, [batch, columns]");
  add_whole_number(app, "--pages", pages_, "pages of the cache (default: as many as numbers in the table)")
      ->group(group);
  add_text(app, "--cache", cache_, "K and V are stored as e4m3, with a scale for each head")
      ->option_text(std::string(kFloat8Cache))
      ->group(group);
  add_whole_number(app, "--splits", splits_,
                   "parts of the keys of each sequence (default: as many as the\n"
                   "chapter's model finds best)")
      ->group(group);
}

std::string ProblemOptions<DecodingAttention>::queries_in_words() const {
  return fmt::format("queries of each sequence, its last tokens: 1 to {}", kMostDecodingQueries);
}

std::string ProblemOptions<DecodingAttention>::causal_in_words() const {
  return "is left out: no query sees the tokens after its own anyway";
}

std::int64_t ProblemOptions<DecodingAttention>::default_keys(std::int64_t queries) const {
  if (!key_lengths_) return std::max(kDefaultKeys, queries);
  const HostTensor<std::int64_t> lengths = read_integers("--key-lengths", *key_lengths_, {{"batch", {}}});
  return std::max<std::int64_t>(1, *std::max_element(lengths.data.begin(), lengths.data.end()));
}

std::string ProblemOptions<DecodingAttention>::default_keys_in_words() const {
  return fmt::format("{}, or the most of --key-lengths", kDefaultKeys);
}

DecodingShape ProblemOptions<DecodingAttention>::completed(const AttentionShape& sizes) const {
  if (block_table_ && !page_size_) throw UsageError("--block-table needs --page-size: add --page-size N");
  if (pages_ && !block_table_) throw UsageError("--pages needs --block-table: add --block-table FILE");
  if (cache_ && *cache_ != kFloat8Cache)
    throw UsageError(fmt::format("--cache '{}': must be {}", *cache_, kFloat8Cache));
  if (sizes.causal)
    throw UsageError("--causal: leave it out: a query never sees the tokens after its own in this chapter");
  DecodingShape shape;
  static_cast<AttentionShape&>(shape) = sizes;
  shape.causal = true;
  shape.fp8 = cache_.has_value();
  shape.splits = splits_;
  if (key_lengths_) shape.key_lengths = read_key_lengths(*key_lengths_, shape);
  require_with_file(DecodingAttention::refuse(shape), "--key-lengths", key_lengths_);
  if (!page_size_) return shape;
  require(refuse_page_size(*page_size_));
  shape.block_table = std::make_shared<const BlockTable>(
      block_table_ ? read_block_table(*block_table_, *page_size_, pages_, shape)
                   : random_block_table(shape, *page_size_, false, seed()));
  require_with_file(DecodingAttention::refuse(shape), "--block-table", block_table_);
  return shape;
}

void ProblemOptions<DecodingAttention>::describe_more(InputSource& source) const {
  InputSource more;
  if (key_lengths_) more.emplace_back("key_lengths", *key_lengths_);
  if (block_table_) more.emplace_back("block_table", *block_table_);
  if (cache_) more.emplace_back("cache", *cache_);
  source.insert(source.begin(), more.begin(), more.end());
}

}  // namespace fa
