// SPDX-License-Identifier: Apache-2.0
// The text form of regions:
//
//   region softmax_row
//   tensor x: f32[batch, 384]
//   tensor m: f32[batch]
//   input x
//   output m
//   reduce m over [i0 < batch] fold [k0 < 384] {
//     lift x[i0, k0]
//     left l0: f32
//     right r0: f32
//     identity -inf:f32
//     combine max(l0, r0)
//   }
//
// `region NAME tf32` allows products to round their operands, `region NAME fma` wants them as multiply-adds.
// Variables are numbered per form: i for axes, k for reduced and recurrent axes, s for states, l and r for a monoid.
#include <fmt/format.h>

#include "base/error.h"
#include "expr/region.h"
#include "expr/text.h"

namespace graft {
namespace {

constexpr std::string_view kModes[] = {"set", "add", "mul", "min", "max"};

/// Prints one form; its variables get their names where they are declared.
class FormPrinter {
 public:
  explicit FormPrinter(const std::vector<std::string>& tensors)
      : tensors_(tensors),
        expressions_([this](int tensor) { return tensors_.at(static_cast<size_t>(tensor)); },
                     [this](int variable) { return name(variable); }) {}

  std::string print(const Form& form) {
    std::visit([this](const auto& f) { write(f); }, form);
    return text_ + "}\n";
  }

