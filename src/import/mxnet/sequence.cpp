// SPDX-License-Identifier: Apache-2.0
// Sequences of different lengths in one tensor, (length, batch, ...) or (batch, length, ...).
#include "import/mxnet/attributes.h"
#include "import/mxnet/positions.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// The axis of time; the other of the first two is the batch.
int64_t time_axis(Conversion& c, ValueId data) {
  const int64_t axis = integer(c, "axis");
  if ((axis != 0 && axis != 1) || c.rank_of(data) < 2) c.refuse("a time that is neither the first nor the second axis");
  return axis;
}

/// The length of each sequence, shaped to go with the data.
ValueId lengths(Conversion& c, ValueId data, int64_t axis) {
  return c.add("Reshape", {c.cast(c.tensor("sequence_length"), DType::kInt64),
                           c.integers_constant(shape_along(c, data, 1 - axis))});
}

bool has_lengths(Conversion& c) {
  if (!flag(c, "use_sequence_length")) return false;
  if (!c.has("sequence_length")) c.refuse("it has no sequence_length");
  return true;
}

/// What lies behind a sequence's end becomes `value`.
void mask(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (!has_lengths(c)) return c.give(data);
  const int64_t axis = time_axis(c, data);
  const ValueId inside = c.add("Less", {positions(c, data, axis), lengths(c, data, axis)});
  c.give(c.add("Where", {inside, data, c.real_constant(real(c, "value"), c.type_of(data))}));
}

/// The last element of each sequence: all others count as zeros of a sum.
void last(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int64_t axis = time_axis(c, data);
  if (!has_lengths(c)) {
    const ValueId end = c.add("Slice", {data, c.integers_constant({-1}), c.integers_constant({INT64_MAX}),
                                        c.integers_constant({axis})});
    return c.give(c.add("Squeeze", {end, c.integers_constant({axis})}));
  }
  const ValueId index = c.add("Sub", {lengths(c, data, axis), integer_scalar(c, 1)});
  const ValueId hit = c.add("Equal", {positions(c, data, axis), index});
  const ValueId kept = c.add("Where", {hit, data, c.real_constant(0, c.type_of(data))});
  c.give(c.add("ReduceSum", {kept, c.integers_constant({axis})}, {{"keepdims", int64_t{0}}}));
}

void reverse(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (integer(c, "axis") != 0) c.refuse("a time that is not the first axis");
  if (has_lengths(c)) {
    const ValueId length = c.cast(c.tensor("sequence_length"), DType::kInt64);
    return c.give(c.add("ReverseSequence", {data, length}, {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}}));
  }
  c.give(c.add("Slice", {data, c.integers_constant({-1}), c.integers_constant({-INT64_MAX}), c.integers_constant({0}),
                         c.integers_constant({-1})}));
}

}  // namespace

std::vector<Row> sequence_rows() {
  return {
      {"SequenceMask", "data, sequence_length=None, use_sequence_length=False, value=0, axis=0", mask},
      {"SequenceLast", "data, sequence_length=None, use_sequence_length=False, axis=0", last},
      {"SequenceReverse", "data, sequence_length=None, use_sequence_length=False, axis=0", reverse},
  };
}

}  // namespace graft::mxnet
