// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<TensorData> run(const Region& region, const std::vector<TensorData>& inputs) {
  verify(region);
  Bindings bindings;
  return interpret(region, inputs, bindings);
}

TensorData floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return TensorData::from_values<float>(DType::kFloat32, std::move(shape), values);
}
TensorData longs(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return TensorData::from_values<int64_t>(DType::kInt64, std::move(shape), values);
}
std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.uniform(-2, 2)));
  return values;
}
std::vector<int64_t> integers_of(const TensorData& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.element_count()));
  tensor.read_integers(0, values);
  return values;
}
std::vector<double> doubles_of(const TensorData& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.element_count()));
  tensor.read_doubles(0, values);
  return values;
}
std::string error_of(const Region& region, const std::vector<TensorData>& inputs,
                     ErrorKind kind = ErrorKind::kInvalidArgument) {
  try {
    run(region, inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

const Size kRows = Size::symbol("rows"), kColumns = Size::symbol("columns");

TEST(Interpreter, compute_transposes_across_block_borders) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  const Tensor y = b.compute("y", DType::kFloat32, {kColumns, kRows}, [&](const Indices& i) {
    return x({i[1], i[0]}) * make_constant(DType::kFloat32, 2);
  });
  const Region region = b.finish("transpose", {y});
  const auto values = random_floats(37 * 91, 1);
  const TensorData result = run(region, {floats({37, 91}, values)})[0];
  ASSERT_EQ(result.shape(), (std::vector<int64_t>{91, 37}));
  for (size_t i = 0; i < 37; ++i) {
    for (size_t j = 0; j < 91; ++j) EXPECT_EQ(result.as<float>()[j * 37 + i], values[i * 91 + j] * 2);
  }
}

TEST(Interpreter, reduce_sums_rows_whether_many_or_few) {
  for (const int64_t rows : {1, 3, 200, 1500}) {
    const int64_t columns = rows == 1 ? 5003 : 37;
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
    const Tensor y = b.reduce("y", Intrinsic::kAdd, {kRows}, {kColumns}, [&](const Indices& i, const Indices& k) {
      return x({i[0], k[0]});
    });
    const auto values = random_floats(rows * columns, 2);
    const TensorData result = run(b.finish("sum", {y}), {floats({rows, columns}, values)})[0];
    for (int64_t i = 0; i < rows; ++i) {
      const auto begin = values.begin() + i * columns;
      EXPECT_NEAR(result.as<float>()[static_cast<size_t>(i)], std::accumulate(begin, begin + columns, 0.0), 1e-4);
    }
  }
}

TEST(Interpreter, reduce_over_nothing_is_the_identity) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  const auto row = [&](const Indices& i, const Indices& k) { return x({i[0], k[0]}); };
  const Tensor largest = b.reduce("largest", Intrinsic::kMax, {kRows}, {kColumns}, row);
  const Tensor product = b.reduce("product", Intrinsic::kMul, {kRows}, {kColumns}, row);
  const auto results = run(b.finish("empty", {largest, product}), {floats({2, 0}, {})});
  EXPECT_EQ(doubles_of(results[0]), (std::vector<double>{-kInfinity, -kInfinity}));
  EXPECT_EQ(doubles_of(results[1]), (std::vector<double>{1, 1}));
}

/// First position of the largest value: a monoid over (value, position).
Region arg_max(bool associative) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  Monoid m;
  m.identity = {make_constant(DType::kFloat32, -kInfinity), make_index(-1)};
  m.left = {make_variable(DType::kFloat32), make_variable()};
  m.right = {make_variable(DType::kFloat32), make_variable()};
  const Expr right_wins = gt(m.right[0], m.left[0]);
  m.combine = {select(right_wins, m.right[0], m.left[0]), select(right_wins, m.right[1], m.left[1])};
  m.associative = associative;
  const auto y = b.reduce("y", m, {kRows}, {kColumns}, [&](const Indices& i, const Indices& k) {
    return std::vector<Expr>{x({i[0], k[0]}), k[0]};
  });
  return b.finish("arg_max", {y[0], y[1]});
}

