// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/convolution_form.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cudnn {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorKind::kUnsupported, reason, "cuDNN"); }

/// A dimension of extent 1 has no stride of its own: it gets the one of a dense tensor with its channels last, or first
/// where they lie so, by which cuDNN recognises layouts.
void set_unit_strides(TensorForm& tensor) {
  std::vector<size_t> order;  // innermost first
  for (size_t d = tensor.extents.size(); d-- > 2;) order.push_back(d);
  const bool last = tensor.extents[1] == 1 || tensor.strides[1] == 1;
  order.insert(last ? order.begin() : order.end(), 1);
  order.push_back(0);
  int64_t dense = 1;
  for (const size_t d : order) {
    if (tensor.extents[d] == 1) tensor.strides[d] = dense;
    dense = tensor.strides[d] * tensor.extents[d];
  }
}

class FormMaker {
 public:
  explicit FormMaker(const LibraryCall& call) : call_(call), groups_(call.batch.size()) {}

  ConvolutionForm run() {
    if (!call_.is_convolution()) refuse("it does convolutions and attention only");
    form_.type = call_.type;
    form_.tf32 = call_.tf32;
    form_.source = image(call_.source, CallRole::kSource, 0);
    form_.weights = weights();
    form_.result = image(call_.result, CallRole::kResult, 2);
    for (const CallWindow& window : call_.windows) add(window);
    int buffer = 3;
    for (const PostOperation& post : call_.posts) {
      add(post, buffer);
      if (info(post.kind).operand) ++buffer;
    }
    order_operations();
    while (form_.strides.size() < 2) add_position();
    for (TensorForm* tensor : {&form_.source, &form_.weights, &form_.result}) set_unit_strides(*tensor);
    for (PointwiseForm& operation : form_.operations) {
      if (operation.kind == Pointwise::kAdd) set_unit_strides(operation.operand);
    }
    return std::move(form_);
  }

 private:
  /// Channels of all groups lie one after the other.
  TensorForm image(const CallOperand& operand, CallRole role, int buffer) const {
    const std::vector<Size> extents = extents_of(call_, role);
    TensorForm tensor{.buffer = buffer, .type = call_.type, .offset = operand.offset.constant()};
    const auto dimension = [&](const Size& extent, const Size& stride) {
      tensor.extents.push_back(extent.constant());
      tensor.strides.push_back(stride.constant());
    };
    dimension(extents[groups_], operand.strides[groups_]);
    const Size& channels = extents[groups_ + 1];
    const bool by_group = groups_ > 0 && channels.is(1);
    dimension(groups_ > 0 ? extents[0] * channels : channels, operand.strides[by_group ? 0 : groups_ + 1]);
    for (size_t d = groups_ + 2; d < extents.size(); ++d) dimension(extents[d], operand.strides[d]);
    return tensor;
  }

  TensorForm weights() const {
    const CallOperand& operand = call_.weights;
    TensorForm tensor{.buffer = 1, .type = call_.type, .offset = operand.offset.constant()};
    const int64_t groups = groups_ > 0 ? call_.batch[0].constant() : 1;
    const int64_t inputs = call_.depth.constant(), outputs = call_.columns.constant();
    tensor.extents = {groups * outputs, inputs};
    for (const CallWindow& window : call_.windows) tensor.extents.push_back(window.kernel.constant());
    tensor.strides.resize(tensor.extents.size());
    if (operand.panel > 0) {
      if (operand.panel != 1) refuse("weights in panels of several columns");
      int64_t dense = 1;  // [outputs][kernel...][inputs]
      tensor.strides[1] = 1;
      dense *= inputs;
      for (size_t d = tensor.extents.size(); d-- > 2;) {
        tensor.strides[d] = dense;
        dense *= tensor.extents[d];
      }
      tensor.strides[0] = dense;
      return tensor;
    }
    const auto stride = [&](size_t dimension) { return operand.strides[dimension].constant(); };
    const bool by_group = groups_ > 0 && outputs == 1;
    tensor.strides[0] = stride(by_group ? 0 : groups_ + 1);
    if (groups > 1 && outputs > 1 && stride(0) != outputs * stride(groups_ + 1)) {
      refuse("the weights of its groups do not lie side by side");
    }
    tensor.strides[1] = stride(groups_);
    for (size_t d = 2; d < tensor.extents.size(); ++d) tensor.strides[d] = stride(groups_ + d);
    return tensor;
  }

