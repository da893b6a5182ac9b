// SPDX-License-Identifier: Apache-2.0
// Branches and loops: those of TorchScript, whose blocks are functions of what they take from around, and the
// higher-order operators of torch.export and torch.compile.
#include "frontend/control_flow.h"

#include <utility>

#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::Conversion;
using frontend::Loop;
using frontend::LoopForm;
using frontend::Operand;
using frontend::Row;

constexpr int64_t kEndless = INT64_MAX;  // what TorchScript writes as the limit of `while`

/// The operands behind the first so many arguments.
std::vector<Operand> operands_from(Conversion& c, size_t first) {
  const Arguments& all = c.node().arguments;
  if (all.size() < first) c.refuse("it has too few arguments");
  return frontend::operands_of(c, {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()});
}

std::vector<Operand> operands_in(Conversion& c, std::string_view name) {
  const auto* list = std::get_if<Arguments>(&c.argument(name).is);
  if (!list) c.refuse("what its functions take is no list");
  return frontend::operands_of(c, *list);
}

/// Arguments: the condition, and what the blocks take.
void branch(Conversion& c) {
  frontend::convert_branch(c, c.tensor("cond"), "then", "else", operands_from(c, 1), true);
}

void give(Conversion& c, Loop::Results results) {
  for (size_t i = 0; i < results.lists.size(); ++i) {
    if (results.lists[i]) c.give_list(i, std::move(*results.lists[i]));
  }
  c.give(std::move(results.values));
}

/// Arguments: how many rounds at most, whether there is a first one, what a round gives anew (as many as `carried`
/// says) and what it takes from around.
void loop(Conversion& c) {
  LoopForm form{.body = "body", .numbered = true, .carried = static_cast<size_t>(c.integer("carried")),
                .operands = operands_from(c, 2), .describes = true};
  const auto* limit = std::get_if<int64_t>(&c.argument("limit").is);
  if (!limit || *limit != kEndless) form.limit = c.cast(c.tensor("limit"), DType::kInt64);
  form.starts = frontend::condition_of(c, c.tensor("starts"));
  give(c, Loop(c, std::move(form)).convert());
}

void higher_order_cond(Conversion& c) {
  frontend::convert_branch(c, c.tensor("pred"), c.text("true_fn"), c.text("false_fn"), operands_in(c, "operands"));
}

void while_loop(Conversion& c) {
  LoopForm form{.body = c.text("body_fn"), .condition = c.text("cond_fn"),
                .operands = operands_in(c, "carried_inputs")};
  form.carried = form.operands.size();
  for (Operand& each : operands_in(c, "additional_inputs")) form.operands.push_back(std::move(each));
  give(c, Loop(c, std::move(form)).convert());
}

/// A loop over the first axes of `xs`: what a round gives beside what it hands on is stacked.
void along_first_axis(Conversion& c, std::string_view function, std::vector<Operand> carried, std::string_view more) {
  const std::vector<Operand> xs = operands_in(c, "xs");
  if (xs.empty()) c.refuse("a loop along no axis");
  const size_t results = c.function(function).outputs.size();
  if (results < carried.size()) c.refuse("its function gives less than it takes");
  LoopForm form{.body = std::string(function), .counted = true, .carried = carried.size(), .sliced = xs.size(),
                .collected = results - carried.size(), .operands = std::move(carried)};
  form.operands.insert(form.operands.end(), xs.begin(), xs.end());
  for (Operand& each : operands_in(c, more)) form.operands.push_back(std::move(each));
  if (c.rank_of(xs[0].value) == 0) c.refuse("a loop along no axis");
  const ValueId count = c.add("Shape", {xs[0].value}, {{"end", int64_t{1}}});
  form.limit = c.add("Squeeze", {count, c.integers_constant({0})});
  give(c, Loop(c, std::move(form)).convert());
}

void scan(Conversion& c) { along_first_axis(c, c.text("combine_fn"), operands_in(c, "init"), "additional_inputs"); }
void map(Conversion& c) { along_first_axis(c, c.text("f"), {}, "pos_args"); }

}  // namespace

std::vector<Row> control_flow_rows() {
  return {
      {"prim::If(bool cond)", branch},
      {"prim::Loop(int limit, bool starts, *, int carried)", loop},
      {"higher_order::cond(bool pred, Function true_fn, Function false_fn, Tensor[] operands)",
       higher_order_cond},
      {"higher_order::while_loop(Function cond_fn, Function body_fn, Tensor[] carried_inputs, Tensor[] "
       "additional_inputs)", while_loop},
      {"higher_order::scan(Function combine_fn, Tensor[] init, Tensor[] xs, Tensor[] additional_inputs)", scan},
      {"higher_order::map_impl(Function f, Tensor[] xs, Tensor[] pos_args)", map},
  };
}

}  // namespace graft::aten
