// SPDX-License-Identifier: Apache-2.0
#include "library/cublaslt/product_form.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cublaslt {
namespace {

constexpr int64_t kMostRepeats = 64;

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorKind::kUnsupported, reason, "cuBLASLt"); }

/// Element (i, j) of `rows` x `columns` lies at i * row_stride + j * column_stride.
std::optional<Matrix> by_columns(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  if (rows > 1 && row_stride != 1) return std::nullopt;
  if (columns > 1 && column_stride < rows) return std::nullopt;
  return Matrix{.rows = rows, .columns = columns, .leading = columns > 1 ? column_stride : rows};
}

Matrix lying(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, const char* name) {
  const auto plain = by_columns(rows, columns, row_stride, column_stride);
  auto turned = by_columns(columns, rows, column_stride, row_stride);
  // A single row is one long column rather than many short ones.
  if (plain && !(turned && rows == 1)) return *plain;
  if (!turned) refuse(fmt::format("neither rows nor columns of the {} are contiguous", name));
  turned->transposed = true;
  return *turned;
}

/// Puts a call together. The rows of cuBLASLt's result are the axis along which it is contiguous: the call's columns,
/// or its rows when it lies transposed.
class FormMaker {
 public:
  explicit FormMaker(const LibraryCall& call) : call_(without_panels(call)), batches_(call.batch.size()) {
    if (call.is_convolution() || call.is_attention()) refuse("it does products of matrices only");
    if (call_.weights.panel != 0) refuse("it reads no weights in panels of several columns");
    const int64_t rows = call.rows.constant(), columns = call.columns.constant();
    by_rows_ = columns > 1 && stride(call.result, 1) != 1;
    m_ = by_rows_ ? rows : columns;
    n_ = by_rows_ ? columns : rows;
  }

  ProductForm run() {
    form_.type = call_.type;
    form_.tf32 = call_.tf32;
    const int64_t k = call_.depth.constant();
    const CallOperand &source = call_.source, &weights = call_.weights;
    // a: m x k, b: k x n
    const Matrix left = by_rows_ ? lying(m_, k, stride(source, 0), stride(source, 1), "source")
                                 : lying(m_, k, stride(weights, 1), stride(weights, 0), "weights");
    const Matrix right = by_rows_ ? lying(k, n_, stride(weights, 0), stride(weights, 1), "weights")
                                  : lying(k, n_, stride(source, 1), stride(source, 0), "source");
    form_.a = placed(left, by_rows_ ? source : weights, by_rows_ ? 0 : 1);
    form_.b = placed(right, by_rows_ ? weights : source, by_rows_ ? 1 : 0);
    form_.result = result_like(call_.result, 2, "result");
    int buffer = 3;
    for (const PostOperation& post : call_.posts) {
      if (form_.activation != Activation::kNone) refuse("something follows the activation function");
      add(post, buffer);
      if (info(post.kind).operand) ++buffer;
    }
    set_batches();
    return std::move(form_);
  }

 private:
  /// Panels of one column are columns one after the other.
  static LibraryCall without_panels(LibraryCall call) {
    if (call.weights.panel != 1 || call.is_convolution()) return call;
    call.weights.panel = 0;
    call.weights.strides.assign(call.batch.size(), Size(0));
    call.weights.strides.insert(call.weights.strides.end(), {Size(1), call.depth});
    return call;
  }

  int64_t stride(const CallOperand& operand, size_t dimension) const {
    return operand.strides[batches_ + dimension].constant();
  }
  int64_t row_stride(const CallOperand& operand) const { return stride(operand, by_rows_ ? 0 : 1); }
  int64_t column_stride(const CallOperand& operand) const { return stride(operand, by_rows_ ? 1 : 0); }

  static Matrix placed(Matrix matrix, const CallOperand& operand, int buffer) {
    matrix.buffer = buffer;
    matrix.offset = operand.offset.constant();
    return matrix;
  }

