// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

using Contents = std::optional<std::vector<std::vector<Size>>>;

const Size kBatch = Size::symbol("batch"), kLength = Size::symbol("length");

/// y[i] = f(x[i]) over a tensor of three i64.
Contents mapped(const std::vector<Size>& x, const std::function<Expr(const Expr&)>& f) {
  RegionBuilder b;
  const Tensor input = b.input("x", DType::kInt64, {static_cast<int64_t>(x.size())});
  const Tensor y =
      b.compute("y", DType::kInt64, {static_cast<int64_t>(x.size())}, [&](const Indices& i) { return f(input(i)); });
  const SymbolicContent content[] = {x};
  return interpret_symbolically(b.finish("map", {y}), content);
}

std::vector<Size> only(const Contents& contents) { return contents ? (*contents)[0] : std::vector<Size>{}; }

TEST(SymbolicContent, arithmetic_on_sizes_stays_a_size) {
  EXPECT_EQ(only(mapped({kBatch, 3}, [](const Expr& x) { return x * make_index(4) + make_index(1); })),
            (std::vector<Size>{kBatch * Size(4) + Size(1), 13}));
  EXPECT_EQ(only(mapped({kBatch * Size(6), 7}, [](const Expr& x) { return x / make_index(3); })),
            (std::vector<Size>{kBatch * Size(2), 2}));
  EXPECT_EQ(only(mapped({kBatch}, [](const Expr& x) { return make_cast(DType::kInt64, make_cast(DType::kInt32, x)); })),
            (std::vector<Size>{kBatch}));
}

TEST(SymbolicContent, constants_wrap_like_the_interpreter) {
  EXPECT_EQ(only(mapped({200}, [](const Expr& x) { return make_cast(DType::kInt64, make_cast(DType::kInt8, x)); })),
            (std::vector<Size>{-56}));
  EXPECT_EQ(only(mapped({-7}, [](const Expr& x) { return x / make_index(2); })), (std::vector<Size>{-3}));
}

TEST(SymbolicContent, constants_divided_by_minus_one_do_not_overflow) {
  const auto divided = [](const Expr& x) { return x / make_index(-1); };
  const auto rest = [](const Expr& x) { return make_call(Intrinsic::kRem, {x, make_index(-1)}); };
  EXPECT_EQ(only(mapped({7, -5, INT64_MIN}, divided)), (std::vector<Size>{-7, 5, INT64_MIN}));
  EXPECT_EQ(only(mapped({7, -5, INT64_MIN}, rest)), (std::vector<Size>{0, 0, 0}));
}

TEST(SymbolicContent, select_takes_the_branch_that_signs_decide) {
  const auto resolve = [](const Expr& x) { return select(eq(x, make_index(-1)), make_index(99), x); };
  EXPECT_EQ(only(mapped({kBatch, -1, 5}, resolve)), (std::vector<Size>{kBatch, 99, 5}));
  const auto clamp = [](const Expr& x) { return select(lt(x, make_index(0)), make_index(0), x); };
  EXPECT_EQ(only(mapped({kBatch, -4}, clamp)), (std::vector<Size>{kBatch, 0}));
}

TEST(SymbolicContent, a_number_that_a_run_reads_may_be_negative) {
  const Size read = Size::symbol("$n");
  EXPECT_FALSE(mapped({read}, [](const Expr& x) { return select(eq(x, make_index(-1)), make_index(99), x); }));
  EXPECT_FALSE(mapped({read}, [](const Expr& x) { return abs(x); }));
  EXPECT_EQ(only(mapped({max(read, Size(0))}, [](const Expr& x) { return abs(x); })),
            (std::vector<Size>{max(read, Size(0))}));
}

TEST(SymbolicContent, nothing_is_known_when_a_condition_is_open) {
  EXPECT_FALSE(mapped({kBatch}, [](const Expr& x) { return select(eq(x, make_index(0)), make_index(9), x); }));
  EXPECT_FALSE(mapped({kBatch - Size(3)}, [](const Expr& x) { return x / make_index(2); }));
  EXPECT_FALSE(
      mapped({kBatch}, [](const Expr& x) { return make_cast(DType::kInt64, sqrt(make_cast(DType::kFloat32, x))); }));
}

