// Trains a small attention layer with the gradients of a chapter; each step must match the same training in
// float64.
//
//   FA_TRAINING_JSON=docs/results/attention_training.json build/sim/bin/test_ch08_backward
//   --gtest_filter='Training.*'
//
// writes the losses, from which tools/docs/backward.py draws the curve of lesson 08.

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attention/half.hpp"
#include "device/launch.cuh"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Values = std::map<std::string, std::vector<double>>;  ///< tensors by name

constexpr int kSteps = 200;
constexpr double kRate = 0.05;
constexpr std::int64_t kFeatures = 16;

/// What is trained of a chapter, if it has it: one kernel for each element type.
struct Trained {
  const char* variant;
  DType dtype;
};
constexpr Trained kTrained[] = {
    {"fp32_fused", DType::kFloat32}, {"mma_pipelined", DType::kBFloat16}, {"final", DType::kBFloat16}};

const std::vector<Variant<AttentionBackward>>& variants() {
  static const AnyChapter chapter = describe_chapter();
  return chapter_of<AttentionBackward>(chapter).variants;
}

/// A multiple of no tile; the fewest columns that the chapter has kernels for.
const Shape& problem() {
  static const Shape instance = [] {
    Shape shape{.seq_q = 37, .seq_k = 37, .head_dim = 32, .causal = true, .dtype = DType::kBFloat16};
    while (variants().back().refuse(shape)) shape.head_dim *= 2;
    return shape;
  }();
  return instance;
}

/// O of q, k and v; then dq, dk and dv for a dO.
struct Layer {
  virtual ~Layer() = default;
  virtual std::vector<double> forward(const TensorMap& qkv) = 0;
  virtual Values backward(const std::vector<float>& d_o) = 0;
};

/// In float64.
struct InFloat64 : Layer {
  TensorMap inputs;

  std::vector<double> forward(const TensorMap& qkv) override {
    inputs = qkv;
    return AttentionForward::reference(problem(), inputs).at("o");
  }
  Values backward(const std::vector<float>& d_o) override {
    inputs["do"] = {.shape = inputs.at("q").shape, .data = d_o};
    const Reference gradients = AttentionBackward::reference(problem(), inputs);
    return {gradients.begin(), gradients.end()};
  }
};

