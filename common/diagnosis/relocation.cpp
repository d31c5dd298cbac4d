#include "diagnosis/relocation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "diagnosis/compare.hpp"

namespace fa {
namespace {

constexpr std::size_t kMostElements = 2048;  // of the wrong ones
constexpr std::size_t kFirstLook = 16;       // elements after which most rules can be dropped
constexpr double kLeastShare = 0.75;
constexpr double kMostCommon = 0.25;  // the largest share of places where a value may be found
constexpr double kChance = 1e-4;      // the largest probability that a rule holds by chance

std::int64_t product(const std::vector<std::int64_t>& lengths, std::size_t first) {
  return std::accumulate(lengths.begin() + std::ptrdiff_t(first), lengths.end(), std::int64_t{1},
                         std::multiplies<>());
}

TensorIndex index_in(const std::vector<std::int64_t>& shape, std::int64_t element) {
  TensorIndex index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
    index[axis] = element % shape[axis];
  return index;
}

/// The probability that at least `hits` of `tries` succeed if each does with probability p: an upper bound.
double probability_of(double hits, double tries, double p) {
  const double log_choices = std::lgamma(tries + 1) - std::lgamma(hits + 1) - std::lgamma(tries - hits + 1);
  return std::exp(std::min(0.0, log_choices + hits * std::log(p)));
}

/// Values that a wrong element may hold: a tensor of the output's shape.
struct Source {
  std::string name;
  const std::vector<double>& values;
  bool is_input = false;
};

/// The search for one output.
class Search {
 public:
  Search(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance)
      : got_(got), tolerance_(tolerance) {
    const std::vector<std::size_t> wrong = wrong_elements(got, expected, tolerance);
    for (const std::size_t element : wrong) {
      const float value = got.data[element];
      if (std::isfinite(value) && value != 0) elements_.push_back(std::int64_t(element));
    }
    is_possible_ = elements_.size() >= 2 && 2 * elements_.size() >= wrong.size();
    thin_out();
  }

  /// Whether enough of the wrong elements hold a value that may belong somewhere.
  bool is_possible() const { return is_possible_; }

  void look_in(const Source& other) {
    use(other);
    try_rule({.relation = Relation::kSameIndex}, 1, [](std::int64_t element) { return element; });
  }

  void look_in_itself(const Source& own) {
    use(own);
    const std::size_t rank = got_.shape.size();
    for (std::size_t axis = rank; axis-- > 0;) try_axis(axis);
    if (rank < 2) return;
    if (got_.shape[rank - 1] == got_.shape[rank - 2]) try_transposed();
    try_offsets();
  }

  const std::optional<Relocation>& best() const { return best_; }

 private:
  /// Keeps kMostElements of the elements, in an order that does not favour any index.
  void thin_out() {
    const std::size_t kept = std::min(kMostElements, elements_.size());
    std::vector<std::int64_t> sample;
    for (std::size_t i = 0; i < kept; ++i) sample.push_back(elements_[i * elements_.size() / kept]);
    std::uint64_t state = 1;
    for (std::size_t i = kept; i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(sample[i - 1], sample[(state >> 33) % i]);
    }
    elements_ = std::move(sample);
  }

  /// Looks for values in this tensor from now on, and measures how often a value is found in a place at
  /// random.
  void use(const Source& source) {
    source_ = &source;
    margin_.emplace(source.values, tolerance_);
    std::uint64_t state = 7;
    std::size_t found = 0;
    for (std::size_t i = 0; i < kMostElements; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      found += holds(elements_[i % elements_.size()], std::int64_t((state >> 20) % source.values.size()));
    }
    chance_ = double(found + 1) / double(kMostElements + 1);
  }

  /// Whether the element has the value that belongs in `place` of the source.
  bool holds(std::int64_t element, std::int64_t place) const {
    const double value = source_->values[std::size_t(place)];
    return std::abs(double(got_.data[std::size_t(element)]) - value) <= margin_->of(value);
  }

