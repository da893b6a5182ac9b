// SPDX-License-Identifier: Apache-2.0
// Kernels of the host that stand on no library, and the values that they take.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/run_limits.h"
#include "graph/dynamic_type.h"
#include "graph/host_operator.h"
#include "kernels/host_kernel.h"
#include "kernels/tensor_parts.h"
#include "runtime/value_table.h"

namespace graft {
namespace {

using Texts = std::vector<std::string>;

TensorData texts(const Texts& list) { return TensorData::from_strings({static_cast<int64_t>(list.size())}, list); }
TensorData integers(const std::vector<int64_t>& list) {
  return TensorData::from_values<int64_t>(DType::kInt64, {static_cast<int64_t>(list.size())}, list);
}

std::vector<DynamicValue> run(std::string_view op, Attributes attributes, const std::vector<DynamicValue>& inputs) {
  Node node;
  node.op = op;
  node.attributes = std::move(attributes);
  return find_host_kernel("", op)->make(node)(inputs);
}

TEST(HostKernels, are_there_for_every_operator_of_the_host) {
  for (const HostOp& op : host_ops()) {
    const HostKernelInfo* kernel = find_host_kernel(op.domain, op.name);
    ASSERT_NE(kernel, nullptr) << op.name;
    EXPECT_NE(kernel->make == nullptr, kernel->module.empty()) << op.name;
    EXPECT_TRUE(op.doc.ends_with('.')) << op.name;
  }
}

TEST(DynamicValues, that_grow_at_their_end_leave_shorter_ones_as_they_are) {
  const DynamicValue empty = DynamicValue::sequence({});
  const DynamicValue one = empty.with(0, integers({1})), two = one.with(1, integers({2}));
  const DynamicValue other = one.with(1, integers({3}));
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(two[1].tensor(), integers({2}));
  EXPECT_EQ(other[1].tensor(), integers({3}));
  EXPECT_EQ(two.without(0)[0].tensor(), integers({2}));
}

TEST(DynamicValues, are_not_nested_without_end) {
  DynamicValue value = DynamicValue::sequence({});
  int depth = 1;
  try {
    for (; depth < 1000; ++depth) value = DynamicValue::sequence({value});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(error.message().find("nested more than 64 deep"), std::string::npos);
  }
  EXPECT_EQ(depth, 64);
  EXPECT_THROW(DynamicValue::sequence({}).with(0, value), Error);
}

/// Strings of a kernel are the run's, and each of them asks whether it is to end.
TEST(HostKernels, of_strings_keep_the_limits_of_a_run) {
  const TensorData text = TensorData::from_strings({1}, {std::string(1000, 'a')});
  const TensorData many = TensorData::from_strings({100}, std::vector<std::string>(100));
  struct Case {
    const char* domain;
    Node node;
    std::vector<DynamicValue> inputs;
    bool makes_texts;
  };
  const auto node = [](const char* op, Attributes attributes = {}) {
    return Node{.name = op, .domain = "", .op = op, .attributes = std::move(attributes), .inputs = {}, .outputs = {}};
  };
  const std::vector<Case> cases = {
      {"", node("StringConcat"), {text, many}, true},
      {"", node("Equal"), {text, many}, false},
      {"", node("StringSplit", {{"delimiter", std::string("b")}}), {text}, true},
      {"", node("Cast", {{"to", int64_t{onnx_code(DType::kString)}}}),
       {TensorData::zeros(DType::kFloat32, {2000})}, true}};
  for (const Case& each : cases) {
    const HostKernelInfo* info = find_host_kernel(each.domain, each.node.op);
    ASSERT_TRUE(info && info->make) << each.node.op;
    const HostKernel kernel = info->make(each.node);
    const auto budget = std::make_shared<MemoryBudget>();
    budget->set_limit(20000);
    StopSignal stop;
    const auto kind = [&]() -> std::optional<ErrorKind> {
      const LimitScope limits(budget, &stop);
      try {
        kernel(each.inputs);
      } catch (const Error& error) {
        return error.kind();
      }
      return std::nullopt;
    };
    if (each.makes_texts) {
      EXPECT_EQ(kind(), ErrorKind::kOutOfMemory) << each.node.op;
    }
    EXPECT_EQ(budget->used(), 0) << each.node.op;
    budget->set_limit(0);
    EXPECT_EQ(kind(), std::nullopt) << each.node.op;
    stop.request(StopSignal::kDeadline);
    EXPECT_EQ(kind(), ErrorKind::kCancelled) << each.node.op;
  }
}

TEST(DynamicTypes, are_read_printed_and_joined) {
  const auto joined = [](std::string_view a, std::string_view b) {
    const auto type = join(parse_dynamic_type(a), parse_dynamic_type(b));
    return type ? print(*type) : "none";
  };
  EXPECT_EQ(print(parse_dynamic_type("optional(seq(f32[2, floor_div(n, 2), 2*m]))")), "optional(seq(f32[2, ?, ?]))");
  EXPECT_EQ(joined("seq(f32[2, 3])", "seq(f32[2, 4])"), "seq(f32[2, ?])");
  EXPECT_EQ(joined("seq(f32!)", "seq(f32[2])"), "seq(f32[2])");
  EXPECT_EQ(joined("seq(f32[2])", "seq(f32[2, 2])"), "seq(f32)");
  EXPECT_EQ(joined("optional(f32[1])", "f32[2]"), "optional(f32[?])");
  EXPECT_EQ(joined("map(i64, f32)", "map(str, f32)"), "none");
  EXPECT_EQ(joined("seq(i64)", "seq(f32)"), "none");
  for (const char* text : {"seq(f32", "seq()", "f33", "seq(f32[1,])", "", "f32 f32"}) {
    EXPECT_THROW(parse_dynamic_type(text), Error) << text;
  }
}

TEST(TensorParts, are_cut_and_joined_whatever_the_elements_are) {
  const TensorData narrow = TensorData::from_values<int64_t>(DType::kInt4, {2, 3}, {1, -2, 3, 4, -5, 6});
  const TensorData middle = part_along(narrow, 1, 1, 2);
  EXPECT_EQ(middle, TensorData::from_values<int64_t>(DType::kInt4, {2, 2}, {-2, 3, -5, 6}));
  const TensorData parts[] = {middle, part_along(narrow, 1, 0, 1)};
  EXPECT_EQ(joined_along(parts, 1), TensorData::from_values<int64_t>(DType::kInt4, {2, 3}, {-2, 3, 1, -5, 6, 4}));
  const TensorData words[] = {texts({"a", "b"}), texts({}), texts({"c"})};
  EXPECT_EQ(joined_along(words, 0), texts({"a", "b", "c"}));
  const TensorData other[] = {texts({"a"}), integers({1})};
  EXPECT_THROW(joined_along(other, 0), Error);
}

TEST(HostKernels, of_splits_count_from_the_left_and_pad) {
  const auto split = [](Attributes attributes, const Texts& given) {
    const auto results = run("StringSplit", std::move(attributes), {texts(given)});
    return std::pair(results[0].tensor().strings(), results[1].tensor());
  };
  EXPECT_EQ(split({{"delimiter", std::string(",")}}, {"a,,b", ""}),
            std::pair(Texts({"a", "", "b", "", "", ""}), integers({3, 1})));
  EXPECT_EQ(split({{"maxsplit", int64_t{1}}}, {" a  b c ", "\xE3\x80\x80"}),
            std::pair(Texts({"a", "b c ", "", ""}), integers({2, 0})));
}

TEST(HostKernels, of_casts_read_and_write_numbers_as_text) {
  const auto cast = [](DType type, const TensorData& given) {
    return run("Cast", {{"to", int64_t{onnx_code(type)}}}, {given})[0].tensor();
  };
  EXPECT_EQ(cast(DType::kString, TensorData::from_values<float>(DType::kFloat32, {4}, {0.1f, 1e20f, -INFINITY, NAN})),
            texts({"0.1", "1e+20", "-INF", "NaN"}));
  EXPECT_EQ(cast(DType::kString, integers({-7})), texts({"-7"}));
  EXPECT_EQ(cast(DType::kInt64, texts({" 12", "+3", "-9223372036854775808"})), integers({12, 3, INT64_MIN}));
  EXPECT_EQ(cast(DType::kFloat64, texts({"1e400", "-1e-400", "inf"})).read_double(0), INFINITY);
  for (const char* text : {"", "1x", "300", "-1", "0x10"}) {
    EXPECT_THROW(cast(DType::kUint8, texts({text})), Error) << text;
  }
}

TEST(HostKernels, of_counts_weigh_grams_and_ignore_what_they_do_not_know) {
  const Attributes attributes = {{"mode", std::string("TFIDF")}, {"min_gram_length", int64_t{1}},
                                 {"max_gram_length", int64_t{2}}, {"max_skip_count", int64_t{1}},
                                 {"ngram_counts", std::vector<int64_t>{0, 1}},
                                 {"ngram_indexes", std::vector<int64_t>{1, 0}},
                                 {"pool_strings", Texts{"a", "a", "b"}}, {"weights", std::vector<double>{2, 3}}};
  // "a b" once side by side and once with a word between.
  EXPECT_EQ(run("TfIdfVectorizer", attributes, {texts({"a", "b", "x", "a", "x", "b"})})[0].tensor(),
            TensorData::from_values<float>(DType::kFloat32, {2}, {4, 6}));
  EXPECT_THROW(run("TfIdfVectorizer", attributes, {integers({1})}), Error);
}

TEST(ValueTables, check_handles_keep_constants_and_count_what_they_hold) {
  const auto budget = std::make_shared<MemoryBudget>();
  ValueTable table(budget);
  const uint64_t constant = table.add_text("constant");
  table.keep();
  const int64_t before = budget->used();
  const uint64_t text = table.add_text("text"), value = table.add(DynamicValue());
  EXPECT_EQ(table.add_text("text"), text);
  EXPECT_EQ(table.add_text(""), 0u);
  EXPECT_GT(budget->used(), before);
  table.forget();
  EXPECT_EQ(budget->used(), before);
  EXPECT_EQ(table.text(constant), "constant");
  EXPECT_THROW(table.text(text), Error);
  EXPECT_THROW(table.value(value), Error);
  budget->set_limit(budget->used() + 64);
  EXPECT_THROW(table.add_text(std::string(1000, 'x')), Error);
}

}  // namespace
}  // namespace graft
