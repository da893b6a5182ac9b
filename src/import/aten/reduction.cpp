// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// The axes that `dim` names, non-negative; all where it is left out, empty or None.
std::vector<int64_t> axes_of(Conversion& c, int rank, std::string_view dim = "dim") {
  std::vector<int64_t> axes = dim.empty() || !c.has(dim) ? std::vector<int64_t>{} : c.integers(dim);
  for (int64_t& axis : axes) axis = wrapped_axis(c, axis, rank);
  if (axes.empty() || rank == 0) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

/// Over axes; of none the operand stays as it is.
ValueId reduced(Conversion& c, std::string_view op, ValueId x, const std::vector<int64_t>& axes, bool keeps) {
  if (axes.empty() && op != "ReduceL2") return x;
  return c.add(op, {x, c.integers_constant(axes)},
               {{"keepdims", int64_t{keeps}}, {"noop_with_empty_axes", int64_t{1}}});
}

/// The operand in the type that `dtype` asks for, or that torch sums in: integers add up in i64.
ValueId summand(Conversion& c) {
  const ValueId self = c.tensor("self");
  if (c.has("dtype")) return c.cast(self, c.type("dtype"));
  return is_float(c.type_of(self)) ? self : c.cast(self, DType::kInt64);
}

Build sum(std::string_view op, bool all) {
  return [=](Conversion& c) {
    const ValueId x = summand(c);
    c.give(reduced(c, op, x, axes_of(c, c.rank_of(x), all ? "" : "dim"), !all && c.flag("keepdim")));
  };
}

Build mean(bool all) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self"), x = c.has("dtype") ? c.cast(self, c.type("dtype")) : self;
    if (!is_float(c.type_of(x))) c.refuse("the mean of integers");
    c.give(reduced(c, "ReduceMean", x, axes_of(c, c.rank_of(x), all ? "" : "dim"), !all && c.flag("keepdim")));
  };
}

Build extreme(std::string_view op, bool all) {
  return [=](Conversion& c) {
    const ValueId x = c.tensor("self");
    c.give(reduced(c, op, x, axes_of(c, c.rank_of(x), all ? "" : "dim"), !all && c.flag("keepdim")));
  };
}

/// Whether any or all elements are not zero.
Build truth(std::string_view op, bool all) {
  return [=](Conversion& c) {
    const ValueId x = c.cast(c.tensor("self"), DType::kBool);
    c.give(reduced(c, op, x, axes_of(c, c.rank_of(x), all ? "" : "dim"), !all && c.flag("keepdim")));
  };
}

/// The position of the largest or smallest: of all elements in their order where no axis is named.
ValueId position(Conversion& c, std::string_view op, ValueId x, bool keeps) {
  const int rank = c.rank_of(x);
  if (rank == 0) return c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {0}));
  if (c.has("dim")) {
    return c.add(op, {x}, {{"axis", c.axis(c.integer("dim"), rank)}, {"keepdims", int64_t{keeps}}});
  }
  const ValueId flat = c.add("Reshape", {x, c.integers_constant({-1})});
  const ValueId index = c.add(op, {flat}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}});
  if (!keeps) return index;
  return c.add("Reshape", {index, c.integers_constant(std::vector<int64_t>(static_cast<size_t>(rank), 1))});
}

Build position_of(std::string_view op) {
  return [op](Conversion& c) { c.give(position(c, op, c.tensor("self"), c.flag("keepdim"))); };
}

/// The extreme along an axis, and where it is.
Build extreme_with_position(std::string_view op, std::string_view position_op) {
  return [=](Conversion& c) {
    const ValueId x = c.tensor("self");
    const ValueId value = reduced(c, op, x, axes_of(c, c.rank_of(x)), c.flag("keepdim"));
    c.give({value, position(c, position_op, x, c.flag("keepdim"))});
  };
}

/// How many elements lie along axes, in the operand's type.
ValueId count(Conversion& c, ValueId x, const std::vector<int64_t>& axes) {
  const ValueId sizes = c.add("Gather", {c.add("Shape", {x}), c.integers_constant(axes)}, {{"axis", int64_t{0}}});
  return c.cast(c.add("ReduceProd", {sizes, kNoValue}, {{"keepdims", int64_t{0}}}), c.type_of(x));
}

/// The variance (divided by the count less the correction) and the mean.
std::pair<ValueId, ValueId> moments(Conversion& c, ValueId x, const std::vector<int64_t>& axes, double correction,
                                    bool keeps) {
  if (!is_float(c.type_of(x))) c.refuse("the variance of integers");
  const ValueId mean = reduced(c, "ReduceMean", x, axes, true), away = c.add("Sub", {x, mean});
  const ValueId squares = c.add("Mul", {away, away});
  const ValueId shown = keeps || axes.empty() ? mean : c.add("Squeeze", {mean, c.integers_constant(axes)});
  if (correction == 0) return {reduced(c, "ReduceMean", squares, axes, keeps), shown};
  const ValueId total = reduced(c, "ReduceSum", squares, axes, keeps);
  const ValueId rest = c.add("Sub", {count(c, x, axes), number(c, correction, x)});
  return {c.add("Div", {total, c.add("Max", {rest, number(c, 0, x)})}), shown};
}

/// Which of variance, deviation and mean an operator gives.
struct Moments {
  bool root = false, mean = false;
};

Build moments_of(Moments wanted, std::string_view how) {
  return [=](Conversion& c) {
    const ValueId x = c.tensor("self");
    const bool all = how == "all";
    const bool corrected = how == "correction";
    double correction = 1;
    if (corrected && c.has("correction")) correction = c.real("correction");
    if (!corrected) correction = c.flag("unbiased") ? 1 : 0;
    const auto axes = axes_of(c, c.rank_of(x), all ? "" : "dim");
    auto [variance, mean] = moments(c, x, axes, correction, !all && c.flag("keepdim"));
    if (wanted.root) variance = c.add("Sqrt", {variance});
    c.give(wanted.mean ? std::vector<ValueId>{variance, mean} : std::vector<ValueId>{variance});
  };
}

