// SPDX-License-Identifier: Apache-2.0
// Scalar expressions: what one element of a tensor is, given index variables.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/size.h"

namespace graft {

/// The scalar primitives of intrinsics.inc.
enum class Intrinsic : uint8_t {
#define GRAFT_INTRINSIC(enumerator, name, arity, result, meaning) enumerator,
#include "expr/intrinsics.inc"
#undef GRAFT_INTRINSIC
};

enum class IntrinsicResult : uint8_t { kSame, kBool, kSecond, kCast };

/// One row of intrinsics.inc.
struct IntrinsicInfo {
  std::string_view name;
  int arity;
  IntrinsicResult result;
  std::string_view meaning;
};
const IntrinsicInfo& info(Intrinsic intrinsic);
std::optional<Intrinsic> parse_intrinsic(std::string_view name);

/// The five kinds of expression node.
enum class ExprKind : uint8_t {
  kConstant,  ///< a literal of `type`
  kVariable,  ///< an index variable (i64), or a state variable of a monoid or scan (any type)
  kSize,      ///< a symbolic size as an i64
  kLoad,      ///< element `args` (indices, i64) of tensor or buffer number `tensor`
  kCall,      ///< intrinsic applied to `args`
};

struct ExprNode;

/// An immutable scalar expression; cheap to copy, shared between threads. A null Expr means "none".
class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  std::shared_ptr<const ExprNode> node_;
};

/// A node. Which fields mean something depends on `kind`.
struct ExprNode {
  ExprKind kind;
  DType type;
  double real = 0;          ///< kConstant of a float type
  int64_t integer = 0;      ///< kConstant of an integer or bool type (bits of u64 kept as i64)
  int variable = -1;        ///< kVariable: identity, unique in the process
  int tensor = -1;          ///< kLoad: index into Region::tensors or tile::Program::buffers
  Size size{};              ///< kSize
  Intrinsic intrinsic{};    ///< kCall
  std::vector<Expr> args{}; ///< kLoad: one index per axis; kCall: arguments
};

// --- construction; these fold constants and drop neutral elements of integer arithmetic ---

/// A fresh variable; `type` is i64 for indices.
Expr make_variable(DType type = DType::kInt64);
Expr make_constant(DType type, double value);
Expr make_integer(DType type, int64_t value);
inline Expr make_index(int64_t value) { return make_integer(DType::kInt64, value); }
/// A symbolic size as an i64 expression (a constant when it is one).
Expr make_size(const Size& size);
Expr make_load(int tensor, DType type, std::vector<Expr> indices);
/// Applies an intrinsic. Operand types must agree as the row says (an internal error otherwise);
/// floats narrower than 32 bits are cast to f32 first, integers narrower than 8 bits to i32.
Expr make_call(Intrinsic intrinsic, std::vector<Expr> args);
/// The value converted to `type`; the same expression when it already has it.
Expr make_cast(DType type, const Expr& value);
Expr make_bitcast(DType type, const Expr& value);
Expr select(const Expr& condition, const Expr& when_true, const Expr& when_false);

/// Names under which definitions write the intrinsics: exp(x), min(a, b) ...
#define GRAFT_UNARY(function, enumerator) \
  inline Expr function(const Expr& x) { return make_call(Intrinsic::enumerator, {x}); }
#define GRAFT_BINARY(function, enumerator) \
  inline Expr function(const Expr& a, const Expr& b) { return make_call(Intrinsic::enumerator, {a, b}); }
