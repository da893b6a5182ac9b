// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/convert.h"
#include "base/error.h"
#include "expr/evaluate.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

constexpr int64_t kMaxElements = 1024;
constexpr int64_t kMaxPoints = 65536;  // of one form, reduced axes included

/// Thrown inside this file where a value cannot be known as a size.
struct Undecided {};

bool at_least(const Size& a, const Size& b) { return (a - b).is_non_negative(); }
bool greater(const Size& a, const Size& b) { return (a - b - Size(1)).is_non_negative(); }

/// `when` if it is proved, `!when` if the opposite is.
bool decide(bool proved, bool disproved) {
  if (!proved && !disproved) throw Undecided();
  return proved;
}

Size compare(Intrinsic intrinsic, const Size& a, const Size& b) {
  const bool different = greater(a, b) || greater(b, a);
  switch (intrinsic) {
    case Intrinsic::kEq:
      return decide(a == b, different);
    case Intrinsic::kNe:
      return decide(different, a == b);
    case Intrinsic::kLt:
      return decide(greater(b, a), at_least(a, b));
    case Intrinsic::kLe:
      return decide(at_least(b, a), greater(a, b));
    case Intrinsic::kGt:
      return decide(greater(a, b), at_least(b, a));
    default:
      return decide(at_least(a, b), greater(b, a));
  }
}

int64_t constant(const Size& size) {
  const auto value = size.as_constant();
  if (!value) throw Undecided();
  return *value;
}

/// Of operands that are not both constant.
Size divide(Intrinsic intrinsic, const Size& a, const Size& b) {
  if (b.is(0)) return 0;
  const bool rounds_down = intrinsic == Intrinsic::kFloorDiv || intrinsic == Intrinsic::kMod;
  if (!b.is_non_negative() || (!rounds_down && !a.is_non_negative())) throw Undecided();
  const bool quotient = intrinsic == Intrinsic::kDiv || intrinsic == Intrinsic::kFloorDiv;
  return quotient ? floor_div(a, b) : mod(a, b);
}

Size smaller(const Size& a, const Size& b) { return at_least(b, a) ? a : at_least(a, b) ? b : min(a, b); }
Size larger(const Size& a, const Size& b) { return at_least(a, b) ? a : at_least(b, a) ? b : max(a, b); }

/// One intrinsic over decided arguments; constants mean exactly what the interpreter gives.
Size apply_intrinsic(const ExprNode& node, const std::vector<Size>& args) {
  const DType type = node.args[0]->type;
  if (is_float(type) || is_float(node.type)) throw Undecided();
  if (std::all_of(args.begin(), args.end(), [](const Size& a) { return a.is_constant(); })) {
    std::vector<Scalar> scalars;
    for (const Size& a : args) scalars.push_back({0, a.constant()});
    return evaluate_scalar(node.intrinsic, type, node.type, scalars).integer;
  }
  switch (node.intrinsic) {
    case Intrinsic::kAdd:
      return args[0] + args[1];
    case Intrinsic::kSub:
      return args[0] - args[1];
    case Intrinsic::kMul:
      return args[0] * args[1];
    case Intrinsic::kNeg:
      return Size(0) - args[0];
    case Intrinsic::kMin:
      return smaller(args[0], args[1]);
    case Intrinsic::kMax:
      return larger(args[0], args[1]);
    case Intrinsic::kAbs:
      return args[0].is_non_negative() ? args[0] : throw Undecided();
    case Intrinsic::kDiv:
    case Intrinsic::kFloorDiv:
    case Intrinsic::kRem:
    case Intrinsic::kMod:
      return divide(node.intrinsic, args[0], args[1]);
    case Intrinsic::kEq:
    case Intrinsic::kNe:
    case Intrinsic::kLt:
    case Intrinsic::kLe:
    case Intrinsic::kGt:
    case Intrinsic::kGe:
      return compare(node.intrinsic, args[0], args[1]);
    case Intrinsic::kCast:
      if (node.type == DType::kBool) return compare(Intrinsic::kNe, args[0], 0);
      return args[0];
    default:
      throw Undecided();
  }
}

class SymbolicInterpreter {
 public:
  SymbolicInterpreter(const Region& region, std::span<const SymbolicContent> inputs)
      : region_(region), contents_(region.tensors.size()) {
    GRAFT_CHECK(inputs.size() == region.inputs.size(), "wrong number of inputs for " + region.name);
    for (size_t i = 0; i < inputs.size(); ++i) contents_[static_cast<size_t>(region.inputs[i])] = inputs[i];
  }

