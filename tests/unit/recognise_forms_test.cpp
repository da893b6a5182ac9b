// SPDX-License-Identifier: Apache-2.0
// Which forms are seen as contractions and as attention, and which axes forms share.
#include <gtest/gtest.h>

#include "expr/build.h"
#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

constexpr DType kF32 = DType::kFloat32;
using Lift = std::function<Expr(const Expr& x, const Expr& w, const Expr& guard)>;

/// A fold of lift(x[i, k], w[k, j], i < 3) over k, with the given combination.
std::optional<Contraction> contraction_of(const Lift& lift, Intrinsic combine = Intrinsic::kAdd) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {4, 6}), w = b.input("w", kF32, {6, 5});
  const Tensor y = b.reduce("y", combine, {4, 5}, {6}, [&](const Indices& i, const Indices& k) {
    return lift(x({i[0], k[0]}), w({k[0], i[1]}), lt(i[0], make_index(3)));
  });
  const Region region = b.finish("fold", {y});
  return find_contraction(std::get<Reduce>(region.forms[0]));
}

TEST(Contraction, is_a_sum_of_products_of_two_loads) {
  EXPECT_TRUE(contraction_of([](const Expr& x, const Expr& w, const Expr&) { return x * w; }));
  EXPECT_FALSE(contraction_of([](const Expr& x, const Expr& w, const Expr&) { return x + w; }));
  EXPECT_FALSE(contraction_of([](const Expr& x, const Expr& w, const Expr&) { return x * w; }, Intrinsic::kMax));
  EXPECT_FALSE(contraction_of([](const Expr& x, const Expr&, const Expr&) { return x * make_constant(kF32, 2); }));
  EXPECT_FALSE(contraction_of([](const Expr&, const Expr& w, const Expr&) { return make_constant(kF32, 2) * w; }));
}

TEST(Contraction, takes_a_guard_along_with_an_operand) {
  const Expr zero = make_constant(kF32, 0);
  const auto guarded =
      contraction_of([&](const Expr& x, const Expr& w, const Expr& guard) { return select(guard, x * w, zero); });
  ASSERT_TRUE(guarded);
  EXPECT_TRUE(is_call(guarded->a, Intrinsic::kSelect));
  EXPECT_EQ(guarded->b->kind, ExprKind::kLoad);
}

TEST(Contraction, is_not_seen_where_the_guard_gives_anything_but_zero) {
  const Expr zero = make_constant(kF32, 0);
  EXPECT_FALSE(contraction_of(
      [&](const Expr& x, const Expr& w, const Expr& guard) { return select(guard, x * w, make_constant(kF32, 1)); }));
  EXPECT_FALSE(
      contraction_of([&](const Expr& x, const Expr& w, const Expr& guard) { return select(guard, x * w, x); }));
  EXPECT_FALSE(
      contraction_of([&](const Expr& x, const Expr& w, const Expr& guard) { return select(guard, zero, x * w); }));
  EXPECT_FALSE(
      contraction_of([&](const Expr& x, const Expr& w, const Expr& guard) { return select(guard, x + w, zero); }));
}

TEST(Contraction, needs_each_axis_in_an_operand_and_the_summed_ones_in_both) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {2, 4, 6}), w = b.input("w", kF32, {2, 6, 5});
  const auto fold = [&](const Shape& axes, const RegionBuilder::Lift& lift) {
    return b.reduce("y", Intrinsic::kAdd, axes, {6}, lift).id();
  };
  fold({2, 4, 5}, [&](const Indices& i, const Indices& k) { return x({i[0], i[1], k[0]}) * w({i[0], k[0], i[2]}); });
  fold({4, 5, 3}, [&](const Indices& i, const Indices& k) {
    return x({make_index(0), i[0], k[0]}) * w({make_index(0), k[0], i[1]});
  });
  fold({4, 5}, [&](const Indices& i, const Indices& k) {
    return x({make_index(0), i[0], k[0]}) * w({make_index(0), make_index(0), i[1]});
  });
  const Region& region = b.region();
  const auto batches = find_contraction(std::get<Reduce>(region.forms[0]));
  ASSERT_TRUE(batches);
  EXPECT_EQ(batches->batch.size(), 1u);
  EXPECT_EQ(batches->m.size(), 1u);
  EXPECT_EQ(batches->n.size(), 1u);
  EXPECT_EQ(batches->k.size(), 1u);
  EXPECT_FALSE(find_contraction(std::get<Reduce>(region.forms[1]))) << "no operand varies along the last axis";
  EXPECT_FALSE(find_contraction(std::get<Reduce>(region.forms[2]))) << "one operand is not summed over";
}

