// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/layout.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

/// In inference; what else it gives is of use in training alone.
void batch_normalization(Conversion& c) {
  if (c.flag("is_training")) c.refuse("batch normalization by the statistics of the batch: freeze the graph for "
                                      "inference");
  const ValueId input = c.tensor("x"), mean = c.tensor("mean"), variance = c.tensor("variance");
  const bool last = channels_last(c);
  const ValueId x = to_channels_second(c, input, last);
  const ValueId made = c.add("BatchNormalization", {x, c.tensor("scale"), c.tensor("offset"), mean, variance},
                             {{"epsilon", c.real("epsilon")}});
  c.give(from_channels_second(c, made, last));
}

/// Over neighbouring channels; ONNX divides alpha by their number.
void across_channels(Conversion& c) {
  const int64_t size = c.sum(c.product(2, c.integer("depth_radius")), 1);
  if (size < 1) c.refuse("a negative radius");
  const ValueId x = to_channels_second(c, c.tensor("input"), true);
  const ValueId made = c.add("LRN", {x}, {{"size", size}, {"alpha", c.real("alpha") * static_cast<double>(size)},
                                          {"beta", c.real("beta")}, {"bias", c.real("bias")}});
  c.give(from_channels_second(c, made, true));
}

std::function<void(Conversion&)> softmax(std::string_view op) {
  return [op](Conversion& c) { c.give(c.add(op, {c.tensor("logits")}, {{"axis", int64_t{-1}}})); };
}

}  // namespace

std::vector<frontend::Row> normalization_rows() {
  return {
      {"FusedBatchNorm(T:4 x, T:1 scale, T:1 offset, T:1 mean, T:1 variance, *, epsilon=0.0001, "
       "data_format=\"NHWC\", is_training=True)", batch_normalization},
      {"FusedBatchNormV2(T:4 x, U:1 scale, U:1 offset, U:1 mean, U:1 variance, *, epsilon=0.0001, "
       "data_format=\"NHWC\", is_training=True)", batch_normalization},
      {"FusedBatchNormV3(T x, U:1 scale, U:1 offset, U:1 mean, U:1 variance, *, epsilon=0.0001, "
       "data_format=\"NHWC\", is_training=True)", batch_normalization},
      {"LRN(T:4 input, *, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5)", across_channels},
      {"Softmax(T logits)", softmax("Softmax")},
      {"LogSoftmax(T logits)", softmax("LogSoftmax")},
  };
}

}  // namespace graft::tensorflow
