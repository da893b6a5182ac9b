// SPDX-License-Identifier: Apache-2.0
// The body of a definition by a user -> the region of a node.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "expr/parse_forms.h"
#include "ops/compose.h"
#include "ops/custom_operator.h"
#include "ops/guard_loads.h"

namespace graft {
namespace {

constexpr size_t kMostForms = 1024;

/// Reads a body for one node.
class BodyBuilder {
 public:
  BodyBuilder(const CustomOperator& op, Lexer& lexer, Definition& d) : op_(op), lexer_(lexer), d_(d) {}

  void build() {
    bind_types();
    bind_attributes();
    bind_sizes();
    FormNames names{.find_tensor = [this](std::string_view name) { return find(name); },
                    .define = [this](std::string_view name) { return announce(name); },
                    .count = [this](std::string_view name) { return count(name); },
                    .ellipsis = &ellipsis_};
    for (size_t forms = 0; !lexer_.is("}"); ++forms) {
      if (forms == kMostForms) lexer_.fail("there are too many forms");
      names.literals = literals_;  // with the sizes that the forms so far count
      announced_.clear();
      Form form = parse_form(lexer_, names, &over_ellipsis_);
      check(form);
      form = guard_loads(form, [this](int tensor) -> const Shape& { return shapes_.at(tensor); });
      std::visit([this](const auto& f) { add(f); }, form);
      Made& made = made_.emplace_back(Made{.form = std::move(form)});
      for (const std::string& name : announced_) made.tensors.insert(known_.at(name).tensor.id());
    }
    give_outputs();
    require_counted();
  }

 private:
  /// A tensor of the body. Its sizes are spelled as the definition has them, which the run checks.
  struct Known {
    Tensor tensor;
    int leading = -1;
    Shape shape;
  };

  void bind_types() {
    types_.assign(op_.types.size(), DType::kUndefined);
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const CustomOperand& input = op_.inputs[i];
      const DType given = d_.input_type(static_cast<int>(i));
      if (input.variable < 0) {
        if (given == input.type) continue;
        d_.reject(fmt::format("its input '{}' is {}, but the definition wants {}; add a Cast", input.name,
                              name_of(given), name_of(input.type)));
      }
      const TypeVariable& variable = op_.types[static_cast<size_t>(input.variable)];
      DType& bound = types_[static_cast<size_t>(input.variable)];
      if (std::find(variable.allowed.begin(), variable.allowed.end(), given) == variable.allowed.end()) {
        std::vector<std::string_view> allowed;
        for (const DType type : variable.allowed) allowed.push_back(name_of(type));
        d_.reject(fmt::format("its input '{}' is {}, but the definition wants one of {}; add a Cast", input.name,
                              name_of(given), fmt::join(allowed, ", ")));
      }
      if (bound != DType::kUndefined && bound != given) {
        d_.reject(fmt::format("its input '{}' is {}, but another one of the type {} is {}; add a Cast", input.name,
                              name_of(given), variable.name, name_of(bound)));
      }
      bound = given;
    }
    for (size_t i = 0; i < types_.size(); ++i) lexer_.bind_type(op_.types[i].name, compute_type(types_[i]));
  }

  void bind_attributes() {
    lexer_.bind_sizes();
    for (const CustomAttribute& attribute : op_.attributes) {
      if (attribute.whole) {
        bind_size(attribute.name, d_.integer(attribute.name));
      } else {
        literals_.emplace_back(attribute.name, make_constant(DType::kFloat64, d_.real(attribute.name)));
      }
    }
  }
  void bind_size(const std::string& name, const Size& size) {
    sizes_.insert_or_assign(name, size);
    lexer_.bind_size(name, size);
    literals_.emplace_back(name, make_size(size));
  }

