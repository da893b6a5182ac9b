// SPDX-License-Identifier: Apache-2.0
// Attention as a library call.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "fuse/attention.h"
#include "library/match_parts.h"

namespace graft {
namespace {

bool is_load_of(const Expr& e, int tensor) { return e->kind == ExprKind::kLoad && e->tensor == tensor; }

bool is_constant(const Expr& e, double value) { return e->kind == ExprKind::kConstant && e->real == value; }

bool is_narrow(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

class AttentionMatcher {
 public:
  AttentionMatcher(const Region& region, const AttentionForms& forms, LibraryMatch& match)
      : region_(region), forms_(forms), type_(region.tensors[region.outputs[0]].type), match_(match) {}

  /// Empty when it is a call, else the reason.
  std::string run() {
    if (region_.outputs.size() != 1) return "attention has several outputs";
    if (!is_narrow(type_)) return fmt::format("it has no attention of {}", name_of(type_));
    LibraryCall call{.type = type_};
    for (size_t i = 0; i + 1 < forms_.common.size(); ++i) call.batch.push_back(forms_.common[i].extent);
    call.rows = forms_.common.back().extent;
    call.columns = forms_.scores->axes.back().extent;
    call.depth = forms_.scores->reduced[0].extent;
    call.width = forms_.weighted->axes.back().extent;
    const int depth = variable(forms_.scores->reduced[0]), width = variable(forms_.weighted->axes.back());
    CallOperand values;
    std::string reason = set(call.source, forms_.queries, {row(), depth});
    if (reason.empty()) reason = set(call.weights, forms_.keys, {depth, variable(forms_.scores->axes.back())});
    if (reason.empty()) reason = set(values, forms_.values, {variable(forms_.weighted->reduced[0]), width});
    call.values = values;
    if (reason.empty()) reason = set_result(call);
    if (reason.empty()) reason = set_posts(call);
    if (!reason.empty()) return reason;
    match_.call = std::move(call);
    match_.layouts.resize(region_.tensors.size());
    return "";
  }

 private:
  static int variable(const Axis& axis) { return axis.variable->variable; }
  int row() const { return variable(forms_.common.back()); }

  CallOperand operand_of(const TensorAccess& access, const std::vector<int>& inner) const {
    const auto it = std::find(region_.inputs.begin(), region_.inputs.end(), access.tensor);
    CallOperand made{.argument = static_cast<int>(it - region_.inputs.begin()), .offset = access.offset};
    for (size_t i = 0; i + 1 < forms_.common.size(); ++i) {
      made.strides.push_back(access.stride(variable(forms_.common[i])));
    }
    for (const int v : inner) made.strides.push_back(access.stride(v));
    return made;
  }

  std::string set(CallOperand& operand, const Expr& load, const std::vector<int>& inner) const {
    const auto access = read_access(region_, load);
    if (!access || access->guard) return "an operand of attention is not a plain tensor";
    if (region_.tensors[access->tensor].type != type_) return "the operands of attention have several types";
    operand = operand_of(*access, inner);
    return "";
  }

  /// weighted / sum, perhaps with another divisor where the sum is 0.
  std::string set_result(LibraryCall& call) const {
    static constexpr const char* kReason = "attention is followed by another map";
    if (forms_.results.size() != 1) return kReason;
    const Compute& result = *forms_.results[0];
    const Expr quotient = without_roundings(result.value, type_);
    const int weighted = forms_.weighted->outputs[0], sum = forms_.sum->outputs[0];
    if (!is_call(quotient, Intrinsic::kDiv) || !is_load_of(quotient->args[0], weighted)) return kReason;
    const Expr& divisor = quotient->args[1];
    const bool guarded = is_call(divisor, Intrinsic::kSelect) && is_load_of(divisor->args[2], sum);
    if (!is_load_of(divisor, sum) && !guarded) return kReason;
    std::vector<Expr> point;
    for (const Axis& axis : result.axes) point.push_back(axis.variable);
    // The sum is read at the point that is stored, whichever way round its axes are.
    const std::vector<Expr>& at = quotient->args[0]->args;
    const Expr& width = at.back();
    bool good = width->kind == ExprKind::kVariable && result.axes.size() == at.size();
    for (size_t i = 0; good && i + 1 < at.size(); ++i) good = equal(at[i], forms_.common[i].variable);
    for (const Expr& axis : at)
      good &= std::any_of(point.begin(), point.end(), [&](auto& e) { return equal(e, axis); });
    if (!good) return "attention is stored in another order";
    call.result = operand_of(store_access(region_, result.output, point), {row(), width->variable});
    return "";
  }

  /// Whether `condition` holds where the key is not behind the row.
  bool is_causal(const Expr& condition) const {
    const bool below = is_call(condition, Intrinsic::kLe), above = is_call(condition, Intrinsic::kGe);
    if (!below && !above) return false;
    const auto key = affine(condition->args[below ? 0 : 1]), limit = affine(condition->args[below ? 1 : 0]);
    const auto is = [](const std::optional<Affine>& index, int variable) {
      return index && index->coefficients.size() == 1 && index->coefficient(variable).is(1) && index->offset.is(0);
    };
    return is(key, forms_.logits_key->variable) && is(limit, row());
  }

  /// What makes logits of scores: scales, tensors that are added, and at the end the mask of what lies ahead.
  std::string set_posts(LibraryCall& call) const {
    Expr logits = forms_.logits;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (is_call(logits, Intrinsic::kSelect) && is_constant(logits->args[2], -kInfinity)) {
      if (!is_causal(logits->args[0])) return "a mask of attention chooses rather than adds";
      call.causal = true;
      logits = logits->args[1];
    }
    Expr product;
    for_each(logits, [&](const Expr& node) {
      if (is_load_of(node, forms_.scores->outputs[0])) product = node;
    });
    if (!product) return "the scores of attention are read in another way";
    std::vector<MatchedPost> posts;
    bool wide = false;
    if (!match_posts(region_, type_, logits, product, posts).empty()) {
      posts.clear();
      wide = true;
      const std::string reason = match_posts(region_, DType::kFloat32, logits, product, posts);
      if (!reason.empty()) return "between the scores and the softmax of attention " + reason;
    }
    for (const MatchedPost& matched : posts) {
      PostOperation post = matched.post;
      if (matched.operand) {
        post.operand = operand_of(*matched.operand, {row(), forms_.logits_key->variable});
        post.operand.wide = wide;
      }
      call.posts.push_back(post);
    }
    return "";
  }

  const Region& region_;
  const AttentionForms& forms_;
  DType type_;
  LibraryMatch& match_;
};

}  // namespace

std::optional<std::string> match_attention(const Region& region, LibraryMatch& match) {
  std::string reason;
  const auto forms = find_attention(region, reason);
  if (!forms) return std::nullopt;
  return AttentionMatcher(region, *forms, match).run();
}

}  // namespace graft
