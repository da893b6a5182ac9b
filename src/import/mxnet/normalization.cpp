// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// A vector of ones, of a vector's type and size.
ValueId ones_like(Conversion& c, ValueId vector) {
  const Shape& shape = c.shape_of(vector);
  const auto size = shape.size() == 1 ? shape[0].as_constant() : std::nullopt;
  if (!size) c.refuse("the number of its channels is known only while running");
  TensorData data = TensorData::zeros(c.type_of(vector), {*size});
  for (int64_t i = 0; i < *size; ++i) data.write_double(i, 1);
  return c.constant(std::move(data));
}

/// Exchanges two axes; the same again takes it back.
ValueId exchanged(Conversion& c, ValueId value, int64_t first, int64_t second) {
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(value)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return c.add("Transpose", {value}, {{"perm", order}});
}

/// By the statistics of training; those of a batch are used in training alone. With fix_gamma gamma counts as 1,
/// whatever the parameter holds.
void batch_norm(Conversion& c) {
  const ValueId data = c.tensor("data"), given_gamma = c.tensor("gamma");
  const int rank = c.rank_of(data);
  const int64_t axis = c.axis(integer(c, "axis"), rank);
  if (rank < 2) c.refuse("an input without channels");
  const ValueId gamma = flag(c, "fix_gamma") ? ones_like(c, given_gamma) : given_gamma;
  const ValueId input = axis == 1 ? data : exchanged(c, data, axis, 1);
  const ValueId made = c.add("BatchNormalization", {input, gamma, c.tensor("beta"), c.tensor("moving_mean"),
                                                    c.tensor("moving_var")}, {{"epsilon", real(c, "eps")}});
  c.give(axis == 1 ? made : exchanged(c, made, axis, 1));
}

void batch_norm_with_relu(Conversion& c) {
  batch_norm(c);
  c.give(c.add("Relu", {c.results()[0]}));
}

void layer_norm(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  const int64_t axis = c.axis(integer(c, "axis"), rank);
  const ValueId input = axis == rank - 1 ? data : exchanged(c, data, axis, rank - 1);
  const ValueId made = c.add("LayerNormalization", {input, c.tensor("gamma"), c.tensor("beta")},
                             {{"axis", int64_t{-1}}, {"epsilon", real(c, "eps")}});
  c.give(axis == rank - 1 ? made : exchanged(c, made, axis, rank - 1));
}

/// Gamma and beta are one for each group.
void group_norm(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int64_t groups = integer(c, "num_groups");
  if (c.rank_of(data) < 3) c.refuse("an input without axes behind its channels");
  const auto channels = c.size_of(data, 1).as_constant();
  if (!channels || groups < 1 || *channels % groups != 0) c.refuse("groups that do not divide the channels");
  const ValueId apart = c.add("Reshape", {data, c.integers_constant({0, groups, -1})});
  const ValueId made = c.add("InstanceNormalization", {apart, c.tensor("gamma"), c.tensor("beta")},
                             {{"epsilon", real(c, "eps")}});
  c.give(c.add("Reshape", {made, c.add("Shape", {data})}));
}

void instance_norm(Conversion& c) {
  c.give(c.add("InstanceNormalization", {c.tensor("data"), c.tensor("gamma"), c.tensor("beta")},
               {{"epsilon", real(c, "eps")}}));
}

/// data / sqrt(sum(data^2) + eps), the sum over channels, over the map, or over both.
void l2_normalization(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::string mode = word(c, "mode");
  const int rank = c.rank_of(data);
  std::vector<int64_t> axes;
  if (mode == "channel") axes = {1};
  for (int axis = mode == "spatial" ? 2 : 1; mode != "channel" && axis < rank; ++axis) axes.push_back(axis);
  if (axes.empty() || rank < 2) c.refuse(fmt::format("the mode '{}' with {} axes", mode, rank));
  const ValueId sum = c.add("ReduceSumSquare", {data, c.integers_constant(axes)}, {{"keepdims", int64_t{1}}});
  const ValueId moved = c.add("Add", {sum, c.real_constant(real(c, "eps"), c.type_of(data))});
  c.give(c.add("Div", {data, c.add("Sqrt", {moved})}));
}

void lrn(Conversion& c) {
  c.give(c.add("LRN", {c.tensor("data")}, {{"alpha", real(c, "alpha")},
                                           {"beta", real(c, "beta")},
                                           {"bias", real(c, "knorm")},
                                           {"size", integer(c, "nsize")}}));
}

}  // namespace

std::vector<Row> normalization_rows() {
  return {
      {"BatchNorm BatchNorm_v1 CuDNNBatchNorm", "data, gamma, beta, moving_mean, moving_var, eps=0.001, momentum=0.9, "
       "fix_gamma=True, use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False, min_calib_range=None, "
       "max_calib_range=None", batch_norm},
      {"_contrib_BatchNormWithReLU", "data, gamma, beta, moving_mean, moving_var, eps=0.001, momentum=0.9, "
       "fix_gamma=True, use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False, min_calib_range=None, "
       "max_calib_range=None", batch_norm_with_relu},
      {"_contrib_SyncBatchNorm", "data, gamma, beta, moving_mean, moving_var, eps=0.001, momentum=0.9, fix_gamma=True, "
       "use_global_stats=False, output_mean_var=False, ndev=1, key=, axis=1", batch_norm},
      {"GroupNorm", "data, gamma, beta, num_groups=1, eps=1e-05, output_mean_var=False", group_norm},
      {"LayerNorm", "data, gamma, beta, axis=-1, eps=1e-05, output_mean_var=False", layer_norm},
      {"InstanceNorm", "data, gamma, beta, eps=0.001", instance_norm},
      {"L2Normalization", "data, eps=1e-10, mode=instance", l2_normalization},
      {"LRN", "data, alpha=0.0001, beta=0.75, knorm=2, nsize=0", lrn},
  };
}

}  // namespace graft::mxnet
