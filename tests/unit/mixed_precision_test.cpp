// SPDX-License-Identifier: Apache-2.0
// Mixed precision of MXNet's symbols: lists and what contradicts them, parameters, and on random graphs that types
// agree and nothing is cast twice. What becomes of whole networks is in tests/golden/amp.
#include <ctime>
#include <functional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "amp/mixed_precision.h"
#include "base/error.h"
#include "base/random.h"
#include "export/mxnet/mixed_precision.h"
#include "export/mxnet/symbol_view.h"
#include "import/mxnet/precision_lists.h"
#include "support/symbol_text.h"

namespace graft {
namespace {

using amp::Request;
using mxnet::MixedSymbol;
using mxnet::Symbol;

const std::string kNetwork = R"(variable %data
variable %fc_weight
%fc = FullyConnected(%data, %fc_weight) {no_bias = "True"}
%r = relu(%fc)
head %r
)";

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& fault) {
    return fault.what();
  }
  return "no error";
}

std::string fault_of(const std::string& request, const mxnet::Parameters* parameters = nullptr) {
  const Symbol symbol = test::symbol_from(kNetwork);
  return fault_of([&] { mxnet::convert_symbol(symbol, amp::parse_request(request, "lists"), parameters); });
}

void expect_fault(const std::string& request, const std::string& part) {
  const std::string fault = fault_of(request);
  EXPECT_NE(fault.find(part), fault.npos) << request << "\n" << fault;
}

TEST(MixedPrecision, lists_that_contradict_each_other_are_errors) {
  expect_fault(R"({"target_dtype_ops": ["relu"], "fp32_ops": ["relu"]})",
               "'relu' is in target_dtype_ops and in fp32_ops");
  expect_fault(R"({"widest_dtype_ops": ["_Plus"], "fp32_ops": ["elemwise_add"]})",
               "'_Plus' is in fp32_ops and in widest_dtype_ops");
  expect_fault(R"({"fp32_ops": ["Activation"], "conditional_fp32_ops": [["Activation", "act_type", ["tanh"]]]})",
               "'Activation' is in fp32_ops, too");
}

TEST(MixedPrecision, names_that_nobody_knows_are_errors_with_the_nearest) {
  expect_fault(R"({"target_dtype_ops": ["Convolutoin"]})", "no operator 'Convolutoin'; did you mean 'Convolution'?");
  expect_fault(R"({"excluded_sym_names": ["fc_wieght"]})", "no node 'fc_wieght'; did you mean 'fc_weight'?");
  expect_fault(R"({"data_names": ["dat"]})", "no variable 'dat'; did you mean 'data'?");
  expect_fault(R"({"input_dtypes": {"data": "float7"}})", "no element type 'float7'");
  expect_fault(R"({"target_dtype": "int8"})", "float16 or bfloat16, not 'int8'");
  expect_fault(R"({"fp32_op": ["relu"]})", "there is no such key; did you mean 'fp32_ops'?");
  expect_fault(R"({"conditional_fp32_ops": [["Activation", "act_type"]]})", "is not [operator, attribute, [values]]");
  expect_fault(R"(["relu"])", "is no object");
  expect_fault(R"({"fp32_ops": )", "is no JSON");
}

TEST(MixedPrecision, an_operator_of_an_extension_may_be_listed_where_it_is_used) {
  const Symbol symbol = test::symbol_from("variable %data\n%m = my_op(%data)\nhead %m\n");
  const MixedSymbol mixed = mxnet::convert_symbol(symbol, {.lists = {.low = {{"my_op"}}}});
  EXPECT_EQ(mixed.casts, 2);
  expect_fault(R"({"fp32_ops": ["my_op"]})", "an operator of an extension has to be in the model");
}

TEST(MixedPrecision, a_list_replaces_the_default_one_of_its_kind) {
  const auto casts = [](const std::string& request) {
    return mxnet::convert_symbol(test::symbol_from(kNetwork), amp::parse_request(request, "lists")).casts;
  };
  EXPECT_EQ(casts("{}"), 2);
  EXPECT_EQ(casts(R"({"target_dtype_ops": []})"), 0);
  EXPECT_EQ(casts(R"({"target_dtype_ops": ["relu"]})"), 2);      // around relu alone
  EXPECT_EQ(casts(R"({"fp32_ops": ["FullyConnected"]})"), 0);    // no other default speaks of it
  EXPECT_EQ(casts(R"({"widest_dtype_ops": ["FullyConnected"]})"), 0);
}

