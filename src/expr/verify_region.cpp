// SPDX-License-Identifier: Apache-2.0
#include "expr/verify_region.h"

#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/form_fields.h"
#include "expr/text.h"

namespace graft {
namespace {

/// The first rule that is broken.
struct Fault {
  std::string text;
};

/// Checks the forms of a region in order, knowing which tensors are defined.
class RegionVerifier {
 public:
  explicit RegionVerifier(const Region& region) : region_(region), defined_(region.tensors.size()) {}

  /// Throws Fault.
  void run() {
    where_ = fmt::format("region '{}'", region_.name);
    for (const TensorDecl& tensor : region_.tensors) {
      require(tensor.type != DType::kUndefined, [&] { return fmt::format("'{}' has no element type", tensor.name); });
    }
    for (const int input : region_.inputs) define(input);
    for (size_t i = 0; i < region_.forms.size(); ++i) {
      form_ = fmt::format("form {}", i);
      verify_form(region_.forms[i]);
    }
    form_.clear();
    for (const int output : region_.outputs) {
      require(is_tensor(output) && defined_[static_cast<size_t>(output)], "an output is not defined");
    }
  }

 private:
  /// The problem is a text, or makes one: texts of sizes take longer than checking them.
  template <class Problem>
  void require(bool good, const Problem& problem) const {
    if (good) return;
    if constexpr (std::is_invocable_v<Problem>) {
      fail(problem());
    } else {
      fail(problem);
    }
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Fault{fmt::format("{}{}{}: {}", where_, form_.empty() ? "" : ", ", form_, problem)};
  }
  bool is_tensor(int tensor) const { return tensor >= 0 && tensor < static_cast<int>(region_.tensors.size()); }
  const TensorDecl& declaration(int tensor) const {
    require(is_tensor(tensor), [&] { return fmt::format("there is no tensor number {}", tensor); });
    return region_.tensors[static_cast<size_t>(tensor)];
  }
  void define(int tensor) {
    const TensorDecl& declared = declaration(tensor);
    require(!defined_[static_cast<size_t>(tensor)],
            [&] { return fmt::format("'{}' is defined twice", declared.name); });
    defined_[static_cast<size_t>(tensor)] = true;
  }

  void verify_form(const Form& form) {
    const std::vector<int> outputs = defined_tensors(form);
    if (!outputs.empty()) form_ += fmt::format(" (of '{}')", declaration(outputs[0]).name);
    variables_.clear();
    for_each_field(form, [this](std::string_view name, FieldScope scope, const auto& field) {
      if (scope == FieldScope::kStates) check_states(name, field);
    });
    std::visit([this](const auto& f) { verify_one(f); }, form);
    for (const int output : outputs) define(output);
  }

  using Scope = std::unordered_set<int>;

  void declare(const Expr& variable, bool index) {
    require(variable && variable->kind == ExprKind::kVariable, "a variable is expected");
    require(!index || variable->type == DType::kInt64, "an axis variable is not an i64");
    require(variables_.insert(variable->variable).second, "a variable is declared twice");
  }
  void declare(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) declare(axis.variable, true);
  }

  /// An expression of the given type whose variables are in scope and whose nodes keep the rules of their kind.
  void check(const Expr& e, DType type, std::string_view what) const {
    require(static_cast<bool>(e), [&] { return fmt::format("there is no {}", what); });
    for_each(e, [&](const Expr& node) { check_node(*node, what); });
    require(e->type == type,
            [&] { return fmt::format("the {} is a {}, not a {}", what, name_of(e->type), name_of(type)); });
  }

  /// What is evaluated over states of a fold reads no tensors.
  void check_states(std::string_view name, const std::vector<Expr>& field) const {
    for (const Expr& e : field) check_states(name, e);
  }
  void check_states(std::string_view name, const Expr& e) const {
    require(!e || !has_load(e), [&] { return fmt::format("'{}' reads a tensor; only 'lift' may", name); });
  }

