// SPDX-License-Identifier: Apache-2.0
// Attention as a library call.
#include <algorithm>

#include "fuse/attention.h"
#include "library/match_parts.h"

namespace graft {
namespace {

/// A region over narrow floats as if its tensors were f32, by which attention is recognised.
Region in_f32(Region region, DType type) {
  for (TensorDecl& tensor : region.tensors) {
    if (tensor.type == type) tensor.type = DType::kFloat32;
  }
  const auto plain = [&](const Expr& value) {
    return transform(without_roundings(value, type), [&](const Expr& node) -> Expr {
      const bool widens = is_call(node, Intrinsic::kCast) && node->type == DType::kFloat32 &&
                          node->args[0]->kind == ExprKind::kLoad && node->args[0]->type == type;
      return widens ? make_load(node->args[0]->tensor, DType::kFloat32, node->args[0]->args) : Expr();
    });
  };
  for (Form& form : region.forms) {
    if (auto* compute = std::get_if<Compute>(&form)) compute->value = plain(compute->value);
    if (auto* reduce = std::get_if<Reduce>(&form)) {
      for (Expr& lift : reduce->lift) lift = plain(lift);
    }
  }
  return region;
}

bool is_load_of(const Expr& e, int tensor) { return e->kind == ExprKind::kLoad && e->tensor == tensor; }

class AttentionMatcher {
 public:
  AttentionMatcher(const Region& region, LibraryMatch& match)
      : region_(region), type_(region.tensors[region.outputs[0]].type), plain_(in_f32(region, type_)), match_(match) {}

  bool run() {
    std::string reason;
    const auto found = find_attention(plain_, reason);
    if (!found || found->results.size() != 1) return false;
    forms_ = *found;
    LibraryCall call{.type = type_};
    for (size_t i = 0; i + 1 < forms_.common.size(); ++i) call.batch.push_back(forms_.common[i].extent);
    call.rows = forms_.common.back().extent;
    call.columns = forms_.scores->axes.back().extent;
    call.depth = forms_.scores->reduced[0].extent;
    call.width = forms_.weighted->axes.back().extent;
    const int row = variable(forms_.common.back()), depth = variable(forms_.scores->reduced[0]);
    const int width = variable(forms_.weighted->axes.back());
    CallOperand values;
    const bool good = set(call.source, forms_.queries, {row, depth}) &&
                      set(call.weights, forms_.keys, {depth, variable(forms_.scores->axes.back())}) &&
                      set(values, forms_.values, {variable(forms_.weighted->reduced[0]), width}) &&
                      set_result(call, row) && set_posts(call, row);
    if (!good) return false;
    call.values = values;
    match_.call = std::move(call);
    match_.layouts.resize(region_.tensors.size());
    return true;
  }

 private:
  static int variable(const Axis& axis) { return axis.variable->variable; }

  CallOperand operand_of(const TensorAccess& access, const std::vector<int>& inner) const {
    const auto it = std::find(region_.inputs.begin(), region_.inputs.end(), access.tensor);
    CallOperand made{.argument = static_cast<int>(it - region_.inputs.begin()), .offset = access.offset};
    for (size_t i = 0; i + 1 < forms_.common.size(); ++i) {
      made.strides.push_back(access.stride(variable(forms_.common[i])));
    }
    for (const int v : inner) made.strides.push_back(access.stride(v));
    return made;
  }

  bool set(CallOperand& operand, const Expr& load, const std::vector<int>& inner) const {
    const auto access = read_access(plain_, load);
    if (!access || access->guard || region_.tensors[access->tensor].type != type_) return false;
    operand = operand_of(*access, inner);
    return true;
  }

  /// weighted / sum, perhaps with another divisor where the sum is 0.
  bool set_result(LibraryCall& call, int row) const {
    const Compute& result = *forms_.results[0];
    const Expr& quotient = result.value;
    if (!is_call(quotient, Intrinsic::kDiv) || !is_load_of(quotient->args[0], forms_.weighted->outputs[0]))
      return false;
    const Expr& divisor = quotient->args[1];
    const int sum = forms_.sum->outputs[0];
    const bool guarded = is_call(divisor, Intrinsic::kSelect) && is_load_of(divisor->args[2], sum);
    if (!is_load_of(divisor, sum) && !guarded) return false;
    std::vector<Expr> point;
    for (const Axis& axis : result.axes) point.push_back(axis.variable);
    const Expr& width = result.axes.back().variable;
    if (!equal(quotient->args[0]->args.back(), width)) return false;
    call.result = operand_of(store_access(plain_, result.output, point), {row, width->variable});
    return true;
  }

  /// What makes logits of scores: scales and tensors that are added.
  bool set_posts(LibraryCall& call, int row) const {
    Expr product;
    for_each(forms_.logits, [&](const Expr& node) {
      if (is_load_of(node, forms_.scores->outputs[0])) product = node;
    });
    std::vector<MatchedPost> posts;
    if (!product || !match_posts(plain_, DType::kFloat32, forms_.logits, product, posts).empty()) return false;
    for (const MatchedPost& matched : posts) {
      PostOperation post = matched.post;
      if (matched.operand) {
        if (region_.tensors[matched.operand->tensor].type != type_) return false;
        post.operand = operand_of(*matched.operand, {row, forms_.logits_key->variable});
      }
      call.posts.push_back(post);
    }
    return true;
  }

  const Region& region_;
  DType type_;
  Region plain_;
  LibraryMatch& match_;
  AttentionForms forms_{};
};

}  // namespace

bool match_attention(const Region& region, LibraryMatch& match) {
  if (region.outputs.size() != 1) return false;
  const DType type = region.tensors[region.outputs[0]].type;
  if (type != DType::kFloat16 && type != DType::kBFloat16) return false;
  return AttentionMatcher(region, match).run();
}

}  // namespace graft