TEST(Contraction, units_that_widen_operands_read_them_as_they_are) {
  const Expr half = make_load(0, DType::kFloat16, {make_variable()});
  const Expr wide = make_cast(kF32, half), inside = lt(half->args[0], make_index(5));
  EXPECT_TRUE(equal(unwidened(wide), half));
  const Expr guarded = unwidened(select(inside, wide, make_constant(kF32, 0)));
  EXPECT_TRUE(equal(guarded, select(inside, half, make_constant(DType::kFloat16, 0))));
  const Expr otherwise = select(inside, wide, make_constant(kF32, 1));
  EXPECT_TRUE(equal(unwidened(otherwise), otherwise)) << "only zero is the same in both types";
  const Expr narrowed = make_cast(DType::kFloat16, make_load(0, kF32, {make_variable()}));
  EXPECT_TRUE(equal(unwidened(narrowed), narrowed));
}

TEST(Monoid, of_several_components_is_no_intrinsic) {
  Monoid monoid = make_monoid(Intrinsic::kAdd, kF32);
  EXPECT_EQ(monoid.intrinsic(), Intrinsic::kAdd);
  const Monoid other = make_monoid(Intrinsic::kMax, kF32);
  monoid.identity.push_back(other.identity[0]);
  monoid.left.push_back(other.left[0]);
  monoid.right.push_back(other.right[0]);
  monoid.combine.push_back(other.combine[0]);
  EXPECT_EQ(monoid.intrinsic(), std::nullopt);
}

TEST(Monoid, is_an_intrinsic_when_it_folds_both_sides_in_order_from_its_identity) {
  using I = Intrinsic;
  for (const I intrinsic : {I::kAdd, I::kMul, I::kMin, I::kMax, I::kAnd, I::kOr, I::kXor}) {
    const bool bits = intrinsic == I::kAnd || intrinsic == I::kOr || intrinsic == I::kXor;
    const DType type = bits ? DType::kInt32 : kF32;
    const auto folding = [&](const auto& change) {
      Monoid monoid = make_monoid(intrinsic, type);
      change(monoid);
      return monoid.intrinsic();
    };
    const auto combining = [&](const auto& combine) {
      return folding([&](Monoid& m) { m.combine = {combine(m.left[0], m.right[0])}; });
    };
    const auto call = [&](const Expr& a, const Expr& b) { return make_call(intrinsic, {a, b}); };
    EXPECT_EQ(folding([](Monoid&) {}), intrinsic);
    EXPECT_EQ(combining([&](const Expr& a, const Expr& b) { return call(b, a); }), std::nullopt);
    const Expr other = make_variable(type);
    EXPECT_EQ(combining([&](const Expr& a, const Expr&) { return call(a, other); }), std::nullopt);
    EXPECT_EQ(combining([&](const Expr&, const Expr& b) { return call(other, b); }), std::nullopt);
    EXPECT_EQ(combining([](const Expr& a, const Expr&) { return a; }), std::nullopt);
    EXPECT_EQ(combining([](const Expr& a, const Expr&) { return -a; }), std::nullopt);
    EXPECT_EQ(combining([](const Expr& a, const Expr& b) { return a - b; }), std::nullopt);
    EXPECT_EQ(folding([&](Monoid& m) { m.identity = {make_integer(type, 77)}; }), std::nullopt);
  }
}

TEST(CommonAxes, of_results_side_by_side_are_shared) {
  RegionBuilder b;
  const Size n = Size::symbol("n");
  const Tensor x = b.input("x", kF32, {n, 7});
  const auto scaled = [&](double by) {
    return b.compute("y", kF32, {n, 7}, [&, by](const Indices& i) { return x(i) * make_constant(kF32, by); });
  };
  const Tensor first = scaled(2), second = scaled(3), third = scaled(4);
  Region region = b.finish("three", {first, second, third});
  normalise(region);
  const std::vector<Axis> common = common_axes(region);
  ASSERT_EQ(common.size(), 1u);
  EXPECT_EQ(common[0].extent, n * Size(7));
}

