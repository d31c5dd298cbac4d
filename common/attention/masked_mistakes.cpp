#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/masked_reference.hpp"

namespace fa {
namespace {

constexpr std::int64_t kLargestTile = 128;

using Sees = MaskedFormulas::OfPair;

/// A mask of the problem, and what it hides.
struct Mask {
  std::string name;  ///< "the window"
  Sees sees;         ///< also of keys after the last one
};

/// The tile that a pair of a query and a key is in.
struct TileSize {
  std::int64_t rows, cols;
};
/// Those of blocks, then those that a warp asks about.
constexpr TileSize kTiles[] = {{128, 128}, {128, 64}, {128, 32}, {64, 128}, {64, 64},
                               {64, 32},   {32, 64},  {32, 32},  {16, 64},  {16, 32}};

/// Lists what wrong kernels compute instead of a problem.
class Mistakes {
 public:
  Mistakes(const MaskedShape& shape, const TensorMap& inputs)
      : shape_(shape),
        inputs_(inputs),
        keys_((shape.seq_k + kLargestTile - 1) / kLargestTile * kLargestTile),
        shift_(shape.seq_k - shape.seq_q) {
    add_masks();
    known_.insert(visible(seen_with(masks_)));
  }

  std::vector<OtherProblem> list() {
    without_masks();
    if (shape_.causal) causal();
    if (shape_.window) window();
    if (shape_.documents) documents();
    if (shape_.key_lengths) key_lengths();
    if (shape_.block_mask) blocks();
    tiles();
    if (shape_.dropout > 0) dropout();
    if (shape_.softcap) softcap();
    if (shape_.alibi) alibi();
    scales();
    if (shape_.backward) gradients();
    return std::move(problems_);
  }

 private:
  // --- masks

  void add_masks() {
    const MaskedShape& s = shape_;
    if (s.causal) masks_.push_back({"the causal mask", causal_with(shift_)});
    if (s.window) masks_.push_back({"the window", window_with(-*s.window + 1, *s.window - 1, shift_)});
    if (s.documents) masks_.push_back({"the documents", documents_with(0, 0)});
    if (s.key_lengths) masks_.push_back({"the key lengths", lengths_with(0)});
    if (s.block_mask) {
      masks_.push_back({"the block mask", [b = s.block_mask, s](auto head, auto query, auto key) {
                          const auto of_head = b->heads == 1 ? 0 : s.head_of_batch(head);
                          return block(*b, of_head, query / b->size, key / b->size);
                        }});
    }
    masks_.push_back(
        {"the mask of keys after the last", [end = s.seq_k](auto, auto, auto key) { return key < end; }});
  }

  static Sees causal_with(std::int64_t shift) {
    return [=](auto, auto query, auto key) { return key <= query + shift; };
  }
  /// Distances from where the query stands to the key.
  static Sees window_with(std::int64_t least, std::int64_t most, std::int64_t shift) {
    return [=](auto, auto query, auto key) {
      const std::int64_t distance = key - (query + shift);
      return least <= distance && distance <= most;
    };
  }
  std::int32_t document(std::int64_t token) const {
    const std::vector<std::int32_t>& documents = *shape_.documents;
    return documents[std::size_t(std::clamp<std::int64_t>(token, 0, std::int64_t(documents.size()) - 1))];
  }
  /// The documents of other tokens.
  Sees documents_with(std::int64_t after_query, std::int64_t after_key) const {
    return [this, after_query, after_key](auto, auto query, auto key) {
      return document(query + after_query) == document(key + after_key);
    };
  }
  Sees lengths_with(std::int64_t more) const {
    return [this, more](auto head, auto, auto key) { return key < length(head) + more; };
  }
  std::int64_t length(std::int64_t head) const {
    return (*shape_.key_lengths)[std::size_t(head / shape_.heads)];
  }

  /// False for blocks that are not there.
  static bool block(const BlockMask& mask, std::int64_t head, std::int64_t row, std::int64_t col) {
    if (row >= mask.rows || col >= mask.cols) return false;
    return mask.blocks[std::size_t((head * mask.rows + row) * mask.cols + col)] != 0;
  }