TEST(Interpreter, reduce_keeps_the_order_of_a_tuple_monoid) {
  for (const bool associative : {true, false}) {
    for (const int64_t rows : {1, 2, 130}) {
      const int64_t columns = 1201;
      auto values = random_floats(rows * columns, 3);
      for (float& v : values) v = std::round(v * 8);  // many ties, so the first one must win
      const auto results = run(arg_max(associative), {floats({rows, columns}, values)});
      for (int64_t i = 0; i < rows; ++i) {
        const auto begin = values.begin() + i * columns;
        EXPECT_EQ(results[1].read_integer(i), std::max_element(begin, begin + columns) - begin);
        EXPECT_EQ(results[0].read_double(i), *std::max_element(begin, begin + columns));
      }
    }
  }
}

TEST(Interpreter, sums_of_small_integers_wrap_in_their_type) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt8, {kRows});
  const Tensor y =
      b.reduce("y", Intrinsic::kAdd, {}, {kRows}, [&](const Indices&, const Indices& k) { return x({k[0]}); });
  const TensorData result =
      run(b.finish("sum", {y}), {TensorData::from_values<int>(DType::kInt8, {3}, {100, 100, 100})})[0];
  EXPECT_EQ(integers_of(result), (std::vector<int64_t>{44}));
}

/// Running sums along the last axis.
Region running_sum(bool exclusive, bool reverse) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  const auto y = b.scan("y", {kRows}, kColumns, [&](Scan& scan, const Indices& i, const Expr& t) {
    const Expr sum = make_variable(DType::kFloat32);
    scan.state = {sum};
    scan.initial = {make_constant(DType::kFloat32, 0)};
    scan.step = {sum + x({i[0], t})};
    scan.emit = {sum};
    scan.exclusive = exclusive;
    scan.reverse = reverse;
  });
  return b.finish("running_sum", {y[0]});
}

TEST(Interpreter, scan_runs_forwards_and_backwards_with_and_without_the_element) {
  const TensorData x = floats({2, 3}, {1, 2, 3, 10, 20, 30});
  const auto results = [&](bool exclusive, bool reverse) {
    return doubles_of(run(running_sum(exclusive, reverse), {x})[0]);
  };
  EXPECT_EQ(results(false, false), (std::vector<double>{1, 3, 6, 10, 30, 60}));
  EXPECT_EQ(results(true, false), (std::vector<double>{0, 1, 3, 0, 10, 30}));
  EXPECT_EQ(results(false, true), (std::vector<double>{6, 5, 3, 60, 50, 30}));
  EXPECT_EQ(results(true, true), (std::vector<double>{5, 3, 0, 50, 30, 0}));
}

TEST(Interpreter, scan_steps_all_states_from_the_old_ones) {
  RegionBuilder b;
  const auto y = b.scan("y", {}, Size(8), [&](Scan& scan, const Indices&, const Expr&) {
    const Expr last = make_variable(), next = make_variable();
    scan.state = {last, next};
    scan.initial = {make_index(0), make_index(1)};
    scan.step = {next, last + next};
    scan.emit = {last};
  });
  EXPECT_EQ(integers_of(run(b.finish("fibonacci", {y[0]}), {})[0]), (std::vector<int64_t>{1, 1, 2, 3, 5, 8, 13, 21}));
}

Region scatter_region(ScatterMode mode, bool conditional) {
  RegionBuilder b;
  const Tensor base = b.input("base", DType::kInt64, {kRows});
  const Tensor where = b.input("where", DType::kInt64, {kColumns});
  const Tensor value = b.input("value", DType::kInt64, {kColumns});
  const Tensor y = b.scatter("y", base, mode, {kColumns}, [&](Scatter& scatter, const Indices& i) {
    scatter.indices = {where({i[0]})};
    scatter.value = value({i[0]});
    if (conditional) scatter.condition = ge(where({i[0]}), make_index(0));
  });
  return b.finish("scatter", {y});
}