  void bind_sizes() {
    for (size_t i = 0; i < op_.inputs.size(); ++i) bind_axes(op_.inputs[i], d_.input_shape(static_cast<int>(i)));
    for (size_t i = 0; i < op_.inputs.size(); ++i) check_axes(op_.inputs[i], d_.input_shape(static_cast<int>(i)));
  }
  static size_t leading_of(const CustomOperand& operand, const Shape& shape) {
    return shape.size() - operand.sizes.size();
  }
  void bind_axes(const CustomOperand& input, const Shape& shape) {
    const size_t written = input.sizes.size();
    if (shape.size() < written || (!input.leading && shape.size() > written)) {
      d_.reject(fmt::format("its input '{}' has {} axes, but the definition wants {}{}", input.name, shape.size(),
                            input.leading ? "at least " : "", written));
    }
    const size_t leading = leading_of(input, shape);
    if (input.leading) {
      ellipsis_ = d_.broadcast(ellipsis_, Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(written)));
    }
    for (size_t axis = 0; axis < written; ++axis) {
      const auto symbol = input.sizes[axis].as_symbol();
      if (symbol && !sizes_.contains(*symbol)) bind_size(*symbol, shape[leading + axis]);
    }
  }
  void check_axes(const CustomOperand& input, const Shape& shape) {
    const size_t leading = leading_of(input, shape);
    for (size_t axis = 0; axis < input.sizes.size(); ++axis) {
      const Size wanted = input.sizes[axis].substitute(sizes_);
      d_.require_equal(shape[leading + axis], wanted,
                       fmt::format("its input '{}' does not have the shape of the definition, [{}{}]", input.name,
                                   input.leading ? "..., " : "", fmt::join(texts(input.sizes), ", ")));
    }
  }
  static std::vector<std::string> texts(const Shape& shape) {
    std::vector<std::string> texts;
    for (const Size& size : shape) texts.push_back(size.to_string());
    return texts;
  }

