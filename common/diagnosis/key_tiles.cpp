#include "diagnosis/key_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "attention/attention_forward.hpp"
#include "attention/half.hpp"

namespace fa {
namespace {

/// Where a key that counts comes from: rows of K and V. Rows after the last one are zeros.
struct Rows {
  std::int64_t k, v;
  auto operator<=>(const Rows&) const = default;
};

/// The keys that a query takes into account.
using KeysOf = std::function<std::vector<Rows>(std::int64_t query)>;

/// Attention over any keys.
class AnyKeys {
 public:
  AnyKeys(const AttentionShape& shape, const TensorMap& inputs)
      : shape_(shape),
        q_(rounded_to(shape.dtype, inputs.at("q").data)),
        k_(rounded_to(shape.dtype, inputs.at("k").data)),
        v_(rounded_to(shape.dtype, inputs.at("v").data)) {}

  const AttentionShape& shape() const { return shape_; }
  std::int64_t rows() const { return shape_.batch * shape_.heads * shape_.seq_q; }

  /// O of a row, counted through all heads, and its LSE.
  std::pair<std::vector<double>, double> row(std::int64_t row, const KeysOf& keys_of) const {
    const std::int64_t d = shape_.head_dim, d_v = shape_.value_dim(), head = row / shape_.seq_q;
    const std::int64_t first_key = shape_.kv_head(head) * shape_.seq_k;
    const std::vector<Rows> keys = keys_of(row % shape_.seq_q);
    std::vector<double> scores;
    double max = -std::numeric_limits<double>::infinity();
    for (const Rows& key : keys) {
      double score = 0;
      if (key.k < shape_.seq_k) {
        for (std::int64_t col = 0; col < d; ++col) {
          score +=
              double(q_[std::size_t(row * d + col)]) * double(k_[std::size_t((first_key + key.k) * d + col)]);
        }
      }
      scores.push_back(score * shape_.logit_scale());
      max = std::max(max, scores.back());
    }
    std::vector<double> o(std::size_t(d_v), 0.0);
    if (keys.empty()) return {std::move(o), max};
    double sum = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const double p = std::exp(scores[i] - max);
      sum += p;
      if (keys[i].v >= shape_.seq_k) continue;
      const float* v = v_.data() + (first_key + keys[i].v) * d_v;
      for (std::int64_t col = 0; col < d_v; ++col) o[std::size_t(col)] += p * double(v[col]);
    }
    for (double& x : o) x /= sum;
    return {std::move(o), max + std::log(sum)};
  }

  Reference outputs(const KeysOf& keys_of) const {
    Reference all = {{"o", {}}, {"lse", {}}};
    for (std::int64_t number = 0; number < rows(); ++number) {
      const auto [o, lse] = row(number, keys_of);
      all.at("o").insert(all.at("o").end(), o.begin(), o.end());
      all.at("lse").push_back(lse);
    }
    return all;
  }

  /// Whether O of three rows is about right for these keys.
  bool may_fit(const TensorMap& outputs, const KeysOf& keys_of) const {
    constexpr double kMargins = 8;
    const std::int64_t d = shape_.value_dim();
    const double limit = kMargins * AttentionForward::tolerances(shape_).at("o").limit;
    const std::vector<float>& got = outputs.at("o").data;
    double error = 0, norm = 0;
    for (const std::int64_t number : {std::int64_t{0}, rows() / 2, rows() - 1}) {
      const std::vector<double> o = row(number, keys_of).first;
      for (std::int64_t col = 0; col < d; ++col) {
        const double expected = o[std::size_t(col)];
        error += std::pow(double(got[std::size_t(number * d + col)]) - expected, 2);
        norm += expected * expected;
      }
    }
    return error <= limit * limit * norm;
  }

 private:
  AttentionShape shape_;
  std::vector<float> q_, k_, v_;
};

/// Which of K and V has its rows elsewhere.
struct Moved {
  const char* name;
  bool k, v;
};
constexpr Moved kMoved[] = {{"k", true, false}, {"v", false, true}, {"k and v", true, true}};

/// Mistakes that a learner should be told of separately even if they have the same effect.
enum class Kind { kWrongTile, kNoMask, kMaskOfSlices };

/// The problems that are listed already: their keys.
using Known = std::set<std::pair<Kind, std::vector<Rows>>>;

/// Lists the problems for one number of keys per tile.
class Tiles {
 public:
  Tiles(std::shared_ptr<const AnyKeys> attention, std::int64_t Bc, std::vector<OtherProblem>& problems,
        Known& known)
      : attention_(std::move(attention)),
        seq_k_(attention_->shape().seq_k),
        Bc_(Bc),
        count_(tiles(seq_k_, Bc)),
        problems_(problems),
        known_(known) {}

