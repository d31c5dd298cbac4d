#include "harness/attention_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "attention/masked_attention.hpp"
#include "attention/two_way_attention.hpp"
#include "harness/options.hpp"

namespace fa {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

/// Small enough for the simulator, and not a multiple of any tile.
constexpr std::int64_t kDefaultBatch = 1, kDefaultHeads = 2, kDefaultHeadDim = 64;

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> names;
  for (const DType dtype : kDTypes) names.push_back(name_of(dtype));
  return names;
}

/// The help for --name FILE.
std::string help_for(const std::string& name) {
  if (name == "q")
    return "read Q from a .npy file: float32 or float16, C order,\n[batch, heads, seq_q, head_dim]";
  if (name == "k") return "the keys for --q, [batch, kv_heads, seq_k, head_dim]";
  if (name == "v") return "the values for --k, [batch, kv_heads, seq_k, head_dim_v]";
  return "the gradient of O, [batch, heads, seq_q, head_dim_v]";
}

/// What the report shows in addition to the inputs.
void describe_rest(const AttentionShape& shape, InputSource& source) {
  source.insert(source.begin(), {{"dtype", std::string(name_of(shape.dtype))},
                                 {"causal", shape.causal},
                                 {"scale", shape.logit_scale()}});
}

}  // namespace

std::shared_ptr<const std::vector<std::int32_t>> read_key_lengths(const std::string& path,
                                                                  const AttentionShape& shape) {
  const HostTensor<std::int64_t> given = read_integers("--key-lengths", path, {{"batch", shape.batch}});
  auto lengths = std::make_shared<std::vector<std::int32_t>>();
  for (std::size_t batch = 0; batch < given.data.size(); ++batch) {
    const std::int64_t length = given.data[batch];
    if (length < 0 || length > shape.seq_k) {
      throw UsageError(
          fmt::format("--key-lengths {}: length {} is {}: must be from 0 to {}, the number of keys", path,
                      batch, length, shape.seq_k));
    }
    lengths->push_back(std::int32_t(length));
  }
  return lengths;
}

template <class P>
std::vector<std::string> DenseAttentionOptions<P>::names() const {
  std::vector<std::string> names;
  for (const TensorSpec& spec : P::inputs({})) names.push_back(spec.name);
  return names;
}

template <class P>
void AttentionOptions<P>::add_to(CLI::App& app) {
  const std::string group = "Problem";
  const auto length = [&](const char* name, std::optional<std::int64_t>& target, const std::string& help) {
    add_whole_number(app, name, target, help)->group(group);
  };
  length("--batch", batch_, fmt::format("independent sequences (default {})", kDefaultBatch));
  length("--heads", heads_, fmt::format("heads of Q and O (default {})", kDefaultHeads));
  length("--kv-heads", kv_heads_, "heads of K and V, a divisor of --heads (default: the same)");
  length("--seq-q", seq_q_, fmt::format("{} (default {})", queries_in_words(), default_queries()));
  length("--seq-k", seq_k_, fmt::format("keys (default: {})", default_keys_in_words()));
  length("--head-dim", head_dim_, fmt::format("elements of a query or a key (default {})", kDefaultHeadDim));
  length("--head-dim-v", head_dim_v_, "elements of a value (default: as many as of a query)");
  add_text(app, "--dtype", dtype_,
           "element type of Q, K, V and O (default: fp32,\nor bf16 if a variant takes only fp16 and bf16)")
      ->option_text(fmt::format("{}", fmt::join(dtype_names(), "|")))
      ->group(group);
  app.add_flag("--causal", causal_, causal_in_words())->group(group);
  add_number(app, "--scale", scale_, "factor for Q K^T (default 1/sqrt(head_dim))")->group(group);
  add_more(app, group);
  add_text(app, "--layout", layout_,
           "how the tensors lie in device memory: [batch, heads, seq, head_dim]\n"
           "(bhsd, the default), [batch, seq, heads, head_dim] (bshd), or as\n"
           "slices of larger tensors, of another size for each (sliced)")
      ->option_text(fmt::format("{}", fmt::join(kLayoutNames, "|")))
      ->group(group);
  random_.add_to(app, group,
                 "random numbers to fill the tensors with: standard normal (the\n"
                 "default), uniform in [-1, 1), normal with outliers (one element\n"
                 "of K in 32 is near +-75, and logits reach about +-80), or normal\n"
                 "with a constant added to each column of K and V (offset)");
  for (const std::string& name : names()) {
    add_text(app, "--" + name, files_[name], help_for(name))->option_text("FILE")->group(group);
  }
}

template <class P>
GivenProblem<P> AttentionOptions<P>::read(const std::function<bool(const Shape&)>& runs) const {
  const std::vector<std::string> used = used_names();
  for (const std::string& given : used) {
    for (const std::string& missing : used) {
      if (files_.at(given) && !files_.at(missing)) {
        throw UsageError(fmt::format("--{0} needs --{1}: add --{1} FILE", given, missing));
      }
    }
  }
  GivenProblem<P> given = files_.at("q") ? from_files() : random();
  const Layout of_tensors = layout();
  given.shape.set_layout(of_tensors);
  require(P::refuse(given.shape));
  if (!dtype_) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      Shape shape = given.shape;
      shape.dtype = dtype;
      if (runs(shape)) given.shape.dtype = dtype;
    }
  }
  describe_more(given.inputs);
  describe_rest(given.shape, given.inputs);
  if (of_tensors != Layout::kBhsd)
    given.inputs.insert(given.inputs.begin(), {"layout", std::string(kLayoutNames[int(of_tensors)])});
  return given;
}