mxnet::Parameters weights(float value) {
  return {{"fc_weight", TensorData::from_values<float>(DType::kFloat32, {1, 2}, {value, 1})}};
}

TEST(MixedPrecision, a_parameter_whose_contents_do_not_fit_stays_f32) {
  const mxnet::Parameters fitting = weights(2), large = weights(1e6F);
  const Symbol symbol = test::symbol_from(kNetwork);
  EXPECT_EQ(mxnet::convert_symbol(symbol, {}, &fitting).parameter_types.at("fc_weight"), DType::kFloat16);
  EXPECT_EQ(mxnet::convert_symbol(symbol, {}, &large).parameter_types.at("fc_weight"), DType::kFloat32);
  const Request brain{.low = DType::kBFloat16};
  EXPECT_EQ(mxnet::convert_symbol(symbol, brain, &large).parameter_types.at("fc_weight"), DType::kBFloat16);
}

TEST(MixedPrecision, a_missing_parameter_is_named) {
  const mxnet::Parameters none;
  EXPECT_NE(fault_of("{}", &none).find("fc_weight: the parameters have no array of this name"), std::string::npos)
      << fault_of("{}", &none);
  EXPECT_EQ(fault_of(R"({"data_names": ["data", "fc_weight"]})", &none), "no error");
}

TEST(MixedPrecision, arrays_are_rounded_to_the_types_of_the_symbol) {
  mxnet::ParamsFile file;
  file.entries.push_back({.name = "arg:fc_weight", .data = weights(1.0001F).at("fc_weight")});
  mxnet::convert_parameters(file, {{"fc_weight", DType::kFloat16}});
  EXPECT_EQ(file.entries[0].data.type(), DType::kFloat16);
  EXPECT_EQ(file.entries[0].data.read_double(0), 1);
}

TEST(MixedPrecision, two_arrays_of_one_name_are_refused) {
  mxnet::ParamsFile file;
  file.entries.push_back({.name = "arg:fc_weight", .data = TensorData::zeros(DType::kInt32, {2})});
  file.entries.push_back({.name = "aux:fc_weight", .data = weights(1).at("fc_weight")});
  const std::string fault = fault_of([&] { mxnet::parameters_of(file); });
  EXPECT_NE(fault.find("two arrays of the name 'fc_weight'"), std::string::npos) << fault;
}

TEST(MixedPrecision, names_of_casts_are_found_in_a_time_that_nodes_take) {
  std::string text;
  for (int i = 0; i < 20000; ++i) {  // variables of one name, which a cast each is called after
    text += fmt::format("{}{{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}}", i ? "," : "");
  }
  for (int i = 0; i < 20000; ++i) {
    text += fmt::format(",{{\"op\": \"FullyConnected\", \"name\": \"f{}\", \"inputs\": [[{}, 0, 0]]}}", i, i);
  }
  std::string heads;
  for (int i = 0; i < 20000; ++i) heads += fmt::format("{}[{}, 0, 0]", i ? "," : "", 20000 + i);
  const Symbol symbol = mxnet::parse_symbol(
      fmt::format("{{\"nodes\": [{}], \"arg_nodes\": [], \"heads\": [{}]}}", text, heads), "file");
  const std::clock_t begin = std::clock();
  EXPECT_EQ(mxnet::convert_symbol(symbol, {}).casts, 40000);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
}

