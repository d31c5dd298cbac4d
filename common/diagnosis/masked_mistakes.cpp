#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/masked_reference.hpp"
#include "diagnosis/diagnosis.hpp"
#include "diagnosis/masked_visibility.hpp"

namespace fa {
namespace {

/// Lists what wrong kernels compute instead of a problem.
class Mistakes {
 public:
  Mistakes(const MaskedShape& shape, const TensorMap& inputs) : shape_(shape), inputs_(inputs) {}

  std::vector<OtherProblem> list() {
    masks();
    if (shape_.key_lengths) key_lengths();
    if (shape_.dropout > 0) dropout();
    if (shape_.softcap) softcap();
    if (shape_.has_alibi()) alibi();
    if (shape_.sinks) sinks();
    scales();
    if (shape_.backward) gradients();
    return std::move(problems_);
  }

 private:
  void add(std::string change, MaskedFormulas formulas) {
    problems_.push_back({std::move(change), [inputs = &inputs_, shape = shape_, wrong = std::move(formulas)] {
                           return masked_reference(shape, *inputs, wrong);
                         }});
  }

  void add_shape(std::string change, const MaskedShape& other) {
    problems_.push_back(
        {std::move(change), [inputs = &inputs_, other] { return masked_reference(other, *inputs); }});
  }

  /// Whether a function of head, query and key is true anywhere.
  template <class F>
  bool for_some_pair(F f) const {
    for (std::int64_t head = 0; head < shape_.batch * shape_.heads; ++head) {
      for (std::int64_t query = 0; query < shape_.seq_q; ++query) {
        for (std::int64_t key = 0; key < shape_.seq_k; ++key) {
          if (f(head, query, key)) return true;
        }
      }
    }
    return false;
  }

  // --- masks

  void masks() {
    for (MistakenMask& mask : mistaken_masks(shape_))
      add(std::move(mask.change), {.sees = std::move(mask.seen)});
  }

  /// Mistakes after which kernels read keys that do not exist.
  void key_lengths() {
    MaskedShape other = shape_;
    other.key_lengths = nullptr;
    add_shape("without the key lengths", other);
    const auto add_lengths = [&](const char* change, auto other_length) {
      std::vector<std::int32_t> lengths = *shape_.key_lengths;
      for (std::int32_t& length : lengths) length = other_length(length);
      if (lengths == *shape_.key_lengths) return;
      other.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
      add_shape(change, other);
    };
    const auto most = std::int32_t(shape_.seq_k);
    add_lengths("if one key more existed than the key lengths say",
                [=](std::int32_t length) { return std::min(length + 1, most); });
    add_lengths("with the key length of the first sequence for all",
                [&](std::int32_t) { return shape_.key_lengths->front(); });
  }

  // --- dropout

  void dropout() {
    MaskedShape other = shape_;
    other.dropout = 0;
    add_shape("without dropout", other);
    const double kept = double(Dropout::of(shape_.dropout, 0).kept) / Dropout::kOf;
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
    const auto add_drawn = [&](std::string change, auto drawn) {
      const MaskedFormulas::OfPair keeps = [s = shape_, drawn](auto head, auto query, auto key) {
        return drawn(s, head, query, key);
      };
      if (for_some_pair([&](auto head, auto query, auto key) {
            return keeps(head, query, key) != shape_.keeps(head, query, key);
          })) {
        add(std::move(change), {.keeps = keeps});
      }
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
            const double bias = s.has_alibi() ? s.score(product, head, query, key) -
                                                    *s.softcap * std::tanh(product / *s.softcap)
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
    if (shape_.has_alibi()) {
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
    other.alibi_slopes = nullptr;
    add_shape("without ALiBi", other);
    const auto add_bias = [&](const char* change, auto bias) {
      const auto score = [without = other, bias, s = shape_](double product, auto head, auto query,
                                                             auto key) {
        return without.score(product, head, query, key) + bias(s, head, query, key);
      };
      if (for_some_pair([&](auto head, auto query, auto key) {
            return shape_.sees(head, query, key) &&
                   score(0, head, query, key) != shape_.score(0, head, query, key);
          })) {
        add(change, {.score = score});
      }
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

  void sinks() {
    add("without the sinks", {.sink = [](double, std::int64_t) { return -INFINITY; }});
    add("with the sink in O, but not in LSE", {.sink_in_lse = false});
    add("with the sink in LSE, but not in O", {.sink_divides_o = false});
    const auto add_sink = [&](const char* change, auto other) {
      for (std::int64_t head = 0; head < shape_.batch * shape_.heads; ++head) {
        if (other(shape_.sink(head), head) != shape_.sink(head)) return add(change, {.sink = other});
      }
    };
    add_sink("with the sink of the first head for all",
             [of_first = double(shape_.sinks->front())](double, std::int64_t) { return of_first; });
    add_sink("if each of the four lanes of a row added the sink",
             [](double sink, std::int64_t) { return sink + std::log(4); });
    add_sink("with the scale applied to the sinks",
             [scale = shape_.logit_scale()](double sink, std::int64_t) { return scale * sink; });
    add_sink("without the factor log2 e of the sinks",
             [](double sink, std::int64_t) { return sink / std::numbers::log2e; });
    add_sink("with the factor log2 e of the sinks applied twice",
             [](double sink, std::int64_t) { return sink * std::numbers::log2e; });
    if (!shape_.backward) return;
    add("without D in the gradients of the sinks", {.dsink = [](double p, double) { return -p; }});
    add("without P in the gradients of the sinks", {.dsink = [](double, double d) { return -d; }});
    add("with the other sign of the gradients of the sinks",
        {.dsink = [](double p, double d) { return p * d; }});
  }

  void scales() {
    const double scale = shape_.logit_scale();
    for (const auto& [change, factor] :
         {std::pair{"without the scale", 1.0}, {"with the scale applied twice", scale * scale}}) {
      MaskedShape other = shape_;
      other.scale = factor;
      if (factor != scale) add_shape(change, other);
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
    if (scale == 1) return;
    add("without the scale in dQ", {.scale_of_dq = 1 / scale});
    add("without the scale in dK", {.scale_of_dk = 1 / scale});
    add("without the scale in dQ and dK", {.scale_of_dq = 1 / scale, .scale_of_dk = 1 / scale});
    add("with the scale applied twice to dQ and dK", {.scale_of_dq = scale, .scale_of_dk = scale});
  }

  const MaskedShape& shape_;
  const TensorMap& inputs_;
  std::vector<OtherProblem> problems_;
};

}  // namespace

template <>
std::vector<OtherProblem> other_problems<MaskedAttention>(const MaskedShape& shape, const TensorMap& inputs) {
  constexpr std::int64_t kMostPairs = 100'000;  // of which more than a hundred masks are made
  if (shape.batch * shape.heads * shape.seq_q * shape.seq_k > kMostPairs) return {};
  return Mistakes(shape, inputs).list();
}

}  // namespace fa