template <class P>
std::vector<std::string> AttentionOptions<P>::used_names() const {
  std::vector<std::string> used;
  for (const std::string& name : names()) {
    const std::optional<std::string> reason = why_unused(name);
    if (reason && files_.at(name)) throw UsageError(fmt::format("--{} {}", name, *reason));
    if (!reason) used.push_back(name);
  }
  return used;
}

template <class P>
DType AttentionOptions<P>::dtype() const {
  if (!dtype_) return DType::kFloat32;
  for (const DType dtype : kDTypes) {
    if (*dtype_ == name_of(dtype)) return dtype;
  }
  throw UsageError(fmt::format("--dtype '{}': must be one of {}", *dtype_, fmt::join(dtype_names(), ", ")));
}

template <class P>
Layout AttentionOptions<P>::layout() const {
  if (!layout_) return Layout::kBhsd;
  const auto found = std::find(std::begin(kLayoutNames), std::end(kLayoutNames), *layout_);
  if (found == std::end(kLayoutNames))
    throw UsageError(
        fmt::format("--layout '{}': must be one of {}", *layout_, fmt::join(kLayoutNames, ", ")));
  return Layout(found - std::begin(kLayoutNames));
}

template <class P>
GivenProblem<P> AttentionOptions<P>::random() const {
  const std::int64_t heads = heads_.value_or(kDefaultHeads), seq_q = seq_q_.value_or(default_queries());
  const AttentionShape sizes{.batch = batch_.value_or(kDefaultBatch),
                             .heads = heads,
                             .kv_heads = kv_heads_.value_or(heads),
                             .seq_q = seq_q,
                             .seq_k = seq_k_ ? *seq_k_ : default_keys(seq_q),
                             .head_dim = head_dim_.value_or(kDefaultHeadDim),
                             .head_dim_v = head_dim_v_,
                             .causal = causal_,
                             .scale = scale_,
                             .dtype = dtype()};
  require(fa::refuse(sizes));
  const Shape shape = completed(sizes);
  std::string options = fmt::format("--batch {} --heads {} --seq-q {} --seq-k {} --head-dim {}", shape.batch,
                                    shape.heads, shape.seq_q, shape.seq_k, shape.head_dim);
  if (shape.head_dim_v) options += fmt::format(" --head-dim-v {}", *shape.head_dim_v);
  const Init init = random_.init();
  const std::uint64_t seed = random_.seed();
  return {.shape = shape, .options = std::move(options), .inputs = random_.source(), .make_inputs = [=] {
            return P::random_inputs(shape, init, seed);
          }};
}

template <class P>
GivenProblem<P> AttentionOptions<P>::from_files() const {
  refuse_beside_file("--q", {{"--batch", batch_.has_value()},
                             {"--heads", heads_.has_value()},
                             {"--kv-heads", kv_heads_.has_value()},
                             {"--seq-q", seq_q_.has_value()},
                             {"--seq-k", seq_k_.has_value()},
                             {"--head-dim", head_dim_.has_value()},
                             {"--head-dim-v", head_dim_v_.has_value()},
                             {"--init", random_.has_init()},
                             {"--seed", random_.has_seed()}});
  const auto read = [&](const std::string& name, const std::vector<Axis>& axes) {
    return read_file("--" + name, *files_.at(name), axes);
  };
  Tensor q = read("q", {{"batch", {}}, {"heads", {}}, {"seq_q", {}}, {"head_dim", {}}});
  Tensor k = read("k", {{"batch", q.shape[0]}, {"kv_heads", {}}, {"seq_k", {}}, {"head_dim", q.shape[3]}});
  Tensor v =
      read("v", {{"batch", k.shape[0]}, {"kv_heads", k.shape[1]}, {"seq_k", k.shape[2]}, {"head_dim_v", {}}});
  const std::int64_t d = q.shape[3], d_v = v.shape[3];
  const AttentionShape sizes{.batch = q.shape[0],
                             .heads = q.shape[1],
                             .kv_heads = k.shape[1],
                             .seq_q = q.shape[2],
                             .seq_k = k.shape[2],
                             .head_dim = d,
                             .head_dim_v = d_v == d ? std::nullopt : std::optional(d_v),
                             .causal = causal_,
                             .scale = scale_,
                             .dtype = dtype()};
  const auto inputs = std::make_shared<TensorMap>();
  for (const std::string& name : used_names()) {
    if (name == "q" || name == "k" || name == "v") continue;
    inputs->emplace(
        name,
        read(name,
             {{"batch", q.shape[0]}, {"heads", q.shape[1]}, {"seq_q", q.shape[2]}, {"head_dim_v", d_v}}));
  }
  require(fa::refuse(sizes));
  const Shape shape = completed(sizes);
  inputs->emplace("q", std::move(q));
  inputs->emplace("k", std::move(k));
  inputs->emplace("v", std::move(v));
  if constexpr (requires { P::masks(shape); }) inputs->merge(P::masks(shape));
  if constexpr (requires { P::store(shape, *inputs); }) {
    require(P::refuse(shape));
    P::store(shape, *inputs);
  }
  GivenProblem<P> given{.shape = shape, .make_inputs = [inputs] { return std::move(*inputs); }};
  for (const std::string& name : used_names()) {
    given.options += fmt::format("{}--{} {}", given.options.empty() ? "" : " ", name, *files_.at(name));
    given.inputs.push_back({name, *files_.at(name)});
  }
  return given;
}

template class AttentionOptions<AttentionForward>;
template class AttentionOptions<AttentionBackward>;
template class AttentionOptions<MaskedAttention>;
template class AttentionOptions<TwoWayAttention>;
template class AttentionOptions<DecodingAttention>;
template class DenseAttentionOptions<AttentionForward>;
template class DenseAttentionOptions<AttentionBackward>;

}  // namespace fa
