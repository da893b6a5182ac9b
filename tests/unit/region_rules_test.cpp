// SPDX-License-Identifier: Apache-2.0
// Each rule of scans, scatters, sorts and compactions, broken alone: the message names it. The rules of maps and
// reductions are in region_verify_test.cpp.
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "expr/region.h"

namespace graft {
namespace {

/// Tensors by number: x 0, s 1, sums 2, updated 3, keys 4, ranks 5, found 6.
Region whole_region() {
  return parse_region(R"(region whole
tensor x: f32[batch, 8]
tensor s: str[batch]
tensor sums: f32[batch, 8]
tensor updated: f32[batch, 8]
tensor keys: f32[batch, 3]
tensor ranks: i64[batch, 3]
tensor found: i64[count]
input x
input s
output sums
output updated
output keys
output ranks
output found
scan sums over [i0 < batch] along [k0 < 8] {
  state s0: f32
  initial x[i0, 0]
  step add(s0, x[i0, k0])
  emit s0
}
scatter updated from x add over [i0 < batch] {
  indices i0, 7
  value x[i0, 0]
  condition ge(i0, 3)
}
sort keys, ranks over [i0 < batch] along [k0 < 8] keep [3] {
  key x[i0, k0]
}
compact found count [count] over [i0 < batch, i1 < 8] {
  condition gt(x[i0, i1], 0:f32)
  values i1
}
)");
}

Scan& scan_of(Region& r) { return std::get<Scan>(r.forms[0]); }
Scatter& scatter_of(Region& r) { return std::get<Scatter>(r.forms[1]); }
Sort& sort_of(Region& r) { return std::get<Sort>(r.forms[2]); }
Compact& compact_of(Region& r) { return std::get<Compact>(r.forms[3]); }

std::string problem_of(const Region& region) {
  try {
    verify(region);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.message();
  }
  return "none";
}

struct Break {
  const char* message;
  std::function<void(Region&)> apply;
};

void expect_each_is_named(const std::vector<Break>& breaks) {
  for (const Break& one : breaks) {
    Region region = whole_region();
    one.apply(region);
    const std::string problem = problem_of(region);
    EXPECT_NE(problem.find(one.message), std::string::npos) << "expected: " << one.message << "\nfound: " << problem;
  }
}

Expr load_beside(int tensor, DType type) { return make_load(tensor, type, {make_index(0), make_index(0)}); }

TEST(RegionRules, are_kept_by_the_whole_region) { EXPECT_EQ(problem_of(whole_region()), "none"); }

TEST(RegionRules, of_tensors) {
  expect_each_is_named({
      {"'x' has no element type", [](Region& r) { r.tensors[0].type = DType::kUndefined; }},
      {"there is no tensor number 7", [](Region& r) { r.inputs.push_back(7); }},
      {"there is no tensor number -1", [](Region& r) { r.inputs.push_back(-1); }},
      {"'x' is defined twice", [](Region& r) { r.inputs.push_back(0); }},
      {"an output is not defined", [](Region& r) { r.outputs.push_back(7); }},
      {"an output is not defined", [](Region& r) { r.outputs.push_back(-1); }},
  });
}

TEST(RegionRules, of_scans) {
  expect_each_is_named({
      {"initial values, but 1 are expected", [](Region& r) { scan_of(r).initial.clear(); }},
      {"steps, but 1 are expected", [](Region& r) { scan_of(r).step.clear(); }},
      {"outputs, but 1 are expected", [](Region& r) { scan_of(r).outputs.push_back(3); }},
      {"a scan has a state and emits something",
       [](Region& r) { scan_of(r).emit.clear(), scan_of(r).outputs.clear(); }},
      {"a scan has a state and emits something",
       [](Region& r) { scan_of(r).state.clear(), scan_of(r).initial.clear(), scan_of(r).step.clear(); }},
      {"the initial value uses a variable that is not in scope",
       [](Region& r) {
         Scan& scan = scan_of(r);
         scan.initial[0] = make_load(0, DType::kFloat32, {make_index(0), scan.axis.variable});
       }},
      {"the initial value is a i64, not a f32", [](Region& r) { scan_of(r).initial[0] = make_index(0); }},
      {"the step is a i64, not a f32", [](Region& r) { scan_of(r).step[0] = make_index(0); }},
      {"there is no step", [](Region& r) { scan_of(r).step[0] = {}; }},
      {"the emitted value is a i64, not a f32", [](Region& r) { scan_of(r).emit[0] = make_index(0); }},
      {"a variable is declared twice", [](Region& r) { scan_of(r).axis.variable = scan_of(r).axes[0].variable; }},
      {"an axis variable is not an i64", [](Region& r) { scan_of(r).axis.variable = make_variable(DType::kInt32); }},
      {"a variable is expected", [](Region& r) { scan_of(r).axis.variable = make_index(0); }},
      {"there is no state variable", [](Region& r) { scan_of(r).state[0] = {}; }},
      {"'sums' has the shape [batch, 8], but the form covers [batch, 9]",
       [](Region& r) { scan_of(r).axis.extent = 9; }},
  });
}

TEST(RegionRules, of_scatters) {
  expect_each_is_named({
      {"there is no tensor number 9", [](Region& r) { scatter_of(r).base = 9; }},
      {"'keys' is read before it is defined",
       [](Region& r) { r.tensors[4].shape = r.tensors[0].shape, scatter_of(r).base = 4; }},
      {"'updated' has the shape", [](Region& r) { r.tensors[3].shape[1] = 9; }},
      {"'updated' is f64, but f32 is stored", [](Region& r) { r.tensors[3].type = DType::kFloat64; }},
      {"indices, but 2 are expected", [](Region& r) { scatter_of(r).indices.pop_back(); }},
      {"the index is a f32, not a i64",
       [](Region& r) { scatter_of(r).indices[0] = make_constant(DType::kFloat32, 0); }},
      {"the value is a i64, not a f32", [](Region& r) { scatter_of(r).value = make_index(0); }},
      {"there is no value", [](Region& r) { scatter_of(r).value = {}; }},
      {"the condition is a i64, not a bool", [](Region& r) { scatter_of(r).condition = make_index(0); }},
      {"the value reads 'keys' before it is defined",
       [](Region& r) { scatter_of(r).value = load_beside(4, DType::kFloat32); }},
      {"only set applies to elements that are not numbers",
       [](Region& r) {
         Scatter& s = scatter_of(r);
         r.tensors[3] = r.tensors[1];
         s.base = 1;
         s.indices.pop_back();
         s.value = make_load(1, DType::kString, {make_index(0)});
       }},
  });
}

TEST(RegionRules, of_sorts) {
  expect_each_is_named({
      {"a sort has one or two outputs", [](Region& r) { sort_of(r).outputs.push_back(6); }},
      {"a sort has one or two outputs", [](Region& r) { sort_of(r).outputs.clear(); }},
      {"the key is a i64, not a f32", [](Region& r) { sort_of(r).key = make_index(0); }},
      {"the key has no order",
       [](Region& r) {
         r.tensors[4].type = DType::kString;
         sort_of(r).key = make_load(1, DType::kString, {make_index(0)});
       }},
      {"'keys' has the shape [batch, 3], but the form covers [batch, 4]", [](Region& r) { sort_of(r).count = 4; }},
      {"'ranks' is f32, but i64 is stored", [](Region& r) { r.tensors[5].type = DType::kFloat32; }},
      {"a variable is declared twice", [](Region& r) { sort_of(r).axis.variable = sort_of(r).axes[0].variable; }},
  });
}

TEST(RegionRules, of_compactions) {
  expect_each_is_named({
      {"the count has no name", [](Region& r) { compact_of(r).count.clear(); }},
      {"outputs, but 1 are expected", [](Region& r) { compact_of(r).outputs.push_back(3); }},
      {"nothing is kept", [](Region& r) { compact_of(r).values.clear(), compact_of(r).outputs.clear(); }},
      {"the condition is a i64, not a bool", [](Region& r) { compact_of(r).condition = make_index(0); }},
      {"there is no condition", [](Region& r) { compact_of(r).condition = {}; }},
      {"the value is a f32, not a i64", [](Region& r) { compact_of(r).values[0] = load_beside(0, DType::kFloat32); }},
      {"'found' has the shape [count], but the form covers [other]", [](Region& r) { compact_of(r).count = "other"; }},
      {"the value uses a variable that is not in scope", [](Region& r) { compact_of(r).values[0] = make_variable(); }},
  });
}

TEST(RegionRules, of_calls_and_loads) {
  const auto value = [](const Expr& e) { return [e](Region& r) { scatter_of(r).value = e; }; };
  const auto call = [](Intrinsic intrinsic, DType type, std::vector<Expr> args) {
    ExprNode node{.kind = ExprKind::kCall, .type = type, .size = {}, .args = std::move(args)};
    node.intrinsic = intrinsic;
    return Expr(std::make_shared<const ExprNode>(node));
  };
  const Expr x = load_beside(0, DType::kFloat32);
  expect_each_is_named({
      {"'x' is loaded as another type", value(load_beside(0, DType::kFloat64))},
      {"'x' has 2 axes, but 1 indices are given", value(make_load(0, DType::kFloat32, {make_index(0)}))},
      {"there is no tensor number 9", value(load_beside(9, DType::kFloat32))},
      {"add gives a f32", value(call(Intrinsic::kAdd, DType::kInt64, {x, x}))},
      {"lt gives a bool", value(call(Intrinsic::kLt, DType::kFloat32, {x, x}))},
      {"add takes 2 arguments", value(call(Intrinsic::kAdd, DType::kFloat32, {x}))},
      {"differ", value(call(Intrinsic::kAdd, DType::kFloat32, {x, make_index(0)}))},
  });
}

}  // namespace
}  // namespace graft
