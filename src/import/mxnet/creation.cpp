// SPDX-License-Identifier: Apache-2.0
// Tensors that no input has: ranges and matrices, whose elements are known when compiling.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

constexpr double kMostElements = 1 << 24;

/// So many elements as a constant: element(i).
template <class Element>
void give_elements(Conversion& c, const std::vector<int64_t>& shape, const Element& element) {
  double count = 1;
  for (const int64_t size : shape) {
    if (size < 0) c.refuse("a shape that its uses have to tell");
    count *= static_cast<double>(size);
  }
  if (count > kMostElements) c.refuse(fmt::format("{} elements", count));
  TensorData made = TensorData::zeros(type(c, "dtype"), shape);
  for (int64_t i = 0; i < made.element_count(); ++i) made.write_double(i, element(i));
  c.give(c.constant(std::move(made)));
}

/// From start up to stop, or from 0 up to start where there is no stop; each so many times.
void range(Conversion& c) {
  if (flag(c, "infer_range")) c.refuse("an end that its uses have to tell");
  const double first = real(c, "start"), step = real(c, "step");
  const bool has_stop = given(c, "stop");
  const double start = has_stop ? first : 0, stop = has_stop ? real(c, "stop") : first;
  const int64_t times = integer(c, "repeat");
  if (step == 0 || times < 1) c.refuse("a step or a repetition of 0");
  const double count = std::ceil((stop - start) / step) * static_cast<double>(times);
  if (!(count >= 0 && count <= kMostElements)) c.refuse(fmt::format("{} elements", count));
  give_elements(c, {static_cast<int64_t>(count)},
                [&](int64_t i) { return start + step * static_cast<double>(i / times); });
}

/// So many numbers between two, the last one among them or not; as powers of a base.
void spaced(Conversion& c, bool powers) {
  const double start = real(c, "start"), stop = real(c, "stop");
  const int64_t count = integer(c, "num");
  const int64_t parts = flag(c, "endpoint") ? count - 1 : count;
  const double step = parts > 0 ? (stop - start) / static_cast<double>(parts) : 0;
  const double base = powers ? real(c, "base") : 0;
  give_elements(c, {count}, [&](int64_t i) {
    const double place = start + step * static_cast<double>(i);
    return powers ? std::pow(base, place) : place;
  });
}

/// Ones on a diagonal.
void give_diagonal(Conversion& c, int64_t rows, int64_t columns, int64_t offset) {
  give_elements(c, {rows, columns}, [&](int64_t i) { return i % columns - i / columns == offset ? 1 : 0; });
}

void eye(Conversion& c) {
  const int64_t rows = integer(c, "N"), columns = given(c, "M") ? integer(c, "M") : 0;
  give_diagonal(c, rows, columns > 0 ? columns : rows, integer(c, "k"));
}

void identity(Conversion& c) {
  const std::vector<int64_t> shape = integers(c, "shape");
  if (shape.size() != 2 || shape[0] != shape[1]) c.refuse("a shape that is no square");
  give_diagonal(c, shape[0], shape[1], 0);
}

/// For each axis the place along it.
void indices(Conversion& c) {
  const std::vector<int64_t> sizes = integers(c, "dimensions");
  std::vector<int64_t> shape = {static_cast<int64_t>(sizes.size())};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  int64_t inside = 1;
  for (const int64_t size : sizes) inside = c.product(inside, size);
  give_elements(c, shape, [&](int64_t i) {
    int64_t place = i % inside, axis = static_cast<int64_t>(sizes.size()) - 1;
    for (; axis > i / inside; --axis) place /= sizes[static_cast<size_t>(axis)];
    return static_cast<double>(place % sizes[static_cast<size_t>(axis)]);
  });
}

std::function<void(Conversion&)> all(double value) {
  return [value](Conversion& c) { give_elements(c, integers(c, "shape"), [&](int64_t) { return value; }); };
}