  void check_node(const ExprNode& node, std::string_view what) const {
    switch (node.kind) {
      case ExprKind::kConstant:
        return require(kind_of(node.type) != DTypeKind::kOpaque && kind_of(node.type) != DTypeKind::kComplex,
                       [&] { return fmt::format("there are no constants of type {}", name_of(node.type)); });
      case ExprKind::kVariable:
        return require(variables_.contains(node.variable),
                       [&] { return fmt::format("the {} uses a variable that is not in scope", what); });
      case ExprKind::kSize:
        return require(node.type == DType::kInt64, "a size is not an i64");
      case ExprKind::kLoad:
        return check_load(node, what);
      case ExprKind::kCall:
        break;
    }
    std::vector<DType> types;
    for (const Expr& arg : node.args) types.push_back(arg->type);
    const auto problem = operand_error(node.intrinsic, types, node.type);
    require(!problem, [&] { return problem ? *problem : ""; });
    const IntrinsicInfo& row = info(node.intrinsic);
    if (row.result == IntrinsicResult::kCast) return;
    const DType expected = row.result == IntrinsicResult::kBool     ? DType::kBool
                           : row.result == IntrinsicResult::kSecond ? types[1]
                                                                    : types[0];
    require(node.type == expected, [&] { return fmt::format("{} gives a {}", row.name, name_of(expected)); });
    require(node.intrinsic == Intrinsic::kSelect || compute_type(types[0]) == types[0],
            [&] { return fmt::format("{} computes in {}", row.name, name_of(types[0])); });
  }

  void check_load(const ExprNode& node, std::string_view what) const {
    const TensorDecl& tensor = declaration(node.tensor);
    require(defined_[static_cast<size_t>(node.tensor)],
            [&] { return fmt::format("the {} reads '{}' before it is defined", what, tensor.name); });
    require(node.type == tensor.type, [&] { return fmt::format("'{}' is loaded as another type", tensor.name); });
    require(node.args.size() == tensor.shape.size(), [&] {
      return fmt::format("'{}' has {} axes, but {} indices are given", tensor.name, tensor.shape.size(),
                         node.args.size());
    });
    for (const Expr& index : node.args) {
      require(index && index->type == DType::kInt64,
              [&] { return fmt::format("an index of '{}' is not an i64", tensor.name); });
    }
  }

  /// An output covers exactly the form's axes and has the type of what is stored.
  void check_output(int output, DType type, const Shape& shape) const {
    const TensorDecl& declared = declaration(output);
    require(declared.type == type, [&] {
      return fmt::format("'{}' is {}, but {} is stored", declared.name, name_of(declared.type), name_of(type));
    });
    require(declared.shape == shape, [&] {
      return fmt::format("'{}' has the shape {}, but the form covers {}", declared.name, to_string(declared.shape),
                         to_string(shape));
    });
  }
  void same_number(size_t a, size_t b, std::string_view what) const {
    require(a == b, [&] { return fmt::format("there are {} {}, but {} are expected", a, what, b); });
  }
  static Shape extents(const std::vector<Axis>& axes) {
    Shape shape;
    for (const Axis& axis : axes) shape.push_back(axis.extent);
    return shape;
  }

  void verify_one(const Compute& form) {
    declare(form.axes);
    check(form.value, declaration(form.output).type, "value");
    check_output(form.output, form.value->type, extents(form.axes));
  }

  void verify_one(const Reduce& form) {
    const Monoid& monoid = form.monoid;
    const size_t parts = form.lift.size();
    require(parts > 0, "nothing is lifted");
    same_number(form.outputs.size(), parts, "outputs");
    same_number(monoid.identity.size(), parts, "identities");
    same_number(monoid.left.size(), parts, "left variables");
    same_number(monoid.right.size(), parts, "right variables");
    same_number(monoid.combine.size(), parts, "combining expressions");
    for (const Expr& e : monoid.identity) {
      require(e && e->kind == ExprKind::kConstant, "an identity is not a constant");
    }
    declare(form.axes);
    declare(form.reduced);
    for (const Expr& e : form.lift) {
      require(static_cast<bool>(e), "there is no lifted value");
      check(e, e->type, "lifted value");
    }
    variables_.clear();
    for (size_t i = 0; i < parts; ++i) declare(monoid.left[i], false), declare(monoid.right[i], false);
    for (size_t i = 0; i < parts; ++i) {
      const DType type = form.lift[i]->type;
      require(monoid.identity[i]->type == type && monoid.left[i]->type == type && monoid.right[i]->type == type,
              [&] { return fmt::format("the state of component {} is not {}", i, name_of(type)); });
      check(monoid.combine[i], type, "combined value");
      check_output(form.outputs[i], type, extents(form.axes));
    }
  }

