// SPDX-License-Identifier: Apache-2.0
// The default lists of mixed precision of every front end: each operator has a rule, found out from what it becomes.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "driver/precision_lists.h"

namespace graft {
namespace {

using amp::Rule;

TEST(PrecisionLists, every_operator_of_every_front_end_has_a_rule) {
  for (const char* front_end : {"onnx", "mxnet", "tensorflow", "aten"}) {
    const amp::DefaultLists lists = default_lists(front_end, DType::kFloat16);
    EXPECT_GT(lists.names.size(), 100U) << front_end;
    std::string missing;
    for (const std::string& op : lists.names) {
      if (!lists.rule(op)) missing += " " + op;
    }
    EXPECT_EQ(missing, "") << front_end << ": name what they are in driver/precision_names.inc";
  }
}

TEST(PrecisionLists, what_an_operator_becomes_says_its_rule) {
  struct Case {
    const char *front_end, *op;
    Rule rule;
  };
  for (const Case& each : std::initializer_list<Case>{{"tensorflow", "Conv2D", Rule::kLow},
                                                      {"tensorflow", "MatMul", Rule::kLow},
                                                      {"tensorflow", "FusedBatchNormV3", Rule::kWidest},
                                                      {"tensorflow", "AddV2", Rule::kWidest},
                                                      {"tensorflow", "Relu", Rule::kFollow},
                                                      {"tensorflow", "MaxPool", Rule::kFollow},
                                                      {"tensorflow", "Sum", Rule::kWide},
                                                      {"tensorflow", "Exp", Rule::kWide},
                                                      {"tensorflow", "SquaredDifference", Rule::kWide},
                                                      {"aten", "aten::conv2d", Rule::kLow},
                                                      {"aten", "aten::addmm", Rule::kLow},
                                                      {"aten", "aten::lstm.input", Rule::kLow},
                                                      {"aten", "aten::gelu", Rule::kFollow},
                                                      {"aten", "aten::add.Tensor", Rule::kWidest},
                                                      {"aten", "aten::rsqrt", Rule::kWide},
                                                      {"aten", "aten::exp_", Rule::kWide},
                                                      {"aten", "aten::var.dim", Rule::kWide}}) {
    EXPECT_EQ(default_lists(each.front_end, DType::kFloat16).rule(each.op), each.rule) << each.op;
  }
}

TEST(PrecisionLists, a_front_end_that_is_none_is_named) {
  try {
    default_lists("jax", DType::kFloat16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'jax' has no lists"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graft