TEST(SymbolicContent, one_side_of_a_junction_may_decide_alone) {
  const auto decided = [](Intrinsic intrinsic, int64_t left, int64_t right) -> std::optional<int64_t> {
    RegionBuilder b;
    const Tensor known = b.input("known", DType::kInt64, {3});  // 0, 1 and what is open
    const Tensor y = b.compute("y", DType::kInt64, {1}, [&](const Indices&) {
      const auto side = [&](int64_t which) { return eq(known({make_index(which)}), make_index(1)); };
      return select(make_call(intrinsic, {side(left), side(right)}), make_index(1), make_index(0));
    });
    const SymbolicContent content[] = {std::vector<Size>{0, 1, kBatch}};
    const Contents made = interpret_symbolically(b.finish("junction", {y}), content);
    return made ? only(made)[0].as_constant() : std::nullopt;
  };
  const std::optional<int64_t> open;
  struct Row {
    Intrinsic intrinsic;
    int64_t left, right;
    std::optional<int64_t> result;
  };
  for (const Row& row : {Row{Intrinsic::kAnd, 0, 0, 0}, Row{Intrinsic::kAnd, 0, 1, 0}, Row{Intrinsic::kAnd, 1, 0, 0},
                         Row{Intrinsic::kAnd, 1, 1, 1}, Row{Intrinsic::kAnd, 0, 2, 0}, Row{Intrinsic::kAnd, 2, 0, 0},
                         Row{Intrinsic::kAnd, 1, 2, open}, Row{Intrinsic::kAnd, 2, 1, open},
                         Row{Intrinsic::kOr, 0, 0, 0}, Row{Intrinsic::kOr, 0, 1, 1}, Row{Intrinsic::kOr, 1, 0, 1},
                         Row{Intrinsic::kOr, 1, 1, 1}, Row{Intrinsic::kOr, 1, 2, 1}, Row{Intrinsic::kOr, 2, 1, 1},
                         Row{Intrinsic::kOr, 0, 2, open}, Row{Intrinsic::kOr, 2, 0, open}}) {
    EXPECT_EQ(decided(row.intrinsic, row.left, row.right), row.result)
        << static_cast<int>(row.intrinsic) << " " << row.left << " " << row.right;
  }
}

TEST(SymbolicContent, junctions_of_numbers_are_of_their_bits) {
  const auto with = [](Intrinsic intrinsic) {
    return only(mapped({12, 10}, [&](const Expr& x) { return make_call(intrinsic, {x, make_index(6)}); }));
  };
  EXPECT_EQ(with(Intrinsic::kAnd), (std::vector<Size>{4, 2}));
  EXPECT_EQ(with(Intrinsic::kOr), (std::vector<Size>{14, 14}));
}

TEST(SymbolicContent, an_index_outside_is_left_to_the_run) {
  const auto read = [](int64_t at) {
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kInt64, {3});
    const Tensor y = b.compute("y", DType::kInt64, {1}, [&](const Indices& i) { return x({i[0] + make_index(at)}); });
    const SymbolicContent content[] = {std::vector<Size>{5, 6, 7}};
    return only(interpret_symbolically(b.finish("read", {y}), content));
  };
  EXPECT_EQ(read(0), std::vector<Size>{5});
  EXPECT_EQ(read(2), std::vector<Size>{7});
  EXPECT_EQ(read(-1), std::vector<Size>{});
  EXPECT_EQ(read(3), std::vector<Size>{});
}

