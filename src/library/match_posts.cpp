// SPDX-License-Identifier: Apache-2.0
// What follows a product, as post operations: whole activation functions first, then one operation at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "library/match_parts.h"

namespace graft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Expr constant(double value) { return make_constant(DType::kFloat32, value); }

/// An activation function as the operators define it, over a variable for its argument and two for its parameters.
struct Pattern {
  PostKind kind;
  Expr shape;
};

/// The variables of all patterns.
struct PatternVariables {
  Expr x = make_variable(DType::kFloat32);
  Expr alpha = make_variable(DType::kFloat32), beta = make_variable(DType::kFloat32);
};
const PatternVariables& variables() {
  static const PatternVariables made;
  return made;
}

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> rows = [] {
    const auto& [x, alpha, beta] = variables();
    const Expr zero = constant(0), one = constant(1), half = constant(0.5);
    const Expr cube = x + constant(0.044715) * (x * x * x);
    const auto sigmoid = [&](const Expr& e) { return one / (one + exp(-e)); };
    return std::vector<Pattern>{
        {PostKind::kGelu, half * x * (one + erf(x * constant(std::numbers::sqrt2 / 2)))},
        {PostKind::kGeluTanh, half * x * (one + tanh(constant(std::sqrt(2 / std::numbers::pi)) * cube))},
        {PostKind::kSwish, x * sigmoid(x)},
        {PostKind::kSwish, x * sigmoid(alpha * x)},
        {PostKind::kHardSwish, x * min(max(x * alpha + beta, zero), one)},
        {PostKind::kSigmoid, sigmoid(x)},
        {PostKind::kTanh, tanh(x)},
        {PostKind::kClip, min(max(x, alpha), beta)},
        {PostKind::kRelu, max(x, zero)},
        {PostKind::kRelu, select(lt(x, zero), alpha * x, x)},
        {PostKind::kLinear, x * alpha},
        {PostKind::kLinear, x + beta},
        {PostKind::kLinear, beta - x},
    };
  }();
  return rows;
}

/// What the variables of a pattern stand for.
struct Binding {
  Expr x, alpha, beta;

  Expr* slot(int variable) {
    if (variable == variables().x->variable) return &x;
    if (variable == variables().alpha->variable) return &alpha;
    return variable == variables().beta->variable ? &beta : nullptr;
  }
};

bool is_commutative(Intrinsic intrinsic) {
  return intrinsic == Intrinsic::kAdd || intrinsic == Intrinsic::kMul || intrinsic == Intrinsic::kMin ||
         intrinsic == Intrinsic::kMax;
}

bool unify(const Expr& pattern, const Expr& e, Binding& binding);

bool unify_all(const std::vector<Expr>& patterns, const std::vector<Expr>& args, Binding& binding) {
  Binding attempt = binding;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!unify(patterns[i], args[i], attempt)) return false;
  }
  binding = attempt;
  return true;
}

/// Whether `e` has the pattern's form; parameters must be constants and the argument the same everywhere.
bool unify(const Expr& pattern, const Expr& e, Binding& binding) {
  if (pattern->type != e->type) return false;
  if (pattern->kind == ExprKind::kVariable) {
    Expr& slot = *binding.slot(pattern->variable);
    const bool is_argument = &slot == &binding.x;
    if ((e->kind == ExprKind::kConstant) == is_argument) return false;
    if (slot) return equal(slot, e);
    slot = e;
    return true;
  }
  if (pattern->kind != ExprKind::kCall) return equal(pattern, e);
  if (!is_call(e, pattern->intrinsic) || e->args.size() != pattern->args.size()) return false;
  if (unify_all(pattern->args, e->args, binding)) return true;
  if (!is_commutative(e->intrinsic)) return false;
  return unify_all(pattern->args, {e->args[1], e->args[0]}, binding);
}

PostOperation post_of(PostKind kind, float alpha = 0, float beta = 0) {
  PostOperation post;
  post.kind = kind;
  post.alpha = alpha;
  post.beta = beta;
  return post;
}

float value_of(const Expr& parameter, float otherwise) {
  return parameter ? static_cast<float>(parameter->real) : otherwise;
}

PostOperation make_post(const Pattern& pattern, const Binding& binding) {
  PostOperation post = post_of(pattern.kind, value_of(binding.alpha, 0), value_of(binding.beta, 0));
  if (post.kind == PostKind::kSwish) post.alpha = value_of(binding.alpha, 1);
  if (post.kind == PostKind::kLinear && !binding.alpha) {
    post.alpha = is_call(pattern.shape, Intrinsic::kSub) ? -1.0f : 1.0f;
  }
  return post;
}

/// Peels operations off a value.
class PostMatcher {
 public:
  PostMatcher(const Region& region, DType type, const Expr& product, std::vector<MatchedPost>& posts)
      : region_(region), type_(type), product_(product), posts_(posts) {}