  void add(const CallWindow& window) {
    const int64_t reach = (window.kernel.constant() - 1) * window.dilation + 1;
    const int64_t end = (window.output.constant() - 1) * window.stride + reach;
    const int64_t before = window.before.constant();
    const int64_t after = std::max<int64_t>(0, end - window.input.constant() - before);
    form_.strides.push_back(window.stride);
    form_.dilations.push_back(window.dilation);
    form_.before.push_back(before);
    form_.after.push_back(after);
  }

  void add(const PostOperation& post, int buffer) {
    PointwiseForm operation;
    if (post.kind == PostKind::kAdd) {
      operation.kind = Pointwise::kAdd;
      operation.operand = image(post.operand, CallRole::kResult, buffer);
      TensorForm& tensor = operation.operand;
      for (size_t d = 0; d < tensor.extents.size(); ++d) {
        if (tensor.strides[d] == 0) tensor.extents[d] = 1;
      }
    } else if (post.kind == PostKind::kRelu && post.alpha == 0) {
      operation.kind = Pointwise::kRelu;
    } else if (post.kind == PostKind::kClip && post.alpha == 0 && post.beta > 0 && post.beta < kInfinity) {
      operation = {.kind = Pointwise::kRelu, .operand = {}, .largest = post.beta};
    } else {
      refuse(fmt::format("no operation of it is '{}' here", info(post.kind).name));
    }
    form_.operations.push_back(std::move(operation));
  }

  /// cuDNN's own kernels with a bias and a residual add the residual first; both are terms of one sum. For f32 they
  /// have no activation without a bias, and what else takes one is many times slower than a map of its own.
  void order_operations() {
    auto& operations = form_.operations;
    const auto first_other = std::find_if(operations.begin(), operations.end(),
                                          [](const PointwiseForm& o) { return o.kind != Pointwise::kAdd; });
    std::stable_partition(operations.begin(), first_other, [](const PointwiseForm& o) { return !is_bias(o.operand); });
    const bool bare = first_other == operations.begin() && !operations.empty();
    if (bare && call_.type == DType::kFloat32 && !call_.tf32)
      refuse("it is slow at an activation of f32 without a bias");
  }

  static bool is_bias(const TensorForm& tensor) {
    return std::count(tensor.extents.begin(), tensor.extents.end(), 1) + 1 >=
           static_cast<int64_t>(tensor.extents.size());
  }

  /// Convolutions of one position axis are those of two, the first of which has one position.
  void add_position() {
    const auto widen = [](TensorForm& tensor) {
      tensor.extents.insert(tensor.extents.begin() + 2, 1);
      tensor.strides.insert(tensor.strides.begin() + 2, 0);
    };
    for (TensorForm* tensor : {&form_.source, &form_.weights, &form_.result}) widen(*tensor);
    for (PointwiseForm& operation : form_.operations) {
      if (operation.kind == Pointwise::kAdd) widen(operation.operand);
    }
    for (auto* values : {&form_.strides, &form_.dilations}) values->insert(values->begin(), 1);
    for (auto* values : {&form_.before, &form_.after}) values->insert(values->begin(), 0);
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const LibraryCall& call_;
  size_t groups_;
  ConvolutionForm form_;
};

}  // namespace

ConvolutionForm convolution_form(const LibraryCall& call) { return FormMaker(call).run(); }

}  // namespace graft::cudnn