TEST(SymbolicContent, an_unknown_input_matters_only_where_it_is_read) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt64, {2});
  const Tensor unknown = b.input("unknown", DType::kInt64, {2});
  const auto take = [&](bool from_unknown) {
    return [=](const Indices& i) { return select(lt(i[0], make_index(from_unknown ? 1 : 2)), x(i), unknown(i)); };
  };
  const Tensor known = b.compute("known", DType::kInt64, {2}, take(false));
  const Tensor lost = b.compute("lost", DType::kInt64, {2}, take(true));
  Region region = b.finish("mixed", {known, lost});
  const SymbolicContent contents[] = {std::vector<Size>{kBatch, kLength}, std::nullopt};
  EXPECT_FALSE(interpret_symbolically(region, contents));
  region.outputs.pop_back();
  EXPECT_EQ(only(interpret_symbolically(region, contents)), (std::vector<Size>{kBatch, kLength}));
}

TEST(SymbolicContent, reduce_scan_and_scatter_work_on_sizes) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt64, {3});
  const Tensor product =
      b.reduce("product", Intrinsic::kMul, {}, {3}, [&](const Indices&, const Indices& k) { return x({k[0]}); });
  const auto sums = b.scan("sums", {}, Size(3), [&](Scan& scan, const Indices&, const Expr& t) {
    const Expr sum = make_variable();
    scan.state = {sum};
    scan.initial = {make_index(0)};
    scan.step = {sum + x({t})};
    scan.emit = {sum};
  });
  const Tensor set = b.scatter("set", x, ScatterMode::kSet, {1}, [&](Scatter& scatter, const Indices&) {
    scatter.indices = {make_index(1)};
    scatter.value = x({make_index(0)});
  });
  const SymbolicContent content[] = {std::vector<Size>{kBatch, kLength, 8}};
  const Contents results = interpret_symbolically(b.finish("forms", {product, sums[0], set}), content);
  ASSERT_TRUE(results);
  EXPECT_EQ((*results)[0], (std::vector<Size>{kBatch * kLength * Size(8)}));
  EXPECT_EQ((*results)[1], (std::vector<Size>{kBatch, kBatch + kLength, kBatch + kLength + Size(8)}));
  EXPECT_EQ((*results)[2], (std::vector<Size>{kBatch, kBatch, 8}));
}

TEST(SymbolicContent, compact_and_sort_need_decided_choices) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt64, {4});
  const auto kept = b.compact("kept", {4}, "found", [&](Compact& compact, const Indices& i) {
    compact.condition = ne(x(i), make_index(1));
    compact.values = {x(i)};
  });
  const Region region = b.finish("squeeze", {kept[0]});
  const SymbolicContent decided[] = {std::vector<Size>{1, kBatch + Size(2), 1, 5}};
  EXPECT_EQ(only(interpret_symbolically(region, decided)), (std::vector<Size>{kBatch + Size(2), 5}));
  const SymbolicContent open[] = {std::vector<Size>{1, kBatch, 1, 5}};
  EXPECT_FALSE(interpret_symbolically(region, open));
}

TEST(SymbolicContent, what_is_decided_holds_for_every_value_of_the_symbols) {
  constexpr Intrinsic kIntrinsics[] = {Intrinsic::kAdd,      Intrinsic::kSub, Intrinsic::kMul, Intrinsic::kDiv,
                                       Intrinsic::kFloorDiv, Intrinsic::kRem, Intrinsic::kMod, Intrinsic::kMin,
                                       Intrinsic::kMax,      Intrinsic::kEq,  Intrinsic::kNe,  Intrinsic::kLt,
                                       Intrinsic::kLe,       Intrinsic::kGt,  Intrinsic::kGe};
  const std::vector<Size> sizes = {
      kBatch,  kBatch * Size(6), kBatch + Size(2), kBatch - Size(3), Size(4) - kBatch,         Size(0),
      Size(1), Size(-1),         Size(3),          Size(-7),         kBatch * kBatch + Size(1)};
  int decided = 0;
  for (const Intrinsic intrinsic : kIntrinsics) {
    for (const Size& a : sizes) {
      for (const Size& b : sizes) {
        RegionBuilder builder;
        const Tensor x = builder.input("x", DType::kInt64, {2});
        const Tensor y = builder.compute("y", DType::kInt64, {}, [&](const Indices&) {
          return make_cast(DType::kInt64, make_call(intrinsic, {x({make_index(0)}), x({make_index(1)})}));
        });
        const Region region = builder.finish("call", {y});
        const SymbolicContent content[] = {std::vector<Size>{a, b}};
        const Contents known = interpret_symbolically(region, content);
        if (!known) continue;
        ++decided;
        for (const int64_t batch : {1, 2, 5, 12}) {
          Bindings bindings{{"batch", batch}};
          const std::vector<int64_t> values = {a.evaluate(bindings), b.evaluate(bindings)};
          const TensorData input = TensorData::from_values<int64_t>(DType::kInt64, {2}, values);
          const TensorData expected = interpret(region, std::span(&input, 1), bindings)[0];
          EXPECT_EQ((*known)[0][0].evaluate(bindings), expected.read_integer(0))
              << info(intrinsic).name << " of " << a.to_string() << " and " << b.to_string() << " at " << batch;
        }
      }
    }
  }
  EXPECT_GT(decided, 900);
}