  static Sees seen_with(const std::vector<Mask>& masks) {
    return [masks](auto head, auto query, auto key) {
      return std::all_of(masks.begin(), masks.end(),
                         [&](const Mask& mask) { return mask.sees(head, query, key); });
    };
  }

  /// What the masks leave if one of them is another.
  Sees seen_instead(const std::string& name, const Sees& sees) const {
    std::vector<Mask> masks = masks_;
    for (Mask& mask : masks) {
      if (mask.name == name) mask.sees = sees;
    }
    return seen_with(masks);
  }

  using Visible = std::vector<std::uint8_t>;  ///< [batch * heads, seq_q, keys_]

  Visible visible(const Sees& sees) const {
    Visible all;
    for (std::int64_t head = 0; head < shape_.batch * shape_.heads; ++head) {
      for (std::int64_t query = 0; query < shape_.seq_q; ++query) {
        for (std::int64_t key = 0; key < keys_; ++key) all.push_back(sees(head, query, key));
      }
    }
    return all;
  }

  // --- lists

  void add(std::string change, MaskedFormulas formulas) {
    problems_.push_back({std::move(change), [inputs = &inputs_, shape = shape_, wrong = std::move(formulas)] {
                           return masked_reference(shape, *inputs, wrong);
                         }});
  }

  void add_shape(std::string change, const MaskedShape& other) {
    problems_.push_back(
        {std::move(change), [inputs = &inputs_, other] { return masked_reference(other, *inputs); }});
  }

  /// Queries see other keys. Of several changes with the same effect, the first is listed. Keys after the last one, and those
  /// that key_lengths hides, have rows of zeros.
  void add_seen(std::string change, const Sees& sees) {
    const auto seen = std::make_shared<const Visible>(visible(sees));
    if (!known_.insert(*seen).second) return;
    add(std::move(change),
        {.sees = [=, queries = shape_.seq_q, keys = keys_](auto head, auto query, auto key) {
          return (*seen)[std::size_t((head * queries + query) * keys + key)] != 0;
        }});
  }

  void add_instead(std::string change, const std::string& mask, const Sees& sees) {
    add_seen(std::move(change), seen_instead(mask, sees));
  }

  void without_masks() {
    const Sees all = [](auto, auto, auto) { return true; };
    for (const Mask& mask : masks_) {
      const bool zeros = mask.name == "the key lengths" || mask.name == masks_.back().name;
      add_instead(fmt::format("without {}{}", mask.name, zeros ? ", with zeros for those keys" : ""),
                  mask.name, all);
    }
    if (shape_.key_lengths) {
      MaskedShape other = shape_;
      other.key_lengths = nullptr;
      add_shape("without the key lengths", other);
    }
  }

  void causal() {
    const std::string mask = "the causal mask";
    add_instead("if every query saw one key more under the causal mask", mask, causal_with(shift_ + 1));
    add_instead("if every query saw one key fewer under the causal mask", mask, causal_with(shift_ - 1));
    add_instead("if query i saw keys 0 to i under the causal mask", mask, causal_with(0));
    if (!shape_.key_lengths) return;
    add_instead(
        "if the causal diagonal ended at the last key that exists", mask,
        [this](auto head, auto query, auto key) { return key <= query + length(head) - shape_.seq_q; });
  }

  void window() {
    const std::string mask = "the window";
    const std::int64_t last = *shape_.window - 1, far = shape_.seq_q + shape_.seq_k;
    const auto add_window = [&](const char* change, std::int64_t least, std::int64_t most,
                                std::int64_t shift) {
      add_instead(change, mask, window_with(least, most, shift));
    };
    add_window("if the window began one key earlier", -last - 1, last, shift_);
    add_window("if the window began one key later", -last + 1, last, shift_);
    add_window("if the window ended one key later", -last, last + 1, shift_);
    add_window("if the window ended one key earlier", -last, last - 1, shift_);
    add_window("if the window were one key wider at both ends", -last - 1, last + 1, shift_);
    add_window("if the window were one key narrower at both ends", -last + 1, last - 1, shift_);
    add_window("without the beginning of the window", -far, last, shift_);
    add_window("without the end of the window", -last, far, shift_);
    add_window("if the window of query i stood at key i", -last, last, 0);
  }

