#include "diagnosis/masked_visibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

namespace fa {
namespace {

constexpr std::int64_t kLargestTile = 128;
constexpr const char* kEnd = "the mask of keys after the last";

using Sees = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;

/// A mask of the problem, and what it leaves.
struct Mask {
  std::string name;  ///< "the window"
  SeenPairs::Seen seen;
};

/// The tile that a pair of a query and a key is in.
struct TileSize {
  std::int64_t rows, cols;
};
/// Those of blocks, then those that a warp asks about.
constexpr TileSize kTiles[] = {{128, 128}, {128, 64}, {128, 32}, {64, 128}, {64, 64},
                               {64, 32},   {32, 64},  {32, 32},  {16, 64},  {16, 32}};

/// Lists what queries see if a mask is mistaken.
class MistakenMasks {
 public:
  using Seen = SeenPairs::Seen;

  explicit MistakenMasks(const MaskedShape& shape)
      : shape_(shape),
        rows_(shape.batch * shape.heads * shape.seq_q),
        keys_(fa::tiles(shape.seq_k, kLargestTile) * kLargestTile),
        shift_(shape.seq_k - shape.seq_q) {
    add_masks();
    right_ = all_of(masks_);
    known_.insert(right_);
  }

  std::vector<MistakenMask> list() {
    without_masks();
    if (shape_.causal) causal();
    if (shape_.window) window();
    if (shape_.documents) documents();
    if (shape_.key_lengths) key_lengths();
    if (shape_.block_mask) blocks();
    tiles();
    return std::move(list_);
  }

 private:
  // --- the right masks

  void add_masks() {
    const MaskedShape& s = shape_;
    const auto add = [&](const char* name, const Sees& sees) { masks_.push_back({name, seen_by(sees)}); };
    if (s.causal) add("the causal mask", causal_with(shift_));
    if (s.window) add("the window", window_with(-s.reach() + 1, s.reach() - 1, shift_));
    if (s.documents) add("the documents", documents_with(0, 0));
    if (s.key_lengths) add("the key lengths", lengths_with(0));
    if (s.block_mask) {
      add("the block mask", [b = s.block_mask, &s](auto head, auto query, auto key) {
        return block(*b, b->heads == 1 ? 0 : s.head_of_batch(head), query / b->size, key / b->size);
      });
    }
    add(kEnd, [&s](auto, auto, auto key) { return key < s.seq_k; });
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
  std::int32_t document_of_query(std::int64_t query) const { return number(*shape_.documents, query); }
  std::int32_t document_of_key(std::int64_t key) const { return number(shape_.documents_of_keys(), key); }
  static std::int32_t number(const std::vector<std::int32_t>& documents, std::int64_t token) {
    return documents[std::size_t(std::clamp<std::int64_t>(token, 0, std::int64_t(documents.size()) - 1))];
  }
  /// The documents of other tokens.
  Sees documents_with(std::int64_t after_query, std::int64_t after_key) const {
    return [this, after_query, after_key](auto, auto query, auto key) {
      return document_of_query(query + after_query) == document_of_key(key + after_key);
    };
  }
  Sees lengths_with(std::int64_t more) const {
    return [this, more](auto head, auto, auto key) { return key < length(head) + more; };
  }
  std::int64_t length(std::int64_t head) const {
    return (*shape_.key_lengths)[std::size_t(head / shape_.heads)];
  }

  /// False for blocks that are not there.
  static bool block(const BlockPattern& mask, std::int64_t head, std::int64_t row, std::int64_t col) {
    if (row >= mask.rows || col >= mask.cols) return false;
    return mask.blocks[std::size_t((head * mask.rows + row) * mask.cols + col)] != 0;
  }

  Seen seen_by(const Sees& sees) const {
    Seen seen;
    seen.reserve(std::size_t(rows_ * keys_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t key = 0; key < keys_; ++key)
        seen.push_back(sees(row / shape_.seq_q, row % shape_.seq_q, key));
    }
    return seen;
  }

  // --- lists

  static void keep_common(Seen& seen, const Seen& other) {
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] &= other[i];
  }

  static Seen all_of(const std::vector<Mask>& masks) {
    Seen seen = masks.front().seen;
    for (const Mask& mask : masks) keep_common(seen, mask.seen);
    return seen;
  }

  /// Of several changes with the same effect, the first is listed.
  void add(std::string change, const Seen& seen) {
    if (!known_.insert(seen).second) return;
    list_.push_back({std::move(change), {shape_.seq_q, keys_, std::make_shared<const Seen>(seen)}});
  }

  /// One of the masks is another.
  void add_instead(std::string change, const std::string& name, Seen seen) {
    for (const Mask& mask : masks_) {
      if (mask.name != name) keep_common(seen, mask.seen);
    }
    add(std::move(change), seen);
  }
  void add_instead(std::string change, const std::string& name, const Sees& sees) {
    add_instead(std::move(change), name, seen_by(sees));
  }

