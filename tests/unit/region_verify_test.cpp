// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "expr/build.h"
#include "expr/form_fields.h"
#include "ops/guard_loads.h"

namespace graft {
namespace {

/// A region that sums the rows of x into y, to be broken by each test.
Region sum_region() {
  return parse_region(R"(region sum
tensor x: f32[batch, 8]
tensor y: f32[batch]
tensor z: f32[batch]
input x
output z
reduce y over [i0 < batch] fold [k0 < 8] {
  left l0: f32
  right r0: f32
  lift x[i0, k0]
  identity 0:f32
  combine add(l0, r0)
}
compute z over [i0 < batch] {
  value exp(y[i0])
}
)");
}

std::string problem_of(const Region& region) {
  try {
    verify(region);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.message();
  }
  return "none";
}

#define EXPECT_PROBLEM(region, part) EXPECT_NE(problem_of(region).find(part), std::string::npos) << problem_of(region)

Reduce& reduce_of(Region& region) { return std::get<Reduce>(region.forms[0]); }
Compute& compute_of(Region& region) { return std::get<Compute>(region.forms[1]); }

TEST(VerifyRegion, accepts_a_correct_region) { EXPECT_EQ(problem_of(sum_region()), "none"); }

TEST(VerifyRegion, refuses_reading_before_defining) {
  Region region = sum_region();
  std::swap(region.forms[0], region.forms[1]);
  EXPECT_PROBLEM(region, "region 'sum', form 0 (of 'z'): the value reads 'y' before it is defined");
}

TEST(VerifyRegion, refuses_a_second_definition) {
  Region region = sum_region();
  region.forms.push_back(region.forms[1]);
  EXPECT_PROBLEM(region, "'z' is defined twice");
}

TEST(VerifyRegion, refuses_an_output_that_nothing_defines) {
  Region region = sum_region();
  region.forms.pop_back();
  EXPECT_PROBLEM(region, "an output is not defined");
}

TEST(VerifyRegion, refuses_variables_out_of_scope) {
  Region region = sum_region();
  reduce_of(region).monoid.combine[0] = make_cast(DType::kFloat32, reduce_of(region).axes[0].variable);
  EXPECT_PROBLEM(region, "the combined value uses a variable that is not in scope");
}

TEST(VerifyRegion, refuses_a_value_of_another_type) {
  Region region = sum_region();
  compute_of(region).value = make_index(1);
  EXPECT_PROBLEM(region, "the value is a i64, not a f32");
}

TEST(VerifyRegion, refuses_a_shape_that_the_form_does_not_cover) {
  Region region = sum_region();
  compute_of(region).axes[0].extent = 7;
  EXPECT_PROBLEM(region, "'z' has the shape [batch], but the form covers [7]");
}

TEST(VerifyRegion, refuses_indices_of_wrong_number_or_type) {
  Region region = sum_region();
  compute_of(region).value = make_load(1, DType::kFloat32, {});
  EXPECT_PROBLEM(region, "'y' has 1 axes, but 0 indices are given");
  compute_of(region).value = make_load(1, DType::kFloat32, {make_integer(DType::kInt32, 0)});
  EXPECT_PROBLEM(region, "an index of 'y' is not an i64");
}

TEST(VerifyRegion, refuses_a_monoid_whose_parts_do_not_match) {
  Region region = sum_region();
  reduce_of(region).monoid.identity = {make_constant(DType::kFloat64, 0)};
  EXPECT_PROBLEM(region, "the state of component 0 is not f32");
  reduce_of(region).monoid.identity.clear();
  EXPECT_PROBLEM(region, "there are 0 identities, but 1 are expected");
}

TEST(VerifyRegion, refuses_reductions_whose_parts_are_missing_or_of_another_number) {
  const auto expect = [](const char* part, const std::function<void(Reduce&)>& apply) {
    Region region = sum_region();
    apply(reduce_of(region));
    EXPECT_PROBLEM(region, part);
  };
  const Expr other = make_index(0), wide = make_constant(DType::kFloat64, 0);
  expect("nothing is lifted", [](Reduce& r) { r.lift.clear(); });
  expect("there are 0 outputs, but 1 are expected", [](Reduce& r) { r.outputs.clear(); });
  expect("there are 0 left variables, but 1 are expected", [](Reduce& r) { r.monoid.left.clear(); });
  expect("there are 0 right variables, but 1 are expected", [](Reduce& r) { r.monoid.right.clear(); });
  expect("there are 0 combining expressions, but 1 are expected", [](Reduce& r) { r.monoid.combine.clear(); });
  expect("an identity is not a constant", [](Reduce& r) { r.monoid.identity[0] = {}; });
  expect("an identity is not a constant", [](Reduce& r) { r.monoid.identity[0] = r.monoid.left[0]; });
  expect("there is no lifted value", [](Reduce& r) { r.lift[0] = {}; });
  expect("a variable is expected", [&](Reduce& r) { r.monoid.left[0] = other; });
  expect("a variable is expected", [](Reduce& r) { r.monoid.right[0] = {}; });
  expect("the state of component 0 is not f32", [](Reduce& r) { r.monoid.left[0] = make_variable(DType::kFloat64); });
  expect("the state of component 0 is not f32", [](Reduce& r) { r.monoid.right[0] = make_variable(DType::kFloat64); });
  expect("there is no combined value", [](Reduce& r) { r.monoid.combine[0] = {}; });
  expect("the combined value is a f64, not a f32", [&](Reduce& r) { r.monoid.combine[0] = wide; });
  expect("a variable is declared twice", [](Reduce& r) { r.monoid.right[0] = r.monoid.left[0]; });
  expect("an axis variable is not an i64", [](Reduce& r) { r.reduced[0].variable = make_variable(DType::kInt32); });
  expect("'y' has the shape [batch], but the form covers [5]", [](Reduce& r) { r.axes[0].extent = 5; });
}

TEST(VerifyRegion, refuses_calls_whose_result_has_another_type) {
  Region region = sum_region();
  const auto call = [&](Intrinsic intrinsic, DType type, std::vector<Expr> args) {
    ExprNode node{.kind = ExprKind::kCall, .type = type, .size = {}, .args = std::move(args)};
    node.intrinsic = intrinsic;
    compute_of(region).value = Expr(std::make_shared<const ExprNode>(node));
  };
  const Expr one = make_constant(DType::kFloat32, 1), half = make_constant(DType::kFloat16, 1);
  const Expr yes = make_integer(DType::kBool, 1);
  call(Intrinsic::kExp, DType::kFloat64, {one});
  EXPECT_PROBLEM(region, "exp gives a f32");
  call(Intrinsic::kLt, DType::kFloat32, {one, one});
  EXPECT_PROBLEM(region, "lt gives a bool");
  call(Intrinsic::kSelect, DType::kFloat64, {yes, one, one});
  EXPECT_PROBLEM(region, "select gives a f32");
  call(Intrinsic::kExp, DType::kFloat16, {half});
  EXPECT_PROBLEM(region, "exp computes in f16");
  call(Intrinsic::kCast, DType::kFloat32, {half});
  EXPECT_EQ(problem_of(region), "none");
}

TEST(VerifyRegion, refuses_calls_on_operands_they_do_not_take) {
  Region region = sum_region();
  ExprNode node{.kind = ExprKind::kCall, .type = DType::kFloat32, .size = {}, .args = {}};
  node.intrinsic = Intrinsic::kSqrt;
  node.args = {make_index(4)};
  compute_of(region).value = Expr(std::make_shared<const ExprNode>(node));
  EXPECT_PROBLEM(region, "sqrt does not take operands of type i64");
}

TEST(VerifyRegion, refuses_one_variable_for_two_axes) {
  Region region = sum_region();
  reduce_of(region).reduced[0].variable = reduce_of(region).axes[0].variable;
  EXPECT_PROBLEM(region, "a variable is declared twice");
}

/// A form of each kind over the tensors 0 (what is read), 1 and 2, whose expressions read nothing.
std::vector<Form> forms_without_loads() {
  const Axis axis{make_variable(), Size(4)}, other{make_variable(), Size(4)};
  const Expr one = make_constant(DType::kFloat32, 1), yes = make_integer(DType::kBool, 1);
  const Expr state = make_variable(DType::kFloat32);
  return {Compute{.axes = {axis}, .value = one, .output = 1},
          Reduce{.axes = {axis}, .reduced = {other}, .lift = {one},
                 .monoid = make_monoid(Intrinsic::kAdd, DType::kFloat32), .outputs = {1}},
          Scan{.axes = {}, .axis = axis, .state = {state}, .initial = {one}, .step = {one}, .emit = {state},
               .outputs = {1}},
          Scatter{.axes = {axis}, .base = 2, .indices = {axis.variable}, .value = one, .condition = yes, .output = 1},
          Sort{.axes = {}, .axis = axis, .key = one, .count = Size(4), .outputs = {1}},
          Compact{.axes = {axis}, .condition = yes, .values = {one}, .count = "n", .outputs = {1}}};
}

void add_load(Expr& e, const Expr& load) { e = make_cast(e->type, load); }
void add_load(std::vector<Expr>& exprs, const Expr& load) { add_load(exprs.back(), load); }

/// What finds, renumbers and guards loads does so wherever a form has one, or the verifier refuses it there.
TEST(FormFields, loads_are_found_in_every_field_of_every_form) {
  const std::vector<Form> forms = forms_without_loads();
  ASSERT_EQ(forms.size(), std::variant_size_v<Form>);
  const Shape shape = {Size(4)};
  int fields = 0;
  for (size_t kind = 0; kind < forms.size(); ++kind) {
    ASSERT_EQ(forms[kind].index(), kind);
    int count = 0;
    for_each_field(forms[kind], [&](const char*, FieldScope, const auto&) { ++count; });
    for (int chosen = 0; chosen < count; ++chosen, ++fields) {
      Form form = forms[kind];
      std::string name;
      bool states = false;
      int at = 0;
      for_each_field(form, [&](const char* field, FieldScope scope, auto& exprs) {
        if (at++ != chosen) return;
        name = field, states = scope == FieldScope::kStates;
        add_load(exprs, make_load(0, DType::kFloat32, {make_index(9)}));
      });
      int loads = 0;
      for_each_load(form, [&](const Expr&) { ++loads; });
      EXPECT_EQ(loads, 1) << kind << " " << name;
      const std::vector<int> read = read_tensors(form);
      EXPECT_NE(std::find(read.begin(), read.end(), 0), read.end()) << kind << " " << name;
      const std::vector<int> moved = read_tensors(renumber_tensors(form, [](int tensor) { return tensor + 7; }));
      EXPECT_NE(std::find(moved.begin(), moved.end(), 7), moved.end()) << kind << " " << name;
      const Form guarded = guard_loads(form, [&](int) -> const Shape& { return shape; });
      bool checked = false;
      for_each_load(guarded, [&](const Expr& load) { checked = is_check(*load->args[0]); });
      const Region region{.name = "r", .tensors = {{"x", DType::kFloat32, shape}, {"y", DType::kFloat32, shape},
                          {"b", DType::kFloat32, shape}}, .inputs = {0, 2}, .outputs = {1}, .forms = {form}};
      const bool refused = problem_of(region).find("'" + name + "' reads a tensor") != std::string::npos;
      EXPECT_EQ(refused, states) << kind << " " << name;
      EXPECT_TRUE(checked || refused) << kind << " " << name;
    }
  }
  EXPECT_EQ(fields, 13);
}

TEST(FormFields, text_whose_fold_reads_a_tensor_is_refused_where_it_does) {
  const std::string text = R"(region r
tensor x: f32[4]
tensor y: f32[]
input x
output y
reduce y over [] fold [k < 4] {
  left a: f32
  right b: f32
  lift x[k]
  identity 0:f32
  combine COMBINE
}
)";
  const auto fault = [&](const std::string& combine) -> std::string {
    std::string given = text;
    given.replace(given.find("COMBINE"), 7, combine);
    try {
      parse_region(given);
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  };
  EXPECT_EQ(fault("add(a, b)"), "none");
  EXPECT_NE(fault("add(a, x[9])").find("'combine' reads a tensor; only 'lift' may"), std::string::npos);
}

/// Definitions hold on to a tensor's shape while they declare others.
TEST(RegionBuilder, shapes_of_tensors_stay_where_they_are) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {Size::symbol("n"), Size(8)});
  const Shape& shape = x.shape();
  for (int i = 0; i < 100; ++i) b.input("y", DType::kFloat32, {Size(i)});
  EXPECT_EQ(&shape, &x.shape());
}

}  // namespace
}  // namespace graft
