// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"

namespace graft {
namespace {

constexpr size_t kInlineLength = 24;      // a shared expression shorter than this is repeated
constexpr int kInlineHeight = 64;         // a taller expression is cut by a let
constexpr size_t kMessageLength = 20000;  // of an expression printed without lets

std::string joined(std::string open, const std::vector<std::string>& parts, std::string_view close) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) open += ", ";
    open += parts[i];
  }
  open += close;
  return open;
}

/// The text of a node whose arguments are printed already.
std::string node_text(const ExprNode& node, const std::vector<std::string>& args,
                      const ExprPrinter::NameOfTensor& tensor, const ExprPrinter::NameOfVariable& variable) {
  switch (node.kind) {
    case ExprKind::kConstant:
      return print_constant(node);
    case ExprKind::kVariable:
      return variable(node.variable);
    case ExprKind::kSize:
      return "size(" + node.size.to_string() + ")";
    case ExprKind::kLoad:
      return joined(tensor(node.tensor) + "[", args, "]");
    case ExprKind::kCall:
      break;
  }
  const IntrinsicInfo& row = info(node.intrinsic);
  std::string open(row.name);
  if (row.result == IntrinsicResult::kCast) open += fmt::format("<{}>", name_of(node.type));
  return joined(open + "(", args, ")");
}

}  // namespace

std::string print_constant(const ExprNode& constant) {
  if (constant.type == DType::kBool) return constant.integer ? "true" : "false";
  if (constant.type == DType::kInt64) return std::to_string(constant.integer);
  if (constant.type == DType::kUint64) return fmt::format("{}:u64", static_cast<uint64_t>(constant.integer));
  if (!is_float(constant.type)) return fmt::format("{}:{}", constant.integer, name_of(constant.type));
  if (std::isnan(constant.real)) {
    return fmt::format("{}nan:{}", std::signbit(constant.real) ? "-" : "", name_of(constant.type));
  }
  if (constant.type == DType::kFloat32) return fmt::format("{}:f32", static_cast<float>(constant.real));
  return fmt::format("{}:{}", constant.real, name_of(constant.type));
}

std::vector<std::string> ExprPrinter::lets(const std::vector<Expr>& roots) {
  uses_.clear(), done_.clear(), lines_.clear();
  std::unordered_map<const ExprNode*, bool> seen;
  for (const Expr& root : roots) {
    if (!root) continue;
    ++uses_[root.get()];
    for_each(root, [&](const Expr& node) {
      if (!seen.emplace(node.get(), true).second) return;
      for (const Expr& arg : node->args) ++uses_[arg.get()];
    });
  }
  for (const Expr& root : roots) {
    if (root) text_of(root);
  }
  return lines_;
}

std::string ExprPrinter::print(const Expr& e) {
  const size_t lines = lines_.size();
  const std::string text = text_of(e).text;
  GRAFT_CHECK(lines_.size() == lines, "an expression is printed whose lets are not declared");
  return text;
}

std::string ExprPrinter::print(const std::vector<Expr>& exprs) {
  std::vector<std::string> parts;
  for (const Expr& e : exprs) parts.push_back(print(e));
  return joined("", parts, "");
}

const ExprPrinter::Text& ExprPrinter::text_of(const Expr& e) {
  if (const auto it = done_.find(e.get()); it != done_.end()) return it->second;
  Text text = build(e);
  const bool shared = uses_[e.get()] > 1 && text.text.size() > kInlineLength;
  if (!e->args.empty() && (shared || text.height >= kInlineHeight)) {
    const std::string name = fmt::format("t{}", lines_.size());
    lines_.push_back(fmt::format("let {} = {}", name, text.text));
    text = {name, 0};
  }
  return done_.emplace(e.get(), std::move(text)).first->second;
}

ExprPrinter::Text ExprPrinter::build(const Expr& e) {
  Text result;
  std::vector<std::string> args;
  for (const Expr& arg : e->args) {
    const Text& text = text_of(arg);
    args.push_back(text.text);
    result.height = std::max(result.height, text.height + 1);
  }
  result.text = node_text(*e, args, tensor_, variable_);
  return result;
}

