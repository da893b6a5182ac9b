// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/custom_operator.h"
#include "graph/op_def.h"
#include "graph/symbols.h"

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

/// Why the graphs in a node's attributes do not fit its inputs and outputs, or nothing.
std::string bodies_fault(const Node& node) {
  std::vector<const Graph*> bodies;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) bodies.push_back(body->get());
  }
  const auto it = node.attributes.find("captures");
  const auto* captures = it == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  const std::vector<int64_t> counts = captures ? *captures : std::vector<int64_t>();
  if (counts.size() > bodies.size()) return "it captures values for more graphs than it has";
  size_t own = node.inputs.size();
  for (const int64_t count : counts) {
    if (count < 0 || static_cast<size_t>(count) > own) return "its graphs capture more values than it has inputs";
    own -= static_cast<size_t>(count);
  }
  const bool branches = node.domain.empty() && node.op == "If", loops = node.domain.empty() && node.op == "Loop";
  if (!branches && !loops) return "";
  const std::vector<std::string_view> names =
      branches ? std::vector<std::string_view>{"else_branch", "then_branch"} : std::vector<std::string_view>{"body"};
  for (const std::string_view name : names) {
    const auto attribute = node.attributes.find(name);
    const bool there = attribute != node.attributes.end() &&
                       std::holds_alternative<std::shared_ptr<const Graph>>(attribute->second);
    if (!there) return fmt::format("its graph '{}' is missing", name);
  }
  if (bodies.size() != names.size()) return "it has graphs that its operator does not know";
  if (branches && (own != 1 || node.inputs[0] == kNoValue)) return "it takes one input, the condition";
  if (loops && own < 2) return "it takes a limit and a condition, both of which may be left out";
  for (size_t i = loops ? 2 : 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) return fmt::format("its input {} is missing", i);
  }
  for (size_t k = 0; k < bodies.size(); ++k) {
    const size_t captured = k < counts.size() ? static_cast<size_t>(counts[k]) : 0;
    const size_t inputs = captured + (loops ? own : 0);
    if (bodies[k]->inputs.size() != inputs) {
      return fmt::format("its graph '{}' takes {} inputs, but is given {}", names[k],
                         bodies[k]->inputs.size() - std::min(captured, bodies[k]->inputs.size()), inputs - captured);
    }
    // A loop's body gives the condition first, then what is carried on, then what is collected.
    const size_t outputs = node.outputs.size() + (loops ? 1 : 0);
    const bool fits = loops ? bodies[k]->outputs.size() >= std::max(outputs, own - 1)
                            : bodies[k]->outputs.size() == outputs;
    if (!fits) {
      return fmt::format("its graph '{}' gives {} outputs, not {}", names[k], bodies[k]->outputs.size(), outputs);
    }
  }
  return "";
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
      check(
          !graph_.value(id).constant,
          [&] { return fmt::format("the input '{}' is a constant as well", value_name(id)); }, "");
      define(id, "");
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) verify_node(static_cast<int>(n));
    for (const ValueId id : graph_.outputs) {
      check_id(id, "an output", "");
      check(
          defined_[id], [&] { return fmt::format("nothing defines the output '{}'", value_name(id)); }, "");
    }
  }

 private:
  /// The message is a text, or makes one: texts of large graphs take longer than checking them.
  template <class Message>
  void check(bool good, const Message& message, const std::string& node) const {
    if (good) return;
    if constexpr (std::is_invocable_v<Message>) {
      fail(message(), node);
    } else {
      fail(message, node);
    }
  }

  [[noreturn]] void fail(const std::string& message, const std::string& node) const {
    std::string where = fmt::format("graph '{}'", graph_.name);
    if (!node.empty()) where += fmt::format(", node '{}'", node);
    const std::string remedy =
        trusted_ ? ". This is a bug in Graft; please report it." : "; correct or export the model again";
    throw Error(trusted_ ? ErrorKind::kInternal : ErrorKind::kInvalidModel, message + remedy, where);
  }

  const std::string& value_name(ValueId id) const { return graph_.value(id).name; }

  void check_id(ValueId id, std::string_view what, const std::string& node) const {
    check(
        id >= 0 && static_cast<size_t>(id) < graph_.values.size(),
        [&] { return fmt::format("{} is value number {}, which does not exist", what, id); }, node);
  }

  /// Marks a value as available; each is defined once.
  void define(ValueId id, const std::string& node) {
    check(
        !defined_[id], [&] { return fmt::format("the value '{}' is defined a second time", value_name(id)); }, node);
    defined_[id] = true;
  }

  void verify_names() const {
    std::set<std::string_view> names;
    for (const Value& value : graph_.values) {
      check(!value.name.empty(), "a value has no name", "");
      check(
          names.insert(value.name).second, [&] { return fmt::format("two values have the name '{}'", value.name); },
          "");
    }
    names.clear();
    for (const Node& node : graph_.nodes) {
      check(
          !node.name.empty(), [&] { return fmt::format("a node of operator '{}' has no name", node.op); }, "");
      check(
          names.insert(node.name).second, [&] { return fmt::format("two nodes have the name '{}'", node.name); }, "");
    }
  }

  /// The elements of a tensor of known extents can be counted in bits: sizes of memory are computed from there.
  static void verify_size(const Value& value) {
    const Shape& shape = *value.shape;
    if (std::any_of(shape.begin(), shape.end(), [](const Size& size) { return size.is(0); })) return;
    int64_t bits = 8;
    if (value.type != DType::kUndefined) bits = std::max(bits, int64_t{bit_width(value.type)});
    for (const Size& size : shape) {
      const bool fits = !size.is_constant() || !__builtin_mul_overflow(bits, size.constant(), &bits);
      GRAFT_USER_CHECK(fits, kInvalidModel,
                       fmt::format("its size overflows 64 bits: {}; correct or export the model again",
                                   to_string(*value.shape)),
                       fmt::format("value '{}'", value.name));
    }
  }

  void verify_value(ValueId id) {
    const Value& value = graph_.value(id);
    check(
        value.dynamic_type.empty() || (value.type == DType::kUndefined && !value.constant),
        [&] { return fmt::format("the value '{}' is both a tensor and something else", value.name); }, "");
    if (value.shape) {
      for (const Size& size : *value.shape) {
        check(
            !size.is_constant() || size.constant() >= 0,
            [&] {
              return fmt::format("the value '{}' has a negative size in {}", value.name, to_string(*value.shape));
            },
            "");
      }
      verify_size(value);
    }
    if (value.content) {
      check(
          is_integer(value.type) || value.type == DType::kBool,
          [&] {
            return fmt::format("the elements of '{}' are known as sizes, but its type is {}", value.name,
                               name_of(value.type));
          },
          "");
      check(
          value.content->size() <= kLargestContent,
          [&] { return fmt::format("'{}' has too many elements to be known as sizes", value.name); }, "");
      const auto count = known_count(value);
      check(
          !count || *count == static_cast<int64_t>(value.content->size()),
          [&] { return fmt::format("the number of known elements of '{}' is not that of its shape", value.name); }, "");
    }
    if (value.constant) verify_constant(id);
  }

  void verify_constant(ValueId id) {
    const Value& value = graph_.value(id);
    const Shape shape(value.constant->shape().begin(), value.constant->shape().end());
    check(
        value.type == value.constant->type() && value.shape == shape,
        [&] {
          return fmt::format("the constant '{}' is declared as {} but holds {}", value.name,
                             value.shape ? to_string(*value.shape) : "a tensor", describe(*value.constant));
        },
        "");
    check(
        value.producer == -1, [&] { return fmt::format("the constant '{}' has a producer", value.name); }, "");
    define(id, "");
  }

  void verify_node(int index) {
    const Node& node = graph_.nodes[index];
    check(!node.op.empty(), "the operator has no name", node.name);
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      check_id(id, "an input", node.name);
      check(
          defined_[id], [&] { return fmt::format("the input '{}' is used before it is defined", value_name(id)); },
          node.name);
    }
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      check_id(id, "an output", node.name);
      define(id, node.name);
      check(
          graph_.value(id).producer == index,
          [&] { return fmt::format("the output '{}' has another producer", value_name(id)); }, node.name);
    }
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (!body) continue;
      check(
          *body != nullptr,
          [&, &at = name] { return fmt::format("the attribute '{}' holds no graph", at); }, node.name);
      GraphVerifier(**body, trusted_).verify();
    }
    verify_operands(node);
  }

  /// The inputs and outputs are those of the operator, so that nobody behind need count them.
  void verify_operands(const Node& node) const {
    const std::string fault = bodies_fault(node);
    check(fault.empty(), fault, node.name);
    const std::shared_ptr<const OpDef> op = operator_of(node);
    if (!op) return;
    const std::string mismatch = operand_fault(*op, node, graph_);
    if (mismatch.empty()) return;
    throw Error(trusted_ ? ErrorKind::kInternal : ErrorKind::kInvalidModel, mismatch,
                fmt::format("node '{}' ({})", node.name, node.op));
  }

  const Graph& graph_;
  bool trusted_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph, bool trusted) { GraphVerifier(graph, trusted).verify(); }

}  // namespace graft