TEST(MixedPrecision, each_default_rule_is_of_one_operator) {
  std::set<std::string> names;
#define GRAFT_MXNET_PRECISION(op, half, brain) EXPECT_TRUE(names.insert(#op).second) << #op << " comes twice";
#include "import/mxnet/precision_lists.inc"
#define GRAFT_MXNET_ALIAS(alias, op)                                      \
  EXPECT_FALSE(names.contains(#alias)) << #alias << " has rules of its own"; \
  EXPECT_TRUE(names.contains(#op)) << #op << " has no rule";
#include "import/mxnet/precision_lists.inc"
#define GRAFT_MXNET_OPERANDS(op, kept, parameters, auxiliary, result) \
  EXPECT_TRUE(names.contains(#op)) << #op << " has operands and no rule";
#include "import/mxnet/precision_lists.inc"
}

/// A random symbol of operators of every rule.
Symbol random_symbol(Random& random) {
  const std::vector<std::string> unary = {"relu", "exp", "tanh", "softmax", "Flatten", "my_op", "shape_array"};
  const std::vector<std::string> binary = {"elemwise_add", "Concat", "where", "broadcast_mul", "my_pair", "take"};
  Symbol symbol;
  const auto pick = [&](int64_t count) { return static_cast<int>(random.integer(0, count - 1)); };
  const auto any = [&] { return mxnet::SymbolEntry{pick(static_cast<int64_t>(symbol.nodes.size()))}; };
  for (int i = 0; i < 3; ++i) symbol.nodes.push_back({.op = "", .name = fmt::format("data{}", i)});
  for (int i = 0; i < 4; ++i) symbol.nodes.push_back({.op = "", .name = fmt::format("w{}", i)});
  for (int i = 0; i < 25; ++i) {
    mxnet::SymbolNode node{.op = "", .name = fmt::format("n{}", i)};
    const int kind = pick(3);
    if (kind == 0) node.op = unary[pick(static_cast<int64_t>(unary.size()))];
    if (kind == 1) node.op = binary[pick(static_cast<int64_t>(binary.size()))];
    if (kind == 2) node.op = "FullyConnected";
    node.inputs.push_back(any());
    if (kind == 1) node.inputs.push_back(any());
    if (kind == 2) node.inputs.push_back({3 + pick(4)});
    symbol.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < 3; ++i) symbol.heads.push_back({static_cast<int>(symbol.nodes.size()) - 1 - pick(8)});
  return symbol;
}

/// Operands of each operation have one type, and a tensor is cast to a type once.
void check_casts(const Symbol& symbol, const Request& request) {
  const mxnet::SymbolView view = mxnet::view_symbol(symbol, request, nullptr);
  const amp::Rules rules(mxnet::default_lists(request.low), request.lists, view.graph);
  const amp::Decision decision = amp::decide(view.graph, rules, {request.low, request.convert_parameters, {}});
  std::set<std::tuple<int, int, std::string>> casts;
  for (size_t i = 0; i < view.graph.nodes.size(); ++i) {
    const amp::Node& node = view.graph.nodes[i];
    if (node.kind == amp::NodeKind::kCast) {
      const mxnet::SymbolEntry from = symbol.nodes[view.nodes[i]].inputs[0];
      EXPECT_TRUE(casts.emplace(from.node, from.output, node.attributes.at("dtype")).second) << node.name;
      EXPECT_NE(decision.types[node.inputs[0]], decision.types[node.outputs.at(0)]) << node.name << " changes nothing";
    }
    std::set<DType> types;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const DType type = decision.types[node.inputs[k]];
      const bool castable = type == DType::kFloat32 || type == DType::kFloat16;
      if (!node.keeps(k) && castable && node.kind == amp::NodeKind::kOperator) types.insert(type);
    }
    EXPECT_LE(types.size(), 1U) << node.name << " has operands of different types";
  }
  for (const amp::Reading& output : decision.outputs) EXPECT_LT(output.cast, 0);
}

TEST(MixedPrecision, random_symbols_are_typed_and_nothing_is_cast_twice) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Symbol symbol = random_symbol(random);
    Request request{.convert_parameters = seed % 3 != 0};
    if (seed % 2 == 1) request.input_types = {{"data1", std::nullopt}};
    const MixedSymbol mixed = mxnet::convert_symbol(symbol, request);
    Request again = request;
    std::set<std::string> left;
    for (const mxnet::SymbolNode& node : mixed.symbol.nodes) left.insert(node.name);
    if (!left.contains("data1")) again.input_types.clear();
    check_casts(mixed.symbol, again);
    const MixedSymbol twice = mxnet::convert_symbol(mixed.symbol, again);
    EXPECT_EQ(twice.casts, 0);
    EXPECT_EQ(twice.multicasts, 0);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << test::text_of(symbol) << "\nbecomes\n" << test::text_of(mixed.symbol);
      break;
    }
  }
}

}  // namespace
}  // namespace graft