std::string print_expr(const Expr& e, const ExprPrinter::NameOfTensor& name_of_tensor,
                       const ExprPrinter::NameOfVariable& name_of_variable) {
  std::unordered_map<const ExprNode*, std::string> texts;
  for_each(e, [&](const Expr& node) {
    std::vector<std::string> args;
    for (const Expr& arg : node->args) args.push_back(texts[arg.get()]);
    std::string text = node_text(*node, args, name_of_tensor, name_of_variable);
    texts[node.get()] = text.size() > kMessageLength ? "..." : std::move(text);
  });
  return texts[e.get()];
}

std::string unique_identifier(std::string_view name, std::map<std::string, int, std::less<>>& taken) {
  std::string identifier;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    identifier += letter || digit ? c : '_';
  }
  if (identifier.empty() || (identifier[0] >= '0' && identifier[0] <= '9')) identifier = "v" + identifier;
  std::string candidate = identifier;
  while (!taken.emplace(candidate, 1).second) {
    candidate = fmt::format("{}_{}", identifier, ++taken[identifier]);
  }
  return candidate;
}

namespace {

enum class Operands : uint8_t { kNumbers, kFloats, kIntegers, kLogical, kNumbersOrBool };

/// What an intrinsic computes on.
Operands operands_of(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::kAdd:
    case Intrinsic::kSub:
    case Intrinsic::kMul:
    case Intrinsic::kDiv:
    case Intrinsic::kFloorDiv:
    case Intrinsic::kRem:
    case Intrinsic::kMod:
    case Intrinsic::kPow:
    case Intrinsic::kNeg:
    case Intrinsic::kAbs:
      return Operands::kNumbers;
    case Intrinsic::kMin:
    case Intrinsic::kMax:
    case Intrinsic::kEq:
    case Intrinsic::kNe:
    case Intrinsic::kLt:
    case Intrinsic::kLe:
    case Intrinsic::kGt:
    case Intrinsic::kGe:
      return Operands::kNumbersOrBool;
    case Intrinsic::kAnd:
    case Intrinsic::kOr:
    case Intrinsic::kXor:
    case Intrinsic::kNot:
      return Operands::kLogical;
    case Intrinsic::kShl:
    case Intrinsic::kShr:
    case Intrinsic::kCheckIndex:
    case Intrinsic::kCheckDivisor:
      return Operands::kIntegers;
    default:
      return Operands::kFloats;
  }
}

bool suits(Operands operands, DType type) {
  switch (operands) {
    case Operands::kFloats:
      return is_float(type);
    case Operands::kIntegers:
      return is_integer(type);
    case Operands::kLogical:
      return is_integer(type) || type == DType::kBool;
    case Operands::kNumbers:
      return is_float(type) || is_integer(type);
    default:
      return is_float(type) || is_integer(type) || type == DType::kBool;
  }
}

std::optional<std::string> conversion_error(Intrinsic intrinsic, DType from, DType to) {
  if (from == to) return std::nullopt;
  if (!suits(Operands::kNumbersOrBool, from) || !suits(Operands::kNumbersOrBool, to)) {
    return fmt::format("{} does not convert from {} to {}", info(intrinsic).name, name_of(from), name_of(to));
  }
  if (intrinsic == Intrinsic::kBitcast && bit_width(from) != bit_width(to)) {
    return fmt::format("bitcast from {} to {} changes the width", name_of(from), name_of(to));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> operand_error(Intrinsic intrinsic, const std::vector<DType>& types, DType result) {
  const IntrinsicInfo& row = info(intrinsic);
  if (static_cast<int>(types.size()) != row.arity) {
    return fmt::format("{} takes {} arguments, not {}", row.name, row.arity, types.size());
  }
  if (row.result == IntrinsicResult::kCast) return conversion_error(intrinsic, types[0], result);
  const bool selects = intrinsic == Intrinsic::kSelect;
  if (selects && types[0] != DType::kBool) return std::string("select takes a bool condition");
  for (size_t i = selects ? 2 : 1; i < types.size(); ++i) {
    if (types[i] != types[i - 1]) {
      return fmt::format("the operand types of {} differ: {} and {}", row.name, name_of(types[i - 1]),
                         name_of(types[i]));
    }
  }
  if (!selects && !suits(operands_of(intrinsic), types[0])) {
    return fmt::format("{} does not take operands of type {}", row.name, name_of(types[0]));
  }
  return std::nullopt;
}

}  // namespace graft
