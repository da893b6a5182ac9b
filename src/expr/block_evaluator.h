// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions over blocks of index points, a column of values per node: the interpreter's engine.
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/run_limits.h"
#include "base/tensor_data.h"
#include "expr/evaluate.h"
#include "expr/region.h"

namespace graft {

/// Points evaluated together; a lane is one of them.
constexpr int kBlockLanes = 1024;

/// A set of lanes.
struct LaneMask {
  std::array<uint64_t, kBlockLanes / 64> words{};
  static LaneMask first(int count);
  bool none() const;
  bool test(int lane) const { return (words[static_cast<size_t>(lane) / 64] >> (lane % 64)) & 1; }
};

/// Values of one type, one per lane or element: doubles for floats, int64 for the rest (see Column).
class Values {
 public:
  Values(DType type, size_t count);
  Column column() { return {real_.data(), integer_.data()}; }
  bool is_real() const { return !real_.empty(); }
  void copy_from(const Column& from, int count, size_t at = 0);
  void set(size_t to, size_t from);

 private:
  BudgetVector<double> real_;
  BudgetVector<int64_t> integer_;
};

/// Expressions of one form, ready to run. Elements that are not numbers (strings, complex) travel as handles, which
/// store_block resolves. An index that check_index
/// finds out of range throws invalid_argument naming the tensor, the value and the range; a load from outside of its
/// tensor is an internal error.
class BlockEvaluator {
 public:
  /// `tensors` are the region's tensors defined so far; they and `region` must outlive the evaluator.
  /// `target` names what the roots index themselves, for the errors of check_index.
  BlockEvaluator(const Region& region, std::span<const TensorData> tensors, const Bindings& bindings,
                 const std::vector<Expr>& roots, int lanes, const std::string& target = "");

  /// Starts a block of `count` lanes; variables are to be filled anew.
  void begin(int count);
  /// The column of a variable; a scratch column when no root uses it.
  Column variable(const Expr& variable);
  /// The values of a root in the lanes of `mask`; the others are unspecified. Shared nodes are computed once.
  Column evaluate(size_t root, const LaneMask& mask);
  Column evaluate(size_t root) { return evaluate(root, LaneMask::first(count_)); }
  int lanes() const { return lanes_; }

 private:
  struct Node {
    ExprKind kind{};
    DType type = DType::kUndefined;
    Intrinsic intrinsic{};
    int tensor = -1;
    std::vector<int> args;
    Column out;
    LaneMask done;
    bool given = false;    ///< a constant, size or variable
    std::string index_of;  ///< check_index: the tensor that the index is for
  };
  int add_node(const Expr& e, std::unordered_map<const ExprNode*, int>& ids);
  void allocate_columns();
  void name_checked_tensors(const Expr& index, const std::string& tensor);
  void compute(int id, const LaneMask& mask);
  void compute_select(Node& node, const LaneMask& needed);
  void check_indices(const Node& node, const LaneMask& needed) const;
  void check_divisors(const Node& node, const LaneMask& needed) const;
  void load(Node& node, const LaneMask& needed);
  void gather(const Node& node, int begin, int end);

  const Region& region_;
  std::span<const TensorData> tensors_;
  const Bindings& bindings_;
  int lanes_;
  int count_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> roots_;
  std::unordered_map<int, int> variables_;  ///< variable identity to node
  std::unordered_map<const ExprNode*, std::string> index_names_;
  std::vector<double> reals_;
  std::vector<int64_t> integers_;
  std::vector<double> unused_real_;
  std::vector<int64_t> unused_integer_;
  std::vector<int64_t> flat_;
};

/// Writes lanes 0 ... count - 1 of a column to elements first, first + 1, ... of `output`.
void store_block(std::span<const TensorData> tensors, const Column& values, int64_t first, int count,
                 TensorData& output);
/// The handle of an element that is not a number.
int64_t element_handle(int tensor, int64_t element);

}  // namespace graft
