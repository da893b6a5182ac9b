// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "ops/custom_operator.h"

namespace graft {
namespace {

constexpr size_t kMostOperandsOfOne = 64;
constexpr size_t kMostAttributes = 64;
constexpr size_t kLongestDefinition = 1 << 16;
constexpr size_t kLongestFile = 1 << 22;
constexpr size_t kMostOperators = 1024;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64};
constexpr DType kIntegers[] = {DType::kInt64, DType::kInt32, DType::kInt16,  DType::kInt8,
                               DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};

/// Reads the part of a definition that says which nodes fit it.
class HeaderParser {
 public:
  HeaderParser(Lexer& lexer, bool by_user) : lexer_(lexer), by_user_(by_user) {}

  CustomOperator parse() {
    lexer_.expect("operator");
    full_name();
    lexer_.expect("{");
    if (lexer_.is("\"")) op_.doc = lexer_.quoted("what the operator computes");
    while (lexer_.accept("type")) type();
    while (lexer_.accept("attribute")) attribute();
    while (lexer_.is("input")) op_.inputs.push_back(operand(op_.inputs.size()));
    if (op_.inputs.empty()) lexer_.fail("expected an input, such as input x: f32[..., n]");
    check_inputs();
    while (lexer_.is("output")) op_.outputs.push_back(operand(op_.outputs.size()));
    if (op_.outputs.empty()) lexer_.fail("expected an output, such as output y: f32[..., n]");
    return std::move(op_);
  }

 private:
  /// `com.example::Name`
  void full_name() {
    constexpr std::string_view kWanted = "a domain of your own and a name, such as example::Swish";
    op_.domain = lexer_.name(kWanted);
    while (lexer_.accept(".")) op_.domain += fmt::format(".{}", lexer_.name("a part of the domain"));
    if (!lexer_.accept(":")) lexer_.fail(fmt::format("expected {}", kWanted));
    lexer_.expect(":");
    op_.name = lexer_.name("the operator's name");
    const bool ours = (by_user_ && op_.domain == "graft") || op_.domain == "ai" || op_.domain.starts_with("ai.onnx");
    if (ours) lexer_.fail(fmt::format("the domain {} is taken; choose one of your own", op_.domain));
  }

  std::string fresh_name(std::string_view what) {
    std::string name(lexer_.name(what));
    if (!names_.insert(name).second) lexer_.fail(fmt::format("the name '{}' is taken", name));
    return name;
  }

  /// `type T: f16, f32`
  void type() {
    TypeVariable variable{fresh_name("a name for the element type"), {}};
    if (parse_dtype(variable.name)) lexer_.fail(fmt::format("'{}' is an element type already", variable.name));
    lexer_.expect(":");
    do {
      const bool number = lexer_.accept("number");
      if (number || lexer_.accept("float")) allow(variable, kFloats);
      if (number || lexer_.accept("integer")) allow(variable, kIntegers);
      if (!number && lexer_.peek().kind == TokenKind::kName && parse_dtype(lexer_.peek().text)) {
        const DType one[] = {element_type()};
        allow(variable, one);
      }
    } while (lexer_.accept(","));
    if (variable.allowed.empty()) lexer_.fail("expected element types, or float, integer, number");
    op_.types.push_back(std::move(variable));
  }
  static void allow(TypeVariable& variable, std::span<const DType> types) {
    for (const DType type : types) {
      const auto end = variable.allowed.end();
      if (std::find(variable.allowed.begin(), end, type) == end) variable.allowed.push_back(type);
    }
  }
  DType element_type() {
    const DType type = lexer_.dtype();
    const bool computes = std::count(std::begin(kFloats), std::end(kFloats), type) ||
                          std::count(std::begin(kIntegers), std::end(kIntegers), type) || type == DType::kBool;
    if (!computes) lexer_.fail(fmt::format("definitions do not compute with {}", name_of(type)));
    return type;
  }

