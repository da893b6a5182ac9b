// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "tile/program.h"

namespace graft::tile {
namespace {

/// y[i] = x[i] over rows of a grid: the smallest program with a name in every place.
Program copy_program() {
  Program program;
  program.name = "copy";
  program.sizes = {"rows"};
  const Size rows = Size::symbol("rows");
  program.buffers = {{"x", DType::kFloat32, Scope::kGlobal, {rows, 8}, {8, 1}, false},
                     {"y", DType::kFloat32, Scope::kGlobal, {rows, 8}, {8, 1}, true}};
  const Expr g = make_variable(), i = make_variable();
  program.grid = {{g, rows}};
  program.body.push_back({Map{{{i, make_index(8), 8}}, {}, {{1, {g, i}, make_load(0, DType::kFloat32, {g, i})}}}});
  return program;
}

Map& map_of(Program& program) { return std::get<Map>(program.body[0].node); }

void expect_broken(const Program& program, std::string_view part) {
  const auto reason = broken_rule(program);
  ASSERT_TRUE(reason.has_value()) << part;
  EXPECT_NE(reason->find(part), std::string::npos) << *reason;
  try {
    verify(program);
    ADD_FAILURE() << "verify accepts what broken_rule refuses";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  }
}

TEST(TileVerify, accepts_a_program_that_keeps_the_rules) {
  EXPECT_EQ(broken_rule(copy_program()), std::nullopt);
  EXPECT_NO_THROW(verify(copy_program()));
}

TEST(TileVerify, names_the_broken_rule) {
  Program program = copy_program();
  program.name = "not a name";
  expect_broken(program, "C identifier");

  program = copy_program();
  program.buffers[1].written = false;
  expect_broken(program, "statement 0: a store writes 'y', which is not marked written");

  program = copy_program();
  map_of(program).stores[0].value = make_load(0, DType::kFloat16, {make_index(0), make_index(0)});
  expect_broken(program, "another type");

  program = copy_program();
  map_of(program).stores[0].indices = {make_index(0), make_variable()};
  expect_broken(program, "out of scope");

  program = copy_program();
  map_of(program).axes[0].bound = 4;
  expect_broken(program, "exceeds its bound");

  program = copy_program();
  program.sizes.clear();
  expect_broken(program, "'rows' is used but not listed");

  program = copy_program();
  program.threads = 100;
  expect_broken(program, "multiple of 32");
}

TEST(TileVerify, a_contraction_keeps_its_axes_apart) {
  Program program;
  program.name = "matmul";
  program.buffers = {{"a", DType::kFloat32, Scope::kGlobal, {4, 4}, {4, 1}, false},
                     {"c", DType::kFloat32, Scope::kGlobal, {4, 4}, {4, 1}, true}};
  const Expr m = make_variable(), n = make_variable(), k = make_variable();
  const auto axis = [](const Expr& v) { return std::vector<Axis>{{v, make_index(4), 4}}; };
  const auto load = [](const Expr& i, const Expr& j) { return make_load(0, DType::kFloat32, {i, j}); };
  const auto with = [&](Expr a, Expr b, std::vector<Expr> c) {
    Program result = program;
    result.body.push_back({Contract{axis(m), axis(n), axis(k), std::move(a), std::move(b), 1, std::move(c)}});
    return result;
  };
  EXPECT_EQ(broken_rule(with(load(m, k), load(k, n), {m, n})), std::nullopt);
  expect_broken(with(load(m, n), load(k, n), {m, n}), "operand a uses an n axis");
  expect_broken(with(load(m, k), load(k, m), {m, n}), "operand b uses an m axis");
  expect_broken(with(load(m, k), load(k, n), {m, k}), "the result uses a k axis");
  expect_broken(with(load(m, k), load(k, n), {n, m}), "not contiguous in c");
  expect_broken(with(load(m, k), load(n, k), {m, n}), "not contiguous in b");
}

TEST(TileVerify, scratch_is_aligned_and_counts_gaps) {
  Program program = copy_program();
  program.buffers.push_back({"a", DType::kFloat16, Scope::kShared, {3, 8}, {10, 1}, false});  // 28 elements
  program.buffers.push_back({"b", DType::kInt4, Scope::kShared, {200}, {1}, false});          // 100 bytes
  program.buffers.push_back({"c", DType::kFloat32, Scope::kFragment, {Size::symbol("rows"), 16}, {16, 1}, false});
  const std::vector<Size> offsets = scratch_offsets(program);
  ASSERT_EQ(offsets.size(), 6u);
  EXPECT_TRUE(offsets[2].is(0));
  EXPECT_TRUE(offsets[3].is(64));
  EXPECT_TRUE(offsets[4].is(192));
  EXPECT_EQ(offsets[5].evaluate({{"rows", 3}}), 192 + 192);
  EXPECT_EQ(offsets[5].evaluate({{"rows", 0}}), 192);
  EXPECT_EQ(grid_size(program), Size::symbol("rows"));
}

}  // namespace
}  // namespace graft::tile