  void documents() {
    const std::string mask = "the documents";
    for (const auto& [after, words] : {std::pair{-1, "later"}, {1, "earlier"}}) {
      add_instead(fmt::format("if documents began one key {}, but not one query {}", words, words), mask,
                  documents_with(0, after));
      add_instead(fmt::format("if documents began one query {}, but not one key {}", words, words), mask,
                  documents_with(after, 0));
      add_instead(fmt::format("if documents began one token {}", words), mask, documents_with(after, after));
    }
    add_instead("if a query also saw the documents before its own", mask,
                [this](auto, auto query, auto key) { return document(key) <= document(query); });
    add_instead("if a query also saw the documents after its own", mask,
                [this](auto, auto query, auto key) { return document(key) >= document(query); });
  }

  void key_lengths() {
    const std::string mask = "the key lengths";
    add_instead("if one key more existed than the key lengths say, of zeros", mask, lengths_with(1));
    add_instead("if one key fewer existed than the key lengths say", mask, lengths_with(-1));
    const auto add_lengths = [&](const char* change, auto other_length) {
      std::vector<std::int32_t> lengths = *shape_.key_lengths;
      for (std::int32_t& length : lengths) length = other_length(length);
      if (lengths == *shape_.key_lengths) return;
      MaskedShape other = shape_;
      other.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
      add_shape(change, other);
    };
    const auto most = std::int32_t(shape_.seq_k);
    add_lengths("if one key more existed than the key lengths say",
                [=](std::int32_t length) { return std::min(length + 1, most); });
    add_lengths("with the key length of the first sequence for all",
                [&](std::int32_t) { return shape_.key_lengths->front(); });
  }

  void blocks() {
    const std::string mask = "the block mask";
    const auto add_blocks = [&](const char* change, auto has) {
      add_instead(change, mask, [b = shape_.block_mask, has, s = &shape_](auto head, auto query, auto key) {
        return has(*b, b->heads == 1 ? 0 : s->head_of_batch(head), query, key);
      });
    };
    add_blocks("with rows and columns of the block mask exchanged",
               [](const BlockMask& b, auto head, auto query, auto key) {
                 return block(b, head, key / b.size, query / b.size);
               });
    add_blocks("with the hidden blocks in place of the others",
               [](const BlockMask& b, auto head, auto query, auto key) {
                 return !block(b, head, query / b.size, key / b.size);
               });
    add_blocks("with the blocks of the first head for all",
               [](const BlockMask& b, auto, auto query, auto key) {
                 return block(b, 0, query / b.size, key / b.size);
               });
    for (const auto& [size, change] :
         {std::pair{64, "if blocks had 64 queries and keys"}, {128, "if blocks had 128 queries and keys"}}) {
      add_blocks(change, [size = size](const BlockMask& b, auto head, auto query, auto key) {
        return block(b, head, query / size, key / size);
      });
    }
    add_blocks("if the rows of the block mask were as long as its columns",
               [](const BlockMask& b, auto head, auto query, auto key) {
                 const auto at = std::size_t((head * b.rows + query / b.size) * b.rows + key / b.size);
                 return at < b.blocks.size() && key / b.size < b.cols && b.blocks[at] != 0;
               });
  }

  // --- tiles

  /// What a mask leaves of the tiles of a head: [tiles of queries, tiles of keys], of queries that exist.
  struct Tiles {
    std::int64_t cols;
    std::vector<bool> any, all;
  };
  Tiles tiles_of(const Mask& mask, std::int64_t head, TileSize size) const {
    const std::int64_t rows = (shape_.seq_q + size.rows - 1) / size.rows, cols = keys_ / size.cols;
    const auto count = std::size_t(rows * cols);
    Tiles tiles = {cols, std::vector<bool>(count, false), std::vector<bool>(count, true)};
    for (std::int64_t query = 0; query < shape_.seq_q; ++query) {
      for (std::int64_t key = 0; key < keys_; ++key) {
        const auto tile = std::size_t(query / size.rows * cols + key / size.cols);
        const bool sees = mask.sees(head, query, key);
        tiles.any[tile] = tiles.any[tile] || sees;
        tiles.all[tile] = tiles.all[tile] && sees;
      }
    }
    return tiles;
  }

