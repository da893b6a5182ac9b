// SPDX-License-Identifier: Apache-2.0
#include "library/match.h"

#include <algorithm>

#include <fmt/format.h>

#include "fuse/contraction.h"
#include "library/libraries.h"
#include "library/match_parts.h"

namespace graft {
namespace {

class LibraryMatcher {
 public:
  LibraryMatcher(const Region& region, const LibrarySchedule& schedule) : region_(region), schedule_(schedule) {}

  std::variant<LibraryMatch, std::string> run() {
    const LibraryInfo* library = find_library(schedule_.library);
    if (const auto reason = match_attention(region_, match_)) {
      if (!library || !library->attention) return fmt::format("{} does no attention", schedule_.library);
      return reason->empty() ? std::variant<LibraryMatch, std::string>(std::move(match_)) : *reason;
    }
    std::string reason = find_contraction();
    if (reason.empty()) reason = read_operands();
    if (reason.empty()) reason = match_product(region_, contraction_, accesses_, product_);
    if (!reason.empty()) return reason;
    match_.layouts.resize(region_.tensors.size());
    reason = make_call();
    if (!reason.empty()) return reason;
    return std::move(match_);
  }

 private:
  std::string find_contraction() {
    if (std::string reason = match_value(region_, stored_); !reason.empty()) return reason;
    const auto found = graft::find_contraction(*stored_.reduce);
    if (!found) return "there is no contraction";
    contraction_ = *found;
    return "";
  }

  std::string read_operands() {
    const DType type = region_.tensors[region_.outputs[0]].type;
    match_.call.type = type;
    const LibraryInfo* library = find_library(schedule_.library);
    match_.call.tf32 = region_.tf32 && type == DType::kFloat32 && library && library->target == TargetKind::kCuda;
    const bool is_half = type == DType::kFloat16 || type == DType::kBFloat16;
    if (type != DType::kFloat32 && !(is_half && library && library->target == TargetKind::kCuda)) {
      return fmt::format("its type is {}, which {} has not", name_of(type), schedule_.library);
    }
    const Contraction& c = contraction_;
    if (c.a->type != DType::kFloat32 || c.b->type != DType::kFloat32) return "it does not sum in f32";
    const auto a = read_access(region_, c.a), b = read_access(region_, c.b);
    if (!a || !b) return "an operand is not a plain tensor";
    for (const auto& operand : {*a, *b}) {
      if (region_.tensors[operand.tensor].type != type) return "its operands and its result have several types";
    }
    accesses_ = {.source = *a, .weights = *b, .result = stored_.result, .posts = {}};
    const std::string reason =
        match_posts(region_, type, without_roundings(stored_.value, type), stored_.product, posts_);
    if (!reason.empty()) return reason;
    for (MatchedPost& post : posts_) {
      if (post.operand) accesses_.posts.push_back(&*post.operand);
    }
    return "";
  }

  std::string make_call() {
    LibraryCall& call = match_.call;
    for (const auto& batch : product_.batch) call.batch.push_back(batch.extent);
    call.rows = product_.rows.extent;
    call.columns = product_.columns.extent;
    call.depth = product_.depth.extent;
    for (const auto& window : product_.windows) call.windows.push_back(window.window);
    call.source = operand(accesses_.source, CallRole::kSource);
    call.result = operand(accesses_.result, CallRole::kResult);
    for (const MatchedPost& matched : posts_) {
      PostOperation post = matched.post;
      if (matched.operand) post.operand = operand(*matched.operand, CallRole::kResult);
      call.posts.push_back(post);
    }
    call.weights = operand(accesses_.weights, CallRole::kWeights);
    if (schedule_.panel == 0) return "";
    call.weights.panel = schedule_.panel;
    call.weights.strides.clear();
    return make_panels();
  }

  int argument_of(int tensor) const {
    const auto& inputs = region_.inputs;
    const auto it = std::find(inputs.begin(), inputs.end(), tensor);
    return static_cast<int>(it - inputs.begin());  // the only output comes after the inputs
  }