TEST(CommonAxes, end_where_a_later_form_has_other_sizes) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {4, 7}), z = b.input("z", kF32, {4, 3});
  const auto negated = [&](const Tensor& t) {
    return b.compute("y", kF32, t.shape(), [&](const Indices& i) { return -t(i); });
  };
  const Tensor wide = negated(x), narrow = negated(z);
  Region region = b.finish("two", {wide, narrow});
  normalise(region);
  const std::vector<Axis> common = common_axes(region);
  ASSERT_EQ(common.size(), 1u);
  EXPECT_TRUE(common[0].extent.is(4));
}

TEST(CommonAxes, stand_in_the_order_of_the_last_form) {
  RegionBuilder b;
  const Tensor x = b.input("x", kF32, {4, 7, 3});
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {4, 7}, {3}, [&](const Indices& i, const Indices& k) {
    return x({i[0], i[1], k[0]});
  });
  const Tensor turned = b.compute("turned", kF32, {7, 4}, [&](const Indices& i) { return exp(sum({i[1], i[0]})); });
  Region region = b.finish("turned", {turned});
  normalise(region);
  const std::vector<Axis> common = common_axes(region);
  ASSERT_EQ(common.size(), 2u);
  EXPECT_TRUE(common[0].extent.is(7));
  EXPECT_TRUE(common[1].extent.is(4));
}

/// softmax(q k^T) v with the choices that attention hangs on.
struct AttentionParts {
  bool keys_are_queries = false;  ///< one tensor for both
  bool keys_vary_by_query = false;
  bool scores_are_an_output = false;
  Intrinsic combine = Intrinsic::kMax;
  int64_t shift_by_key = 0;
};

std::string reason_of(const AttentionParts& parts) {
  RegionBuilder b;
  const Size n = 9, depth = 4;
  const Tensor q = b.input("q", kF32, {n, depth});
  const Tensor k = parts.keys_are_queries ? q : b.input("k", kF32, {n, depth});
  const Tensor v = b.input("v", kF32, {n, 6});
  const Tensor scores = b.reduce("scores", Intrinsic::kAdd, {n, n}, {depth}, [&](const Indices& i, const Indices& d) {
    const Expr key = parts.keys_vary_by_query ? mod(i[0] + i[1], make_size(n)) : i[1];
    return q({i[0], d[0]}) * k({key, d[0]});
  });
  const Tensor largest = b.reduce("largest", parts.combine, {n}, {n}, [&](const Indices& i, const Indices& j) {
    return scores({i[0], j[0]});
  });
  const Tensor weights = b.compute("weights", kF32, {n, n}, [&](const Indices& i) {
    const Expr own = parts.shift_by_key ? largest({i[1]}) : largest({i[0]});
    return exp(scores(i) - own);
  });
  const Tensor sum = b.reduce("sum", Intrinsic::kAdd, {n}, {n}, [&](const Indices& i, const Indices& j) {
    return weights({i[0], j[0]});
  });
  const Tensor weighted = b.reduce("weighted", Intrinsic::kAdd, {n, 6}, {n}, [&](const Indices& i, const Indices& j) {
    return weights({i[0], j[0]}) * v({j[0], i[1]});
  });
  const Tensor y = b.compute("y", kF32, {n, 6}, [&](const Indices& i) { return weighted(i) / sum({i[0]}); });
  std::vector<Tensor> outputs = {y};
  if (parts.scores_are_an_output) outputs.push_back(scores);
  Region region = b.finish("attention", outputs);
  normalise(region);
  std::string reason;
  const auto forms = find_attention(region, reason);
  EXPECT_EQ(forms.has_value(), reason.empty());
  return reason;
}

TEST(AttentionForms, are_found_whichever_tensors_hold_the_operands) {
  EXPECT_EQ(reason_of({}), "");
  EXPECT_EQ(reason_of({.keys_are_queries = true}), "");
}

TEST(AttentionForms, near_misses_have_their_reasons) {
  EXPECT_EQ(reason_of({.combine = Intrinsic::kMin}), "the exponentials are not a softmax over the keys");
  EXPECT_EQ(reason_of({.shift_by_key = 1}), "the exponentials are not a softmax over the keys");
  EXPECT_EQ(reason_of({.keys_vary_by_query = true}), "keys or values depend on the query");
  EXPECT_EQ(reason_of({.scores_are_an_output = true}), "an intermediate result is wanted outside");
}

}  // namespace
}  // namespace graft