void logsumexp(Conversion& c) {
  const ValueId x = as_float(c, c.tensor("self"));
  c.give(reduced(c, "ReduceLogSumExp", x, axes_of(c, c.rank_of(x)), c.flag("keepdim")));
}

/// The norm of an order: 2 (the root of squares), 1, infinities, 0 (how many are not zero), or any other.
ValueId norm(Conversion& c, ValueId x, double order, const std::vector<int64_t>& axes, bool keeps) {
  const ValueId size = c.add("Abs", {x});
  if (order == 2) return reduced(c, "ReduceL2", x, axes, keeps);
  if (order == 1) return reduced(c, "ReduceSum", size, axes, keeps);
  if (std::isinf(order)) return reduced(c, order > 0 ? "ReduceMax" : "ReduceMin", size, axes, keeps);
  if (order == 0) {
    return reduced(c, "ReduceSum", c.cast(c.cast(x, DType::kBool), c.type_of(x)), axes, keeps);
  }
  const ValueId total = reduced(c, "ReduceSum", c.add("Pow", {size, number(c, order, x)}), axes, keeps);
  return c.add("Pow", {total, number(c, 1 / order, x)});
}

Build norm_of(std::string_view order, std::string_view how, bool typed) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self"), x = typed && c.has("dtype") ? c.cast(self, c.type("dtype")) : self;
    if (!is_float(c.type_of(x))) c.refuse("the norm of integers");
    const auto axes = axes_of(c, c.rank_of(x), how);
    const bool keeps = !how.empty() && c.flag("keepdim");
    c.give(norm(c, x, c.has(order) ? c.real(order) : 2, axes, keeps));
  };
}

Build cumulative(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId x = summand(c);
    if (c.rank_of(x) == 0) return c.give(x);
    const int64_t axis = c.axis(c.integer("dim"), c.rank_of(x));
    c.give(c.add(op, {x, c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {axis}))}));
  };
}

void count_nonzero(Conversion& c) {
  const ValueId x = c.cast(c.cast(c.tensor("self"), DType::kBool), DType::kInt64);
  c.give(reduced(c, "ReduceSum", x, axes_of(c, c.rank_of(x)), false));
}

// ---- Order ----

/// The k first along an axis, in order; of equal ones the earlier comes first.
void give_ordered(Conversion& c, ValueId k, bool largest, bool values) {
  const ValueId x = c.tensor("self");
  if (c.rank_of(x) == 0) c.refuse("an order of one element without axes");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(x));
  if (k == kNoValue) k = c.add("Shape", {x}, {{"start", axis}, {"end", axis + 1}});
  const auto both = c.add_several("TopK", {x, k}, {{"axis", axis}, {"largest", int64_t{largest}}}, 2);
  c.give(values ? both : std::vector<ValueId>{both[1]});
}

void topk(Conversion& c) { give_ordered(c, c.shape_tensor("k"), c.flag("largest"), true); }
void sort(Conversion& c) { give_ordered(c, kNoValue, c.flag("descending"), true); }
void argsort(Conversion& c) { give_ordered(c, kNoValue, c.flag("descending"), false); }

}  // namespace

std::vector<Row> reduction_rows() {
  std::vector<Row> rows = {
      {"aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum("ReduceSum", true)},
      {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       sum("ReduceSum", false)},
      {"aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum("ReduceProd", true)},
      {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       sum("ReduceProd", false)},
      {"aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", mean(true)},
      {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       mean(false)},
      {"aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme("ReduceMax", false)},
      {"aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme("ReduceMin", false)},
      {"aten::max(Tensor self) -> Tensor", extreme("ReduceMax", true)},
      {"aten::min(Tensor self) -> Tensor", extreme("ReduceMin", true)},
      {"aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       extreme_with_position("ReduceMax", "ArgMax")},
      {"aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       extreme_with_position("ReduceMin", "ArgMin")},
      {"aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", position_of("ArgMax")},
      {"aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", position_of("ArgMin")},
      {"aten::any(Tensor self) -> Tensor", truth("ReduceMax", true)},
      {"aten::any.dim any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
       truth("ReduceMax", false)},
      {"aten::all(Tensor self) -> Tensor", truth("ReduceMin", true)},
      {"aten::all.dim all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
       truth("ReduceMin", false)},
      {"aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logsumexp},
      {"aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", count_nonzero},
      {"aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
       "ScalarType? dtype=None) -> Tensor", norm_of("ord", "dim", true)},
      {"aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
       norm_of("p", "dim", false)},
      {"aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm_of("p", "", false)},
      {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative("CumSum")},
      {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative("CumProd")},
      {"aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
       "(Tensor values, Tensor indices)", topk},
      {"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort},
      {"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
       "(Tensor values, Tensor indices)", sort},
      {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort},
  };
  const std::pair<std::string, Moments> kMoments[] = {
      {"var", {}}, {"std", {.root = true}}, {"var_mean", {.mean = true}}, {"std_mean", {.root = true, .mean = true}}};
  for (const auto& [name, wanted] : kMoments) {
    const std::string of = "aten::" + name;
    rows.push_back({of + "(Tensor self, bool unbiased=True) -> Tensor", moments_of(wanted, "all")});
    rows.push_back({of + ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
                    moments_of(wanted, "dim")});
    rows.push_back({of + ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
                         "bool keepdim=False) -> Tensor", moments_of(wanted, "correction")});
  }
  return rows;
}

}  // namespace graft::aten
