// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "expr/region.h"
#include "expr/text.h"

namespace graft {
namespace {

/// Reads the text form described in print_region.cpp.
class RegionParser {
 public:
  explicit RegionParser(std::string_view text) : lexer_(text, "region") {}

  Region parse() {
    lexer_.expect("region");
    region_.name = lexer_.name("the region's name");
    region_.tf32 = lexer_.accept("tf32");
    while (lexer_.accept("tensor")) tensor();
    while (lexer_.accept("input")) region_.inputs.push_back(tensor_name());
    while (lexer_.accept("output")) region_.outputs.push_back(tensor_name());
    while (!lexer_.at_end()) region_.forms.push_back(form());
    return std::move(region_);
  }

 private:
  void tensor() {
    TensorDecl declared;
    declared.name = lexer_.name("a tensor's name");
    lexer_.expect(":");
    declared.type = lexer_.dtype();
    declared.shape = lexer_.shape();
    if (!tensors_.emplace(declared.name, static_cast<int>(region_.tensors.size())).second) {
      lexer_.fail(fmt::format("the tensor '{}' is declared twice", declared.name));
    }
    region_.tensors.push_back(std::move(declared));
  }

  int tensor_name() {
    const std::string_view name = lexer_.name("a tensor's name");
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) lexer_.fail(fmt::format("the tensor '{}' is not declared", name));
    return it->second;
  }
  std::vector<int> tensor_names() {
    std::vector<int> tensors;
    do {
      tensors.push_back(tensor_name());
    } while (lexer_.accept(","));
    return tensors;
  }

  ExprScope scope() {
    return ExprScope([this](std::string_view name) -> std::optional<ExprScope::Tensor> {
      const auto it = tensors_.find(name);
      if (it == tensors_.end()) return std::nullopt;
      const TensorDecl& declared = region_.tensors[static_cast<size_t>(it->second)];
      return ExprScope::Tensor{it->second, declared.type, static_cast<int>(declared.shape.size())};
    });
  }

  /// `[i0 < batch, i1 < 384]`
  std::vector<Axis> axes(ExprScope& scope) {
    std::vector<Axis> axes;
    lexer_.expect("[");
    if (lexer_.accept("]")) return axes;
    do {
      const std::string name(lexer_.name("an axis variable"));
      lexer_.expect("<");
      axes.push_back({make_variable(), lexer_.size()});
      scope.declare(lexer_, name, axes.back().variable);
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return axes;
  }
  Axis one_axis(ExprScope& scope) {
    std::vector<Axis> list = axes(scope);
    if (list.size() != 1) lexer_.fail("exactly one axis is expected");
    return list[0];
  }

  /// `left l0: f32, l1: i64`
  std::vector<Expr> variables(std::string_view what, ExprScope& scope) {
    std::vector<Expr> variables;
    lexer_.expect(what);
    do {
      const std::string name(lexer_.name("a state variable"));
      lexer_.expect(":");
      variables.push_back(make_variable(lexer_.dtype()));
      scope.declare(lexer_, name, variables.back());
    } while (lexer_.accept(","));
    return variables;
  }

  std::vector<Expr> field(std::string_view what, const ExprScope& scope) {
    lexer_.expect(what);
    return parse_exprs(lexer_, scope);
  }
  Expr single(std::string_view what, const ExprScope& scope) {
    lexer_.expect(what);
    return parse_expr(lexer_, scope);
  }

  Form form() {
    ExprScope names = scope();
    Form form;
    if (lexer_.accept("compute")) {
      form = compute(names);
    } else if (lexer_.accept("reduce")) {
      form = reduce(names);
    } else if (lexer_.accept("scan")) {
      form = scan(names);
    } else if (lexer_.accept("scatter")) {
      form = scatter(names);
    } else if (lexer_.accept("sort")) {
      form = sort(names);
    } else if (lexer_.accept("compact")) {
      form = compact(names);
    } else {
      lexer_.fail("expected a form: compute, reduce, scan, scatter, sort or compact");
    }
    lexer_.expect("}");
    return form;
  }

  void begin_body(ExprScope& scope) {
    lexer_.expect("{");
    parse_lets(lexer_, scope);
  }

  Compute compute(ExprScope& scope) {
    Compute form;
    form.output = tensor_name();
    lexer_.expect("over");
    form.axes = axes(scope);
    begin_body(scope);
    form.value = single("value", scope);
    return form;
  }

  Reduce reduce(ExprScope& scope) {
    Reduce form;
    form.outputs = tensor_names();
    lexer_.expect("over");
    form.axes = axes(scope);
    lexer_.expect("fold");
    form.reduced = axes(scope);
    form.monoid.associative = !lexer_.accept("ordered");
    lexer_.expect("{");
    form.monoid.left = variables("left", scope);
    form.monoid.right = variables("right", scope);
    parse_lets(lexer_, scope);
    form.lift = field("lift", scope);
    form.monoid.identity = field("identity", scope);
    form.monoid.combine = field("combine", scope);
    return form;
  }

  Scan scan(ExprScope& scope) {
    Scan form;
    form.outputs = tensor_names();
    lexer_.expect("over");
    form.axes = axes(scope);
    lexer_.expect("along");
    form.axis = one_axis(scope);
    form.exclusive = lexer_.accept("exclusive");
    form.reverse = lexer_.accept("reverse");
    lexer_.expect("{");
    form.state = variables("state", scope);
    parse_lets(lexer_, scope);
    form.initial = field("initial", scope);
    form.step = field("step", scope);
    form.emit = field("emit", scope);
    return form;
  }

  ScatterMode mode() {
    constexpr std::string_view kModes[] = {"set", "add", "mul", "min", "max"};
    for (size_t i = 0; i < std::size(kModes); ++i) {
      if (lexer_.accept(kModes[i])) return static_cast<ScatterMode>(i);
    }
    lexer_.fail("expected set, add, mul, min or max");
  }

  Scatter scatter(ExprScope& scope) {
    Scatter form;
    form.output = tensor_name();
    lexer_.expect("from");
    form.base = tensor_name();
    form.mode = mode();
    lexer_.expect("over");
    form.axes = axes(scope);
    begin_body(scope);
    if (lexer_.is("indices")) form.indices = field("indices", scope);
    form.value = single("value", scope);
    if (lexer_.is("condition")) form.condition = single("condition", scope);
    return form;
  }

  Sort sort(ExprScope& scope) {
    Sort form;
    form.outputs = tensor_names();
    lexer_.expect("over");
    form.axes = axes(scope);
    lexer_.expect("along");
    form.axis = one_axis(scope);
    lexer_.expect("keep");
    const Shape kept = lexer_.shape();
    if (kept.size() != 1) lexer_.fail("exactly one number of ranks is expected");
    form.count = kept[0];
    form.descending = lexer_.accept("descending");
    begin_body(scope);
    form.key = single("key", scope);
    return form;
  }

  Compact compact(ExprScope& scope) {
    Compact form;
    form.outputs = tensor_names();
    lexer_.expect("count");
    const Shape count = lexer_.shape();
    const auto symbol = count.size() == 1 ? count[0].as_symbol() : std::nullopt;
    if (!symbol) lexer_.fail("the count is one symbol");
    form.count = *symbol;
    lexer_.expect("over");
    form.axes = axes(scope);
    begin_body(scope);
    form.condition = single("condition", scope);
    if (lexer_.is("values")) form.values = field("values", scope);
    return form;
  }

  Lexer lexer_;
  Region region_;
  std::map<std::string, int, std::less<>> tensors_;
};

}  // namespace

Region parse_region(std::string_view text) { return RegionParser(text).parse(); }

}  // namespace graft