  std::int64_t count() const { return count_; }

  void add_all() {
    add_masks();
    if (count_ > 1) {
      for (std::int64_t tile = 0; tile < count_; ++tile) {
        add_counted(fmt::format("without {}", keys(tile)), tile, 0);
        add_counted(fmt::format("with {} counted twice", keys(tile)), tile, 2);
      }
      for (const Moved& moved : kMoved) {
        add_exchanges(moved);
        add_neighbours(moved);
      }
    }
    for (const std::int64_t slice : {16, 32, 64}) {
      if (slice < Bc_ && slice < seq_k_) add_slices(slice);
    }
  }

 private:
  /// "keys 64 to 127"
  std::string keys(std::int64_t tile) const { return keys(tile, tile); }
  /// Those of a tile that have a counterpart in another one.
  std::string keys(std::int64_t tile, std::int64_t other) const {
    const std::int64_t count = std::min(Bc_, seq_k_ - std::max(tile, other) * Bc_);
    return fmt::format("keys {} to {}", tile * Bc_, tile * Bc_ + count - 1);
  }

  /// Of several problems of one kind with the same keys, the first is added.
  void add(Kind kind, std::string change, KeysOf keys_of) {
    constexpr std::int64_t kQueries = 16;  // that are compared
    const std::int64_t last = attention_->shape().seq_q - 1;
    std::vector<Rows> keys;
    for (std::int64_t n = 0; n < kQueries; ++n) {
      const std::vector<Rows> of_query = keys_of(n * last / (kQueries - 1));
      keys.insert(keys.end(), of_query.begin(), of_query.end());
      keys.push_back({-1, -1});
    }
    if (!known_.emplace(kind, std::move(keys)).second) return;
    problems_.push_back(
        {std::move(change), [all = attention_, keys_of] { return all->outputs(keys_of); },
         [all = attention_, keys_of](const TensorMap& outputs) { return all->may_fit(outputs, keys_of); }});
  }

  /// Each visible key of a tile counts several times.
  void add_counted(std::string change, std::int64_t tile, int times) {
    add(Kind::kWrongTile, std::move(change),
        [shape = attention_->shape(), Bc = Bc_, tile, times](std::int64_t query) {
          std::vector<Rows> rows;
          for (std::int64_t key = 0; key < shape.visible_keys(query); ++key)
            rows.insert(rows.end(), key / Bc == tile ? std::size_t(times) : 1, Rows{key, key});
          return rows;
        });
  }

  /// The rows of K, V or both come from elsewhere. The mask does not.
  template <class SourceOf>
  void add_moved(std::string change, const Moved& moved, SourceOf source_of) {
    add(Kind::kWrongTile, std::move(change),
        [shape = attention_->shape(), moved, source_of](std::int64_t query) {
          std::vector<Rows> rows;
          for (std::int64_t key = 0; key < shape.visible_keys(query); ++key) {
            const std::int64_t source = source_of(key);
            rows.push_back({moved.k ? source : key, moved.v ? source : key});
          }
          return rows;
        });
  }

  void add_exchanges(const Moved& moved) {
    const std::int64_t Bc = Bc_;
    for (std::int64_t used = 0; used < count_; ++used) {
      for (std::int64_t tile = 0; tile < count_; ++tile) {
        if (tile == used) continue;
        add_moved(fmt::format("with {} of {} in place of {}", keys(used, tile), moved.name, keys(tile)),
                  moved, [=](std::int64_t key) { return key / Bc == tile ? key + (used - tile) * Bc : key; });
        if (tile > used) continue;
        add_moved(fmt::format("with {} of {} and {} exchanged", keys(tile), moved.name, keys(used)), moved,
                  [=](std::int64_t key) {
                    if (key / Bc == tile) return key + (used - tile) * Bc;
                    return key / Bc == used ? key + (tile - used) * Bc : key;
                  });
      }
      if (used < 2) continue;
      add_moved(fmt::format("with {} of {} in place of all keys before them", keys(used), moved.name), moved,
                [=](std::int64_t key) { return key / Bc < used ? key % Bc + used * Bc : key; });
    }
  }