  /// The masks if each pair of a query and a key were asked about its whole tile.
  std::vector<Mask> masks_of_tiles(TileSize size, std::vector<bool> Tiles::*answer) const {
    std::vector<Mask> of_tiles;
    for (const Mask& mask : masks_) {
      auto tiles = std::make_shared<std::vector<Tiles>>();
      for (std::int64_t head = 0; head < shape_.batch * shape_.heads; ++head)
        tiles->push_back(tiles_of(mask, head, size));
      of_tiles.push_back(
          {mask.name, [=](auto head, auto query, auto key) {
             const Tiles& of_head = (*tiles)[std::size_t(head)];
             return bool((of_head.*answer)[std::size_t(query / size.rows * of_head.cols + key / size.cols)]);
           }});
    }
    return of_tiles;
  }

  void tiles() {
    for (const TileSize& size : kTiles) {
      const std::string which = fmt::format("tiles of {} queries and {} keys", size.rows, size.cols);
      const std::vector<Mask> any = masks_of_tiles(size, &Tiles::any),
                              all = masks_of_tiles(size, &Tiles::all);
      add_seen(fmt::format("if {} that are partial were taken as full", which), seen_with(any));
      const Sees right = seen_with(masks_), is_full = seen_with(all);
      add_seen(fmt::format("if {} that are partial were left out", which),
               [=](auto head, auto query, auto key) {
                 return right(head, query, key) && is_full(head, query, key);
               });
      add_seen(fmt::format("if {} that are full were left out", which), [=](auto head, auto query, auto key) {
        return right(head, query, key) && !is_full(head, query, key);
      });
      for (const Mask& mask : any) {
        add_instead(fmt::format("without {} in {} that are partial", mask.name, which), mask.name, mask.sees);
      }
    }
  }

  // --- dropout