GRAFT_BINARY(operator+, kAdd)
GRAFT_BINARY(operator-, kSub)
GRAFT_BINARY(operator*, kMul)
GRAFT_BINARY(operator/, kDiv)
GRAFT_BINARY(floor_div, kFloorDiv)
GRAFT_BINARY(rem, kRem)
GRAFT_BINARY(mod, kMod)
GRAFT_BINARY(min, kMin)
GRAFT_BINARY(max, kMax)
GRAFT_BINARY(pow, kPow)
GRAFT_BINARY(eq, kEq)
GRAFT_BINARY(ne, kNe)
GRAFT_BINARY(lt, kLt)
GRAFT_BINARY(le, kLe)
GRAFT_BINARY(gt, kGt)
GRAFT_BINARY(ge, kGe)
GRAFT_BINARY(operator&&, kAnd)
GRAFT_BINARY(operator||, kOr)
GRAFT_BINARY(operator&, kAnd)
GRAFT_BINARY(operator|, kOr)
GRAFT_BINARY(operator^, kXor)
GRAFT_BINARY(operator<<, kShl)
GRAFT_BINARY(operator>>, kShr)
GRAFT_BINARY(check_index, kCheckIndex)
GRAFT_UNARY(check_divisor, kCheckDivisor)
GRAFT_UNARY(operator-, kNeg)
GRAFT_UNARY(logical_not, kNot)  // `!e` asks whether e is null
GRAFT_UNARY(abs, kAbs)
GRAFT_UNARY(sqrt, kSqrt)
GRAFT_UNARY(exp, kExp)
GRAFT_UNARY(exp2, kExp2)
GRAFT_UNARY(log, kLog)
GRAFT_UNARY(log1p, kLog1p)
GRAFT_UNARY(expm1, kExpm1)
GRAFT_UNARY(erf, kErf)
GRAFT_UNARY(sin, kSin)
GRAFT_UNARY(cos, kCos)
GRAFT_UNARY(tan, kTan)
GRAFT_UNARY(asin, kAsin)
GRAFT_UNARY(acos, kAcos)
GRAFT_UNARY(atan, kAtan)
GRAFT_UNARY(sinh, kSinh)
GRAFT_UNARY(cosh, kCosh)
GRAFT_UNARY(tanh, kTanh)
GRAFT_UNARY(asinh, kAsinh)
GRAFT_UNARY(acosh, kAcosh)
GRAFT_UNARY(atanh, kAtanh)
GRAFT_UNARY(floor, kFloor)
GRAFT_UNARY(ceil, kCeil)
GRAFT_UNARY(trunc, kTrunc)
GRAFT_UNARY(round, kRound)
GRAFT_UNARY(is_nan, kIsNan)
GRAFT_UNARY(is_inf, kIsInf)
#undef GRAFT_UNARY
#undef GRAFT_BINARY

// --- inspection and rewriting ---

inline bool is_call(const Expr& e, Intrinsic intrinsic) {
  return e && e->kind == ExprKind::kCall && e->intrinsic == intrinsic;
}
/// Whether a node itself, its arguments apart, can end the run with an error.
inline bool is_check(const ExprNode& node) {
  return node.kind == ExprKind::kCall &&
         (node.intrinsic == Intrinsic::kCheckIndex || node.intrinsic == Intrinsic::kCheckDivisor);
}
/// The value of an integer or bool constant.
std::optional<int64_t> as_integer(const Expr& e);
/// Same structure, variables compared by identity.
bool equal(const Expr& a, const Expr& b);
/// Calls `visit` on every node below and including `e`, shared nodes once, arguments before users.
void for_each(const Expr& e, const std::function<void(const Expr&)>& visit);
/// Rebuilds `e` bottom-up. `rewrite` gets a node whose arguments are already rewritten and returns its
/// replacement, or a null Expr to keep it. Shared nodes are rewritten once; unchanged trees stay the same pointer.
Expr transform(const Expr& e, const std::function<Expr(const Expr&)>& rewrite);
/// Replaces variables by expressions.
Expr substitute(const Expr& e, const std::vector<std::pair<int, Expr>>& replacements);
/// Replaces symbols in every kSize node.
Expr substitute_sizes(const Expr& e, const std::map<std::string, Size, std::less<>>& replacements);
bool uses_variable(const Expr& e, int variable);
/// Number of nodes, shared ones once.
int count_nodes(const Expr& e);

/// An index expression as a sum of size-valued coefficients times variables plus a size:
/// what address arithmetic, contraction analysis and vectorisation reason about.
struct Affine {
  std::map<int, Size> coefficients;  ///< by variable; no zero entries
  Size offset;
  Size coefficient(int variable) const {
    const auto it = coefficients.find(variable);
    return it == coefficients.end() ? Size(0) : it->second;
  }
};
/// The affine form of an i64 expression, or nothing when it has none.
std::optional<Affine> affine(const Expr& e);

}  // namespace graft