  /// @param choices  how many rules of this kind there are: the more, the likelier one of them holds by
  ///   chance
  template <class SourceOf>
  void try_rule(Relocation rule, double choices, SourceOf source_of) {
    if (chance_ > kMostCommon) return;
    std::size_t hits = 0, tries = 0;
    for (const std::int64_t element : elements_) {
      const std::int64_t place = source_of(element);
      hits += place >= 0 && holds(element, place);
      if (++tries == kFirstLook && hits < kFirstLook / 2) return;
    }
    rule.share = double(hits) / double(tries);
    if (hits < 2 || rule.share < kLeastShare || (best_ && best_->share >= rule.share)) return;
    if (choices * probability_of(double(hits), double(tries), chance_) > kChance) return;
    rule.tensor = source_->name;
    rule.is_input = source_->is_input;
    std::int64_t example = -1;  // the first one
    for (const std::int64_t element : elements_) {
      const std::int64_t place = source_of(element);
      if (place < 0 || !holds(element, place) || (example >= 0 && element > example)) continue;
      example = element;
      rule.source = index_in(got_.shape, place);
    }
    rule.element = index_in(got_.shape, example);
    best_ = std::move(rule);
  }

  void try_axis(std::size_t axis) {
    const std::int64_t length = got_.shape[axis], stride = product(got_.shape, axis + 1);
    const auto moved = [=](auto to) {
      return [=](std::int64_t element) {
        const std::int64_t index = element / stride % length, source = to(index);
        return source < 0 || source >= length ? -1 : element + (source - index) * stride;
      };
    };
    const auto rule = [&](Relation relation, std::int64_t by) {
      return Relocation{.relation = relation, .axis = int(axis), .by = by};
    };
    const double choices = 4.0 * double(length);
    for (std::int64_t by = 1; by < std::int64_t(std::bit_ceil(std::uint64_t(length))); ++by)
      try_rule(rule(Relation::kXor, by), choices, moved([=](std::int64_t index) { return index ^ by; }));
    for (std::int64_t by = 1; by < length; ++by) {
      try_rule(rule(Relation::kShift, by), choices, moved([=](std::int64_t index) { return index + by; }));
      try_rule(rule(Relation::kShift, -by), choices, moved([=](std::int64_t index) { return index - by; }));
    }
    for (std::int64_t source = 0; source < length; ++source)
      try_rule(rule(Relation::kFixed, source), choices, moved([=](std::int64_t) { return source; }));
    if (best_ && best_->axis == int(axis)) return;
    const std::map<std::int64_t, std::int64_t> map = map_along(length, stride);
    if (map.size() < 2) return;
    try_rule(rule(Relation::kMap, 0), choices, moved([&](std::int64_t index) {
               const auto found = map.find(index);
               return found == map.end() ? -1 : found->second;
             }));
  }

  /// For each index along an axis, the index whose values its wrong elements hold, if there is one.
  std::map<std::int64_t, std::int64_t> map_along(std::int64_t length, std::int64_t stride) const {
    constexpr std::int64_t kLongest = 4096;
    constexpr std::size_t kFewest = 4, kMost = 32;  // elements of an index that are looked at
    std::map<std::int64_t, std::int64_t> map;
    if (length > kLongest) return map;
    std::map<std::int64_t, std::vector<std::int64_t>> elements_of;
    for (const std::int64_t element : elements_) {
      std::vector<std::int64_t>& same = elements_of[element / stride % length];
      if (same.size() < kMost) same.push_back(element);
    }
    for (const auto& [index, same] : elements_of) {
      if (same.size() < kFewest) continue;
      std::int64_t most = 0, best = -1;
      for (std::int64_t source = 0; source < length; ++source) {
        const auto hits = std::count_if(same.begin(), same.end(), [&, at = index](std::int64_t element) {
          return holds(element, element + (source - at) * stride);
        });
        if (hits > most) most = hits, best = source;
      }
      const double tries = double(same.size());
      if (double(most) < kLeastShare * tries) continue;
      if (double(length) * probability_of(double(most), tries, chance_) < kChance) map[index] = best;
    }
    return map;
  }

