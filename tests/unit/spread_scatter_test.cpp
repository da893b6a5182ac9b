// SPDX-License-Identifier: Apache-2.0
// Scatters that are made in two steps give the same results, whoever writes an element last.
#include "plan/spread_scatter.h"

#include <gtest/gtest.h>

#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

/// Numbers that are all different, and for integers indices below 5 that often repeat.
TensorData filled(const TensorDecl& decl) {
  TensorData data = TensorData::zeros(decl.type, concrete(decl.shape));
  for (int64_t i = 0; i < data.element_count(); ++i) {
    if (is_integer(decl.type)) {
      data.write_integers(i, std::vector<int64_t>{i * i % 7 % 5});
    } else {
      data.write_doubles(i, std::vector<double>{static_cast<double>(i) + (decl.name == "x" ? 0.5 : 0)});
    }
  }
  return data;
}

FusedStep step_of(const Region& region, std::vector<FusedTensor>& tensors) {
  FusedStep step;
  step.name = "scatter", step.region = region;
  for (const auto& [names, of] : {std::pair{&step.inputs, &region.inputs}, {&step.outputs, &region.outputs}}) {
    for (const int tensor : *of) {
      const TensorDecl& decl = region.tensors[static_cast<size_t>(tensor)];
      names->push_back(static_cast<int>(tensors.size()));
      tensors.push_back({decl.name, decl.type, decl.shape, {}, -1});
    }
  }
  return step;
}

/// The program's last output after all steps ran in the interpreter.
TensorData run(const std::vector<FusedStep>& steps, const std::vector<FusedTensor>& tensors, int output) {
  std::vector<TensorData> values;
  for (const FusedTensor& tensor : tensors) values.push_back(filled({tensor.name, tensor.type, tensor.shape}));
  for (const FusedStep& step : steps) {
    std::vector<TensorData> inputs;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Shape& seen = step.region.tensors[static_cast<size_t>(step.region.inputs[i])].shape;
      inputs.push_back(values[static_cast<size_t>(step.inputs[i])].reshaped(concrete(seen)));
    }
    Bindings sizes;
    std::vector<TensorData> results = interpret(step.region, inputs, sizes);
    for (size_t i = 0; i < results.size(); ++i) {
      values[static_cast<size_t>(step.outputs[i])] = std::move(results[i]);
    }
  }
  return values[static_cast<size_t>(output)];
}

using Make = std::function<void(Scatter&, const Tensor& numbers, const Indices&)>;

void expect_same(const Shape& shape, const Shape& domain, const Shape& numbers, const Make& make) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kFloat32, shape), u = b.input("u", DType::kFloat32, domain);
  const Tensor n = b.input("n", DType::kInt64, numbers);
  const Tensor y = b.scatter("y", x, ScatterMode::kSet, domain, [&](Scatter& s, const Indices& i) {
    s.value = u(i);
    s.indices = i;
    make(s, n, i);
  });
  const Region region = b.finish("scatter", {y});
  std::vector<FusedTensor> tensors;
  const FusedStep whole = step_of(region, tensors);
  const TensorData expected = run({whole}, tensors, whole.outputs[0]);
  const std::vector<FusedStep> steps = spread_scatter(whole, tensors, {});
  ASSERT_EQ(steps.size(), 2u);
  for (const FusedStep& step : steps) EXPECT_NO_THROW(verify(step.region));
  EXPECT_TRUE(run(steps, tensors, whole.outputs[0]).reshaped(concrete(shape)) == expected);
}

TEST(SpreadScatter, rows_that_repeat_keep_the_last_update) {
  expect_same({6, 4}, {20, 4}, {20}, [](Scatter& s, const Tensor& n, const Indices& i) { s.indices[0] = n({i[0]}); });
}

TEST(SpreadScatter, several_axes_count_the_updates) {
  expect_same({5, 5, 3}, {4, 5, 3}, {4, 5}, [](Scatter& s, const Tensor& n, const Indices& i) {
    s.indices = {n({i[0], i[1]}), n({i[0], i[1]}), i[2]};
  });
}

TEST(SpreadScatter, elements_have_places_of_their_own) {
  expect_same({6, 8}, {7, 5}, {7, 5}, [](Scatter& s, const Tensor& n, const Indices& i) {
    s.indices[0] = n({i[0], i[1]});
  });
}

TEST(SpreadScatter, updates_may_be_narrower_than_what_they_update) {
  expect_same({6, 9}, {7, 5}, {7}, [](Scatter& s, const Tensor& n, const Indices& i) { s.indices[0] = n({i[0]}); });
}

TEST(SpreadScatter, updates_may_depend_on_a_condition) {
  expect_same({6, 9}, {7, 9}, {7}, [](Scatter& s, const Tensor& n, const Indices& i) {
    s.indices[0] = n({i[0]});
    s.condition = lt(i[0], make_index(5)) && lt(i[1], make_index(4));
  });
}

TEST(SpreadScatter, few_updates_and_sums_stay_as_they_are) {
  for (const ScatterMode mode : {ScatterMode::kSet, ScatterMode::kAdd}) {
    const Size rows = mode == ScatterMode::kSet ? 3 : 300;
    RegionBuilder b;
    const Tensor x = b.input("x", DType::kFloat32, {1000}), u = b.input("u", DType::kFloat32, {rows});
    const Tensor y = b.scatter("y", x, mode, {rows}, [&](Scatter& s, const Indices& i) {
      s.value = u(i);
      s.indices = {i[0] * make_index(2)};
    });
    std::vector<FusedTensor> tensors;
    EXPECT_EQ(spread_scatter(step_of(b.finish("scatter", {y}), tensors), tensors, {}).size(), 1u);
  }
}

}  // namespace
}  // namespace graft