  /// Tiles that hold the one before or after them, except for one or two that come first.
  void add_neighbours(const Moved& moved) {
    const std::int64_t Bc = Bc_, count = count_;
    for (const std::int64_t right : {1, 2}) {
      if (count - right < 2) continue;
      add_moved(fmt::format("with {} of the tile of {} before in place of each tile's, from key {} on",
                            moved.name, Bc, right * Bc),
                moved, [=](std::int64_t key) { return key / Bc >= right ? key - Bc : key; });
      add_moved(fmt::format("with {} of the tile of {} after it in place of each tile's, up to key {}",
                            moved.name, Bc, (count - right) * Bc - 1),
                moved, [=](std::int64_t key) { return key / Bc < count - right ? key + Bc : key; });
    }
  }

  void add_slices(std::int64_t slice) {
    const std::int64_t Bc = Bc_;
    for (const Moved& moved : kMoved) {
      if (seq_k_ < Bc) break;
      add_moved(fmt::format("with keys 0 to {} of {} of every {} in place of the others", slice - 1,
                            moved.name, Bc),
                moved, [=](std::int64_t key) { return key / Bc * Bc + key % slice; });
    }
    if (slice < 32) return;
    // A slice that is hidden from all rows of a warp is left out.
    for (const std::int64_t warp_rows : {16, 32}) {
      add_mask(Kind::kMaskOfSlices,
               fmt::format("if the mask counted each {} keys from the start of their tile", slice),
               [=, shape = attention_->shape()](std::int64_t query, std::int64_t key) {
                 const std::int64_t last = std::min((query / warp_rows + 1) * warp_rows, shape.seq_q) - 1;
                 return key / Bc * Bc + key % slice < shape.visible_keys(query) &&
                        key / slice * slice < shape.visible_keys(last);
               });
    }
  }

  /// Queries see other keys, also those of zeros in the rest of the last tile.
  template <class Sees>
  void add_mask(Kind kind, std::string change, Sees sees) {
    add(kind, std::move(change), [sees, end = count_ * Bc_](std::int64_t query) {
      std::vector<Rows> rows;
      for (std::int64_t key = 0; key < end; ++key) {
        if (sees(query, key)) rows.push_back({key, key});
      }
      return rows;
    });
  }

  void add_masks() {
    const AttentionShape& shape = attention_->shape();
    const std::int64_t Bc = Bc_;
    const auto unmasked_by = [&](const char* which, std::int64_t Br, std::int64_t query_of_tile,
                                 std::int64_t round_up) {
      add_mask(Kind::kNoMask,
               fmt::format("without the mask in tiles of {} keys that {} of every {} queries sees{}", Bc,
                           which, Br, round_up > 0 ? " in part" : ""),
               [=](std::int64_t query, std::int64_t key) {
                 const std::int64_t first = query / Br * Br;
                 const std::int64_t seen =
                     shape.visible_keys(std::min(first + query_of_tile, shape.seq_q - 1));
                 return key < (seen + round_up) / Bc * Bc || key < shape.visible_keys(query);
               });
    };
    for (const std::int64_t Br : {64, 128}) {
      if (!shape.causal || shape.seq_q <= Br) continue;
      unmasked_by("the first", Br, 0, Bc - 1);
      unmasked_by("the middle one", Br, Br / 2, 0);
      unmasked_by("the last", Br, Br - 1, 0);
    }
    for (std::int64_t tile = 0; tile < count_; ++tile) {
      const bool is_ragged = tile * Bc + Bc > seq_k_;
      if (!shape.causal && !is_ragged) continue;
      add_mask(Kind::kNoMask,
               fmt::format("without the mask for keys {} to {}{}", tile * Bc, tile * Bc + Bc - 1,
                           is_ragged ? " (zeros after the last)" : ""),
               [=](std::int64_t query, std::int64_t key) {
                 return key / Bc == tile || key < shape.visible_keys(query);
               });
    }
  }

  std::shared_ptr<const AnyKeys> attention_;
  std::int64_t seq_k_, Bc_, count_;
  std::vector<OtherProblem>& problems_;
  Known& known_;
};

}  // namespace

std::vector<OtherProblem> with_mistaken_tiles(const AttentionShape& shape, const TensorMap& inputs) {
  constexpr std::int64_t kMostTiles = 12, kMostProducts = 20'000'000;
  std::vector<OtherProblem> problems;
  if (shape.batch * shape.heads * shape.seq_q * shape.seq_k * shape.head_dim > kMostProducts) return problems;
  const auto attention = std::make_shared<const AnyKeys>(shape, inputs);
  Known known;
  for (const std::int64_t Bc : {64, 128, 32}) {  // the usual one first
    Tiles tiles(attention, Bc, problems, known);
    if (tiles.count() <= kMostTiles) tiles.add_all();
  }
  return problems;
}

}  // namespace fa