TEST(Interpreter, scatter_updates_in_order_with_every_mode) {
  const auto result = [](ScatterMode mode) {
    return integers_of(run(scatter_region(mode, false),
                           {longs({3}, {1, 2, 3}), longs({4}, {2, 0, 2, 2}), longs({4}, {5, 7, 4, 6})})[0]);
  };
  EXPECT_EQ(result(ScatterMode::kSet), (std::vector<int64_t>{7, 2, 6}));
  EXPECT_EQ(result(ScatterMode::kAdd), (std::vector<int64_t>{8, 2, 18}));
  EXPECT_EQ(result(ScatterMode::kMul), (std::vector<int64_t>{7, 2, 360}));
  EXPECT_EQ(result(ScatterMode::kMin), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(result(ScatterMode::kMax), (std::vector<int64_t>{7, 2, 6}));
}

TEST(Interpreter, scatter_skips_points_whose_condition_fails_and_reports_other_bad_indices) {
  const std::vector<TensorData> inputs = {longs({3}, {1, 2, 3}), longs({2}, {-1, 1}), longs({2}, {9, 8})};
  EXPECT_EQ(integers_of(run(scatter_region(ScatterMode::kSet, true), inputs)[0]), (std::vector<int64_t>{1, 8, 3}));
  const std::string error = error_of(scatter_region(ScatterMode::kSet, false), inputs);
  EXPECT_NE(error.find("tensor 'y'"), std::string::npos) << error;
  EXPECT_NE(error.find("index -1"), std::string::npos) << error;
}

TEST(Interpreter, sort_is_stable_and_puts_nan_last_or_first) {
  const auto results = [](bool descending) {
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
    const auto y = b.sort("y", {kRows}, kColumns, kColumns, descending, [&](const Indices& i, const Expr& t) {
      return x({i[0], t});
    });
    return run(b.finish("sort", {y[0], y[1]}), {floats({2, 4}, {2, kNan, 1, 2, 0, -1, 0, 5})});
  };
  EXPECT_EQ(integers_of(results(false)[1]), (std::vector<int64_t>{2, 0, 3, 1, 1, 0, 2, 3}));
  EXPECT_EQ(integers_of(results(true)[1]), (std::vector<int64_t>{1, 0, 3, 2, 3, 0, 2, 1}));
  EXPECT_TRUE(std::isnan(results(false)[0].read_double(3)));
}

TEST(Interpreter, sort_agrees_with_the_standard_library_over_long_rows) {
  const int64_t rows = 3, columns = 1700;
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  const auto y = b.sort("y", {kRows}, kColumns, Size(5), false, [&](const Indices& i, const Expr& t) {
    return x({i[0], t});
  });
  const auto values = random_floats(rows * columns, 5);
  const TensorData result = run(b.finish("top", {y[0]}), {floats({rows, columns}, values)})[0];
  ASSERT_EQ(result.shape(), (std::vector<int64_t>{3, 5}));
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<float> row(values.begin() + i * columns, values.begin() + (i + 1) * columns);
    std::sort(row.begin(), row.end());
    for (int64_t r = 0; r < 5; ++r) EXPECT_EQ(result.read_double(i * 5 + r), row[static_cast<size_t>(r)]);
  }
}

TEST(Interpreter, compact_keeps_points_and_binds_their_number) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows, kColumns});
  const auto kept = b.compact("kept", {kRows, kColumns}, "found", [&](Compact& compact, const Indices& i) {
    compact.condition = gt(x({i[0], i[1]}), make_constant(DType::kFloat32, 0));
    compact.values = {i[0], x({i[0], i[1]})};
  });
  const Tensor doubled = b.compute("doubled", DType::kFloat32, {Size::symbol("found")},
                                   [&](const Indices& i) { return kept[1](i) + kept[1](i); });
  const Region region = b.finish("positive", {kept[0], doubled});
  const auto values = random_floats(40 * 70, 6);
  Bindings bindings;
  const TensorData x_data[] = {floats({40, 70}, values)};
  const auto results = interpret(region, x_data, bindings);
  std::vector<double> expected;
  for (const float v : values) {
    if (v > 0) expected.push_back(2.0f * v);
  }
  EXPECT_EQ(bindings.at("found"), static_cast<int64_t>(expected.size()));
  EXPECT_EQ(doubles_of(results[1]), expected);
  EXPECT_EQ(results[0].read_integer(0), 0);
}