  CallOperand operand(const TensorAccess& access, CallRole role) const {
    CallOperand made{.argument = argument_of(access.tensor), .offset = access.offset};
    const auto add = [&](int variable) { made.strides.push_back(variable < 0 ? Size(0) : access.stride(variable)); };
    for (const auto& batch : product_.batch) add(batch.variable);
    const auto& [rows, columns, depth] = std::tie(product_.rows, product_.columns, product_.depth);
    add(role == CallRole::kWeights ? depth.variable : rows.variable);
    add(role == CallRole::kSource ? depth.variable : columns.variable);
    for (size_t w = 0; w < product_.windows.size(); ++w) {
      const auto& window = product_.windows[w];
      if (role == CallRole::kSource) {
        made.strides.push_back(input_stride(access, window));
        // Positions are counted from where the padding begins.
        made.offset = made.offset + window.window.before * made.strides.back();
      } else {
        add(role == CallRole::kWeights ? window.kernel : window.output);
      }
    }
    return made;
  }

  /// Elements between neighbouring positions of a window's input.
  Size input_stride(const TensorAccess& access, const MatchedProduct::Window& window) const {
    Size stride = 1;
    const Shape& shape = region_.tensors[access.tensor].shape;
    for (size_t d = static_cast<size_t>(window.dimension) + 1; d < shape.size(); ++d) stride = stride * shape[d];
    return stride;
  }

  /// The layout of weights in panels: [panel][kernel...][depth][column].
  std::string make_panels() {
    const TensorAccess& weights = accesses_.weights;
    const Shape& shape = region_.tensors[weights.tensor].shape;
    if (!match_.call.is_convolution() && !match_.call.batch.empty()) return "weights in panels have no batch axes";
    tile::PanelLayout layout{.dim = -1, .lanes = schedule_.panel, .keep = 0, .rest = {}};
    std::vector<std::pair<int, int>> rest;  // place, dimension
    for (size_t d = 0; d < weights.indices.size(); ++d) {
      if (!shape[d].is_constant() || !weights.indices[d].offset.is(0)) return "the weights are a part of a tensor";
      const int place = place_of(weights.indices[d], shape[d]);
      if (place == kNowhere || (place == kPanels && layout.dim >= 0)) return "the weights do not lie by columns";
      if (place == kPanels) {
        layout.dim = static_cast<int>(d);
      } else {
        rest.emplace_back(place, static_cast<int>(d));
      }
    }
    if (layout.dim < 0) return "the weights do not lie by columns";
    std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [place, d] : rest) layout.rest.push_back(d);
    match_.layouts[weights.tensor] = layout;
    return "";
  }

  static constexpr int kNowhere = -1, kPanels = -2, kDepth = 1000;

  /// Where a dimension of the weights goes: panels, the number of its window, or the depth, which comes last.
  int place_of(const Affine& index, const Size& extent) const {
    const int column = product_.columns.variable;
    if (column >= 0 && index.coefficients.contains(column)) return is_column_index(index, extent) ? kPanels : kNowhere;
    if (index.coefficients.size() != 1 || !index.coefficients.begin()->second.is(1)) return kNowhere;
    const int variable = index.coefficients.begin()->first;
    if (!product_.batch.empty() && variable == product_.batch[0].variable) return column < 0 ? kPanels : kNowhere;
    for (size_t w = 0; w < product_.windows.size(); ++w) {
      if (variable == product_.windows[w].kernel) return static_cast<int>(w);
    }
    const auto& k = contraction_.k;
    const bool summed =
        std::any_of(k.begin(), k.end(), [&](const Axis& axis) { return axis.variable->variable == variable; });
    return summed ? kDepth : kNowhere;
  }

  /// group * columns + column over all of the dimension, with panels that no group shares.
  bool is_column_index(const Affine& index, const Size& extent) const {
    const auto& [variable, columns] = product_.columns;
    if (!index.coefficient(variable).is(1)) return false;
    if (product_.batch.empty()) return index.coefficients.size() == 1 && extent == columns;
    const Dimension& group = product_.batch[0];
    return index.coefficients.size() == 2 && index.coefficient(group.variable) == columns &&
           columns.is_multiple_of(schedule_.panel) && extent == columns * group.extent;
  }

  using Dimension = MatchedProduct::Dimension;
  const Region& region_;
  const LibrarySchedule& schedule_;
  StoredValue stored_;
  Contraction contraction_;
  MatchedAccesses accesses_;
  std::vector<MatchedPost> posts_;
  MatchedProduct product_;
  LibraryMatch match_;
};

}  // namespace

std::variant<LibraryMatch, std::string> match_library(const Region& region, const LibrarySchedule& schedule) {
  return LibraryMatcher(region, schedule).run();
}

}  // namespace graft
