// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// Over the first elements of each row, as many as its length says; the others are 0.
ValueId within_lengths(Conversion& c, ValueId data, int64_t axis) {
  if (!c.has("length")) c.refuse("it has no length");
  const ValueId length = c.add("Unsqueeze", {c.cast(c.tensor("length"), DType::kInt64), c.integers_constant({axis})});
  const ValueId inside = c.add("Less", {positions(c, data, axis), length});
  const DType type = c.type_of(data);
  const ValueId lowest = c.real_constant(-std::numeric_limits<double>::infinity(), type);
  const ValueId made = c.add("Softmax", {c.add("Where", {inside, data, lowest})}, {{"axis", axis}});
  return c.add("Where", {inside, made, c.real_constant(0, type)});
}

/// Over an axis, of values that are divided by a temperature and, for softmin, negated.
std::function<void(Conversion&)> softmax(std::string_view op, bool negated = false) {
  return [op, negated](Conversion& c) {
    if (flag(c, "use_length") && (op != "Softmax" || negated)) c.refuse("a length for each row");
    ValueId data = c.tensor("data");
    if (negated) data = c.add("Neg", {data});
    const DType given_type = c.type_of(data);
    if (given(c, "dtype")) data = c.cast(data, type(c, "dtype"));
    if (!is_float(given_type)) c.refuse("an input of integers");
    const double temperature = given(c, "temperature") ? real(c, "temperature") : 1;
    if (temperature != 1) data = c.add("Div", {data, c.real_constant(temperature, c.type_of(data))});
    const int64_t axis = c.axis(integer(c, "axis"), c.rank_of(data));
    if (flag(c, "use_length")) return c.give(within_lengths(c, data, axis));
    c.give(c.add(op, {data}, {{"axis", axis}}));
  };
}

/// Over all that belongs to an instance. MXNet's kernels disagree on what that is where it has several axes.
ValueId over_instance(Conversion& c, ValueId data) {
  if (c.rank_of(data) != 2) c.refuse("a softmax over an instance that has several axes");
  return c.add("Softmax", {data}, {{"axis", int64_t{1}}});
}

void softmax_activation(Conversion& c) {
  const ValueId data = c.tensor("data");
  const std::string mode = word(c, "mode");
  if (mode == "channel") return c.give(c.add("Softmax", {data}, {{"axis", int64_t{1}}}));
  if (mode != "instance") c.refuse(fmt::format("the mode '{}'", mode));
  c.give(over_instance(c, data));
}

/// What a loss layer gives in inference: the label and what weighs gradients have no part in it.
void softmax_output(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (flag(c, "multi_output")) return c.give(c.add("Softmax", {data}, {{"axis", int64_t{1}}}));
  if (flag(c, "preserve_shape")) return c.give(c.add("Softmax", {data}, {{"axis", int64_t{-1}}}));
  c.give(over_instance(c, data));
}

}  // namespace

std::vector<Row> softmax_rows() {
  return {
      {"softmax", "data, length=None, axis=-1, temperature=None, dtype=None, use_length=False", softmax("Softmax")},
      {"log_softmax", "data, axis=-1, temperature=None, dtype=None, use_length=False", softmax("LogSoftmax")},
      {"softmin", "data, axis=-1, temperature=None, dtype=None, use_length=False", softmax("Softmax", true)},
      {"SoftmaxActivation", "data, mode=instance", softmax_activation},
      {"SoftmaxOutput Softmax", "data, label=None, grad_scale=1, ignore_label=-1, multi_output=False, "
       "use_ignore=False, preserve_shape=False, normalization=null, out_grad=False, smooth_alpha=0", softmax_output},
  };
}

}  // namespace graft::mxnet