  void try_transposed() {
    const std::int64_t length = got_.shape.back();
    try_rule({.relation = Relation::kTransposed}, 1, [=](std::int64_t element) {
      const std::int64_t row = element / length % length, col = element % length;
      return element + (col - row) * length + (row - col);
    });
  }

  /// Rows and columns both differ: the distances at which the values of a few elements are found most often.
  void try_offsets() {
    constexpr std::size_t kLooked = 64;
    constexpr std::int64_t kMostPlaces = 1 << 16;
    const std::size_t rank = got_.shape.size();
    const std::int64_t cols = got_.shape[rank - 1], places = cols * got_.shape[rank - 2];
    if (places > kMostPlaces) return;
    std::map<std::pair<std::int64_t, std::int64_t>, int> votes;
    for (std::size_t i = 0; i < std::min(kLooked, elements_.size()); ++i) {
      const std::int64_t element = elements_[i], matrix = element / places * places;
      for (std::int64_t place = 0; place < places; ++place) {
        if (!holds(element, matrix + place)) continue;
        const std::int64_t down = place / cols - (element - matrix) / cols;
        const std::int64_t right = place % cols - element % cols;
        // A swap has both signs.
        if (down != 0 && right != 0) ++votes[down > 0 ? std::pair(down, right) : std::pair(-down, -right)];
      }
    }
    const auto most = std::max_element(votes.begin(), votes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == votes.end()) return;
    const auto [down, right] = most->first;
    Relocation rule{.relation = Relation::kOffset, .offset = TensorIndex(rank)};
    rule.offset[rank - 2] = down;
    rule.offset[rank - 1] = right;
    const double usual = chance_;
    chance_ = std::min(1.0, 2 * usual);
    try_rule(rule, 4.0 * double(places), [=, this, down = down, right = right](std::int64_t element) {
      const std::int64_t matrix = element / places * places;
      std::int64_t found = -1;
      for (const int sign : {-1, 1}) {
        const std::int64_t row = (element - matrix) / cols + sign * down, col = element % cols + sign * right;
        if (row < 0 || col < 0 || row >= places / cols || col >= cols) continue;
        const std::int64_t place = matrix + row * cols + col;
        if (found < 0 || holds(element, place)) found = place;
      }
      return found;
    });
    chance_ = usual;
  }

  const Tensor& got_;
  Tolerance tolerance_;
  std::vector<std::int64_t> elements_;  // wrong ones, in random order
  bool is_possible_ = false;
  const Source* source_ = nullptr;
  std::optional<Margin> margin_;  // of the values of the source
  double chance_ = 1;             // that an element holds the value of a random place
  std::optional<Relocation> best_;
};

}  // namespace

std::string_view name_of(Relation relation) {
  switch (relation) {
    case Relation::kSameIndex: return "same_index";
    case Relation::kXor: return "xor";
    case Relation::kShift: return "shift";
    case Relation::kFixed: return "fixed";
    case Relation::kMap: return "map";
    case Relation::kOffset: return "offset";
    case Relation::kTransposed: return "transposed";
  }
  return "?";
}

std::optional<Relocation> find_relocation(const std::string& name, const TensorMap& outputs,
                                          const Reference& references, const Tolerances& tolerances,
                                          const TensorMap& inputs) {
  const Tensor& got = outputs.at(name);
  Search search(got, references.at(name), tolerances.at(name));
  if (!search.is_possible()) return std::nullopt;
  for (const auto& [other, values] : references) {
    if (other != name && outputs.at(other).shape == got.shape) search.look_in({other, values});
  }
  for (const auto& [input, tensor] : inputs) {
    if (tensor.shape != got.shape) continue;
    search.look_in({input, std::vector<double>(tensor.data.begin(), tensor.data.end()), true});
  }
  search.look_in_itself({name, references.at(name)});
  return search.best();
}

}  // namespace fa
