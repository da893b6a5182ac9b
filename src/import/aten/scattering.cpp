// SPDX-License-Identifier: Apache-2.0
// Elements that go to places which an index tells: what comes to one place replaces what was there, or joins it.
#include <limits>
#include <map>
#include <optional>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// What goes where: element by element, index and src are of one shape.
struct Scattered {
  ValueId self = kNoValue, index = kNoValue, src = kNoValue;
  int64_t axis = 0;
};

ValueId scattered(Conversion& c, const Scattered& s, const std::string& reduction) {
  return c.add("ScatterElements", {s.self, s.index, s.src}, {{"axis", s.axis}, {"reduction", reduction}});
}

int64_t axis_argument(Conversion& c) { return c.axis(c.integer("dim"), c.rank_of(c.tensor("self"))); }

/// Of `src` as much as there are indices.
Scattered by_elements(Conversion& c, ValueId src) {
  Scattered made{.self = c.tensor("self"), .index = indices(c, "index"), .axis = axis_argument(c)};
  src = c.cast(src, c.type_of(made.self));
  if (c.rank_of(src) == 0 && c.rank_of(made.index) > 0) {
    src = c.add("Expand", {src, c.add("Shape", {made.index})});
  } else if (c.graph().value(src).shape != c.graph().value(made.index).shape) {
    for (int64_t axis = 0; axis < c.rank_of(made.index); ++axis) {
      src = c.add("Slice", {src, c.integers_constant({0}), sizes(c, made.index, axis, axis + 1),
                            c.integers_constant({axis})});
    }
  }
  made.src = src;
  return made;
}

/// Whole slices of `source` along the axis, each to the place that its index names.
Scattered by_slices(Conversion& c) {
  Scattered made{.self = c.tensor("self"), .index = indices(c, "index")};
  const int rank = c.rank_of(made.self);
  if (rank == 0) c.refuse("a tensor without axes");
  made.axis = axis_argument(c);
  made.src = c.cast(c.tensor("source"), c.type_of(made.self));
  if (c.rank_of(made.src) != rank) c.refuse("a source of another number of axes");
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(made.axis)] = -1;
  const ValueId column = c.add("Reshape", {made.index, c.integers_constant(shape)});
  made.index = c.add("Expand", {column, c.add("Shape", {made.src})});
  return made;
}

/// Names of reductions as graph operators have them.
std::string reduction(Conversion& c) {
  static const std::map<std::string, std::string> kNames = {
      {"add", "add"}, {"sum", "add"}, {"multiply", "mul"}, {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}};
  const auto found = kNames.find(c.text("reduce"));
  if (found == kNames.end()) c.refuse("the reduction '" + c.text("reduce") + "'");
  return found->second;
}

/// The least, or the greatest number of a type.
ValueId limit(Conversion& c, DType type, bool greatest) {
  if (is_float(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return c.real_constant(greatest ? infinity : -infinity, type);
  }
  const int bits = bit_width(type) - (is_unsigned(type) ? 0 : 1);
  const uint64_t most = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  const auto least = is_unsigned(type) ? int64_t{0} : -static_cast<int64_t>(most) - 1;
  TensorData data = TensorData::zeros(type, {});
  data.write_integer(0, greatest ? static_cast<int64_t>(most) : least);
  return c.constant(std::move(data));
}

/// What changes nothing.
ValueId neutral(Conversion& c, const std::string& reduction, DType type) {
  if (type == DType::kBool) c.refuse("a reduction of truth values");
  if (reduction == "max" || reduction == "min") return limit(c, type, reduction == "min");
  return c.real_constant(reduction == "mul" ? 1 : 0, type);
}

ValueId like(Conversion& c, ValueId number, ValueId shaped) {
  return c.add("Expand", {number, c.add("Shape", {shaped})});
}

/// Where something comes in, without what was there before: over the number that changes nothing.
ValueId without_self(Conversion& c, Scattered s, const std::string& reduction) {
  s.src = like(c, neutral(c, reduction, c.type_of(s.self)), s.index);
  return scattered(c, s, "none");
}

/// a / b, of integers rounded down.
ValueId quotient(Conversion& c, ValueId a, ValueId b) {
  if (is_float(c.type_of(a))) return c.add("Div", {a, b});
  return c.add("Div", {c.add("Sub", {a, c.add("Mod", {a, b})}), b});  // what is left is divided exactly
}

/// The sum over how many there are, what was there before among them where it counts.
ValueId mean(Conversion& c, Scattered s, bool includes) {
  const DType type = c.type_of(s.self), counted = is_float(type) ? DType::kFloat32 : DType::kInt64;
  const Scattered ones{.self = like(c, c.real_constant(includes ? 1 : 0, counted), s.self), .index = s.index,
                       .src = like(c, c.real_constant(1, counted), s.index), .axis = s.axis};
  const ValueId count = c.add("Max", {scattered(c, ones, "add"), c.real_constant(1, counted)});
  if (!includes) s.self = without_self(c, s, "add");
  const ValueId sum = scattered(c, s, "add");
  if (is_float(type)) return quotient(c, sum, c.cast(count, type));
  return c.cast(quotient(c, c.cast(sum, counted), count), type);
}

/// By the names of torch, into what is there already or not.
ValueId reduced(Conversion& c, Scattered s) {
  const bool includes = c.flag("include_self");
  if (c.type_of(s.self) == DType::kBool) c.refuse("a reduction of truth values");
  if (c.text("reduce") == "mean") return mean(c, s, includes);
  const std::string how = reduction(c);
  if (!includes) s.self = without_self(c, s, how);
  return scattered(c, s, how);
}

/// self[index] += alpha * source.
void index_add(Conversion& c) {
  Scattered s = by_slices(c);
  if (c.type_of(s.self) == DType::kBool) c.refuse("a sum of truth values");
  if (const double alpha = c.real("alpha"); alpha != 1) s.src = c.add("Mul", {s.src, number(c, alpha, s.src)});
  c.give(scattered(c, s, "add"));
}

}  // namespace

std::vector<Row> scattering_rows() {
  return {
      {"aten::scatter.src scatter_.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
       [](Conversion& c) { c.give(scattered(c, by_elements(c, c.tensor("src")), "none")); }},
      {"aten::scatter.value scatter_.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
       [](Conversion& c) {
         c.give(scattered(c, by_elements(c, as_type(c, "value", c.type_of(c.tensor("self")))), "none"));
       }},
      {"aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
       [](Conversion& c) { c.give(scattered(c, by_elements(c, c.tensor("src")), reduction(c))); }},
      {"aten::scatter_add scatter_add_(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
       [](Conversion& c) { c.give(scattered(c, by_elements(c, c.tensor("src")), "add")); }},
      {"aten::scatter_reduce.two scatter_reduce_.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
       "bool include_self=True) -> Tensor",
       [](Conversion& c) { c.give(reduced(c, by_elements(c, c.tensor("src")))); }},
      {"aten::index_reduce index_reduce_(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
       "bool include_self=True) -> Tensor",
       [](Conversion& c) { c.give(reduced(c, by_slices(c))); }},
      {"aten::index_add index_add_(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
       index_add},
      {"aten::index_copy index_copy_(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
       [](Conversion& c) { c.give(scattered(c, by_slices(c), "none")); }},
  };
}

}  // namespace graft::aten
