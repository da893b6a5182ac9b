// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft.nchwc, which ONNX Runtime's optimiser writes for convolutions: their tensors keep blocks
// of 8 or 16 channels together in memory. Here these are tensors of whole blocks of channels in the common order, so
// that only weights, which lie in the file as blocks, are arranged anew.
#include "import/onnx/contrib_blocked.h"

#include <set>

#include "import/onnx/contrib_call.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

/// The axes of [batch, spatial..., channels] behind one another as [batch, channels, spatial...], or back.
std::vector<int64_t> channels_moved(int64_t rank, bool first) {
  std::vector<int64_t> axes = {0};
  if (first) axes.push_back(rank - 1);
  for (int64_t a = first ? 1 : 2; a < (first ? rank - 1 : rank); ++a) axes.push_back(a);
  if (!first) axes.push_back(1);
  return axes;
}

int64_t block_of(ContribCall& call) {
  const int64_t block = call.integer(kChannelBlock, 0);
  if (block < 1) call.reject("blocks of channels need a positive size");
  return block;
}

void expand_reorder_input(ContribCall& call) {
  const int64_t block = block_of(call);
  ValueId x = call.in(0);
  if (call.integer("channels_last", 0) != 0) x = call.transpose(x, channels_moved(call.rank(x), true));
  const int64_t missing = (block - call.constant_size(x, 1) % block) % block;
  if (missing != 0) {
    std::vector<int64_t> pads(static_cast<size_t>(2 * call.rank(x)));
    pads[static_cast<size_t>(call.rank(x)) + 1] = missing;
    x = call.emit("Pad", {x, call.integers(pads)});
  }
  call.out(0, x);
}

void expand_reorder_output(ContribCall& call) {
  ValueId x = call.in(0);
  const int64_t channels = call.integer("channels", 0);
  if (channels < 1) call.reject("its attribute 'channels' should be positive");
  if (channels != call.constant_size(x, 1)) {
    x = call.emit("Slice", {x, call.integers({0}), call.integers({channels}), call.integers({1})});
  }
  if (call.integer("channels_last", 0) != 0) x = call.transpose(x, channels_moved(call.rank(x), false));
  call.out(0, x);
}

/// [results / block][channels / block][places...][block][block of results] as weights of [results, channels,
/// places...]; of depthwise convolutions and of those of a network's few channels, these are not in blocks.
ValueId plain_weights(ContribCall& call, ValueId w, int64_t block) {
  const int64_t rank = call.rank(w);
  std::vector<int64_t> sizes, dims;
  for (int64_t a = 0; a < rank; ++a) dims.push_back(call.constant_size(w, static_cast<int>(a)));
  const bool blocks = dims[1] % block == 0;
  if (dims[0] % block != 0) call.reject("its weights are no whole blocks of channels; optimise the model again");
  sizes = {dims[0] / block, blocks ? dims[1] / block : dims[1]};
  sizes.insert(sizes.end(), dims.begin() + 2, dims.end());
  if (blocks) sizes.push_back(block);
  sizes.push_back(block);
  std::vector<int64_t> axes = {0, static_cast<int64_t>(sizes.size()) - 1, 1};
  if (blocks) axes.push_back(rank);
  for (int64_t a = 2; a < rank; ++a) axes.push_back(a);
  return call.emit("Reshape", {call.transpose(call.emit("Reshape", {w, call.integers(sizes)}), axes),
                               call.integers(dims)});
}

void expand_conv(ContribCall& call) {
  const int64_t block = block_of(call);
  if (call.rank(call.in(1)) < 3) call.reject("its weights have too few axes");
  const ValueId w = plain_weights(call, call.in(1), block);
  ValueId y = call.emit("Conv", {call.in(0), w, call.maybe(2)}, convolution_attributes(call));
  if (call.has(3)) y = call.emit("Add", {y, call.in(3)});
  call.out(0, activated(call, y, call.text("activation", ""), call.reals("activation_params")));
}

void expand_pool(ContribCall& call, std::string_view op) {
  Attributes attributes = convolution_attributes(call);
  for (const std::string_view name : {"ceil_mode", "count_include_pad"}) {
    if (call.has(name)) attributes[std::string(name)] = call.integer(name, 0);
  }
  call.out(0, call.emit(op, {call.in(0)}, attributes));
}
void expand_max_pool(ContribCall& call) {
  if (call.wants(1)) call.unsupported("the places of the maxima");
  expand_pool(call, "MaxPool");
}
void expand_average_pool(ContribCall& call) { expand_pool(call, "AveragePool"); }
void expand_global_max_pool(ContribCall& call) { call.out(0, call.emit("GlobalMaxPool", {call.in(0)})); }
void expand_global_average_pool(ContribCall& call) { call.out(0, call.emit("GlobalAveragePool", {call.in(0)})); }

void expand_upsample(ContribCall& call) {
  std::vector<float> scales;
  for (const int64_t scale : call.integers("scales")) scales.push_back(static_cast<float>(scale));
  if (static_cast<int64_t>(scales.size()) != call.rank(call.in(0))) call.reject("it needs a scale for each axis");
  const std::string mode = call.text("mode", "nearest");
  Attributes attributes = {
      {"mode", mode},
      {"coordinate_transformation_mode", call.text("coordinate_transformation_mode", "asymmetric")}};
  if (mode == "nearest") attributes["nearest_mode"] = std::string("floor");
  call.out(0, call.emit("Resize", {call.in(0), kNoValue, call.floats(scales)}, attributes));
}

}  // namespace

int64_t channel_block(const graft_onnx::GraphProto& graph) {
  std::set<std::string_view> weights;
  for (const auto& node : graph.node()) {
    if (node.domain() == kBlockedDomain && node.op_type() == "Conv" && node.input_size() > 1) {
      weights.insert(node.input(1));
    }
  }
  for (const auto& tensor : graph.initializer()) {
    if (weights.count(tensor.name()) && tensor.dims_size() > 0 && tensor.dims(0) % 16 != 0) return 8;
  }
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 8;
#endif
}

std::vector<ContribOperator> contrib_blocked() {
  const std::string_view block = kChannelBlock;
  std::vector<ContribOperator> all = {
      {"ReorderInput", 1, {block, "channels_last"}, expand_reorder_input, "A tensor as whole blocks of channels."},
      {"ReorderOutput", 1, {block, "channels", "channels_last"}, expand_reorder_output,
       "The tensor that blocks of channels are."},
      {"Conv", 2,
       {"activation", "activation_params", "auto_pad", block, "dilations", "group", "kernel_shape", "pads", "strides"},
       expand_conv, "Conv of blocks of channels, with a residual and an activation."},
      {"MaxPool", 1,
       {"auto_pad", block, "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
       expand_max_pool, "MaxPool of blocks of channels."},
      {"AveragePool", 1,
       {"auto_pad", block, "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"},
       expand_average_pool, "AveragePool of blocks of channels."},
      {"GlobalMaxPool", 1, {block}, expand_global_max_pool, "GlobalMaxPool of blocks of channels."},
      {"GlobalAveragePool", 1, {block}, expand_global_average_pool, "GlobalAveragePool of blocks of channels."},
      {"Upsample", 1, {block, "coordinate_transformation_mode", "mode", "scales"}, expand_upsample,
       "Resize of blocks of channels."}};
  for (ContribOperator& op : all) op.domain = kBlockedDomain;
  return all;
}

}  // namespace graft
