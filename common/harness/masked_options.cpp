#include "harness/masked_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "harness/options.hpp"

namespace fa {
namespace {

constexpr std::int64_t kDefaultBlockSize = 128;

using Numbers = std::shared_ptr<const std::vector<std::int32_t>>;

/// The documents in the file, as they are numbered there: a document of the keys is one of the queries.
Numbers read_numbers(const std::string& option, const std::string& path, std::int64_t tokens) {
  const HostTensor<std::int64_t> given = read_integers(option, path, {{"seq", tokens}});
  auto numbers = std::make_shared<std::vector<std::int32_t>>();
  for (const std::int64_t number : given.data) {
    // Numbers that no document may have stay outside what is valid.
    numbers->push_back(std::int32_t(std::clamp<std::int64_t>(number, -1, kMostExact + 1)));
  }
  return numbers;
}

/// The documents in the file, numbered from 0 in the order in which they begin.
Numbers read_documents(const std::string& path, const AttentionShape& shape) {
  const HostTensor<std::int64_t> given = read_integers("--documents", path, {{"seq", shape.seq_q}});
  std::map<std::int64_t, std::int32_t> numbers;
  auto documents = std::make_shared<std::vector<std::int32_t>>();
  for (std::size_t token = 0; token < given.data.size(); ++token) {
    const std::int64_t document = given.data[token];
    const bool is_new = numbers.emplace(document, std::int32_t(numbers.size())).second;
    if (!is_new && document != given.data[token - 1]) {
      throw UsageError(fmt::format(
          "--documents {}: token {} belongs to document {} again, after document {}: the tokens of a "
          "document must be next to each other",
          path, token, document, given.data[token - 1]));
    }
    documents->push_back(numbers.at(document));
  }
  return documents;
}

std::shared_ptr<const BlockPattern> read_block_mask(const std::string& path, std::int64_t size,
                                                    const AttentionShape& shape) {
  require(refuse_block_size(size));
  const std::int64_t rows = (shape.seq_q - 1) / size + 1, cols = (shape.seq_k - 1) / size + 1;
  const HostTensor<std::int64_t> given =
      read_integers("--block-mask", path, {{"heads or 1", {}}, {"rows", rows}, {"cols", cols}});
  if (given.shape[0] != 1 && given.shape[0] != shape.heads) {
    throw UsageError(
        fmt::format("--block-mask {}: has shape [{}, {}, {}]; must begin with 1 or {}, the number of heads",
                    path, given.shape[0], rows, cols, shape.heads));
  }
  auto mask = std::make_shared<BlockPattern>(
      BlockPattern{.heads = given.shape[0], .rows = rows, .cols = cols, .size = size, .blocks = {}});
  for (const std::int64_t block : given.data) mask->blocks.push_back(block != 0);
  return mask;
}

}  // namespace

void ProblemOptions<MaskedAttention>::add_more(CLI::App& app, const std::string& group) {
  app.add_flag("--backward", backward_, "compute the gradients dQ, dK and dV instead of O")->group(group);
  add_whole_number(app, "--window", window_, "query i sees key j only when |i + seq_k - seq_q - j| < N")
      ->group(group);
  const auto add_file = [&](const char* name, std::optional<std::string>& target, const std::string& help) {
    add_text(app, name, target, help)->option_text("FILE")->group(group);
  };
  add_file("--documents", documents_,
           "a query sees only the keys of its own document: a .npy file of\n"
           "int32, [seq], the document of each token; those of a document are\n"
           "next to each other");
  add_file("--key-documents", key_documents_,
           "the documents of the keys, if they are not those of the queries:\n"
           "int32, [seq_k]. In both files, numbers must not decrease");
  add_file("--key-lengths", key_lengths_,
           "keys from that one on do not exist: int32, [batch], from 0 to\n"
           "seq_k");
  add_file("--block-mask", block_mask_,
           "a query sees only the keys of blocks that are not 0: uint8,\n"
           "[heads or 1, ceil(seq_q / N), ceil(seq_k / N)]");
  add_whole_number(app, "--block-size", block_size_,
                   fmt::format("queries and keys of a block, 64 or 128 (default {})", kDefaultBlockSize))
      ->group(group);
  add_number(app, "--dropout", dropout_,
             "the probability with which an element of P is dropped, less\n"
             "than 1; rounded to a multiple of 1 / 256. The others are\n"
             "divided by 1 - F. With --out, kept.npy says which are kept,\n"
             "if it has less than 64 MB")
      ->group(group);
  add_whole_number(app, "--dropout-seed", dropout_seed_, "which elements are dropped (default 0)")
      ->group(group);
  add_number(app, "--softcap", softcap_, "scores s become F * tanh(s / F)")->group(group);
  app.add_flag("--alibi", alibi_,
               "scores of head h = 1 .. heads lose 2^(-8 h / heads) for each key\n"
               "between query and key")
      ->group(group);
  add_file("--alibi-slopes", alibi_slopes_, "scores lose these numbers instead: float32, [heads]");
  add_text(app, "--sinks", sinks_,
           "a logit for each head of Q that takes part in the softmax of its\n"
           "rows and has no value: float32, [heads], -inf for none. Without\n"
           "FILE, random ones: 3 + 2 x with a standard normal x")
      ->option_text("[FILE]")
      ->expected(0, 1)
      ->group(group);
}

MaskedShape ProblemOptions<MaskedAttention>::completed(const AttentionShape& sizes) const {
  if (block_size_ && !block_mask_) throw UsageError("--block-size needs --block-mask: add --block-mask FILE");
  if (dropout_seed_ && !dropout_) throw UsageError("--dropout-seed needs --dropout: add --dropout F");
  MaskedShape shape;
  static_cast<AttentionShape&>(shape) = sizes;
  shape.backward = backward_;
  shape.window = window_;
  shape.dropout = dropout_.value_or(0);
  shape.dropout_seed = dropout_seed_.value_or(0);
  shape.softcap = softcap_;
  shape.alibi = alibi_;
  if (alibi_slopes_) {
    Tensor slopes = read_file("--alibi-slopes", *alibi_slopes_, {{"heads", shape.heads}});
    shape.alibi_slopes = std::make_shared<const std::vector<float>>(std::move(slopes.data));
  }
  require(MaskedAttention::refuse(shape));
  if (key_documents_) {
    shape.key_documents = read_numbers("--key-documents", *key_documents_, shape.seq_k);
    if (documents_) shape.documents = read_numbers("--documents", *documents_, shape.seq_q);
  } else if (documents_) {
    shape.documents = read_documents(*documents_, shape);
  }
  if (key_lengths_) shape.key_lengths = read_key_lengths(*key_lengths_, shape);
  if (sinks_) shape.sinks = sinks(shape);
  if (block_mask_)
    shape.block_mask = read_block_mask(*block_mask_, block_size_.value_or(kDefaultBlockSize), shape);
  return shape;
}

std::shared_ptr<const std::vector<float>> ProblemOptions<MaskedAttention>::sinks(
    const AttentionShape& shape) const {
  Tensor tensor;
  if (sinks_->empty()) {
    tensor = random_tensor({.name = "sinks", .shape = {shape.heads}}, Init::kNormal, seed());
    for (float& sink : tensor.data) sink = 3 + 2 * sink;
  } else {
    tensor = read_file("--sinks", *sinks_, {{"heads", shape.heads}});
  }
  return std::make_shared<const std::vector<float>>(std::move(tensor.data));
}

void ProblemOptions<MaskedAttention>::describe_more(InputSource& source) const {
  InputSource more;
  if (backward_) more.emplace_back("backward", true);
  if (window_) more.emplace_back("window", std::uint64_t(*window_));
  if (documents_) more.emplace_back("documents", *documents_);
  if (key_documents_) more.emplace_back("key_documents", *key_documents_);
  if (key_lengths_) more.emplace_back("key_lengths", *key_lengths_);
  if (block_mask_) {
    more.emplace_back("block_mask", *block_mask_);
    more.emplace_back("block_size", std::uint64_t(block_size_.value_or(kDefaultBlockSize)));
  }
  if (dropout_) {
    more.emplace_back("dropout", *dropout_);
    more.emplace_back("dropout_seed", dropout_seed_.value_or(0));
  }
  if (softcap_) more.emplace_back("softcap", *softcap_);
  if (alibi_) more.emplace_back("alibi", true);
  if (alibi_slopes_) more.emplace_back("alibi_slopes", *alibi_slopes_);
  if (sinks_) more.emplace_back("sinks", sinks_->empty() ? "random" : *sinks_);
  source.insert(source.begin(), more.begin(), more.end());
}

std::optional<std::string> ProblemOptions<MaskedAttention>::why_unused(const std::string& name) const {
  if (name != "do" || backward_) return std::nullopt;
  return "needs --backward: it is the gradient of O";
}

}  // namespace fa
