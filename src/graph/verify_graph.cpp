// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/graph.h"

namespace graft {
namespace {

constexpr size_t kLargestContent = 1024;

/// The number of elements, when the shape gives one that fits.
std::optional<int64_t> known_count(const Value& value) {
  if (!value.shape) return std::nullopt;
  int64_t count = 1;
  for (const Size& size : *value.shape) {
    if (!size.is_constant() || __builtin_mul_overflow(count, size.constant(), &count)) return std::nullopt;
  }
  return count;
}

/// Checks one graph, then those in its attributes.
class GraphVerifier {
 public:
  GraphVerifier(const Graph& graph, bool trusted) : graph_(graph), trusted_(trusted) {}

  void verify() {
    defined_.assign(graph_.values.size(), false);
    verify_names();
    for (size_t i = 0; i < graph_.values.size(); ++i) verify_value(static_cast<ValueId>(i));
    for (const ValueId id : graph_.inputs) {
      check_id(id, "an input", "");
      check(!graph_.value(id).constant, fmt::format("the input '{}' is a constant as well", value_name(id)), "");
      define(id, "");
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) verify_node(static_cast<int>(n));
    for (const ValueId id : graph_.outputs) {
      check_id(id, "an output", "");
      check(defined_[id], fmt::format("nothing defines the output '{}'", value_name(id)), "");
    }
  }

 private:
  void check(bool good, const std::string& message, const std::string& node) const {
    if (good) return;
    std::string where = fmt::format("graph '{}'", graph_.name);
    if (!node.empty()) where += fmt::format(", node '{}'", node);
    const std::string remedy =
        trusted_ ? ". This is a bug in Graft; please report it." : "; correct or export the model again";
    throw Error(trusted_ ? ErrorKind::kInternal : ErrorKind::kInvalidModel, message + remedy, where);
  }

  const std::string& value_name(ValueId id) const { return graph_.value(id).name; }

  void check_id(ValueId id, std::string_view what, const std::string& node) const {
    check(id >= 0 && static_cast<size_t>(id) < graph_.values.size(),
          fmt::format("{} is value number {}, which does not exist", what, id), node);
  }

  /// Marks a value as available; each is defined once.
  void define(ValueId id, const std::string& node) {
    check(!defined_[id], fmt::format("the value '{}' is defined a second time", value_name(id)), node);
    defined_[id] = true;
  }

  void verify_names() const {
    std::set<std::string_view> names;
    for (const Value& value : graph_.values) {
      check(!value.name.empty(), "a value has no name", "");
      check(names.insert(value.name).second, fmt::format("two values have the name '{}'", value.name), "");
    }
    names.clear();
    for (const Node& node : graph_.nodes) {
      check(!node.name.empty(), fmt::format("a node of operator '{}' has no name", node.op), "");
      check(names.insert(node.name).second, fmt::format("two nodes have the name '{}'", node.name), "");
    }
  }

  void verify_value(ValueId id) {
    const Value& value = graph_.value(id);
    check(value.dynamic_type.empty() || (value.type == DType::kUndefined && !value.constant),
          fmt::format("the value '{}' is both a tensor and something else", value.name), "");
    if (value.shape) {
      for (const Size& size : *value.shape) {
        check(!size.is_constant() || size.constant() >= 0,
              fmt::format("the value '{}' has a negative size in {}", value.name, to_string(*value.shape)), "");
      }
    }
    if (value.content) {
      check(is_integer(value.type) || value.type == DType::kBool,
            fmt::format("the elements of '{}' are known as sizes, but its type is {}", value.name, name_of(value.type)),
            "");
      check(value.content->size() <= kLargestContent,
            fmt::format("'{}' has too many elements to be known as sizes", value.name), "");
      const auto count = known_count(value);
      check(!count || *count == static_cast<int64_t>(value.content->size()),
            fmt::format("the number of known elements of '{}' is not that of its shape", value.name), "");
    }
    if (value.constant) verify_constant(id);
  }

  void verify_constant(ValueId id) {
    const Value& value = graph_.value(id);
    const Shape shape(value.constant->shape().begin(), value.constant->shape().end());
    check(value.type == value.constant->type() && value.shape == shape,
          fmt::format("the constant '{}' is declared as {} but holds {}", value.name,
                      value.shape ? to_string(*value.shape) : "a tensor", describe(*value.constant)),
          "");
    check(value.producer == -1, fmt::format("the constant '{}' has a producer", value.name), "");
    define(id, "");
  }

  void verify_node(int index) {
    const Node& node = graph_.nodes[index];
    check(!node.op.empty(), "the operator has no name", node.name);
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      check_id(id, "an input", node.name);
      check(defined_[id], fmt::format("the input '{}' is used before it is defined", value_name(id)), node.name);
    }
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      check_id(id, "an output", node.name);
      define(id, node.name);
      check(graph_.value(id).producer == index, fmt::format("the output '{}' has another producer", value_name(id)),
            node.name);
    }
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (!body) continue;
      check(*body != nullptr, fmt::format("the attribute '{}' holds no graph", name), node.name);
      GraphVerifier(**body, trusted_).verify();
    }
  }

  const Graph& graph_;
  bool trusted_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph, bool trusted) { GraphVerifier(graph, trusted).verify(); }

}  // namespace graft
