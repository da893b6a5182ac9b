// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/graph_reader.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/control_flow.h"
#include "import/pt2/in_place.h"
#include "import/pt2/tensors.h"

namespace graft::pt2 {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::ForeignNode;
using frontend::ForeignValue;
using frontend::Reference;

constexpr int kDeepestList = 8;

/// `torch.ops.aten.add.Tensor` is `aten::add.Tensor`; `_operator.mul` is Python's own.
std::string operator_name(const std::string& target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps)) return "python::" + target.substr(target.rfind('.') + 1);
  std::string name = target.substr(kOps.size());
  const size_t dot = name.find('.');
  if (dot != std::string::npos) name.replace(dot, 1, "::");
  constexpr std::string_view kDefault = ".default";
  if (name.ends_with(kDefault)) name.resize(name.size() - kDefault.size());
  return name;
}

/// The innermost line of the model's own: `File "net.py", line 7, in forward` and the code below it.
std::string source_of(const json& node) {
  const json* trace = node.contains("metadata") && node["metadata"].is_object() &&
                              node["metadata"].contains("stack_trace")
                          ? &node["metadata"]["stack_trace"]
                          : nullptr;
  if (!trace || !trace->is_string()) return "";
  const std::string text = trace->get<std::string>();
  const size_t file = text.rfind("File \"");
  if (file == std::string::npos) return "";
  const size_t end = text.find('"', file + 6), line = text.find(", line ", file);
  if (end == std::string::npos || line == std::string::npos) return "";
  const std::string number = text.substr(line + 7, text.find_first_not_of("0123456789", line + 7) - line - 7);
  const size_t code = text.find('\n', line);
  std::string shown = code == std::string::npos ? "" : text.substr(code + 1, text.find('\n', code + 1) - code - 1);
  shown.erase(0, std::min(shown.find_first_not_of(' '), shown.size()));
  return text.substr(file + 6, end - file - 6) + ":" + number + ": " + shown;
}

}  // namespace

void GraphReader::check(bool good, const std::string& what, const std::string& part) const {
  GRAFT_USER_CHECK(good, kInvalidModel, what, part.empty() ? where_ : where_ + ": " + part);
}

// ---- Values ----

int GraphReader::add_value(ForeignValue value) {
  check(indices_.emplace(value.name, std::ssize(foreign_.values)).second,
        fmt::format("'{}' is there twice", value.name));
  foreign_.values.push_back(std::move(value));
  return static_cast<int>(foreign_.values.size()) - 1;
}

int GraphReader::index_of(const std::string& name, const std::string& part) const {
  const auto found = indices_.find(name);
  check(found != indices_.end(), fmt::format("'{}' is used before it is made", name), part);
  return found->second;
}

ForeignValue GraphReader::described(const std::string& name) {
  const std::string where = where_ + ": " + name;
  const json& meta = object_member(object_member(graph_, "tensor_values", where_), name.c_str(), where_);
  ForeignValue value{.name = name, .type = element_type(integer(member(meta, "dtype", where), where))};
  GRAFT_USER_CHECK(value.type != DType::kUndefined, kUnsupported, "it has an element type that Graft does not have",
                   where);
  Shape shape;
  for (const json& size : list_member(meta, "sizes", where)) {
    shape.push_back(read_size(size, where));
    note_hint(size, hints_);
  }
  check(shape.size() <= static_cast<size_t>(kHighestRank), "it has too many axes", name);
  value.shape = std::move(shape);
  return value;
}

// ---- Nodes ----

template <class Read>
Argument GraphReader::list(const json& elements, const std::string& part, const Read& read) const {
  check(elements.is_array(), "a list is none", part);
  Arguments made;
  for (const json& each : elements) made.push_back(read(each));
  return made;
}

Argument GraphReader::symbol(const json& given, const std::string& part) const {
  const auto [kind, value] = tagged(given, where_ + ": " + part);
  if (kind == "as_int") return integer(*value, where_);
  if (kind == "as_bool") return boolean(*value, part);
  if (kind == "as_float") return real(*value, part);
  check(kind == "as_name" && value->is_string(), "a number is neither there nor named", part);
  return Reference{index_of(value->get<std::string>(), part)};
}

Argument GraphReader::tensor(const json& given, const std::string& part) const {
  return Reference{index_of(text_member(given, "name", where_ + ": " + part), part)};
}

Argument GraphReader::boolean(const json& given, const std::string& part) const {
  check(given.is_boolean(), "a truth value is none", part);
  return given.get<bool>();
}