  void verify_one(const Scan& form) {
    same_number(form.initial.size(), form.state.size(), "initial values");
    same_number(form.step.size(), form.state.size(), "steps");
    same_number(form.outputs.size(), form.emit.size(), "outputs");
    require(!form.emit.empty() && !form.state.empty(), "a scan has a state and emits something");
    declare(form.axes);
    for (size_t i = 0; i < form.state.size(); ++i) {
      require(static_cast<bool>(form.state[i]), "there is no state variable");
      check(form.initial[i], form.state[i]->type, "initial value");
    }
    declare(form.axis.variable, true);
    for (const Expr& state : form.state) declare(state, false);
    for (size_t i = 0; i < form.state.size(); ++i) check(form.step[i], form.state[i]->type, "step");
    Shape shape = extents(form.axes);
    shape.push_back(form.axis.extent);
    for (size_t i = 0; i < form.emit.size(); ++i) {
      check(form.emit[i], declaration(form.outputs[i]).type, "emitted value");
      check_output(form.outputs[i], form.emit[i]->type, shape);
    }
  }

  void verify_one(const Scatter& form) {
    const TensorDecl& base = declaration(form.base);
    require(defined_[static_cast<size_t>(form.base)],
            [&] { return fmt::format("'{}' is read before it is defined", base.name); });
    check_output(form.output, base.type, base.shape);
    declare(form.axes);
    same_number(form.indices.size(), base.shape.size(), "indices");
    for (const Expr& index : form.indices) check(index, DType::kInt64, "index");
    check(form.value, base.type, "value");
    if (form.condition) check(form.condition, DType::kBool, "condition");
    const DTypeKind kind = kind_of(base.type);
    require(form.mode == ScatterMode::kSet || (kind != DTypeKind::kOpaque && kind != DTypeKind::kComplex),
            "only set applies to elements that are not numbers");
  }

  void verify_one(const Sort& form) {
    require(form.outputs.size() == 1 || form.outputs.size() == 2, "a sort has one or two outputs");
    declare(form.axes);
    declare(form.axis.variable, true);
    check(form.key, declaration(form.outputs[0]).type, "key");
    const DTypeKind kind = kind_of(form.key->type);
    require(kind != DTypeKind::kOpaque && kind != DTypeKind::kComplex, "the key has no order");
    Shape shape = extents(form.axes);
    shape.push_back(form.count);
    check_output(form.outputs[0], form.key->type, shape);
    if (form.outputs.size() == 2) check_output(form.outputs[1], DType::kInt64, shape);
  }

  void verify_one(const Compact& form) {
    require(!form.count.empty(), "the count has no name");
    same_number(form.outputs.size(), form.values.size(), "outputs");
    require(!form.values.empty(), "nothing is kept");
    declare(form.axes);
    check(form.condition, DType::kBool, "condition");
    for (size_t i = 0; i < form.values.size(); ++i) {
      check(form.values[i], declaration(form.outputs[i]).type, "value");
      check_output(form.outputs[i], form.values[i]->type, {Size::symbol(form.count)});
    }
  }

  const Region& region_;
  std::vector<bool> defined_;
  Scope variables_;
  std::string where_;
  std::string form_;
};

}  // namespace

std::optional<std::string> region_fault(const Region& region) {
  try {
    RegionVerifier(region).run();
    return std::nullopt;
  } catch (const Fault& fault) {
    return fault.text;
  }
}

void verify(const Region& region) {
  const std::optional<std::string> fault = region_fault(region);
  GRAFT_CHECK(!fault, *fault);
}

}  // namespace graft
