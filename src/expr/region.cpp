// SPDX-License-Identifier: Apache-2.0
#include "expr/region.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "expr/form_fields.h"

namespace graft {
namespace {

using Rewrite = std::function<Expr(const Expr&)>;
using Visit = std::function<void(const Expr&)>;

template <class... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

Expr identity_of(Intrinsic intrinsic, DType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  const bool minimum = intrinsic == Intrinsic::kMin;
  switch (intrinsic) {
    case Intrinsic::kMul: return make_integer(type, 1);
    case Intrinsic::kAnd: return make_integer(type, -1);
    case Intrinsic::kMin:
    case Intrinsic::kMax: {
      if (is_float(type)) return make_constant(type, minimum ? infinity : -infinity);
      if (type == DType::kBool) return make_integer(type, minimum);
      const int bits = bit_width(type);
      if (is_unsigned(type)) return make_integer(type, minimum ? -1 : 0);
      const int64_t largest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
      return make_integer(type, minimum ? largest : -largest - 1);
    }
    default: return make_integer(type, 0);
  }
}

void for_each_in(const Expr& e, const Visit& visit) {
  if (e) visit(e);
}
void for_each_in(const std::vector<Expr>& exprs, const Visit& visit) {
  for (const Expr& e : exprs) for_each_in(e, visit);
}

void rewrite_in(Expr& e, const Rewrite& rewrite) {
  if (e) e = rewrite(e);
}
void rewrite_in(std::vector<Expr>& exprs, const Rewrite& rewrite) {
  for (Expr& e : exprs) rewrite_in(e, rewrite);
}

}  // namespace

Monoid make_monoid(Intrinsic intrinsic, DType type) {
  Monoid monoid;
  monoid.identity = {identity_of(intrinsic, type)};
  monoid.left = {make_variable(type)};
  monoid.right = {make_variable(type)};
  monoid.combine = {make_call(intrinsic, {monoid.left[0], monoid.right[0]})};
  return monoid;
}

std::optional<Intrinsic> Monoid::intrinsic() const {
  if (combine.size() != 1 || combine[0]->kind != ExprKind::kCall || combine[0]->args.size() != 2) return {};
  const ExprNode& call = *combine[0];
  if (!equal(call.args[0], left[0]) || !equal(call.args[1], right[0])) return {};
  switch (call.intrinsic) {
    case Intrinsic::kAdd:
    case Intrinsic::kMul:
    case Intrinsic::kMin:
    case Intrinsic::kMax:
    case Intrinsic::kAnd:
    case Intrinsic::kOr:
    case Intrinsic::kXor:
      return equal(identity[0], identity_of(call.intrinsic, identity[0]->type))
                 ? std::optional(call.intrinsic)
                 : std::nullopt;
    default: return {};
  }
}

std::vector<int> defined_tensors(const Form& form) {
  return std::visit(overloaded{
                        [](const Compute& f) { return std::vector<int>{f.output}; },
                        [](const Scatter& f) { return std::vector<int>{f.output}; },
                        [](const auto& f) { return f.outputs; },
                    },
                    form);
}

void for_each_expr(const Form& form, const Visit& visit) {
  for_each_field(form, [&](const char*, FieldScope scope, const auto& field) {
    if (scope == FieldScope::kPoints) for_each_in(field, visit);
  });
}

Form map_exprs(const Form& form, const Rewrite& rewrite) {
  Form result = form;
  for_each_field(result, [&](const char*, FieldScope scope, auto& field) {
    if (scope == FieldScope::kPoints) rewrite_in(field, rewrite);
  });
  return result;
}

void for_each_load(const Form& form, const std::function<void(const Expr&)>& visit) {
  for_each_field(form, [&](const char*, FieldScope, const auto& field) {
    for_each_in(field, [&](const Expr& e) {
      for_each(e, [&](const Expr& node) {
        if (node->kind == ExprKind::kLoad) visit(node);
      });
    });
  });
}

void for_each_load(const Form& form, int tensor, const std::function<void(const Expr&)>& visit) {
  for_each_load(form, [&](const Expr& load) {
    if (load->tensor == tensor) visit(load);
  });
}

bool has_load(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad; });
  return found;
}

bool is_input(const Region& region, int tensor) {
  return std::find(region.inputs.begin(), region.inputs.end(), tensor) != region.inputs.end();
}

bool is_scatter_base(const Region& region, int tensor) {
  return std::any_of(region.forms.begin(), region.forms.end(), [&](const Form& form) {
    const auto* scatter = std::get_if<Scatter>(&form);
    return scatter && scatter->base == tensor;
  });
}

Form renumber_tensors(const Form& form, const std::vector<int>& mapped) {
  return renumber_tensors(form, [&](int tensor) { return mapped[tensor]; });
}

Form renumber_tensors(const Form& form, const std::function<int(int)>& mapped) {
  Form result = form;
  const auto renumbered = [&](const Expr& e) {
    return transform(e, [&](const Expr& node) -> Expr {
      return node->kind == ExprKind::kLoad ? make_load(mapped(node->tensor), node->type, node->args) : Expr();
    });
  };
  for_each_field(result, [&](const char*, FieldScope, auto& field) { rewrite_in(field, renumbered); });
  std::visit(
      [&](auto& f) {
        if constexpr (requires { f.outputs; }) {
          for (int& tensor : f.outputs) tensor = mapped(tensor);
        } else {
          f.output = mapped(f.output);
        }
        if constexpr (requires { f.base; }) f.base = mapped(f.base);
      },
      result);
  return result;
}

std::vector<int> read_tensors(const Form& form) {
  std::vector<int> tensors;
  std::unordered_set<int> seen;
  const auto add = [&](int tensor) {
    if (seen.insert(tensor).second) tensors.push_back(tensor);
  };
  if (const auto* scatter = std::get_if<Scatter>(&form)) add(scatter->base);
  for_each_load(form, [&](const Expr& load) { add(load->tensor); });
  return tensors;
}

}  // namespace graft