/// JSON has no infinities: they are texts.
Argument GraphReader::real(const json& given, const std::string& part) const {
  if (given.is_number()) return given.get<double>();
  const std::string word = given.is_string() ? given.get<std::string>() : "";
  check(word == "Infinity" || word == "-Infinity" || word == "NaN", "a number is none", part);
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return word[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

Argument GraphReader::argument(const json& given, const std::string& part, int depth) const {
  check(depth < kDeepestList, "lists are nested too deep", part);
  const auto [kind, value] = tagged(given, where_ + ": " + part);
  const json& content = *value;
  const auto whole = [&](const json& each) { return Argument(integer(each, where_ + ": " + part)); };
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return tensor(content, part);
  if (kind == "as_tensors") return list(content, part, [&](const json& each) { return tensor(each, part); });
  if (kind == "as_int") return whole(content);
  if (kind == "as_ints") return list(content, part, whole);
  if (kind == "as_float") return real(content, part);
  if (kind == "as_floats") return list(content, part, [&](const json& each) { return real(each, part); });
  if (kind == "as_bool") return boolean(content, part);
  if (kind == "as_bools") return list(content, part, [&](const json& each) { return boolean(each, part); });
  if (kind == "as_string") {
    check(content.is_string(), "a text is none", part);
    return content.get<std::string>();
  }
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbol(content, part);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
    return list(content, part, [&](const json& each) { return symbol(each, part); });
  }
  if (kind == "as_scalar_type") return element_type(integer(content, where_ + ": " + part));
  if (kind == "as_optional_tensor") return argument(content, part, depth + 1);
  if (kind == "as_optional_tensors") {
    return list(content, part, [&](const json& each) { return argument(each, part, depth + 1); });
  }
  if (kind == "as_graph") return text_member(content, "name", where_ + ": " + part);
  return kind;  // a device, a layout: nothing that computing depends on, or no row takes it
}

/// A node's name, which files have since torch 2.11; the graph itself calls a node by the name of its one tensor.
std::string GraphReader::name_of(const json& node) const {
  if (node.is_object() && node.contains("name")) return text_member(node, "name", where_);
  const std::string target = text_member(node, "target", where_);
  for (const json& output : list_member(node, "outputs", where_ + ": " + target)) {
    const auto [kind, value] = tagged(output, where_ + ": " + target);
    const json& first = kind == "as_tensors" && value->is_array() && !value->empty() ? value->front() : *value;
    if (kind == "as_tensor" || kind == "as_tensors") return text_member(first, "name", where_ + ": " + target);
  }
  return target;
}

void GraphReader::read_node(const json& given) {
  const std::string part = name_of(given);
  ForeignNode node{.op = operator_name(text_member(given, "target", where_)), .name = part,
                   .source = source_of(given)};
  for (const json& input : list_member(given, "inputs", where_ + ": " + part)) {
    const std::string name = text_member(input, "name", where_ + ": " + part);
    const json& content = member(input, "arg", where_ + ": " + part);
    add_body(node, content);
    if (name.empty()) {
      node.arguments.push_back(argument(content, part));
    } else {
      node.attributes.insert_or_assign(name, argument(content, part));
    }
  }
  for (const json& output : list_member(given, "outputs", where_ + ": " + part)) add_output(node, output, part);
  foreign_.nodes.push_back(std::move(node));
}

/// A function that the node runs, by its name.
void GraphReader::add_body(ForeignNode& node, const json& argument) const {
  const std::string where = where_ + ": " + node.name;
  const auto [kind, value] = tagged(argument, where);
  if (kind != "as_graph") return;
  GRAFT_USER_CHECK(depth_ < frontend::kDeepestFunction, kUnsupported,
                   fmt::format("functions are nested more than {} deep", frontend::kDeepestFunction), where);
  const std::string name = text_member(*value, "name", where);
  std::map<std::string, int64_t, std::less<>> hints;
  GraphReader reader(object_member(*value, "graph", where), where + ": " + name, hints, depth_ + 1);
  auto body = std::make_shared<frontend::ForeignGraph>(reader.read_function());
  body->name = name;
  check(node.bodies.emplace(name, std::move(body)).second, fmt::format("it runs two functions '{}'", name), node.name);
}

void GraphReader::add_output(ForeignNode& node, const json& output, const std::string& part) {
  const auto [kind, value] = tagged(output, where_ + ": " + part);
  const auto add_tensor = [&](const json& each) {
    node.outputs.push_back(add_value({.name = text_member(each, "name", where_ + ": " + part)}));
  };
  if (kind == "as_tensor") return add_tensor(*value);
  if (kind == "as_tensors") {
    check(value->is_array(), "a list is none", part);
    for (const json& each : *value) add_tensor(each);
    return;
  }
  const bool number = kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool";
  std::string name = fmt::format("{}:{}", part, node.outputs.size());
  if (number && value->is_object() && value->contains("as_name")) name = text_member(*value, "as_name", where_);
  node.outputs.push_back(add_value({.name = name, .tensor = false}));
}

// ---- Functions ----

frontend::ForeignGraph GraphReader::read_function() {
  size_t position = 0;
  for (const json& input : list_member(graph_, "inputs", where_)) {
    const auto [kind, value] = tagged(input, where_);
    std::string name = fmt::format("input:{}", position++);  // a number that the export knew
    if (kind == "as_tensor") name = text_member(*value, "name", where_);
    const bool number = kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool";
    if (number && value->is_object() && value->contains("as_name")) name = text_member(*value, "as_name", where_);
    foreign_.inputs.push_back(add_value({.name = name, .tensor = kind == "as_tensor"}));
  }
  for (const json& node : list_member(graph_, "nodes", where_)) read_node(node);
  for (const json& output : list_member(graph_, "outputs", where_)) foreign_.outputs.push_back(result(output));
  rename_in_place(foreign_, where_);
  return std::move(foreign_);
}

/// A value, or a number as a constant.
int GraphReader::result(const json& given) {
  const Argument what = argument(given, "outputs");
  if (const auto* reference = std::get_if<Reference>(&what.is)) return reference->value;
  const auto* number = std::get_if<int64_t>(&what.is);
  GRAFT_USER_CHECK(number, kUnsupported, "a function gives what is neither a tensor nor a whole number", where_);
  ForeignValue value{.name = fmt::format("output:{}", foreign_.values.size()), .type = DType::kInt64,
                     .shape = Shape{}, .tensor = false};
  value.constant = TensorData::from_values<int64_t>(DType::kInt64, {}, {*number});
  return add_value(std::move(value));
}

}  // namespace graft::pt2
