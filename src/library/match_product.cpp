// SPDX-License-Identifier: Apache-2.0
// A contraction's axes as the dimensions of a matrix product, or of a convolution.
#include <algorithm>

#include <fmt/format.h>

#include "library/match_parts.h"

namespace graft {
namespace {

using Dimension = MatchedProduct::Dimension;

int variable_of(const Axis& axis) { return axis.variable->variable; }

Dimension dimension_of(const Axis& axis) { return {variable_of(axis), axis.extent}; }

/// Joins neighbouring axes that every access walks as one.
std::vector<Axis> joined(std::vector<Axis> axes, const std::vector<const TensorAccess*>& accesses) {
  const auto side_by_side = [&](const Axis& outer, const Axis& inner) {
    return std::all_of(accesses.begin(), accesses.end(), [&](const TensorAccess* access) {
      return access->stride(variable_of(outer)) == access->stride(variable_of(inner)) * inner.extent;
    });
  };
  for (size_t i = axes.size(); i-- > 1;) {
    if (!side_by_side(axes[i - 1], axes[i])) continue;
    axes[i].extent = axes[i].extent * axes[i - 1].extent;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  return axes;
}

std::vector<const TensorAccess*> results_of(const MatchedAccesses& accesses) {
  std::vector<const TensorAccess*> all = {&accesses.result};
  all.insert(all.end(), accesses.posts.begin(), accesses.posts.end());
  return all;
}

std::vector<const TensorAccess*> with(std::vector<const TensorAccess*> all, const TensorAccess& one) {
  all.push_back(&one);
  return all;
}

/// The terms of a conjunction.
void split_guard(const Expr& guard, std::vector<Expr>& terms) {
  if (!is_call(guard, Intrinsic::kAnd)) return terms.push_back(guard);
  for (const Expr& arg : guard->args) split_guard(arg, terms);
}

bool same(const Affine& a, const Affine& b) { return a.offset == b.offset && a.coefficients == b.coefficients; }

/// Reads a convolution off the indices of its source.
class ConvolutionMatcher {
 public:
  ConvolutionMatcher(const Region& region, const Contraction& c, const MatchedAccesses& accesses, bool swapped)
      : region_(region),
        accesses_(accesses),
        source_(swapped ? accesses.weights : accesses.source),
        weights_(swapped ? accesses.source : accesses.weights),
        rows_(swapped ? c.n : c.m),
        columns_(swapped ? c.m : c.n),
        batch_(c.batch),
        depth_(c.k) {}

  std::string run(MatchedProduct& product) {
    if (weights_.guard) return "the weights of the convolution are guarded";
    if (std::string reason = read_guard(); !reason.empty()) return reason;
    for (size_t d = 0; d < source_.indices.size(); ++d) {
      if (std::string reason = read_index(static_cast<int>(d)); !reason.empty()) return reason;
    }
    if (std::string reason = place_rest(); !reason.empty()) return reason;
    if (product_.windows.size() > 3) return "the convolution has more than three spatial axes";
    std::stable_sort(product_.windows.begin(), product_.windows.end(),
                     [](const auto& a, const auto& b) { return a.dimension < b.dimension; });
    product = std::move(product_);
    return "";
  }

 private:
  const Size& extent_of(int dimension) const { return region_.tensors[source_.tensor].shape[dimension]; }

  /// Which dimensions are guarded; every term must be 0 <= index or index < extent of one of them.
  std::string read_guard() {
    guarded_.assign(source_.indices.size(), false);
    if (!source_.guard) return "";
    std::vector<Expr> terms;
    split_guard(source_.guard, terms);
    for (const Expr& term : terms) {
      if (!read_term(term)) return "the source is guarded by something else than its borders";
    }
    return "";
  }

  bool read_term(const Expr& term) {
    const bool lower = is_call(term, Intrinsic::kGe), upper = is_call(term, Intrinsic::kLt);
    if (!lower && !upper) return false;
    const auto index = affine(term->args[0]), bound = affine(term->args[1]);
    if (!index || !bound || !bound->coefficients.empty()) return false;
    for (size_t d = 0; d < guarded_.size(); ++d) {
      const Size border = lower ? Size(0) : extent_of(static_cast<int>(d));
      if (!same(*index, source_.indices[d]) || !(bound->offset == border)) continue;
      guarded_[d] = true;
      return true;
    }
    return false;
  }

  static const Axis* find(const std::vector<Axis>& axes, int variable) {
    const auto it = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return variable_of(a) == variable; });
    return it == axes.end() ? nullptr : &*it;
  }