  Matrix result_like(const CallOperand& operand, int buffer, const char* name) const {
    const auto matrix = by_columns(m_, n_, row_stride(operand), column_stride(operand));
    if (!matrix) refuse(fmt::format("the {} lies in another order than the result", name));
    return placed(*matrix, operand, buffer);
  }

  bool is_bias(const CallOperand& operand) const {
    const auto still = [](const Size& stride) { return stride.is(0); };
    const bool batched =
        !std::all_of(operand.strides.begin(), operand.strides.begin() + static_cast<int64_t>(batches_), still);
    return !batched && (n_ == 1 || column_stride(operand) == 0) && (m_ == 1 || row_stride(operand) == 1);
  }

  void add(const PostOperation& post, int buffer) {
    const bool first = &post == &call_.posts.front();
    if (post.kind == PostKind::kLinear && first && post.beta == 0) {
      form_.alpha = post.alpha;
    } else if (post.kind == PostKind::kAdd && !form_.bias && is_bias(post.operand)) {
      form_.bias = placed(Matrix{.rows = m_}, post.operand, buffer);
    } else if (post.kind == PostKind::kAdd && !form_.added) {
      form_.added = result_like(post.operand, buffer, "tensor that is added");
      added_ = &post.operand;
    } else if (post.kind == PostKind::kRelu && post.alpha == 0) {
      form_.activation = Activation::kRelu;
    } else if (post.kind == PostKind::kGeluTanh) {
      form_.activation = Activation::kGeluTanh;
    } else {
      refuse(fmt::format("it has no epilogue for '{}' here", info(post.kind).name));
    }
  }

  /// One axis is cuBLASLt's batch, the longest; calls are repeated along the others.
  void set_batches() {
    struct Axis {
      int64_t count;
      ProductForm::Repeat moves;
    };
    std::vector<Axis> axes;
    for (size_t i = 0; i < batches_; ++i) {
      const auto at = [&](const CallOperand* operand) { return operand ? operand->strides[i].constant() : 0; };
      const ProductForm::Repeat moves{.count = call_.batch[i].constant(),
                                      .a = at(by_rows_ ? &call_.source : &call_.weights),
                                      .b = at(by_rows_ ? &call_.weights : &call_.source),
                                      .result = at(&call_.result),
                                      .added = at(added_)};
      if (moves.count == 1) continue;
      if (!axes.empty() && joins(axes.back().moves, moves)) {
        const int64_t outer = axes.back().moves.count;
        axes.back().moves = moves;
        axes.back().moves.count *= outer;
      } else {
        axes.push_back({moves.count, moves});
      }
    }
    if (axes.empty()) return;
    const auto longest = std::max_element(axes.begin(), axes.end(),
                                          [](const Axis& x, const Axis& y) { return x.moves.count < y.moves.count; });
    use_as_batch(longest->moves);
    axes.erase(longest);
    int64_t repeats = 1;
    for (const Axis& axis : axes) {
      form_.repeats.push_back(axis.moves);
      repeats *= axis.moves.count;
    }
    if (repeats > kMostRepeats) refuse("it has one batch axis, and there are several");
  }

  /// Whether stepping along `outer` goes on where `inner` ends, for every operand.
  static bool joins(const ProductForm::Repeat& outer, const ProductForm::Repeat& inner) {
    return outer.a == inner.a * inner.count && outer.b == inner.b * inner.count &&
           outer.result == inner.result * inner.count && outer.added == inner.added * inner.count;
  }

  void use_as_batch(const ProductForm::Repeat& axis) {
    form_.batch = axis.count;
    form_.a.batch_stride = axis.a;
    form_.b.batch_stride = axis.b;
    form_.result.batch_stride = axis.result;
    if (form_.added) form_.added->batch_stride = axis.added;
  }

  LibraryCall call_;
  size_t batches_;
  bool by_rows_ = false;
  int64_t m_ = 1, n_ = 1;
  const CallOperand* added_ = nullptr;
  ProductForm form_;
};

}  // namespace

ProductForm product_form(const LibraryCall& call) { return FormMaker(call).run(); }

}  // namespace graft::cublaslt