/// y[i] = i < length of x ? x[i] : 0, where the load must not happen beyond the end.
Region padded(bool checked) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows});
  const Tensor y = b.compute("y", DType::kFloat32, {kRows + Size(3)}, [&](const Indices& i) {
    const Expr inside = lt(i[0], make_size(kRows));
    const Expr index = checked ? check_index(i[0], make_size(kRows)) : i[0];
    return select(inside, x({index}), make_constant(DType::kFloat32, 0));
  });
  return b.finish("pad", {y});
}

TEST(Interpreter, select_does_not_load_in_the_branch_not_taken) {
  for (const bool checked : {false, true}) {
    EXPECT_EQ(doubles_of(run(padded(checked), {floats({2}, {5, 6})})[0]), (std::vector<double>{5, 6, 0, 0, 0}));
    EXPECT_EQ(doubles_of(run(padded(checked), {floats({0}, {})})[0]), (std::vector<double>{0, 0, 0}));
  }
}

TEST(Interpreter, select_evaluates_a_shared_load_for_the_lanes_of_both_users) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, {kRows});
  const Tensor index = b.input("index", DType::kInt64, {kColumns});
  const Tensor y = b.compute("y", DType::kFloat32, {kColumns}, [&](const Indices& i) {
    const Expr at = index({i[0]});
    const Expr loaded = x({at});
    const Expr small = select(lt(at, make_index(2)), loaded, make_constant(DType::kFloat32, 0));
    const Expr large = select(ge(at, make_index(4)), make_constant(DType::kFloat32, 100), loaded);
    return small + large;
  });
  EXPECT_EQ(doubles_of(run(b.finish("both", {y}), {floats({4}, {1, 2, 3, 4}), longs({4}, {0, 3, 9, 1})})[0]),
            (std::vector<double>{2, 4, 100, 4}));
}

Region gather(bool checked) {
  RegionBuilder b;
  const Tensor x = b.input("table", DType::kFloat32, {kRows});
  const Tensor index = b.input("index", DType::kInt64, {kColumns});
  const Tensor y = b.compute("y", DType::kFloat32, {kColumns}, [&](const Indices& i) {
    const Expr at = index(i);
    return x({checked ? check_index(at, make_size(kRows)) : at});
  });
  return b.finish("gather", {y});
}

TEST(Interpreter, an_index_out_of_range_is_an_error_naming_tensor_value_and_range) {
  for (const bool checked : {false, true}) {
    // Only what is checked is the input's fault: a region that reads outside without a check is a bug.
    const ErrorKind kind = checked ? ErrorKind::kInvalidArgument : ErrorKind::kInternal;
    const std::string error = error_of(gather(checked), {floats({3}, {1, 2, 3}), longs({2}, {1, 7})}, kind);
    EXPECT_NE(error.find("tensor 'table'"), std::string::npos) << error;
    EXPECT_NE(error.find("index 7"), std::string::npos) << error;
    EXPECT_NE(error.find("below 3"), std::string::npos) << error;
  }
}

TEST(Interpreter, contradictory_inputs_are_errors_naming_input_and_axis) {
  const std::string shape =
      error_of(scatter_region(ScatterMode::kSet, false), {longs({1}, {0}), longs({2}, {0, 0}), longs({3}, {0, 0, 0})});
  EXPECT_NE(shape.find("input 'value'"), std::string::npos) << shape;
  EXPECT_NE(shape.find("axis 0 has 3 elements, but 2 (columns)"), std::string::npos) << shape;
  const std::string type = error_of(padded(false), {longs({1}, {0})});
  EXPECT_NE(type.find("f32 is expected"), std::string::npos) << type;
}