  std::optional<ExprScope::Tensor> find(std::string_view name) {
    if (!known_.contains(name)) read_input(name);
    const auto it = known_.find(name);
    if (it == known_.end()) return std::nullopt;
    const Known& known = it->second;
    return ExprScope::Tensor{known.tensor.id(), known.tensor.type(), known.tensor.rank(), known.leading, &known.shape};
  }
  void read_input(std::string_view name) {
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const CustomOperand& input = op_.inputs[i];
      if (input.name != name) continue;
      const Tensor tensor = d_.in(static_cast<int>(i));
      Shape shape = tensor.shape();
      const size_t leading = leading_of(input, shape);
      for (size_t axis = 0; axis < leading; ++axis) {
        if (!shape[axis].is(1)) shape[axis] = ellipsis_[ellipsis_.size() - leading + axis];
      }
      for (size_t axis = leading; axis < shape.size(); ++axis) {
        shape[axis] = input.sizes[axis - leading].substitute(sizes_);
      }
      remember(input.name, {tensor, input.leading ? static_cast<int>(leading) : -1, shape});
    }
  }
  void remember(const std::string& name, Known known) {
    shapes_.insert_or_assign(known.tensor.id(), known.shape);
    known_.insert_or_assign(name, std::move(known));
  }

  int announce(std::string_view name) {
    const bool input = std::any_of(op_.inputs.begin(), op_.inputs.end(),
                                   [&](const CustomOperand& operand) { return operand.name == name; });
    const bool twice = std::find(announced_.begin(), announced_.end(), name) != announced_.end();
    if (input || twice || known_.contains(name)) lexer_.fail(fmt::format("the tensor '{}' has a value already", name));
    announced_.emplace_back(name);
    return static_cast<int>(announced_.size()) - 1;
  }
  std::string count(std::string_view name) {
    if (sizes_.contains(name)) lexer_.fail(fmt::format("the size '{}' is known already", name));
    if (std::exchange(counts_, true)) lexer_.fail("a definition has one compact; write another operator for this one");
    std::string symbol = d_.fresh_symbol(name);
    sizes_.emplace(std::string(name), Size::symbol(symbol));
    lexer_.bind_size(name, Size::symbol(symbol));
    literals_.emplace_back(std::string(name), make_size(Size::symbol(symbol)));
    return symbol;
  }

  const CustomOperand* declared(std::string_view name) const {
    const auto it = std::find_if(op_.outputs.begin(), op_.outputs.end(),
                                 [&](const CustomOperand& operand) { return operand.name == name; });
    return it == op_.outputs.end() ? nullptr : &*it;
  }
  DType type_of(const CustomOperand& operand) const {
    return operand.variable < 0 ? operand.type : types_[static_cast<size_t>(operand.variable)];
  }

  /// What building relies on; the other rules of forms are checked when the region is whole.
  void check(const Form& form) {
    const auto same = [&](size_t given, size_t wanted, std::string_view what) {
      if (given != wanted) lexer_.fail(fmt::format("there are {} {}, but {} are expected", given, what, wanted));
    };
    const size_t outputs = announced_.size();
    if (const auto* reduce = std::get_if<Reduce>(&form)) {
      same(reduce->lift.size(), outputs, "lifted values");
      if (reduce->monoid.left.empty()) return;
      same(reduce->monoid.left.size(), outputs, "left states");
      same(reduce->monoid.right.size(), outputs, "right states");
      same(reduce->monoid.identity.size(), outputs, "identities");
      same(reduce->monoid.combine.size(), outputs, "combined values");
    } else if (const auto* scan = std::get_if<Scan>(&form)) {
      same(scan->initial.size(), scan->state.size(), "initial values");
      same(scan->step.size(), scan->state.size(), "steps");
      same(scan->emit.size(), outputs, "emitted values");
    } else if (const auto* scatter = std::get_if<Scatter>(&form)) {
      same(scatter->indices.size(), shapes_.at(scatter->base).size(), "indices");
    } else if (const auto* compact = std::get_if<Compact>(&form)) {
      same(compact->values.size(), outputs, "values");
    } else if (const auto* sort = std::get_if<Sort>(&form)) {
      if (outputs > 2) same(outputs, 2, "outputs");
      if (!sort->count.is_non_negative()) d_.require_at_least(sort->count, 0, "a sort keeps fewer than no ranks");
      d_.require_at_least(sort->axis.extent, sort->count, "a sort keeps more ranks than there are");
    }
    for_each_extent(form, [&](const Axis& axis) { check_extent(axis); });
  }
  template <class Visit>
  static void for_each_extent(const Form& form, const Visit& visit) {
    std::visit(
        [&](const auto& f) {
          for (const Axis& axis : f.axes) visit(axis);
          if constexpr (requires { f.reduced; }) {
            for (const Axis& axis : f.reduced) visit(axis);
          }
          if constexpr (requires { f.axis; }) visit(f.axis);
        },
        form);
  }
  void check_extent(const Axis& axis) {
    if (axis.extent.is_non_negative()) return;
    d_.require_at_least(axis.extent, 0, "the definition makes an axis of this size");
  }

  static Shape extents(const std::vector<Axis>& axes) {
    Shape shape;
    for (const Axis& axis : axes) shape.push_back(axis.extent);
    return shape;
  }
  /// The builder makes variables of its own.
  using Renaming = std::vector<std::pair<int, Expr>>;
  static void rename(Renaming& renaming, const std::vector<Axis>& axes, const Indices& indices) {
    for (size_t i = 0; i < axes.size(); ++i) renaming.emplace_back(axes[i].variable->variable, indices[i]);
  }
  static Renaming renamed(const std::vector<Axis>& axes, const Indices& indices) {
    Renaming renaming;
    rename(renaming, axes, indices);
    return renaming;
  }
  static std::vector<Expr> substitute_all(const std::vector<Expr>& exprs, const Renaming& renaming) {
    std::vector<Expr> result;
    for (const Expr& e : exprs) result.push_back(substitute(e, renaming));
    return result;
  }
  Expr converted(const Expr& e, DType type) const {
    if (const auto problem = operand_error(Intrinsic::kCast, {e->type}, type)) lexer_.fail(*problem);
    return make_cast(type, e);
  }

  void define(const std::string& name, const Tensor& tensor, bool leading) {
    remember(name, {tensor, leading ? static_cast<int>(ellipsis_.size()) : -1, Shape(tensor.shape())});
  }
  void define(const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < announced_.size(); ++i) define(announced_[i], tensors[i], over_ellipsis_);
  }

  void add(const Compute& form) {
    const CustomOperand* output = declared(announced_[0]);
    const DType type = output ? type_of(*output) : form.value->type;
    const Expr value = converted(form.value, type);
    define({d_.compute(announced_[0], type, extents(form.axes),
                       [&](const Indices& i) { return substitute(value, renamed(form.axes, i)); })});
  }

  void add(const Reduce& form) {
    define(d_.reduce(announced_[0], form.monoid, extents(form.axes), extents(form.reduced),
                     [&](const Indices& i, const Indices& k) {
                       Renaming renaming = renamed(form.axes, i);
                       rename(renaming, form.reduced, k);
                       return substitute_all(form.lift, renaming);
                     }));
  }

  void add(const Scan& form) {
    define(d_.scan(announced_[0], extents(form.axes), form.axis.extent,
                   [&](Scan& made, const Indices& i, const Expr& t) {
                     Renaming renaming = renamed(form.axes, i);
                     renaming.emplace_back(form.axis.variable->variable, t);
                     made.state = form.state;
                     made.initial = substitute_all(form.initial, renaming);
                     made.step = substitute_all(form.step, renaming);
                     made.emit = substitute_all(form.emit, renaming);
                     made.exclusive = form.exclusive;
                     made.reverse = form.reverse;
                   }));
  }

  void add(const Scatter& form) {
    const auto base = std::find_if(known_.begin(), known_.end(),
                                   [&](const auto& row) { return row.second.tensor.id() == form.base; });
    const Known from = base->second;
    const Expr value = converted(form.value, from.tensor.type());
    const Tensor tensor = d_.scatter(announced_[0], from.tensor, form.mode, extents(form.axes),
                                     [&](Scatter& made, const Indices& i) {
                                       const Renaming renaming = renamed(form.axes, i);
                                       made.indices = substitute_all(form.indices, renaming);
                                       made.value = substitute(value, renaming);
                                       if (form.condition) made.condition = substitute(form.condition, renaming);
                                     });
    remember(announced_[0], {tensor, from.leading, from.shape});
  }

  void add(const Sort& form) {
    define(d_.sort(announced_[0], extents(form.axes), form.axis.extent, form.count, form.descending,
                   [&](const Indices& i, const Expr& t) {
                     Renaming renaming = renamed(form.axes, i);
                     renaming.emplace_back(form.axis.variable->variable, t);
                     return substitute(form.key, renaming);
                   }));
  }

  void add(const Compact& form) {
    over_ellipsis_ = false;  // what is kept has one axis
    define(d_.compact(announced_[0], extents(form.axes), form.count, [&](Compact& made, const Indices& i) {
      const Renaming renaming = renamed(form.axes, i);
      made.condition = substitute(form.condition, renaming);
      made.values = substitute_all(form.values, renaming);
    }));
  }

  void give_outputs() {
    for (size_t i = 0; i < op_.outputs.size(); ++i) {
      const CustomOperand& output = op_.outputs[i];
      const auto known = known_.find(output.name);
      if (known == known_.end()) lexer_.fail(fmt::format("the output '{}' has no value", output.name));
      const Tensor tensor = known->second.tensor;
      const Shape wanted = declared_shape(output);
      if (!(wanted == known->second.shape)) {
        lexer_.fail(fmt::format("the output '{}' has the shape {}, but is declared with {}", output.name,
                                to_string(known->second.shape), to_string(wanted)));
      }
      d_.out(static_cast<int>(i), stored_as(d_, output.name, tensor, type_of(output)));
    }
  }
  /// A run asks a step for its count, so a compact that no output depends on is a mistake.
  void require_counted() const {
    std::set<int> wanted;
    std::set<std::string, std::less<>> sizes;
    for (const CustomOperand& output : op_.outputs) {
      const Known& known = known_.find(output.name)->second;
      wanted.insert(known.tensor.id());
      for (const Size& size : known.shape) size.collect_symbols(sizes);
    }
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      const auto* compact = std::get_if<Compact>(&made->form);
      const bool is_read = std::ranges::any_of(made->tensors, [&](int tensor) { return wanted.contains(tensor); });
      if (!is_read && !(compact && sizes.contains(compact->count))) {
        if (compact) lexer_.fail("no output depends on what the compact keeps; leave it out, or give what it keeps");
        continue;
      }
      for (const int tensor : read_tensors(made->form)) wanted.insert(tensor);
      for_each_extent(made->form, [&](const Axis& axis) { axis.extent.collect_symbols(sizes); });
      for_each_expr(made->form, [&](const Expr& e) {
        for_each(e, [&](const Expr& node) {
          if (node->kind == ExprKind::kSize) node->size.collect_symbols(sizes);
        });
      });
    }
  }
  Shape declared_shape(const CustomOperand& output) const {
    Shape shape = output.leading ? ellipsis_ : Shape();
    for (const Size& size : output.sizes) {
      std::set<std::string, std::less<>> symbols;
      size.collect_symbols(symbols);
      for (const std::string& symbol : symbols) {
        if (sizes_.contains(symbol)) continue;
        lexer_.fail(fmt::format("the output '{}' is declared with the size '{}', which nothing gives", output.name,
                                symbol));
      }
      shape.push_back(size.substitute(sizes_));
    }
    return shape;
  }

  const CustomOperator& op_;
  Lexer& lexer_;
  Definition& d_;
  std::vector<DType> types_;  ///< by type variable
  Shape ellipsis_;
  std::map<std::string, Size, std::less<>> sizes_;
  std::vector<std::pair<std::string, Expr>> literals_;
  bool counts_ = false;  ///< a form so far is a compact; a step gives one number that a run finds out
  std::map<std::string, Known, std::less<>> known_;
  std::map<int, Shape> shapes_;         ///< by tensor
  struct Made {
    Form form;  ///< as it was read
    std::set<int> tensors = {};
  };
  std::vector<Made> made_;
  std::vector<std::string> announced_;  ///< what the form that is read defines
  bool over_ellipsis_ = false;
};

}  // namespace

void build_custom(const CustomOperator& op, Lexer& lexer, Definition& d) { BodyBuilder(op, lexer, d).build(); }

}  // namespace graft