/// Of the operand's shape, and its type where none is named.
void full_like(Conversion& c) {
  const ValueId data = c.tensor("a");
  const DType wanted = given(c, "dtype") ? type(c, "dtype") : c.type_of(data);
  c.give(c.add("Expand", {c.real_constant(real(c, "fill_value"), wanted), c.add("Shape", {data})}));
}

/// Boxes around each place of a map, one for each size and, with the first size, for each further ratio.
void anchors(Conversion& c) {
  const ValueId data = c.tensor("data");
  const auto sizes = reals(c, "sizes"), ratios = reals(c, "ratios"), steps = reals(c, "steps");
  const auto offsets = reals(c, "offsets");
  if (c.rank_of(data) != 4 || sizes.empty() || ratios.empty() || steps.size() != 2 || offsets.size() != 2) {
    c.refuse("attributes of another number");
  }
  const auto height = c.size_of(data, 2).as_constant(), width = c.size_of(data, 3).as_constant();
  if (!height || !width || *height < 1 || *width < 1) c.refuse("a map whose size is known only while running");
  const double rows = static_cast<double>(*height), columns = static_cast<double>(*width);
  std::vector<std::pair<double, double>> halves;
  for (size_t i = 0; i < sizes.size() + ratios.size() - 1; ++i) {
    const double size = i < sizes.size() ? sizes[i] : sizes[0];
    const double ratio = std::sqrt(i < sizes.size() ? ratios[0] : ratios[i - sizes.size() + 1]);
    halves.emplace_back(size * rows / columns * ratio / 2, size / ratio / 2);
  }
  const int64_t each = static_cast<int64_t>(halves.size());
  const int64_t places = c.product(*height, *width), boxes = c.product(places, each);
  if (static_cast<double>(boxes) * 4 > kMostElements) c.refuse(fmt::format("{} boxes", boxes));
  TensorData made = TensorData::zeros(c.type_of(data), {1, boxes, 4});
  for (int64_t i = 0; i < boxes * 4; ++i) {
    const int64_t box = i / 4, place = box / each, corner = i % 4;
    const bool across = corner % 2 == 0;
    const double step = across ? (steps[1] > 0 ? steps[1] : 1 / columns) : (steps[0] > 0 ? steps[0] : 1 / rows);
    const double at = static_cast<double>(across ? place % *width : place / *width) + offsets[across ? 1 : 0];
    const auto& half = halves[static_cast<size_t>(box % each)];
    const double edge = at * step + (corner < 2 ? -1 : 1) * (across ? half.first : half.second);
    made.write_double(i, flag(c, "clip") ? std::clamp(edge, 0.0, 1.0) : edge);
  }
  c.give(c.constant(std::move(made)));
}

}  // namespace

std::vector<Row> creation_rows() {
  return {
      {"_arange _npi_arange", "start=0, stop=None, step=1, repeat=1, infer_range=False, ctx=, dtype=float32", range},
      {"_linspace _npi_linspace", "start, stop, num, endpoint=True, ctx=, dtype=float32",
       [](Conversion& c) { spaced(c, false); }},
      {"_npi_logspace", "start, stop, num, endpoint=True, base=10, ctx=, dtype=float32",
       [](Conversion& c) { spaced(c, true); }},
      {"_eye _npi_eye", "N, M=0, k=0, ctx=, dtype=float32", eye},
      {"_npi_identity", "shape=(), ctx=, dtype=float32", identity},
      {"_npi_indices", "dimensions, dtype=int32, ctx=", indices},
      {"_npi_zeros", "shape=(), ctx=, dtype=float32", all(0)},
      {"_npi_ones", "shape=(), ctx=, dtype=float32", all(1)},
      {"_npi_full_like", "a, fill_value, ctx=, dtype=None", full_like},
      {"_contrib_MultiBoxPrior", "data, sizes=(1), ratios=(1), clip=False, steps=(-1, -1), offsets=(0.5, 0.5)",
       anchors},
  };
}

}  // namespace graft::mxnet