TEST(Interpreter, low_precision_tensors_round_where_they_are_stored) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat16, {kRows});
  const Tensor y = b.compute("y", DType::kFloat16, {kRows},
                             [&](const Indices& i) { return x.wide(i) + make_constant(DType::kFloat32, 1); });
  const Tensor z =
      b.compute("z", DType::kInt4, {kRows}, [&](const Indices& i) { return make_cast(DType::kInt32, x(i)); });
  const auto results =
      run(b.finish("narrow", {y, z}), {TensorData::from_values<double>(DType::kFloat16, {2}, {2048, -3})});
  EXPECT_EQ(doubles_of(results[0]), (std::vector<double>{2048, -2}));  // 2049 is a tie
  EXPECT_EQ(integers_of(results[1]), (std::vector<int64_t>{0, -3}));
}

TEST(Interpreter, strings_and_complex_numbers_move_without_arithmetic) {
  RegionBuilder b;
  const Tensor s = b.input("s", DType::kString, {kRows});
  const Tensor z = b.input("z", DType::kComplex64, {kRows});
  const auto reversed = [](const Tensor& t) {
    return [t](const Indices& i) { return t({make_size(kRows) - make_index(1) - i[0]}); };
  };
  const Tensor s2 = b.compute("s2", DType::kString, {kRows}, reversed(s));
  const Tensor z2 = b.compute("z2", DType::kComplex64, {kRows}, reversed(z));
  const auto results = run(b.finish("reverse", {s2, z2}),
                           {TensorData::from_strings({2}, {"a", "b"}),
                            TensorData::from_values<std::complex<float>>(DType::kComplex64, {2}, {{1, 2}, {3, 4}})});
  EXPECT_EQ(results[0].strings(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(results[1].as<std::complex<float>>()[0], std::complex<float>(3, 4));
}

TEST(Interpreter, scatter_moves_strings_and_complex_numbers) {
  RegionBuilder b;
  const Tensor s = b.input("s", DType::kString, {3});
  const Tensor z = b.input("z", DType::kComplex64, {2});
  const auto first_to_last = [](const Tensor& t) {
    return [t](Scatter& scatter, const Indices& i) {
      scatter.indices = {make_size(t.size(0)) - make_index(1)};
      scatter.value = t(i);
    };
  };
  const Tensor s2 = b.scatter("s2", s, ScatterMode::kSet, {1}, first_to_last(s));
  const Tensor z2 = b.scatter("z2", z, ScatterMode::kSet, {1}, first_to_last(z));
  const auto results = run(b.finish("scatter", {s2, z2}),
                           {TensorData::from_strings({3}, {"a", "b", "c"}),
                            TensorData::from_values<std::complex<float>>(DType::kComplex64, {2}, {{1, 2}, {3, 4}})});
  EXPECT_EQ(results[0].strings(), (std::vector<std::string>{"a", "b", "a"}));
  EXPECT_EQ(results[1].as<std::complex<float>>()[0], std::complex<float>(1, 2));
  EXPECT_EQ(results[1].as<std::complex<float>>()[1], std::complex<float>(1, 2));
}

TEST(Interpreter, matmul_agrees_with_naive_loops) {
  const int64_t m = 9, n = 70, k = 33;
  RegionBuilder b;
  const Size sm = Size::symbol("m"), sn = Size::symbol("n"), sk = Size::symbol("k");
  const Tensor a = b.input("a", DType::kFloat32, {sm, sk});
  const Tensor c = b.input("c", DType::kFloat32, {sk, sn});
  const Tensor y = b.reduce("y", Intrinsic::kAdd, {sm, sn}, {sk}, [&](const Indices& i, const Indices& r) {
    return a({i[0], r[0]}) * c({r[0], i[1]});
  });
  const auto left = random_floats(m * k, 8), right = random_floats(k * n, 9);
  const TensorData result = run(b.finish("matmul", {y}), {floats({m, k}, left), floats({k, n}, right)})[0];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < k; ++r) {
        sum += static_cast<double>(left[static_cast<size_t>(i * k + r)]) * right[static_cast<size_t>(r * n + j)];
      }
      EXPECT_EQ(result.as<float>()[static_cast<size_t>(i * n + j)], static_cast<float>(sum));
    }
  }
}

}  // namespace
}  // namespace graft