  /// `attribute epsilon: real = 1e-5`
  void attribute() {
    if (op_.attributes.size() == kMostAttributes) lexer_.fail("there are too many attributes");
    CustomAttribute attribute{.name = fresh_name("the attribute's name")};
    if (attribute.name == "definition") lexer_.fail("an attribute of this name holds the definition; choose another");
    lexer_.expect(":");
    attribute.whole = lexer_.accept("integer");
    if (!attribute.whole) lexer_.expect("real");
    if (lexer_.accept("=")) {
      attribute.default_value = attribute.whole ? Attribute(lexer_.integer("the default")) : Attribute(real());
    }
    op_.attributes.push_back(std::move(attribute));
  }
  double real() {
    const bool negative = lexer_.accept("-");
    const std::string_view text = lexer_.peek().text;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (lexer_.at_end() || error != std::errc() || end != text.data() + text.size()) {
      lexer_.fail("expected the default, a number");
    }
    lexer_.next();
    return negative ? -value : value;
  }

  /// `input x: T[..., n, 2*m]`
  CustomOperand operand(size_t there) {
    if (there == kMostOperandsOfOne) lexer_.fail("there are too many of these");
    lexer_.next();
    CustomOperand operand{.position = lexer_.position()};
    operand.name = fresh_name("a tensor's name");
    lexer_.expect(":");
    for (size_t i = 0; i < op_.types.size() && operand.variable < 0; ++i) {
      if (lexer_.accept(op_.types[i].name)) operand.variable = static_cast<int>(i);
    }
    if (operand.variable < 0) operand.type = element_type();
    lexer_.expect("[");
    if (lexer_.accept("]")) return operand;
    operand.leading = lexer_.accept_ellipsis();
    if (operand.leading && lexer_.accept("]")) return operand;
    if (operand.leading) lexer_.expect(",");
    do {
      operand.sizes.push_back(lexer_.size());
      if (operand.sizes.size() > static_cast<size_t>(kHighestRank)) lexer_.fail("there are too many axes");
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return operand;
  }

  /// Every size and type that the inputs speak of follows from one of them.
  void check_inputs() {
    std::set<std::string, std::less<>> bound, used;
    for (const CustomOperand& input : op_.inputs) {
      for (const Size& size : input.sizes) {
        size.collect_symbols(used);
        if (const auto symbol = size.as_symbol()) bound.insert(*symbol);
      }
    }
    for (const std::string& symbol : bound) {
      if (names_.contains(symbol)) lexer_.fail(fmt::format("the size '{}' has the name of something else", symbol));
    }
    for (const CustomAttribute& attribute : op_.attributes) {
      if (attribute.whole) bound.insert(attribute.name);
    }
    for (const std::string& symbol : used) {
      if (!bound.contains(symbol)) {
        lexer_.fail(fmt::format("the size '{}' is never an axis by itself, from which it could be known", symbol));
      }
    }
    for (size_t i = 0; i < op_.types.size(); ++i) {
      const auto has_type = [&](const CustomOperand& input) { return input.variable == static_cast<int>(i); };
      if (std::any_of(op_.inputs.begin(), op_.inputs.end(), has_type)) continue;
      lexer_.fail(fmt::format("no input is of the type '{}', from which it could be known", op_.types[i].name));
    }
  }

  Lexer& lexer_;
  bool by_user_;  ///< not by a pass, whose definitions are in the domain graft
  CustomOperator op_;
  std::set<std::string, std::less<>> names_;
};

/// The node that a definition is tried with.
struct Trial {
  std::vector<DType> types;  ///< by type variable
  int leading = 0;           ///< the axes that `...` stands for
};

Node trial_node(const CustomOperator& op, const Trial& trial, Graph& graph) {
  Node node{.name = fmt::format("{}::{}", op.domain, op.name), .domain = op.domain, .op = op.name, .attributes = {},
            .inputs = {}, .outputs = {}};
  std::map<std::string, Size, std::less<>> whole;
  for (const CustomAttribute& attribute : op.attributes) {
    const auto* given = std::get_if<int64_t>(&attribute.default_value);
    if (attribute.whole) whole.emplace(attribute.name, Size(given ? *given : 1));
    if (!std::holds_alternative<std::monostate>(attribute.default_value)) continue;
    node.attributes[attribute.name] = attribute.whole ? Attribute(int64_t{1}) : Attribute(1.0);
  }
  for (const CustomOperand& input : op.inputs) {
    Shape shape;
    for (int axis = 0; input.leading && axis < trial.leading; ++axis) {
      shape.push_back(Size::symbol(fmt::format("axis{}", axis)));
    }
    for (const Size& size : input.sizes) shape.push_back(size.substitute(whole));
    const DType type = input.variable < 0 ? input.type : trial.types[static_cast<size_t>(input.variable)];
    node.inputs.push_back(graph.add_value(input.name, type, shape));
  }
  for (const CustomOperand& output : op.outputs) {
    node.outputs.push_back(graph.add_value(output.name, DType::kUndefined));
  }
  node.attributes["definition"] = op.text;
  return node;
}

void try_definition(const CustomOperator& op, const Trial& trial, Lexer body, const std::string& place) {
  Graph graph;
  const std::shared_ptr<const OpDef> def = op_def_of(op);
  const Node node = trial_node(op, trial, graph);
  try {
    Definition d(*def, node, graph);
    build_custom(op, body, d);
    d.finish();
  } catch (const Error& error) {
    const bool placed =
        error.kind() == ErrorKind::kInvalidArgument && error.where().find(", line ") != std::string::npos;
    std::string types;
    for (size_t i = 0; i < op.types.size(); ++i) {
      types += fmt::format("{}{} = {}", i ? ", " : " (with ", op.types[i].name, name_of(trial.types[i]));
    }
    if (!types.empty()) types += ")";
    throw Error(ErrorKind::kInvalidArgument, error.message() + types, placed ? error.where() : place);
  }
}

void try_all(const CustomOperator& op, const Lexer& body, const std::string& place) {
  Trial trial;
  for (const TypeVariable& variable : op.types) trial.types.push_back(variable.allowed[0]);
  for (trial.leading = 0; trial.leading <= 2; ++trial.leading) try_definition(op, trial, body, place);
  trial.leading = 1;
  for (size_t i = 0; i < op.types.size(); ++i) {
    for (const DType type : op.types[i].allowed) {
      Trial other = trial;
      other.types[i] = type;
      try_definition(op, other, body, place);
    }
  }
}

/// Passes the body by its braces, and returns where the closing one ends.
size_t skip_body(Lexer& lexer) {
  for (int depth = 1;;) {
    if (lexer.at_end()) lexer.fail("expected '}' at the end of the definition");
    depth += lexer.is("{") ? 1 : lexer.is("}") ? -1 : 0;
    const size_t end = lexer.position() + 1;
    lexer.next();
    if (depth == 0) return end;
  }
}

}  // namespace

CustomOperator parse_custom_header(Lexer& lexer) { return HeaderParser(lexer, false).parse(); }

std::vector<CustomOperator> parse_custom_operators(std::string_view text, const std::string& where) {
  GRAFT_USER_CHECK(text.size() <= kLongestFile, kInvalidArgument, "definitions of operators are shorter than 4 MiB",
                   where);
  std::vector<CustomOperator> operators;
  Lexer lexer(text, where);
  if (lexer.at_end()) lexer.fail("expected a definition, such as operator example::Swish { ... }");
  while (!lexer.at_end()) {
    const size_t begin = lexer.position();
    const std::string place = lexer.place();
    CustomOperator op = HeaderParser(lexer, true).parse();
    const Lexer body = lexer;
    const size_t end = skip_body(lexer);
    const bool twice = std::any_of(operators.begin(), operators.end(), [&](const CustomOperator& other) {
      return other.domain == op.domain && other.name == op.name;
    });
    std::string fault;
    if (find_op(op.domain, op.name)) fault = "is an operator of Graft; choose another name or domain";
    if (twice) fault = "is defined twice";
    if (end - begin > kLongestDefinition) fault = "has a definition of more than 64 KiB";
    if (operators.size() == kMostOperators) fault = "is one too many: 1024 are allowed";
    GRAFT_USER_CHECK(fault.empty(), kInvalidArgument, fmt::format("{}::{} {}", op.domain, op.name, fault), place);
    op.text = text.substr(begin, end - begin);
    try_all(op, body, place);
    operators.push_back(std::move(op));
  }
  return operators;
}

}  // namespace graft
