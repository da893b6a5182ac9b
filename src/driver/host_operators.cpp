// SPDX-License-Identifier: Apache-2.0
#include "driver/host_operators.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/custom_operator.h"
#include "import/operator_library.h"

namespace graft {
namespace {

using frontend::Argument;
using frontend::Conversion;

/// A number as the framework has it, which may be a text.
double number_of(const Conversion& c, const std::string& name, const Argument& argument) {
  if (const auto* real = std::get_if<double>(&argument.is)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&argument.is)) return static_cast<double>(*whole);
  if (const auto* flag = std::get_if<bool>(&argument.is)) return *flag ? 1 : 0;
  if (const auto* text = std::get_if<std::string>(&argument.is)) {
    double value = 0;
    const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (fault == std::errc() && end == text->data() + text->size()) return value;
    if (*text == "True" || *text == "False") return *text == "True" ? 1 : 0;
  }
  c.refuse(fmt::format("its attribute '{}' is no number, as the definition has it", name));
}

Attribute attribute_of(const Conversion& c, const CustomAttribute& attribute, const Argument& argument) {
  const double value = number_of(c, attribute.name, argument);
  if (!attribute.whole) return value;
  if (value != std::trunc(value) || std::abs(value) > 1e15) {
    c.refuse(fmt::format("its attribute '{}' is no integer, as the definition has it", attribute.name));
  }
  return static_cast<int64_t>(value);
}

/// What is given by position: tensors first, then what else there is.
void add_node(Conversion& c, const CustomOperator& op, std::vector<ValueId> inputs, size_t first_attribute) {
  if (inputs.size() != op.inputs.size()) {
    c.refuse(fmt::format("it has {} inputs, and the definition of {}::{} {}", inputs.size(), op.domain, op.name,
                         op.inputs.size()));
  }
  Attributes attributes = {{std::string(kDefinitionAttribute), op.text}};
  const auto& given = c.node().arguments;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const CustomAttribute& attribute = op.attributes[i];
    const auto named = c.node().attributes.find(attribute.name);
    if (named != c.node().attributes.end()) {
      attributes[attribute.name] = attribute_of(c, attribute, named->second);
    } else if (first_attribute + i < given.size() && !given[first_attribute + i].is_none()) {
      attributes[attribute.name] = attribute_of(c, attribute, given[first_attribute + i]);
    }
  }
  const size_t count = std::clamp<size_t>(c.node().outputs.size(), 1, op.outputs.size());
  c.graph().opsets.try_emplace(op.domain, 1);
  c.give(c.add_several(op.name, std::move(inputs), std::move(attributes), static_cast<int>(count), op.domain));
}

void convert(Conversion& c, const CustomOperator& op) {
  std::vector<ValueId> inputs;
  for (const CustomOperand& input : op.inputs) inputs.push_back(c.tensor(input.name));
  add_node(c, op, std::move(inputs), op.inputs.size());
}

/// `RootMeanSquare(x, scale, epsilon=None)`
std::string signature_of(const CustomOperator& op, const std::string& name) {
  std::string text;
  for (const CustomOperand& input : op.inputs) text += (text.empty() ? "" : ", ") + input.name;
  for (const CustomAttribute& each : op.attributes) text += (text.empty() ? "" : ", ") + each.name + "=None";
  return fmt::format("{}({})", name, text);
}

}  // namespace

std::shared_ptr<const frontend::Converters> with_definitions(const frontend::Converters& rows,
                                                             const std::vector<std::string>& sources) {
  const auto library = std::make_shared<const OperatorLibrary>(read_operator_library(sources));
  GRAFT_USER_CHECK(library->functions.empty(), kInvalidArgument,
                   "functions of ONNX files join ONNX models: give definitions (docs/OWN_OPERATORS.md)", "ops");
  auto made = std::make_shared<frontend::Converters>(rows);
  for (const CustomOperator& op : library->definitions) {
    const auto build = [library, &op](Conversion& c) { convert(c, op); };
    made->add({signature_of(op, op.name), build});
    made->add({signature_of(op, op.domain + "::" + op.name), build});
  }
  const auto build = [library](Conversion& c) {
    const std::string name = c.text("op_type");
    const auto op = std::ranges::find_if(library->definitions, [&](const auto& each) { return each.name == name; });
    if (op == library->definitions.end()) c.refuse(fmt::format("no definition is called '{}'", name));
    std::vector<ValueId> inputs = c.inputs();
    add_node(c, *op, std::move(inputs), c.node().arguments.size());
  };
  made->add({"Custom(... data, op_type)", build});
  return made;
}

}  // namespace graft