  void dropout() {
    MaskedShape other = shape_;
    other.dropout = 0;
    add_shape("without dropout", other);
    const double kept = 1 - shape_.dropout;
    add("without the factor 1 / (1 - p) of dropout", {.scale_of_kept = kept});
    add("with the factor 1 / (1 - p) of dropout applied twice", {.scale_of_kept = 1 / kept});
    add("if l were the sum over the elements that dropout keeps", {.sums_kept = true});
    add("if l were the sum over the elements that dropout keeps, without its factor",
        {.scale_of_kept = kept, .sums_kept = true});
    if (shape_.dropout_seed > 0xffffffff) {
      other = shape_;
      other.dropout_seed &= 0xffffffff;
      add_shape("without the upper half of the seed of dropout", other);
    }
    const auto add_drawn = [&](std::string change, auto keeps) {
      add(std::move(change), {.keeps = [s = shape_, keeps](auto head, auto query, auto key) {
            return keeps(s, head, query, key);
          }});
    };
    add_drawn("with the elements that dropout drops in place of those that it keeps",
              [](const auto& s, auto head, auto query, auto key) { return !s.keeps(head, query, key); });
    add_drawn("with query and key exchanged in dropout",
              [](const auto& s, auto head, auto query, auto key) { return s.keeps(head, key, query); });
    add_drawn("if dropout were the same in all heads",
              [](const auto& s, auto, auto query, auto key) { return s.keeps(0, query, key); });
    add_drawn("if dropout were the same in all batches", [](const auto& s, auto head, auto query, auto key) {
      return s.keeps(head % s.heads, query, key);
    });
    add_drawn("if dropout took rows r and r + 8 for each other",
              [](const auto& s, auto head, auto query, auto key) { return s.keeps(head, query ^ 8, key); });
    add_drawn("if dropout took columns c and c + 8 for each other",
              [](const auto& s, auto head, auto query, auto key) { return s.keeps(head, query, key ^ 8); });
    add_drawn("if dropout took columns c and c + 1 for each other",
              [](const auto& s, auto head, auto query, auto key) { return s.keeps(head, query, key ^ 1); });
    add_drawn("if dropout took rows r + 8 for columns c + 8 and the reverse",
              [](const auto& s, auto head, auto query, auto key) {
                return s.keeps(head, (query & ~8) | (key & 8), (key & ~8) | (query & 8));
              });
    for (const std::int64_t cols : {16, 32, 64, 128}) {
      add_drawn(
          fmt::format("if dropout counted keys from the start of every {}", cols),
          [=](const auto& s, auto head, auto query, auto key) { return s.keeps(head, query, key % cols); });
      add_drawn(
          fmt::format("if dropout counted queries from the start of every {}", cols),
          [=](const auto& s, auto head, auto query, auto key) { return s.keeps(head, query % cols, key); });
    }
    if (!shape_.backward) return;
    add("without dropout in dP", {.ds = [](double p, double dp, double d, double) { return p * (dp - d); }});
    add("without dropout in dV", {.weight_of_dv = [](double p, double, double, double) { return p; }});
    add("without dropout in dP and dV",
        {.ds = [](double p, double dp, double d, double) { return p * (dp - d); },
         .weight_of_dv = [](double p, double, double, double) { return p; }});
    add("without the factor of dropout in dP",
        {.ds = [](double p, double dp, double d, double z) { return p * ((z > 0 ? dp : 0) - d); }});
    add("without the factor of dropout in dV",
        {.weight_of_dv = [](double p, double, double, double z) { return z > 0 ? p : 0; }});
    add("without the factor of dropout in dP and dV",
        {.ds = [](double p, double dp, double d, double z) { return p * ((z > 0 ? dp : 0) - d); },
         .weight_of_dv = [](double p, double, double, double z) { return z > 0 ? p : 0; }});
    add("with dropout of P in dS",
        {.ds = [](double p, double dp, double d, double z) { return p * z * (dp * z - d); }});
    add("with dropout of P in place of that of dP in dS",
        {.ds = [](double p, double dp, double d, double z) { return p * z * (dp - d); }});
    add("with D = rowsum(dO o O) of O without dropout", {.drops_in_d = false});
  }

  // --- scores

  void softcap() {
    const double cap = *shape_.softcap, scale = shape_.logit_scale();
    MaskedShape other = shape_;
    other.softcap.reset();
    add_shape("without softcap", other);
    const auto add_score = [&](const char* change, auto capped) {
      add(change, {.score = [s = shape_, capped](double product, auto head, auto query, auto key) {
            const double bias =
                s.alibi ? s.score(product, head, query, key) - *s.softcap * std::tanh(product / *s.softcap)
                        : 0;
            return capped(product) + bias;
          }});
    };
    add_score("without the division of the score by softcap",
              [=](double product) { return cap * std::tanh(product); });
    add_score("without the factor softcap", [=](double product) { return std::tanh(product / cap); });
    add_score("with softcap before the scale",
              [=](double product) { return scale * cap * std::tanh(product / scale / cap); });
    add_score("if the factor log2 e came before softcap", [=](double product) {
      return cap * std::tanh(product * std::numbers::log2e / cap) / std::numbers::log2e;
    });
    if (shape_.alibi) {
      add("with ALiBi before softcap",
          {.score = [=, s = shape_](double product, auto head, auto query, auto key) {
            const double bias = s.score(product, head, query, key) - cap * std::tanh(product / cap);
            return cap * std::tanh((product + bias) / cap);
          }});
    }
    if (!shape_.backward) return;
    add("without the derivative of softcap", {.score_derivative = [](double) { return 1.0; }});
    add("with 1 - s * s as the derivative of softcap", {.score_derivative = [=](double product) {
          return 1 - std::pow(cap * std::tanh(product / cap), 2);
        }});
    add("with the derivative of softcap applied twice", {.score_derivative = [=](double product) {
          return std::pow(1 - std::pow(std::tanh(product / cap), 2), 2);
        }});
  }