  void without_masks() {
    const Sees all = [](auto, auto, auto) { return true; };
    for (const Mask& mask : masks_) {
      const bool zeros = mask.name == "the key lengths" || mask.name == kEnd;
      add_instead(fmt::format("without {}{}", mask.name, zeros ? ", with zeros for those keys" : ""),
                  mask.name, all);
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
    const std::int64_t last = shape_.reach() - 1, far = shape_.seq_q + shape_.seq_k;
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
    add_instead("if a query also saw the documents before its own", mask, [this](auto, auto query, auto key) {
      return document_of_key(key) <= document_of_query(query);
    });
    add_instead("if a query also saw the documents after its own", mask, [this](auto, auto query, auto key) {
      return document_of_key(key) >= document_of_query(query);
    });
  }

  void key_lengths() {
    const std::string mask = "the key lengths";
    add_instead("if one key more existed than the key lengths say, of zeros", mask, lengths_with(1));
    add_instead("if one key fewer existed than the key lengths say", mask, lengths_with(-1));
  }

  void blocks() {
    const std::string mask = "the block mask";
    const auto add_blocks = [&](const char* change, auto has) {
      add_instead(change, mask, [b = shape_.block_mask, has, s = &shape_](auto head, auto query, auto key) {
        return has(*b, b->heads == 1 ? 0 : s->head_of_batch(head), query, key);
      });
    };
    add_blocks("with rows and columns of the block mask exchanged",
               [](const BlockPattern& b, auto head, auto query, auto key) {
                 return block(b, head, key / b.size, query / b.size);
               });
    add_blocks("with the hidden blocks in place of the others",
               [](const BlockPattern& b, auto head, auto query, auto key) {
                 return !block(b, head, query / b.size, key / b.size);
               });
    add_blocks("with the blocks of the first head for all",
               [](const BlockPattern& b, auto, auto query, auto key) {
                 return block(b, 0, query / b.size, key / b.size);
               });
    for (const auto& [size, change] :
         {std::pair{64, "if blocks had 64 queries and keys"}, {128, "if blocks had 128 queries and keys"}}) {
      add_blocks(change, [size = size](const BlockPattern& b, auto head, auto query, auto key) {
        return block(b, head, query / size, key / size);
      });
    }
    add_blocks("if the rows of the block mask were as long as its columns",
               [](const BlockPattern& b, auto head, auto query, auto key) {
                 const auto at = std::size_t((head * b.rows + query / b.size) * b.rows + key / b.size);
                 return at < b.blocks.size() && key / b.size < b.cols && b.blocks[at] != 0;
               });
  }

  // --- tiles

  /// What a mask leaves if each pair of a query and a key is asked about its tile: whether the mask leaves
  /// any of its pairs, or all of them. Tiles end with the last query.
  std::pair<Seen, Seen> any_and_all(const Seen& seen, TileSize size) const {
    const std::int64_t tiles_of_head = (shape_.seq_q + size.rows - 1) / size.rows, cols = keys_ / size.cols;
    const std::int64_t heads = rows_ / shape_.seq_q;
    Seen any_of_tile(std::size_t(heads * tiles_of_head * cols), 0), all_of_tile(any_of_tile.size(), 1);
    const auto for_each = [&](auto f) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t row_of_tiles = row / shape_.seq_q * tiles_of_head + row % shape_.seq_q / size.rows;
        for (std::int64_t key = 0; key < keys_; ++key)
          f(std::size_t(row * keys_ + key), std::size_t(row_of_tiles * cols + key / size.cols));
      }
    };
    for_each([&](std::size_t pair, std::size_t tile) {
      any_of_tile[tile] |= seen[pair];
      all_of_tile[tile] &= seen[pair];
    });
    Seen any(seen.size()), all(seen.size());
    for_each([&](std::size_t pair, std::size_t tile) {
      any[pair] = any_of_tile[tile];
      all[pair] = all_of_tile[tile];
    });
    return {std::move(any), std::move(all)};
  }

  void tiles() {
    for (const TileSize& size : kTiles) {
      const std::string which = fmt::format("tiles of {} queries and {} keys", size.rows, size.cols);
      std::vector<Mask> any, all;
      for (const Mask& mask : masks_) {
        auto [any_of_mask, all_of_mask] = any_and_all(mask.seen, size);
        any.push_back({mask.name, std::move(any_of_mask)});
        all.push_back({mask.name, std::move(all_of_mask)});
      }
      add(fmt::format("if {} that are partial were taken as full", which), all_of(any));
      Seen full = all_of(all);
      keep_common(full, right_);
      add(fmt::format("if {} that are partial were left out", which), full);
      Seen partial = right_;
      for (std::size_t i = 0; i < partial.size(); ++i) partial[i] &= std::uint8_t(1 - full[i]);
      add(fmt::format("if {} that are full were left out", which), partial);
      for (const Mask& mask : any)
        add_instead(fmt::format("without {} in {} that are partial", mask.name, which), mask.name, mask.seen);
    }
  }

  const MaskedShape& shape_;
  std::int64_t rows_;   ///< of scores
  std::int64_t keys_;   ///< with those after the last one
  std::int64_t shift_;  ///< from a query to where it stands
  std::vector<Mask> masks_;
  Seen right_;
  std::set<Seen> known_;  ///< what the right masks leave, and those that are listed
  std::vector<MistakenMask> list_;
};

}  // namespace

std::vector<MistakenMask> mistaken_masks(const MaskedShape& shape) { return MistakenMasks(shape).list(); }

}  // namespace fa
