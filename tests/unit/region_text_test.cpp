// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

constexpr std::string_view kAllForms = R"(region all_forms tf32
tensor x: f32[batch, 384]
tensor index: i64[batch]
tensor base: f32[384]
tensor y: f32[384, batch]
tensor top: f32[batch]
tensor where: i64[batch]
tensor sums: f32[batch, 384]
tensor updated: f32[384]
tensor keys: f32[batch, 5]
tensor ranks: i64[batch, 5]
tensor found: i64[count]
input x
input index
input base
output y
output found
compute y over [i0 < 384, i1 < batch] {
  let t0 = exp(mul(x[i1, i0], 0.5:f32))
  value add(t0, div(1:f32, t0))
}
reduce top, where over [i0 < batch] fold [k0 < 384] ordered {
  left l0: f32, l1: i64
  right r0: f32, r1: i64
  lift x[i0, k0], k0
  identity -inf:f32, -1
  combine select(gt(r0, l0), r0, l0), select(gt(r0, l0), r1, l1)
}
scan sums over [i0 < batch] along [k0 < 384] exclusive reverse {
  state s0: f32
  initial 0:f32
  step add(s0, x[i0, k0])
  emit s0
}
scatter updated from base add over [i0 < batch] {
  indices check_index(index[i0], 384)
  value x[i0, 0]
  condition ge(index[i0], 0)
}
sort keys, ranks over [i0 < batch] along [k0 < 384] keep [5] descending {
  key x[i0, k0]
}
compact found count [count] over [i0 < batch, i1 < 384] {
  condition gt(x[i0, i1], 0:f32)
  values i1
}
)";

TEST(RegionText, every_form_prints_as_it_was_written) {
  const Region region = parse_region(kAllForms);
  verify(region);
  EXPECT_EQ(print(region), kAllForms);
}

TEST(RegionText, names_become_unique_identifiers) {
  RegionBuilder b;
  const Tensor x = b.input("/layer.0/x", DType::kFloat32, {2});
  const Tensor y = b.compute("/layer.0.x", DType::kFloat32, {2}, [&](const Indices& i) { return exp(x(i)); });
  const std::string text = print(b.finish("exp of x", {y}));
  EXPECT_NE(text.find("value exp(_layer_0_x[i0])"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor _layer_0_x_2: f32[2]"), std::string::npos) << text;
  EXPECT_EQ(print(parse_region(text)), text);
}

/// Expressions of a given type over two variables and the tensors of the region.
class RandomExpressions {
 public:
  RandomExpressions(Random& random, const Indices& indices, std::vector<Tensor> tensors)
      : random_(random), tensors_(std::move(tensors)), made_{{}, {}} {
    for (const Expr& i : indices) made_[1].push_back(i);
    for (const Tensor& t : tensors_) made_[t.type() == DType::kInt64].push_back(t(indices));
    made_[0].push_back(make_constant(DType::kFloat32, random_.uniform(-3, 3)));
    made_[1].push_back(make_size(Size::symbol("n") * Size(random_.integer(2, 9)) + Size(1)));
  }
  Expr grow(int steps) {
    for (int i = 0; i < steps; ++i) step();
    return made_[0].back();
  }

 private:
  Expr pick(int integer) {
    const auto& all = made_[static_cast<size_t>(integer)];
    return all[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(all.size()) - 1))];
  }
  void step() {
    constexpr Intrinsic kBinary[] = {Intrinsic::kAdd, Intrinsic::kMul, Intrinsic::kMax, Intrinsic::kMod};
    const Intrinsic f = kBinary[random_.integer(0, 3)];
    switch (random_.integer(0, 4)) {
      case 0:
        made_[0].push_back(make_call(f, {pick(0), pick(0)}));
        break;
      case 1:
        made_[1].push_back(make_call(f, {pick(1), pick(1)}));
        break;
      case 2:
        made_[0].push_back(select(lt(pick(1), pick(1)), pick(0), sin(pick(0))));
        break;
      case 3:
        made_[0].push_back(make_cast(DType::kFloat32, pick(1)));
        break;
      default:
        made_[0].push_back(make_cast(DType::kFloat32, make_cast(DType::kFloat16, pick(0))));
        break;
    }
  }

  Random& random_;
  std::vector<Tensor> tensors_;
  std::vector<Expr> made_[2];  ///< floats, integers
};

TEST(RegionText, random_regions_read_back_with_the_same_text_and_the_same_results) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RegionBuilder b;
    const Size n = Size::symbol("n");
    const Tensor x = b.input("x", DType::kFloat32, {n, 3});
    const Tensor j = b.input("j", DType::kInt64, {n, 3});
    const Tensor y = b.compute("y", DType::kFloat32, {n, 3}, [&](const Indices& i) {
      return RandomExpressions(random, i, {x, j}).grow(40);
    });
    const Tensor z = b.reduce("z", Intrinsic::kAdd, {n}, {3}, [&](const Indices& i, const Indices& k) {
      return RandomExpressions(random, {i[0], k[0]}, {x, y}).grow(20);
    });
    const Region region = b.finish("random", {y, z});
    verify(region);
    const std::string text = print(region);
    const Region again = parse_region(text);
    verify(again);
    ASSERT_EQ(print(again), text);
    TensorData inputs[] = {TensorData::zeros(DType::kFloat32, {4, 3}), TensorData::zeros(DType::kInt64, {4, 3})};
    for (int i = 0; i < 12; ++i) {
      inputs[0].write_double(i, random.uniform(-2, 2));
      inputs[1].write_integer(i, random.integer(-9, 9));
    }
    Bindings first, second;
    const auto expected = interpret(region, inputs, first), results = interpret(again, inputs, second);
    EXPECT_TRUE(expected[0] == results[0] && expected[1] == results[1]) << text;
  }
}

TEST(RegionText, damaged_text_is_an_error_and_never_a_crash) {
  Random random(42);
  int failed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text(kAllForms);
    for (int64_t edits = random.integer(1, 4); edits > 0; --edits) {
      const size_t at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1));
      switch (random.integer(0, 3)) {
        case 0:
          text[at] = static_cast<char>(random.integer(0, 255));
          break;
        case 1:
          text.erase(at, static_cast<size_t>(random.integer(1, 20)));
          break;
        case 2:
          text.insert(at, kAllForms.substr(static_cast<size_t>(random.integer(0, 800)), 12));
          break;
        default:
          text.resize(std::max<size_t>(at, 1));
          break;
      }
      if (text.empty()) break;
    }
    try {
      const Region region = parse_region(text);
      print(region);
      verify(region);
    } catch (const Error& error) {
      ++failed;
    }
  }
  EXPECT_GT(failed, 10000);
}

TEST(RegionText, errors_point_at_the_line) {
  try {
    parse_region("region r\ntensor x: f32[2]\ninput x\noutput x\ncompute y over [] {}");
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.where(), "region, line 5, column 11");
    EXPECT_NE(error.message().find("the tensor 'y' is not declared"), std::string::npos);
  }
}

TEST(RegionText, one_expression_prints_with_variables_in_order_of_appearance) {
  const Expr i = make_variable(), j = make_variable();
  const std::vector<TensorDecl> tensors = {{"x", DType::kFloat32, {2, 2}}};
  EXPECT_EQ(print(exp(make_load(0, DType::kFloat32, {j, i})), tensors), "exp(x[v0, v1])");
}

}  // namespace
}  // namespace graft