  std::optional<std::vector<std::vector<Size>>> run() {
    for (const Form& form : region_.forms) {
      try {
        std::visit([this](const auto& f) { run(f); }, form);
      } catch (const Undecided&) {  // its tensors stay unknown, which matters only where they are needed
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInternal) throw;
      }
    }
    std::vector<std::vector<Size>> outputs;
    for (const int tensor : region_.outputs) {
      const SymbolicContent& content = contents_[static_cast<size_t>(tensor)];
      if (!content) return std::nullopt;
      outputs.push_back(*content);
    }
    return outputs;
  }

 private:
  using Variables = std::unordered_map<int, Size>;

  /// Extents of a tensor; those that a Compact of this region determined are constants too.
  std::vector<int64_t> extents(int tensor) const {
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const Size& size : region_.tensors[static_cast<size_t>(tensor)].shape) {
      extents.push_back(constant(size.substitute(counts_)));
      if (extents.back() < 0 || extents.back() > kMaxElements) throw Undecided();
      count *= extents.back();
      if (count > kMaxElements) throw Undecided();
    }
    return extents;
  }
  size_t element_count(int tensor) const {
    const auto all = extents(tensor);
    return static_cast<size_t>(std::accumulate(all.begin(), all.end(), int64_t{1}, std::multiplies<>()));
  }

  /// Calls `body` for the points of `axes` in row-major order, their variables set.
  template <class Body>
  void for_points(const std::vector<Axis>& axes, Variables& variables, const Body& body, size_t axis = 0) {
    if (axis == axes.size()) {
      if (++points_ > kMaxPoints) throw Undecided();
      return body();
    }
    const int64_t extent = constant(axes[axis].extent.substitute(counts_));
    for (int64_t i = 0; i < extent; ++i) {
      variables[axes[axis].variable->variable] = Size(i);
      for_points(axes, variables, body, axis + 1);
    }
  }

  using Memo = std::unordered_map<const ExprNode*, Size>;

  Size value(const Expr& e, const Variables& variables) {
    Memo memo;
    return value(e, variables, memo);
  }
  std::vector<Size> values(const std::vector<Expr>& exprs, const Variables& variables) {
    std::vector<Size> result;
    for (const Expr& e : exprs) result.push_back(value(e, variables));
    return result;
  }

  Size value(const Expr& e, const Variables& variables, Memo& memo) {
    if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
    Size result;
    switch (e->kind) {
      case ExprKind::kConstant:
        if (is_float(e->type)) throw Undecided();
        result = e->integer;
        break;
      case ExprKind::kVariable:
        result = variables.at(e->variable);
        break;
      case ExprKind::kSize:
        result = e->size.substitute(counts_);
        break;
      case ExprKind::kLoad:
        result = load(*e, variables, memo);
        break;
      case ExprKind::kCall:
        result = call(*e, variables, memo);
        break;
    }
    memo.emplace(e.get(), result);
    return result;
  }

  Size load(const ExprNode& node, const Variables& variables, Memo& memo) {
    const SymbolicContent& content = contents_[static_cast<size_t>(node.tensor)];
    if (!content) throw Undecided();
    const std::vector<int64_t> shape = extents(node.tensor);
    int64_t at = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t index = constant(value(node.args[axis], variables, memo));
      if (index < 0 || index >= shape[axis]) throw Undecided();  // running it reports the error
      at = at * shape[axis] + index;
    }
    if (at >= static_cast<int64_t>(content->size())) throw Undecided();
    return (*content)[static_cast<size_t>(at)];
  }

  Size call(const ExprNode& node, const Variables& variables, Memo& memo) {
    if (node.intrinsic == Intrinsic::kSelect) {
      const int64_t condition = constant(value(node.args[0], variables, memo));
      return value(node.args[condition ? 1 : 2], variables, memo);
    }
    const bool conjunction = node.intrinsic == Intrinsic::kAnd;
    if (node.type == DType::kBool && (conjunction || node.intrinsic == Intrinsic::kOr)) {
      return junction(node, conjunction, variables, memo);
    }
    std::vector<Size> args;
    for (const Expr& arg : node.args) args.push_back(value(arg, variables, memo));
    if (node.intrinsic == Intrinsic::kCheckIndex) {
      if (!decide(args[0].is_non_negative() && greater(args[1], args[0]), false)) throw Undecided();
      return args[0];
    }
    if (node.intrinsic == Intrinsic::kCheckDivisor) {
      if (args[0].is(0)) throw Undecided();  // the run says so
      return args[0];
    }
    return apply_intrinsic(node, args);
  }

  /// `and` and `or` of bools, which one side may decide alone.
  Size junction(const ExprNode& node, bool conjunction, const Variables& variables, Memo& memo) {
    bool undecided = false;
    for (const Expr& arg : node.args) {
      try {
        if ((constant(value(arg, variables, memo)) != 0) != conjunction) return Size(!conjunction);
      } catch (const Undecided&) {
        undecided = true;
      }
    }
    if (undecided) throw Undecided();
    return Size(conjunction);
  }

  void define(int tensor, std::vector<Size> content) {
    if (content.size() != element_count(tensor)) throw Undecided();
    contents_[static_cast<size_t>(tensor)] = std::move(content);
  }

  void run(const Compute& form) {
    points_ = 0;
    Variables variables;
    std::vector<Size> content;
    element_count(form.output);
    for_points(form.axes, variables, [&] { content.push_back(value(form.value, variables)); });
    define(form.output, std::move(content));
  }

  void run(const Reduce& form) {
    points_ = 0;
    Variables variables;
    std::vector<std::vector<Size>> outputs(form.outputs.size());
    for_points(form.axes, variables, [&] {
      std::vector<Size> state = values(form.monoid.identity, variables);
      for_points(form.reduced, variables, [&] {
        const std::vector<Size> lifted = values(form.lift, variables);
        for (size_t i = 0; i < state.size(); ++i) {
          variables[form.monoid.left[i]->variable] = state[i];
          variables[form.monoid.right[i]->variable] = lifted[i];
        }
        state = values(form.monoid.combine, variables);
      });
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(state[i]);
    });
    for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
  }

  void run(const Scan& form) {
    points_ = 0;
    Variables variables;
    const int64_t length = constant(form.axis.extent.substitute(counts_));
    if (length < 0 || length > kMaxElements) throw Undecided();
    std::vector<std::vector<Size>> outputs(form.outputs.size());
    for_points(form.axes, variables, [&] {
      std::vector<Size> state = values(form.initial, variables);
      const auto set_state = [&] {
        for (size_t i = 0; i < state.size(); ++i) variables[form.state[i]->variable] = state[i];
      };
      std::vector<std::vector<Size>> row(outputs.size(), std::vector<Size>(static_cast<size_t>(length)));
      for (int64_t i = 0; i < length; ++i) {
        const int64_t t = form.reverse ? length - 1 - i : i;
        variables[form.axis.variable->variable] = Size(t);
        set_state();
        std::vector<Size> emitted;
        if (form.exclusive) emitted = values(form.emit, variables);
        state = values(form.step, variables);
        set_state();
        if (!form.exclusive) emitted = values(form.emit, variables);
        for (size_t o = 0; o < outputs.size(); ++o) row[o][static_cast<size_t>(t)] = emitted[o];
      }
      for (size_t o = 0; o < outputs.size(); ++o) {
        outputs[o].insert(outputs[o].end(), row[o].begin(), row[o].end());
      }
    });
    for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
  }

  void run(const Scatter& form) {
    points_ = 0;
    Variables variables;
    const SymbolicContent& base = contents_[static_cast<size_t>(form.base)];
    if (!base) throw Undecided();
    std::vector<Size> content = *base;
    const std::vector<int64_t> shape = extents(form.output);
    const DType type = region_.tensors[static_cast<size_t>(form.output)].type;
    for_points(form.axes, variables, [&] {
      if (form.condition && !constant(value(form.condition, variables))) return;
      int64_t at = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t index = constant(value(form.indices[axis], variables));
        if (index < 0 || index >= shape[axis]) throw Undecided();
        at = at * shape[axis] + index;
      }
      Size& element = content[static_cast<size_t>(at)];
      element = update(form.mode, element, value(form.value, variables), type);
    });
    define(form.output, std::move(content));
  }

  static Size update(ScatterMode mode, const Size& old, const Size& given, DType type) {
    const auto wrapped = [&](const Size& size) {
      return size.is_constant() ? Size(wrap_integer(type, size.constant())) : size;
    };
    switch (mode) {
      case ScatterMode::kAdd:
        return wrapped(old + given);
      case ScatterMode::kMul:
        return wrapped(old * given);
      case ScatterMode::kMin:
        return smaller(old, given);
      case ScatterMode::kMax:
        return larger(old, given);
      case ScatterMode::kSet:
        break;
    }
    return given;
  }

  void run(const Sort& form) {
    points_ = 0;
    Variables variables;
    std::vector<std::vector<Size>> outputs(form.outputs.size());
    const int64_t kept = constant(form.count.substitute(counts_));
    for_points(form.axes, variables, [&] {
      std::vector<int64_t> keys;
      for_points({form.axis}, variables, [&] { keys.push_back(constant(value(form.key, variables))); });
      std::vector<size_t> order(keys.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return form.descending ? keys[b] < keys[a] : keys[a] < keys[b]; });
      if (kept < 0 || kept > static_cast<int64_t>(order.size())) throw Undecided();
      for (size_t rank = 0; rank < static_cast<size_t>(kept); ++rank) {
        outputs[0].push_back(keys[order[rank]]);
        if (outputs.size() > 1) outputs[1].push_back(static_cast<int64_t>(order[rank]));
      }
    });
    for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
  }

  void run(const Compact& form) {
    points_ = 0;
    Variables variables;
    int64_t kept = 0;
    std::vector<std::vector<Size>> outputs(form.outputs.size());
    for_points(form.axes, variables, [&] {
      if (!constant(value(form.condition, variables))) return;
      ++kept;
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(value(form.values[i], variables));
    });
    counts_[form.count] = Size(kept);
    for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
  }

  const Region& region_;
  std::vector<SymbolicContent> contents_;
  std::map<std::string, Size, std::less<>> counts_;  ///< of Compact forms that were decided
  int64_t points_ = 0;
};

}  // namespace

std::optional<std::vector<std::vector<Size>>> interpret_symbolically(const Region& region,
                                                                     std::span<const SymbolicContent> input_contents) {
  return SymbolicInterpreter(region, input_contents).run();
}

}  // namespace graft