  /// index = o * stride + k * dilation - before is a window; a plain variable is left for later.
  std::string read_index(int d) {
    const Affine& index = source_.indices[d];
    const Axis *output = nullptr, *kernel = nullptr;
    int others = 0;
    for (const auto& [variable, coefficient] : index.coefficients) {
      const Axis* row = find(rows_, variable);
      const Axis* depth = find(depth_, variable);
      if (row && !output) {
        output = row;
      } else if (depth && !kernel) {
        kernel = depth;
      } else {
        ++others;
      }
    }
    const bool strided = output && !index.coefficient(variable_of(*output)).is(1);
    const bool slides = guarded_[d] || (output && kernel) || (strided && !kernel && others == 0);
    if (!slides) return "";
    if (others > 0) return "an index of the source has other parts than output and kernel position";
    return add_window(d, output, kernel);
  }

  std::string add_window(int d, const Axis* output, const Axis* kernel) {
    const Affine& index = source_.indices[d];
    MatchedProduct::Window w;
    w.dimension = d;
    w.window.input = extent_of(d);
    w.window.before = Size(0) - index.offset;
    if (!w.window.before.is_non_negative()) return "a window begins inside its input";
    if (output) {
      const auto stride = index.coefficient(variable_of(*output)).as_constant();
      if (!stride || *stride < 1) return "a stride is not a positive number";
      w.window.stride = *stride;
      w.window.output = output->extent;
      w.output = variable_of(*output);
      std::erase_if(rows_, [&](const Axis& axis) { return variable_of(axis) == w.output; });
    } else {
      w.window.output = 1;
    }
    if (kernel) {
      const auto dilation = index.coefficient(variable_of(*kernel)).as_constant();
      if (!dilation || *dilation < 1) return "a dilation is not a positive number";
      w.window.dilation = *dilation;
      w.window.kernel = kernel->extent;
      w.kernel = variable_of(*kernel);
      std::erase_if(depth_, [&](const Axis& axis) { return variable_of(axis) == w.kernel; });
    }
    product_.windows.push_back(w);
    return "";
  }

  /// Every variable of a window belongs to one dimension of the source.
  bool windows_are_separate() const {
    for (const auto& window : product_.windows) {
      for (const int variable : {window.output, window.kernel}) {
        int uses = 0;
        for (const Affine& index : source_.indices) uses += variable >= 0 && index.coefficients.contains(variable);
        if (uses > 1) return false;
      }
    }
    return true;
  }

  /// Channels, groups and images, and spatial axes along which nothing slides.
  std::string place_rest() {
    if (product_.windows.empty()) return "no axis of the source slides";
    if (!windows_are_separate()) return "a variable of a window is used twice";
    const auto results = results_of(accesses_);
    depth_ = joined(depth_, {&source_, &weights_});
    batch_ = joined(batch_, with(with(results, source_), weights_));
    columns_ = joined(columns_, with(results, weights_));
    rows_ = joined(rows_, with(results, source_));
    if (depth_.size() > 1) return "the input channels are several axes";
    if (columns_.size() > 1) return "the output channels are several axes";
    if (batch_.size() > 1) return "the groups are several axes";
    if (!depth_.empty()) product_.depth = dimension_of(depth_[0]);
    if (!columns_.empty()) product_.columns = dimension_of(columns_[0]);
    if (!batch_.empty()) product_.batch.push_back(dimension_of(batch_[0]));
    if (!rows_.empty()) product_.rows = dimension_of(rows_[0]);
    for (size_t r = 1; r < rows_.size(); ++r) add_still_window(rows_[r]);
    return groups_are_regular(results) ? "" : "the groups of channels do not lie side by side";
  }

