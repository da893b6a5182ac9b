// SPDX-License-Identifier: Apache-2.0
#include "expr/parse_forms.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/form_fields.h"

namespace graft {
namespace {

/// The operations that a fold may name.
std::optional<Intrinsic> folding_intrinsic(std::string_view name) {
  constexpr Intrinsic kFolds[] = {Intrinsic::kAdd, Intrinsic::kMul, Intrinsic::kMin, Intrinsic::kMax,
                                  Intrinsic::kAnd, Intrinsic::kOr,  Intrinsic::kXor};
  for (const Intrinsic intrinsic : kFolds) {
    if (name == info(intrinsic).name) return intrinsic;
  }
  return std::nullopt;
}

/// Reads one form.
class FormParser {
 public:
  FormParser(Lexer& lexer, const FormNames& names) : lexer_(lexer), names_(names), scope_(names.find_tensor) {
    if (!shorthand()) return;
    scope_.allow_shorthand();
    for (const auto& [name, value] : names.literals) scope_.declare_literal(name, value);
  }

  /// Whether the axes that the form is over begin with `...`.
  bool over_ellipsis() const { return over_ellipsis_; }

  Form parse() {
    Form form;
    if (lexer_.accept("compute")) {
      form = compute();
    } else if (lexer_.accept("reduce")) {
      form = reduce();
    } else if (lexer_.accept("scan")) {
      form = scan();
    } else if (lexer_.accept("scatter")) {
      form = scatter();
    } else if (lexer_.accept("sort")) {
      form = sort();
    } else if (lexer_.accept("compact")) {
      form = compact();
    } else {
      lexer_.fail("expected a form: compute, reduce, scan, scatter, sort or compact");
    }
    lexer_.expect("}");
    return form;
  }

 private:
  bool shorthand() const { return names_.ellipsis != nullptr; }

  int defined_tensor() { return names_.define(lexer_.name("a tensor's name")); }
  std::vector<int> defined_tensors() {
    std::vector<int> tensors;
    do {
      tensors.push_back(defined_tensor());
    } while (lexer_.accept(","));
    return tensors;
  }
  int tensor_name() {
    const std::string_view name = lexer_.name("a tensor's name");
    const auto tensor = names_.find_tensor(name);
    if (!tensor) lexer_.fail(fmt::format("the tensor '{}' is not declared", name));
    return tensor->index;
  }