/// By the kernels of a variant.
class ByVariant : public Layer {
 public:
  ByVariant(const Variant<AttentionBackward>& variant, const Shape& shape)
      : shape_(shape), variant_(&variant) {}
  std::vector<double> forward(const TensorMap& qkv) override {
    TensorMap inputs = qkv;
    inputs["do"] = {.shape = qkv.at("q").shape, .data = std::vector<float>(qkv.at("q").data.size())};
    std::vector<TensorSpec> read = AttentionBackward::outputs(shape_), workspace;
    for (const TensorSpec& spec : workspace_of(*variant_, shape_)) {
      (spec.name == "o" ? read : workspace).push_back(spec);
    }
    tensors_.emplace(AttentionBackward::inputs(shape_), read, workspace, inputs);
    args_ = AttentionBackward::bind(shape_, tensors_->addresses());
    variant_->before(args_, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    const std::vector<float> o = tensors_->download_outputs().at("o").data;
    return {o.begin(), o.end()};
  }
  Values backward(const std::vector<float>& d_o) override {
    upload_do(rounded_to(shape_.dtype, d_o));
    variant_->launch(args_, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    Values gradients;
    for (const auto& [name, tensor] : tensors_->download_outputs()) {
      gradients[name].assign(tensor.data.begin(), tensor.data.end());
    }
    return gradients;
  }

 private:
  void upload_do(const std::vector<float>& d_o) {
    if (shape_.dtype == DType::kFloat32) return copy(d_o);
    std::vector<std::uint16_t> upper;  // a rounded bf16 number is the upper half of the fp32 one
    for (const float x : d_o) upper.push_back(std::uint16_t(std::bit_cast<std::uint32_t>(x) >> 16));
    copy(upper);
  }
  template <class T>
  void copy(const std::vector<T>& d_o) {
    FA_CUDA_CHECK(
        cudaMemcpy(args_.buffer<T>("do"), d_o.data(), d_o.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

  Shape shape_;
  const Variant<AttentionBackward>* variant_;
  std::optional<DeviceTensors> tensors_;
  AttentionBackward::Args args_;
};

/// Normal numbers with this standard deviation.
Matrix random_matrix(std::int64_t rows, std::int64_t cols, double deviation, std::uint64_t seed) {
  const Tensor t = random_tensor({.name = "w", .shape = {rows, cols}}, Init::kNormal, seed);
  return deviation * Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                         t.data.data(), rows, cols)
                         .cast<double>();
}

/// q, k and v of a head are the features of the tokens times a matrix.
using Weights = std::map<std::string, std::vector<Matrix>>;  ///< "q", "k", "v": one for each head

Weights random_weights(std::uint64_t seed) {
  Weights weights;
  for (const TensorSpec& spec : AttentionForward::inputs(problem())) {
    for (std::int64_t head = 0; head < spec.shape[1]; ++head) {
      weights[spec.name].push_back(
          random_matrix(kFeatures, problem().head_dim, 1 / std::sqrt(double(kFeatures)), seed++));
    }
  }
  return weights;
}

TensorMap projected(const Matrix& features, const Weights& weights) {
  TensorMap tensors;
  for (const TensorSpec& spec : AttentionForward::inputs(problem())) {
    Tensor tensor{.shape = spec.shape, .data = {}};
    for (const Matrix& w : weights.at(spec.name)) {
      const Matrix head = features * w;
      tensor.data.insert(tensor.data.end(), head.data(), head.data() + head.size());
    }
    tensors.emplace(spec.name, std::move(tensor));
  }
  return tensors;
}

using Tamper = std::function<void(Values& gradients)>;

/// The loss before each of kSteps steps: half of the mean square of O minus a random target.
std::vector<double> train(Layer& layer, const Tamper& tamper = nullptr) {
  const Matrix features = random_matrix(problem().seq_q, kFeatures, 1, 100);
  const Tensor target =
      random_tensor({.name = "target", .shape = {problem().heads, problem().seq_q, problem().head_dim}},
                    Init::kNormal, 200);
  Weights weights = random_weights(300);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double> o = layer.forward(projected(features, weights));
    std::vector<float> d_o(o.size());
    double loss = 0;
    const double tokens = double(problem().heads * problem().seq_q);
    for (std::size_t i = 0; i < o.size(); ++i) {
      const double error = o[i] - double(target.data[i]);
      loss += 0.5 * error * error / double(o.size());
      d_o[i] = float(error / tokens);
    }
    losses.push_back(loss);

    Values gradients = layer.backward(d_o);
    if (tamper) tamper(gradients);
    for (auto& [name, heads] : weights) {
      const double* gradient = gradients.at("d" + name).data();
      for (Matrix& w : heads) {
        const Eigen::Map<const Matrix> of_head(gradient, problem().seq_q, problem().head_dim);
        w -= kRate * (features.transpose() * of_head);
        gradient += of_head.size();
      }
    }
  }
  return losses;
}

/// How far two curves are apart where they are farthest, relative to the second.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t step = 0; step < b.size(); ++step) {
    const double d = std::abs(a[step] - b[step]) / b[step];
    if (!(d <= most)) most = d;
  }
  return std::isnan(most) ? INFINITY : most;
}

const std::vector<double>& in_float64() {
  static const std::vector<double> losses = [] {
    InFloat64 reference;
    return train(reference);
  }();
  return losses;
}

constexpr double kNear = 0.01;  ///< of the loss, at every step: what rounding may do
constexpr double kFar = 0.035;

Tamper times(const std::vector<std::string>& names, double factor) {
  return [=](Values& gradients) {
    for (const std::string& name : names) {
      for (double& x : gradients.at(name)) x *= factor;
    }
  };
}

/// Six digits after the decimal point.
std::vector<double> rounded(std::vector<double> losses) {
  for (double& loss : losses) loss = std::round(loss * 1e6) / 1e6;
  return losses;
}

TEST(Training, SLOW_FollowsFloat64) {
  ASSERT_LT(in_float64().back(), 0.6 * in_float64().front());
  nlohmann::json json{{"reference", rounded(in_float64())}};
  for (const auto& [name, dtype] : kTrained) {
    const auto variant = std::find_if(variants().begin(), variants().end(),
                                      [&, of = std::string(name)](const auto& v) { return v.name == of; });
    if (variant == variants().end()) continue;
    Shape shape = problem();
    shape.dtype = dtype;
    if (const auto lacks = what_device_lacks<AttentionBackward>(*variant, shape))
      GTEST_SKIP() << lacks->reason;
    ByVariant layer(*variant, shape);
    const std::vector<double> losses = train(layer);
    RecordProperty(name, std::to_string(distance(losses, in_float64())));
    EXPECT_LT(distance(losses, in_float64()), kNear) << name;
    json["variants"][name] = rounded(losses);
  }
  ASSERT_TRUE(json.contains("variants")) << "nothing of this chapter is trained";
  if (const char* const file = std::getenv("FA_TRAINING_JSON")) {
    InFloat64 reference;
    json["wrong"] = rounded(train(reference, times({"dq", "dk"}, problem().logit_scale())));
    std::ofstream(file) << json << '\n';
  }
}

// The curves diverge if a gradient is wrong. In float64, so that nothing else is wrong.
TEST(Training, SLOW_DoesNotFollowIfAGradientIsWrong) {
  InFloat64 reference;
  const double scale = problem().logit_scale();
  for (const char* name : {"dq", "dk"}) {
    EXPECT_GT(distance(train(reference, times({name}, scale)), in_float64()), kFar)
        << name << ": scale twice";
    EXPECT_GT(distance(train(reference, times({name}, 1 / scale)), in_float64()), kFar)
        << name << ": no scale";
    EXPECT_GT(distance(train(reference, times({name}, 0)), in_float64()), kFar) << name << ": none";
    EXPECT_GT(distance(train(reference, times({name}, 0.7)), in_float64()), kNear)
        << name << ": three tenths less";
  }
  EXPECT_GT(distance(train(reference, times({"dv"}, 0.9)), in_float64()), kNear) << "dv: a tenth less";
}

}  // namespace
}  // namespace fa