  void add_still_window(const Axis& axis) {
    MatchedProduct::Window w;
    w.window.input = w.window.output = axis.extent;
    w.output = variable_of(axis);
    for (size_t d = 0; d < source_.indices.size(); ++d) {
      if (source_.indices[d].coefficients.contains(w.output)) w.dimension = static_cast<int>(d);
    }
    product_.windows.push_back(w);
  }

  /// Channel c of the whole tensor is channel c % size of group c / size.
  bool groups_are_regular(const std::vector<const TensorAccess*>& results) const {
    if (product_.batch.empty()) return true;
    const int group = product_.batch[0].variable;
    const auto regular = [&](const TensorAccess& access, const Dimension& channel) {
      return channel.variable < 0 || access.stride(group) == access.stride(channel.variable) * channel.extent;
    };
    return regular(source_, product_.depth) &&
           std::all_of(results.begin(), results.end(),
                       [&](const TensorAccess* access) { return regular(*access, product_.columns); });
  }

  const Region& region_;
  const MatchedAccesses& accesses_;
  const TensorAccess &source_, &weights_;
  std::vector<Axis> rows_, columns_, batch_, depth_;
  std::vector<bool> guarded_;
  MatchedProduct product_;
};

/// A product of matrices: rows and columns are the innermost joined axes, the others are batch axes.
std::string match_matrices(const Contraction& c, const MatchedAccesses& accesses, MatchedProduct& product) {
  for (const TensorAccess* operand : {&accesses.source, &accesses.weights}) {
    if (operand->guard) return "an operand is guarded";
  }
  const auto results = results_of(accesses);
  const auto depth = joined(c.k, {&accesses.source, &accesses.weights});
  if (depth.size() != 1) return "the sum runs over several axes";
  const auto rows = joined(c.m, with(results, accesses.source));
  const auto columns = joined(c.n, with(results, accesses.weights));
  const auto batch = joined(c.batch, with(with(results, accesses.source), accesses.weights));
  product.depth = dimension_of(depth[0]);
  for (const auto* axes : {&batch, &rows, &columns}) {
    const size_t outer = axes == &batch || axes->empty() ? axes->size() : axes->size() - 1;
    for (size_t i = 0; i < outer; ++i) product.batch.push_back(dimension_of((*axes)[i]));
  }
  if (!rows.empty()) product.rows = dimension_of(rows.back());
  if (!columns.empty()) product.columns = dimension_of(columns.back());
  constexpr size_t kMostBatchAxes = 8;
  return product.batch.size() > kMostBatchAxes ? "there are too many batch axes" : "";
}

/// Whether positions that are summed overlap from one result to the next, as in a convolution.
bool overlaps(const TensorAccess& access, const Contraction& c) {
  for (const Affine& index : access.indices) {
    for (const Axis& axis : c.k) {
      if (!index.coefficients.contains(variable_of(axis)) || index.coefficients.size() == 1) continue;
      const Size whole = index.coefficient(variable_of(axis)) * axis.extent;
      for (const auto& [variable, coefficient] : index.coefficients) {
        if (variable != variable_of(axis) && !(coefficient == whole)) return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string match_product(const Region& region, const Contraction& contraction, MatchedAccesses& accesses,
                          MatchedProduct& product) {
  MatchedProduct matrices;
  const std::string no_matrices = match_matrices(contraction, accesses, matrices);
  const bool plain = no_matrices.empty() && matrices.batch.size() <= contraction.batch.size() &&
                     !overlaps(accesses.source, contraction) && !overlaps(accesses.weights, contraction);
  std::string no_convolution;
  for (const bool swapped : {false, true}) {
    if (plain) break;
    const std::string reason = ConvolutionMatcher(region, contraction, accesses, swapped).run(product);
    if (reason.empty()) {
      if (swapped) std::swap(accesses.source, accesses.weights);
      return "";
    }
    // The operand with the guard is the source, if any.
    if (no_convolution.empty() || (swapped ? accesses.weights : accesses.source).guard) no_convolution = reason;
  }
  if (!no_matrices.empty()) return fmt::format("{}; as a convolution: {}", no_matrices, no_convolution);
  product = std::move(matrices);
  return "";
}

}  // namespace graft
