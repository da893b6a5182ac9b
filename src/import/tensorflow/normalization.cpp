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
      {"Softmax(T logits)", softmax("Softmax")},
      {"LogSoftmax(T logits)", softmax("LogSoftmax")},
  };
}

}  // namespace graft::tensorflow