  void alibi() {
    MaskedShape other = shape_;
    other.alibi = false;
    add_shape("without ALiBi", other);
    const auto add_bias = [&](const char* change, auto bias) {
      add(change,
          {.score = [without = other, bias, s = shape_](double product, auto head, auto query, auto key) {
            return without.score(product, head, query, key) + bias(s, head, query, key);
          }});
    };
    const auto distance = [](const MaskedShape& s, auto query, auto key) {
      return double(std::abs(key - (query + s.seq_k - s.seq_q)));
    };
    const auto slope = [](const MaskedShape& s, double number) {
      return std::exp2(-8 * number / double(s.heads));
    };
    add_bias("with ALiBi added", [=](const auto& s, auto head, auto query, auto key) {
      return s.slope(head) * distance(s, query, key);
    });
    add_bias("with heads counted from 0 in ALiBi", [=](const auto& s, auto head, auto query, auto key) {
      return -slope(s, double(s.head_of_batch(head))) * distance(s, query, key);
    });
    add_bias("with heads of all batches counted in ALiBi",
             [=](const auto& s, auto head, auto query, auto key) {
               return -slope(s, double(s.head_in_whole(head) + 1)) * distance(s, query, key);
             });
    add_bias(
        "with the slope of the first head for all in ALiBi",
        [=](const auto& s, auto, auto query, auto key) { return -slope(s, 1) * distance(s, query, key); });
    add_bias("with the slope 2^-8 for all heads in ALiBi", [=](const auto& s, auto, auto query, auto key) {
      return -slope(s, double(s.heads)) * distance(s, query, key);
    });
    add_bias("with query i at key i in ALiBi", [=](const auto& s, auto head, auto query, auto key) {
      return -s.slope(head) * double(std::abs(key - query));
    });
    add_bias("with keys after the query nearer than it in ALiBi",
             [=](const auto& s, auto head, auto query, auto key) {
               return s.slope(head) * double(key - (query + s.seq_k - s.seq_q));
             });
    add_bias("without the factor log2 e of ALiBi", [=](const auto& s, auto head, auto query, auto key) {
      return -s.slope(head) * distance(s, query, key) / std::numbers::log2e;
    });
    add_bias("with the scale applied to ALiBi", [=](const auto& s, auto head, auto query, auto key) {
      return -s.slope(head) * distance(s, query, key) * s.logit_scale();
    });
  }

  void scales() {
    const double scale = shape_.logit_scale();
    for (const auto& [change, factor] :
         {std::pair{"without the scale", 1.0}, {"with the scale applied twice", scale * scale}}) {
      MaskedShape other = shape_;
      other.scale = factor;
      add_shape(change, other);
    }
  }

  // --- gradients

  void gradients() {
    add("without D in dS = P o (dP - D)",
        {.ds = [](double p, double dp, double, double z) { return p * dp * z; }});
    add("without P in dS = P o (dP - D)",
        {.ds = [](double, double dp, double d, double z) { return dp * z - d; }});
    add("with D added in dS = P o (dP - D)",
        {.ds = [](double p, double dp, double d, double z) { return p * (dp * z + d); }});
    const double scale = shape_.logit_scale();
    add("without the scale in dQ", {.scale_of_dq = 1 / scale});
    add("without the scale in dK", {.scale_of_dk = 1 / scale});
    add("without the scale in dQ and dK", {.scale_of_dq = 1 / scale, .scale_of_dk = 1 / scale});
    add("with the scale applied twice to dQ and dK", {.scale_of_dq = scale, .scale_of_dk = scale});
  }

  const MaskedShape& shape_;
  const TensorMap& inputs_;
  std::int64_t keys_;   ///< with those after the last one
  std::int64_t shift_;  ///< from a query to where it stands
  std::vector<Mask> masks_;
  std::set<Visible> known_;  ///< what the right masks, and those of problems that are listed, leave
  std::vector<OtherProblem> problems_;
};

}  // namespace

std::vector<OtherProblem> MaskedAttention::other_problems(const Shape& shape, const TensorMap& inputs) {
  constexpr std::int64_t kMostPairs = 100'000;  // of which more than a hundred masks are made
  if (shape.batch * shape.heads * shape.seq_q * shape.seq_k > kMostPairs) return {};
  return Mistakes(shape, inputs).list();
}

}  // namespace fa