  std::string run(Expr value) {
    while (!equal(value, product_)) {
      if (posts_.size() == kMostPosts) return "more operations follow the product than a library call can have";
      if (!peel_pattern(value) && !peel_one(value)) return reason_;
      posts_.back().before = value;
    }
    std::reverse(posts_.begin(), posts_.end());
    return "";
  }

 private:
  bool has_product(const Expr& e) const {
    bool found = false;
    for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad && node->tensor == product_->tensor; });
    return found;
  }

  bool peel_pattern(Expr& value) {
    for (const Pattern& pattern : patterns()) {
      Binding binding;
      if (!unify(pattern.shape, value, binding) || !has_product(binding.x)) continue;
      const PostOperation post = make_post(pattern, binding);
      if (post.kind == PostKind::kClip && !(post.alpha <= post.beta)) continue;
      posts_.push_back({post, std::nullopt, {}});
      value = binding.x;
      return true;
    }
    return false;
  }

  bool refuse(const Expr& value) {
    const bool call = value->kind == ExprKind::kCall;
    reason_ = call ? fmt::format("no post operation does this {}", info(value->intrinsic).name)
                   : "the product is read at another point";
    return false;
  }

  bool peel_one(Expr& value) {
    if (value->kind != ExprKind::kCall || value->type != DType::kFloat32) return refuse(value);
    if (value->intrinsic == Intrinsic::kNeg) return keep(post_of(PostKind::kLinear, -1), value->args[0], value);
    if (value->args.size() != 2) return refuse(value);
    const bool left = has_product(value->args[0]), right = has_product(value->args[1]);
    if (left == right) return refuse(value);
    const Expr inner = value->args[left ? 0 : 1], other = value->args[left ? 1 : 0];
    if (other->kind == ExprKind::kConstant) return peel_constant(value, inner, static_cast<float>(other->real), left);
    return peel_tensor(value, inner, other, left);
  }

  bool keep(const PostOperation& post, const Expr& inner, Expr& value) {
    posts_.push_back({post, std::nullopt, {}});
    value = inner;
    return true;
  }

  /// Operations with a constant that patterns do not cover.
  bool peel_constant(Expr& value, const Expr& inner, float c, bool left) {
    switch (value->intrinsic) {
      case Intrinsic::kMax:
        return keep(post_of(PostKind::kClip, c, kInfinity), inner, value);
      case Intrinsic::kMin:
        return keep(post_of(PostKind::kClip, -kInfinity, c), inner, value);
      case Intrinsic::kSub:
        if (left) return keep(post_of(PostKind::kLinear, 1, -c), inner, value);
        break;
      case Intrinsic::kDiv: {
        int exponent = 0;
        const bool exact = left && std::fabs(std::frexp(c, &exponent)) == 0.5f && std::abs(exponent) < 100;
        if (exact) return keep(post_of(PostKind::kLinear, 1 / c), inner, value);
        break;
      }
      default:
        break;
    }
    return refuse(value);
  }

  bool peel_tensor(Expr& value, const Expr& inner, const Expr& other, bool left) {
    const auto access = read_access(region_, other);
    if (!access || access->guard || region_.tensors[access->tensor].type != type_) {
      reason_ = "what is combined with the product is not a plain tensor";
      return false;
    }
    PostKind kind;
    switch (value->intrinsic) {
      case Intrinsic::kAdd:
        kind = PostKind::kAdd;
        break;
      case Intrinsic::kMul:
        kind = PostKind::kMul;
        break;
      case Intrinsic::kMin:
        kind = PostKind::kMin;
        break;
      case Intrinsic::kMax:
        kind = PostKind::kMax;
        break;
      case Intrinsic::kSub:
        kind = left ? PostKind::kSub : PostKind::kAdd;
        break;
      case Intrinsic::kDiv:
        if (!left) return refuse(value);
        kind = PostKind::kDiv;
        break;
      default:
        return refuse(value);
    }
    posts_.push_back({post_of(kind), access, {}});
    // t - x is -x, then t added.
    if (value->intrinsic == Intrinsic::kSub && !left) {
      posts_.push_back({post_of(PostKind::kLinear, -1), std::nullopt, {}});
    }
    value = inner;
    return true;
  }

  const Region& region_;
  DType type_;
  const Expr& product_;
  std::vector<MatchedPost>& posts_;
  std::string reason_;
};

}  // namespace

Expr without_roundings(const Expr& value, DType type) {
  if (type == DType::kFloat32) return value;
  const bool rounds = is_call(value, Intrinsic::kCast) && value->type == type;
  return transform(rounds ? value->args[0] : value, [&](const Expr& node) -> Expr {
    if (!is_call(node, Intrinsic::kCast) || node->type != DType::kFloat32) return {};
    const Expr& inner = node->args[0];
    if (!is_call(inner, Intrinsic::kCast) || inner->type != type) return {};
    return without_roundings(inner, type);
  });
}

std::string match_posts(const Region& region, DType type, const Expr& value, const Expr& product,
                        std::vector<MatchedPost>& posts) {
  return PostMatcher(region, type, product, posts).run(value);
}

}  // namespace graft