  /// `[i0 < batch, i1 < 384]`, `[..., i < 384]`
  std::vector<Axis> axes() {
    std::vector<Axis> axes;
    lexer_.expect("[");
    if (lexer_.accept("]")) return axes;
    if (shorthand() && lexer_.accept_ellipsis()) {
      leading_axes(axes);
      if (lexer_.accept("]")) return axes;
      lexer_.expect(",");
    }
    do {
      const std::string name(lexer_.name("an axis variable"));
      lexer_.expect("<");
      axes.push_back({make_variable(), lexer_.size()});
      scope_.declare(lexer_, name, axes.back().variable);
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return axes;
  }
  std::vector<Axis> over() {
    lexer_.expect("over");
    std::vector<Axis> list = axes();
    over_ellipsis_ = scope_.ellipsis() != nullptr;
    return list;
  }
  void leading_axes(std::vector<Axis>& axes) {
    if (scope_.ellipsis()) lexer_.fail("'...' is among this form's axes already");
    std::vector<Expr> variables;
    for (const Size& extent : *names_.ellipsis) {
      variables.push_back(make_variable());
      axes.push_back({variables.back(), extent});
    }
    scope_.set_ellipsis(std::move(variables));
  }
  Axis one_axis() {
    std::vector<Axis> list = axes();
    if (list.size() != 1) lexer_.fail("exactly one axis is expected");
    return list[0];
  }

  /// `left l0: f32, l1: i64`
  std::vector<Expr> variables(std::string_view what) {
    std::vector<Expr> variables;
    lexer_.expect(what);
    do {
      const std::string name(lexer_.name("a state variable"));
      lexer_.expect(":");
      variables.push_back(make_variable(lexer_.dtype()));
      scope_.declare(lexer_, name, variables.back());
    } while (lexer_.accept(","));
    return variables;
  }

  std::vector<Expr> field(std::string_view what) {
    lexer_.expect(what);
    return parse_exprs(lexer_, scope_);
  }
  Expr single(std::string_view what) {
    lexer_.expect(what);
    return parse_expr(lexer_, scope_);
  }
  /// The expressions that become states: in the shorthand they take the states' types.
  std::vector<Expr> state_field(std::string_view what, const std::vector<Expr>& states) {
    std::vector<Expr> exprs = field(what);
    for (size_t i = 0; shorthand() && i < std::min(exprs.size(), states.size()); ++i) {
      exprs[i] = converted(exprs[i], states[i]->type);
    }
    return exprs;
  }
  Expr converted(const Expr& e, DType type) const {
    if (const auto problem = operand_error(Intrinsic::kCast, {e->type}, type)) lexer_.fail(*problem);
    return make_cast(type, e);
  }

  void begin_body() {
    lexer_.expect("{");
    parse_lets(lexer_, scope_);
  }

  Compute compute() {
    Compute form;
    form.output = defined_tensor();
    form.axes = over();
    begin_body();
    form.value = single("value");
    return form;
  }

  Reduce reduce() {
    Reduce form;
    form.outputs = defined_tensors();
    form.axes = over();
    lexer_.expect("fold");
    const auto named = shorthand() ? folding_intrinsic(lexer_.peek().text) : std::nullopt;
    if (named) lexer_.next();
    form.reduced = axes();
    if (named) {
      named_fold(form, *named);
      return form;
    }
    form.monoid.associative = !lexer_.accept("ordered");
    lexer_.expect("{");
    form.monoid.left = variables("left");
    form.monoid.right = variables("right");
    parse_lets(lexer_, scope_);
    form.lift = state_field("lift", form.monoid.left);
    form.monoid.identity = loadless_field("identity", form.monoid.left);
    form.monoid.combine = loadless_field("combine", form.monoid.left);
    return form;
  }
  /// What a fold computes of states alone.
  std::vector<Expr> loadless_field(std::string_view what, const std::vector<Expr>& states) {
    const std::vector<Expr> exprs = state_field(what, states);
    if (std::any_of(exprs.begin(), exprs.end(), has_load)) {
      lexer_.fail(fmt::format("'{}' reads a tensor; only 'lift' may, so read there and fold what was read", what));
    }
    return exprs;
  }
  void named_fold(Reduce& form, Intrinsic intrinsic) {
    begin_body();
    const Expr lift = single("lift");
    const DType type = compute_type(lift->type);
    if (const auto problem = operand_error(intrinsic, {type, type}, DType::kUndefined)) lexer_.fail(*problem);
    form.lift = {make_cast(type, lift)};
    form.monoid = make_monoid(intrinsic, type);
  }

  Scan scan() {
    Scan form;
    form.outputs = defined_tensors();
    form.axes = over();
    lexer_.expect("along");
    form.axis = one_axis();
    form.exclusive = lexer_.accept("exclusive");
    form.reverse = lexer_.accept("reverse");
    lexer_.expect("{");
    form.state = variables("state");
    parse_lets(lexer_, scope_);
    form.initial = state_field("initial", form.state);
    form.step = state_field("step", form.state);
    form.emit = field("emit");
    return form;
  }

  ScatterMode mode() {
    constexpr std::string_view kModes[] = {"set", "add", "mul", "min", "max"};
    for (size_t i = 0; i < std::size(kModes); ++i) {
      if (lexer_.accept(kModes[i])) return static_cast<ScatterMode>(i);
    }
    lexer_.fail("expected set, add, mul, min or max");
  }

  /// `i, k + 1`, `..., k + 1`
  std::vector<Expr> places() {
    if (!shorthand() || !lexer_.accept_ellipsis()) return parse_exprs(lexer_, scope_);
    if (!scope_.ellipsis()) lexer_.fail("this form's axes have no '...'");
    std::vector<Expr> places = *scope_.ellipsis();
    if (!lexer_.accept(",")) return places;
    for (Expr& place : parse_exprs(lexer_, scope_)) places.push_back(std::move(place));
    return places;
  }

  Scatter scatter() {
    Scatter form;
    form.output = defined_tensor();
    lexer_.expect("from");
    form.base = tensor_name();
    form.mode = mode();
    form.axes = over();
    begin_body();
    if (lexer_.accept("indices")) form.indices = places();
    form.value = single("value");
    if (lexer_.is("condition")) form.condition = single("condition");
    return form;
  }

  Sort sort() {
    Sort form;
    form.outputs = defined_tensors();
    form.axes = over();
    lexer_.expect("along");
    form.axis = one_axis();
    lexer_.expect("keep");
    const Shape kept = lexer_.shape();
    if (kept.size() != 1) lexer_.fail("exactly one number of ranks is expected");
    form.count = kept[0];
    form.descending = lexer_.accept("descending");
    begin_body();
    form.key = single("key");
    return form;
  }

  std::string count() {
    if (names_.count) {
      lexer_.expect("[");
      std::string symbol = names_.count(lexer_.name("the count's name"));
      lexer_.expect("]");
      return symbol;
    }
    const Shape count = lexer_.shape();
    const auto symbol = count.size() == 1 ? count[0].as_symbol() : std::nullopt;
    if (!symbol) lexer_.fail("the count is one symbol");
    return *symbol;
  }

  Compact compact() {
    Compact form;
    form.outputs = defined_tensors();
    lexer_.expect("count");
    form.count = count();
    form.axes = over();
    begin_body();
    form.condition = single("condition");
    if (lexer_.is("values")) form.values = field("values");
    return form;
  }

  Lexer& lexer_;
  const FormNames& names_;
  ExprScope scope_;
  bool over_ellipsis_ = false;
};

}  // namespace

Form parse_form(Lexer& lexer, const FormNames& names, bool* over_ellipsis) {
  FormParser parser(lexer, names);
  Form form = parser.parse();
  if (over_ellipsis) *over_ellipsis = parser.over_ellipsis();
  return form;
}

}  // namespace graft