TEST(SymbolicContent, large_tensors_are_not_followed) {
  for (const int64_t count : {4, 1 << 20}) {
    RegionBuilder b;
    const Tensor y = b.compute("y", DType::kInt64, {count}, [](const Indices& i) { return i[0]; });
    const Region region = b.finish("range", {y});
    EXPECT_EQ(interpret_symbolically(region, {}).has_value(), count == 4);
  }
}

/// Every form over x: i64[2, 4], in each of its variants.
Region every_form() {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt64, {2, 4});
  std::vector<Tensor> outputs;
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      outputs.push_back(b.scan("sums", {2}, Size(4), [&](Scan& scan, const Indices& i, const Expr& t) {
        const Expr sum = make_variable();
        scan.state = {sum};
        scan.initial = {i[0]};
        scan.step = {sum * make_index(2) + x({i[0], t})};
        scan.emit = {sum - t};
        scan.exclusive = exclusive;
        scan.reverse = reverse;
      })[0]);
    }
  }
  for (const ScatterMode mode :
       {ScatterMode::kSet, ScatterMode::kAdd, ScatterMode::kMul, ScatterMode::kMin, ScatterMode::kMax}) {
    outputs.push_back(b.scatter("scattered", x, mode, {4}, [&](Scatter& scatter, const Indices& i) {
      scatter.indices = {mod(i[0], make_index(2)), floor_div(i[0], make_index(2))};
      scatter.value = x({make_index(1), i[0]});
      scatter.condition = ne(i[0], make_index(3));
    }));
  }
  for (const bool descending : {false, true}) {
    const auto sorted = b.sort("sorted", {2}, Size(4), Size(3), descending, [&](const Indices& i, const Expr& t) {
      return x({i[0], t});
    });
    outputs.insert(outputs.end(), sorted.begin(), sorted.end());
  }
  outputs.push_back(b.reduce("total", Intrinsic::kAdd, {4}, {2}, [&](const Indices& i, const Indices& k) {
    return x({k[0], i[0]});
  }));
  return b.finish("forms", outputs);
}

TEST(SymbolicContent, of_constants_is_what_the_interpreter_computes) {
  const Region region = every_form();
  const std::vector<int64_t> values = {5, -2, 5, 7, 0, 9, -4, 1};
  const TensorData input = TensorData::from_values<int64_t>(DType::kInt64, {2, 4}, values);
  Bindings bindings;
  const std::vector<TensorData> expected = interpret(region, std::span(&input, 1), bindings);
  const SymbolicContent content[] = {std::vector<Size>(values.begin(), values.end())};
  const Contents known = interpret_symbolically(region, content);
  ASSERT_TRUE(known);
  for (size_t output = 0; output < expected.size(); ++output) {
    ASSERT_EQ(static_cast<int64_t>((*known)[output].size()), expected[output].element_count());
    for (int64_t i = 0; i < expected[output].element_count(); ++i) {
      EXPECT_EQ((*known)[output][static_cast<size_t>(i)], Size(expected[output].read_integer(i)))
          << region.tensors[region.outputs[output]].name << " " << output << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace graft
