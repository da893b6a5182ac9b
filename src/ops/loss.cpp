// SPDX-License-Identifier: Apache-2.0
// Classification losses.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The target class of each element, and how much it counts.
struct Target {
  Tensor labels;
  int weights = 2;  ///< input number
  std::optional<int64_t> ignored;
};

Target read_target(Definition& d) {
  Target t{.labels = d.in(1), .weights = 2, .ignored = {}};
  if (d.has("ignore_index")) t.ignored = d.integer("ignore_index");
  if (d.in(0).rank() < 2 || t.labels.rank() != d.in(0).rank() - 1) d.reject("its labels do not fit its scores");
  d.require_shape(t.labels, without_axis(d.in(0).shape(), 1), "its labels do not fit its scores");
  if (d.has_input(2)) d.require_shape(d.in(2), {d.in(0).size(1)}, "its weights are not one per class");
  return t;
}

/// The weight of the label at `i`: 0 when it is ignored.
Expr weight_at(Definition& d, const Target& t, const Expr& label, const Size& classes, DType wide) {
  Expr weight = literal(wide, 1);
  if (d.has_input(t.weights)) weight = make_cast(wide, d.in(t.weights)({wrapped_index(label, classes)}));
  if (!t.ignored) return weight;
  return select(eq(label, make_index(*t.ignored)), literal(wide, 0), weight);
}

/// States output 0 from log-probabilities [n, c, d...].
void finish_loss(Definition& d, const Tensor& log_probability, DType type) {
  const Target t = read_target(d);
  const std::string reduction = d.text("reduction");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") d.reject("its reduction is " + reduction);
  const Size classes = log_probability.size(1);
  const DType wide = compute_type(type);
  const Shape shape = t.labels.shape();
  const auto label_at = [&](const Indices& i) { return make_cast(DType::kInt64, t.labels(i)); };
  const auto loss_at = [&](const Indices& i) {
    const Expr label = label_at(i);
    const Expr value = -(weight_at(d, t, label, classes, wide) *
                         log_probability.wide(with_axis(i, 1, wrapped_index(label, classes))));
    return t.ignored ? select(eq(label, make_index(*t.ignored)), literal(wide, 0), value) : value;
  };
  if (reduction == "none") return d.out(0, d.compute("loss", type, shape, loss_at));
  const auto sum_of = [&](std::string_view name, const RegionBuilder::Body& body) {
    return d.reduce(name, Intrinsic::kAdd, {}, shape, [&](const Indices&, const Indices& k) { return body(k); });
  };
  const Tensor sum = sum_of("sum", loss_at);
  if (reduction == "sum") return d.out(0, stored_as(d, "loss", sum, type));
  const Tensor total = sum_of("total", [&](const Indices& i) { return weight_at(d, t, label_at(i), classes, wide); });
  d.out(0, d.compute("loss", type, {}, [&](const Indices& i) { return sum(i) / total(i); }));
}

void define_negative_log_likelihood(Definition& d) { finish_loss(d, d.in(0), d.input_type(0)); }

void define_softmax_cross_entropy(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() < 2) d.reject("its scores should have at least two axes");
  const Shape rows = without_axis(x.shape(), 1), row = {x.size(1)};
  const Tensor largest = d.reduce("largest", Intrinsic::kMax, rows, row, [&](const Indices& i, const Indices& k) {
    return x.wide(with_axis(i, 1, k[0]));
  });
  const Tensor sum = d.reduce("exponentials", Intrinsic::kAdd, rows, row, [&](const Indices& i, const Indices& k) {
    return exp(x.wide(with_axis(i, 1, k[0])) - largest(i));
  });
  const Tensor log_probability = d.compute("log_prob", largest.type(), Shape(x.shape()), [&](const Indices& i) {
    const Indices at = without_axis(i, 1);
    return x.wide(i) - largest(at) - log(sum(at));
  });
  finish_loss(d, log_probability, x.type());
  if (d.wants_output(1)) d.out(1, stored_as(d, "log_prob_output", log_probability, x.type()));
}

std::vector<Sample> loss_samples() {
  const auto attributes = [](const char* reduction) { return Attributes{{"reduction", std::string(reduction)}}; };
  Attributes ignoring = attributes("mean");
  ignoring["ignore_index"] = int64_t{1};
  return {{.name = "mean", .inputs = {f32({3, 5}), i64({3}, 0, 4)}},
          {.name = "none_of_images", .inputs = {f32({3, 5, 2, 4}), i64({3, 2, 4}, 0, 4)},
           .attributes = attributes("none")},
          {.name = "sum_with_weights", .inputs = {f32({3, 5, 6}), i64({3, 6}, 0, 4), f32({5}, 0.5, 2)},
           .attributes = attributes("sum")},
          {.name = "mean_with_weights_and_an_ignored_class",
           .inputs = {f32({3, 5, 6}), of(DType::kInt32, {3, 6}, 0, 4), f32({5}, 0.5, 2)}, .attributes = ignoring}};
}
std::vector<Sample> softmax_loss_samples() {
  std::vector<Sample> all = loss_samples();
  all.push_back(all[1]);
  all.back().name = "log_probabilities_too";
  all.back().outputs = 2;
  return all;
}

}  // namespace

std::vector<OpDef> loss_ops() {
  const std::vector<AttributeSpec> attributes = {{"ignore_index", {}, true}, {"reduction", std::string("mean")}};
  return {{.domain = "", .name = "NegativeLogLikelihoodLoss", .since = 22, .inputs = {"input", "target", "weight?"},
           .outputs = {"loss"}, .attributes = attributes, .define = define_negative_log_likelihood,
           .samples = loss_samples, .doc = "The negative log-probability of each target class."},
          {.domain = "", .name = "SoftmaxCrossEntropyLoss", .since = 13, .inputs = {"scores", "labels", "weights?"},
           .outputs = {"output", "log_prob?"}, .attributes = attributes, .define = define_softmax_cross_entropy,
           .samples = softmax_loss_samples, .doc = "The negative log of the softmax at each target class."}};
}

}  // namespace graft
