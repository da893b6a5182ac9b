// SPDX-License-Identifier: Apache-2.0
// The graph's text form:
//
//   graph "main" {
//     opset "" 28
//     range batch 1 8 64
//     derived :d0123456789abcdef = [max(0, floor_div(batch, 2) - 1)]    (long sizes of shapes)
//     input %x: f32[batch, 4]
//     constant %w: f32[4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}
//     %y: f32[batch, 2] = MatMul "/encoder/MatMul" (%x, %w)
//     output %y
//   }
#include <fmt/format.h>

#include "graph/graph.h"
#include "graph/text_form.h"

namespace graft {
namespace {

void print_into(std::string& text, const Graph& graph, LargeConstants large, int indent);

/// `{1, 2, 3}`
std::string elements_text(const TensorData& tensor) {
  std::string text = "{";
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (i) text += ", ";
    text += element_text(tensor, i);
  }
  return text + "}";
}

/// `f32[batch, 4]`, `f32` without a known rank, `?` without a known type, plus known elements `as [batch, 1]`.
std::string type_text(const Value& value) {
  if (!value.dynamic_type.empty()) return quote(value.dynamic_type);
  std::string text(value.type == DType::kUndefined ? "?" : name_of(value.type));
  if (value.shape) text += to_string(*value.shape);
  if (value.content) text += " as " + to_string(*value.content);
  return text;
}

std::string reference(const Graph& graph, ValueId id) {
  return id == kNoValue ? "_" : "%" + bare_or_quoted(graph.value(id).name);
}

std::string declaration(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  return fmt::format("{}: {}", reference(graph, id), type_text(graph.value(id)));
}

bool is_large(const TensorData& data) {
  return data.element_count() > kInlineElements && !(data.byte_count() <= kUniformBytes && is_uniform(data));
}

std::string constant_text(const TensorData& data, LargeConstants large) {
  if (data.element_count() <= kInlineElements) return elements_text(data);
  if (is_large(data)) return large == LargeConstants::kWeights ? "weights" : "#" + content_hash(data).to_string();
  return "all " + element_text(data, 0);
}

/// `[a, b]`, with the name of the list's type in front of an empty one.
template <class T, class Text>
std::string list_text(std::string_view type, const std::vector<T>& list, const Text& element) {
  if (list.empty()) return fmt::format("{}[]", type);
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + element(list[i]);
  return text + "]";
}

/// Appends an attribute's value, by its alternative.
struct AttributePrinter {
  std::string& text;
  LargeConstants large;
  int indent;
  void operator()(std::monostate) { text += "none"; }
  void operator()(int64_t value) { text += std::to_string(value); }
  void operator()(double value) { text += real_text(value); }
  void operator()(const std::string& value) { text += quote(value); }
  void operator()(const std::vector<int64_t>& values) {
    text += list_text("ints", values, [](int64_t value) { return std::to_string(value); });
  }
  void operator()(const std::vector<double>& values) { text += list_text("floats", values, real_text); }
  void operator()(const std::vector<std::string>& values) { text += list_text("strings", values, quote); }
  void operator()(const TensorData& tensor) {
    const Shape shape(tensor.shape().begin(), tensor.shape().end());
    text += fmt::format("{}{} {}", name_of(tensor.type()), to_string(shape), elements_text(tensor));
  }
  void operator()(const std::shared_ptr<const Graph>& graph) { print_into(text, *graph, large, indent); }
};

void print_node(std::string& text, const Graph& graph, const Node& node, LargeConstants large, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  text += margin;
  if (node.outputs.empty()) text += "()";
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    text += (i ? ", " : "") + declaration(graph, node.outputs[i]);
  }
  text += " = ";
  if (!node.domain.empty()) text += bare_or_quoted(node.domain) + "::";
  text += fmt::format("{} {} (", bare_or_quoted(node.op), quote(node.name));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    text += (i ? ", " : "") + reference(graph, node.inputs[i]);
  }
  text += ")";
  std::string_view separator = " {";
  for (const auto& [name, attribute] : node.attributes) {
    text += fmt::format("{}{} = ", separator, bare_or_quoted(name));
    std::visit(AttributePrinter{text, large, indent + 2}, attribute);
    separator = ", ";
  }
  text += node.attributes.empty() ? "\n" : "}\n";
}

void print_into(std::string& text, const Graph& graph, LargeConstants large, int indent) {
  const std::string margin(static_cast<size_t>(indent) + 2, ' ');
  text += fmt::format("graph {} {{\n", quote(graph.name));
  for (const auto& [domain, version] : graph.opsets) {
    text += fmt::format("{}opset {} {}\n", margin, quote(domain), version);
  }
  for (const auto& [key, value] : graph.metadata) {
    text += fmt::format("{}metadata {} {}\n", margin, quote(key), quote(value));
  }
  for (const auto& [symbol, range] : graph.symbol_ranges) {
    std::string optima = std::to_string(range.opt);
    for (const int64_t other : range.others) optima += fmt::format(", {}", other);
    text += fmt::format("{}range {} {} {} {}\n", margin, bare_or_quoted(symbol), range.min, optima, range.max);
  }
  for (const DerivedSize& derived : graph.derived.list()) {
    text += fmt::format("{}derived {} = [{}]\n", margin, bare_or_quoted(derived.symbol), derived.value.to_string());
  }
  for (const ValueId id : graph.inputs) {
    text += fmt::format("{}input {}\n", margin, declaration(graph, id));
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!graph.values[i].constant) continue;
    text += fmt::format("{}constant {} = {}\n", margin, declaration(graph, static_cast<ValueId>(i)),
                        constant_text(*graph.values[i].constant, large));
  }
  for (const Node& node : graph.nodes) print_node(text, graph, node, large, indent + 2);
  for (const ValueId id : graph.outputs) {
    text += fmt::format("{}output {}\n", margin, reference(graph, id));
  }
  text += std::string(static_cast<size_t>(indent), ' ') + "}";
}

void collect(std::map<std::string, TensorData, std::less<>>& into, const Graph& graph, const std::string& prefix) {
  for (const Value& value : graph.values) {
    if (value.constant && is_large(*value.constant)) into[prefix + value.name] = *value.constant;
  }
  for (const Node& node : graph.nodes) {
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (body) collect(into, **body, fmt::format("{}{}/{}/", prefix, node.name, name));
    }
  }
}

}  // namespace

std::map<std::string, TensorData, std::less<>> large_constants(const Graph& graph) {
  std::map<std::string, TensorData, std::less<>> constants;
  collect(constants, graph, "");
  return constants;
}

std::string print(const Graph& graph, LargeConstants large) {
  std::string text;
  print_into(text, graph, large, 0);
  return text + "\n";
}

}  // namespace graft