 private:
  std::string name(int variable) const {
    const auto it = variables_.find(variable);
    return it == variables_.end() ? fmt::format("undeclared{}", variable) : it->second;
  }
  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  void lets(const std::vector<Expr>& roots) {
    for (const std::string& let : expressions_.lets(roots)) line(let);
  }
  void field(std::string_view what, const std::vector<Expr>& exprs) {
    line(fmt::format("{} {}", what, expressions_.print(exprs)));
  }
  std::string names(const std::vector<int>& tensors) const {
    std::vector<std::string> names;
    for (const int tensor : tensors) names.push_back(tensors_.at(static_cast<size_t>(tensor)));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::string axes(const std::vector<Axis>& axes, char letter) {
    std::string text = "[";
    for (const Axis& axis : axes) {
      const std::string name = fmt::format("{}{}", letter, counters_[letter]++);
      variables_[axis.variable->variable] = name;
      text += fmt::format("{}{} < {}", text.size() > 1 ? ", " : "", name, axis.extent.to_string());
    }
    return text + "]";
  }
  void declare(std::string_view what, const std::vector<Expr>& variables, char letter) {
    std::string text(what);
    for (size_t i = 0; i < variables.size(); ++i) {
      const std::string name = fmt::format("{}{}", letter, counters_[letter]++);
      variables_[variables[i]->variable] = name;
      text += fmt::format("{}{}: {}", i ? ", " : " ", name, name_of(variables[i]->type));
    }
    line(text);
  }

  void write(const Compute& form) {
    text_ = fmt::format("compute {} over {} {{\n", names({form.output}), axes(form.axes, 'i'));
    lets({form.value});
    field("value", {form.value});
  }

  void write(const Reduce& form) {
    text_ = fmt::format("reduce {} over {}", names(form.outputs), axes(form.axes, 'i'));
    text_ += fmt::format(" fold {}{} {{\n", axes(form.reduced, 'k'), form.monoid.associative ? "" : " ordered");
    declare("left", form.monoid.left, 'l');
    declare("right", form.monoid.right, 'r');
    std::vector<Expr> roots = form.lift;
    roots.insert(roots.end(), form.monoid.combine.begin(), form.monoid.combine.end());
    lets(roots);
    field("lift", form.lift);
    line("identity " + constants(form.monoid.identity));
    field("combine", form.monoid.combine);
  }

  void write(const Scan& form) {
    text_ = fmt::format("scan {} over {}", names(form.outputs), axes(form.axes, 'i'));
    text_ += fmt::format(" along {}{}{} {{\n", axes({form.axis}, 'k'), form.exclusive ? " exclusive" : "",
                         form.reverse ? " reverse" : "");
    declare("state", form.state, 's');
    std::vector<Expr> roots = form.initial;
    roots.insert(roots.end(), form.step.begin(), form.step.end());
    roots.insert(roots.end(), form.emit.begin(), form.emit.end());
    lets(roots);
    field("initial", form.initial);
    field("step", form.step);
    field("emit", form.emit);
  }

  void write(const Scatter& form) {
    text_ = fmt::format("scatter {} from {} {} over {} {{\n", names({form.output}), names({form.base}),
                        kModes[static_cast<int>(form.mode)], axes(form.axes, 'i'));
    std::vector<Expr> roots = form.indices;
    roots.push_back(form.value);
    roots.push_back(form.condition);
    lets(roots);
    if (!form.indices.empty()) field("indices", form.indices);
    field("value", {form.value});
    if (form.condition) field("condition", {form.condition});
  }

  void write(const Sort& form) {
    text_ = fmt::format("sort {} over {}", names(form.outputs), axes(form.axes, 'i'));
    text_ += fmt::format(" along {} keep [{}]{} {{\n", axes({form.axis}, 'k'), form.count.to_string(),
                         form.descending ? " descending" : "");
    lets({form.key});
    field("key", {form.key});
  }

  void write(const Compact& form) {
    text_ = fmt::format("compact {} count [{}] over {} {{\n", names(form.outputs), form.count, axes(form.axes, 'i'));
    std::vector<Expr> roots = form.values;
    roots.push_back(form.condition);
    lets(roots);
    field("condition", {form.condition});
    if (!form.values.empty()) field("values", form.values);
  }

  /// Identities are constants, outside what lets can share.
  std::string constants(const std::vector<Expr>& exprs) const {
    std::string text;
    for (const Expr& e : exprs) {
      const bool literal = e->kind == ExprKind::kConstant;
      text += (text.empty() ? "" : ", ") +
              (literal ? print_constant(*e)
                       : print_expr(
                             e, [this](int tensor) { return tensors_.at(static_cast<size_t>(tensor)); },
                             [this](int variable) { return name(variable); }));
    }
    return text;
  }

  const std::vector<std::string>& tensors_;
  std::unordered_map<int, std::string> variables_;
  std::map<char, int> counters_;
  ExprPrinter expressions_;
  std::string text_;
};

}  // namespace

std::string print(const Region& region) {
  std::map<std::string, int, std::less<>> taken, none;
  std::vector<std::string> names;
  std::string text = fmt::format("region {}{}{}\n", unique_identifier(region.name, none), region.tf32 ? " tf32" : "",
                                 region.fma ? " fma" : "");
  for (const TensorDecl& tensor : region.tensors) {
    names.push_back(unique_identifier(tensor.name, taken));
    text += fmt::format("tensor {}: {}{}\n", names.back(), name_of(tensor.type), to_string(tensor.shape));
  }
  for (const int input : region.inputs) text += fmt::format("input {}\n", names.at(static_cast<size_t>(input)));
  for (const int output : region.outputs) text += fmt::format("output {}\n", names.at(static_cast<size_t>(output)));
  for (const Form& form : region.forms) text += FormPrinter(names).print(form);
  return text;
}

std::string print(const Expr& e, const std::vector<TensorDecl>& tensors) {
  std::unordered_map<int, std::string> variables;
  const auto variable = [&](int id) {
    return variables.try_emplace(id, fmt::format("v{}", variables.size())).first->second;
  };
  const auto tensor = [&](int index) {
    const bool known = index >= 0 && index < static_cast<int>(tensors.size());
    return known ? tensors[static_cast<size_t>(index)].name : fmt::format("tensor{}", index);
  };
  return e ? print_expr(e, tensor, variable) : "none";
}

}  // namespace graft
