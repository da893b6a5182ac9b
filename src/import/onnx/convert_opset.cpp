// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/convert_opset.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/infer.h"

namespace graft {

void NodeWriter::add(Node node) {
  graph_.add_node(std::move(node));
  infer_node(graph_, static_cast<int>(graph_.nodes.size()) - 1);
  ++added_;
}

ValueId NodeWriter::emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) {
  const ValueId output = graph_.add_value(fmt::format("{}/{}", base_, op), DType::kUndefined);
  add({.name = fmt::format("{}/{}", base_, op),
       .op = std::string(op),
       .attributes = std::move(attributes),
       .inputs = std::move(inputs),
       .outputs = {output}});
  return output;
}

ValueId NodeWriter::integers(const std::vector<int64_t>& values) {
  return graph_.add_constant(base_ + "/integers",
                             TensorData::from_values(DType::kInt64, {static_cast<int64_t>(values.size())}, values));
}

ValueId NodeWriter::integer(int64_t value) {
  return graph_.add_constant(base_ + "/integer", TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
}

ValueId NodeWriter::floats(const std::vector<float>& values) {
  return graph_.add_constant(base_ + "/floats",
                             TensorData::from_values(DType::kFloat32, {static_cast<int64_t>(values.size())}, values));
}

ValueId NodeWriter::scalar_like(double value, ValueId like) {
  const DType type = graph_.value(like).type;
  const bool known = is_float(type) || is_integer(type);
  TensorData data = TensorData::zeros(known ? type : DType::kFloat32, {});
  data.write_double(0, value);
  const ValueId constant = graph_.add_constant(base_ + "/scalar", std::move(data));
  return known ? constant : emit("CastLike", {constant, like});
}

namespace {

/// Rewrites a node in place, or writes its replacement and returns true.
using Convert = bool (*)(Node& node, NodeWriter& writer, int64_t opset);

template <class T>
std::optional<T> take(Node& node, std::string_view name) {
  const auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return std::nullopt;
  auto* value = std::get_if<T>(&it->second);
  GRAFT_USER_CHECK(value, kInvalidModel,
                   fmt::format("the attribute '{}' has the wrong type; export the model again", name),
                   fmt::format("node '{}' ({})", node.name, node.op));
  std::optional<T> result(std::move(*value));
  node.attributes.erase(it);
  return result;
}

[[noreturn]] void unsupported(const Node& node, const std::string& reason) {
  throw Error(ErrorKind::kUnsupported, reason, fmt::format("node '{}' ({})", node.name, node.op));
}

void require_inputs(const Node& node, size_t count) {
  const bool enough = node.inputs.size() >= count &&
                      std::none_of(node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(count),
                                   [](ValueId id) { return id == kNoValue; });
  GRAFT_USER_CHECK(enough, kInvalidModel, fmt::format("it needs {} inputs; export the model again", count),
                   fmt::format("node '{}' ({})", node.name, node.op));
}

void set_input(Node& node, size_t index, ValueId id) {
  if (node.inputs.size() <= index) node.inputs.resize(index + 1, kNoValue);
  node.inputs[index] = id;
}

std::optional<int64_t> rank_of(NodeWriter& writer, ValueId id) {
  const auto& shape = writer.graph().value(id).shape;
  return shape ? std::optional(static_cast<int64_t>(shape->size())) : std::nullopt;
}

std::vector<int64_t> range(int64_t first, int64_t last) {
  std::vector<int64_t> values;
  for (int64_t i = first; i < last; ++i) values.push_back(i);
  return values;
}

ValueId cast_to(NodeWriter& writer, ValueId x, DType type) {
  return writer.emit("Cast", {x}, {{"to", int64_t{onnx_code(type)}}});
}

bool drop_consumed_inputs(Node& node, NodeWriter&, int64_t) {
  node.attributes.erase("consumed_inputs");
  return false;
}

/// Op(a, b, broadcast=1, axis=k) -> Op(a, Unsqueeze(b)): b's axes lie under a's axes k, k + 1, ...
bool align_second_input(Node& node, NodeWriter& writer, int64_t) {
  const bool broadcast = take<int64_t>(node, "broadcast").value_or(0) != 0;
  const auto axis = take<int64_t>(node, "axis");
  if (!broadcast || !axis) return false;
  require_inputs(node, 2);
  const auto rank = rank_of(writer, node.inputs[0]);
  const auto second = rank_of(writer, node.inputs[1]);
  if (!rank || !second) unsupported(node, "broadcasting along an axis needs inputs of known rank");
  const int64_t begin = (*axis < 0 ? *axis + *rank : *axis) + *second;
  if (begin >= *rank) return false;
  GRAFT_USER_CHECK(begin >= *second, kInvalidModel, "the attribute 'axis' is out of range",
                   fmt::format("node '{}' ({})", node.name, node.op));
  const auto axes = range(*second, *second + *rank - begin);
  node.inputs[1] = writer.emit("Unsqueeze", {node.inputs[1], writer.integers(axes)});
  return false;
}

/// PRelu(x[N, C, ...], slope[C]) -> PRelu(x, slope[C, 1, ...])
bool align_slope(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 2);
  const auto rank = rank_of(writer, node.inputs[0]);
  if (!rank || *rank <= 2 || rank_of(writer, node.inputs[1]) != 1) return false;
  node.inputs[1] = writer.emit("Unsqueeze", {node.inputs[1], writer.integers(range(1, *rank - 1))});
  return false;
}

/// BatchNormalization(spatial=0): each element has its own statistics -> element-wise operators.
bool expand_per_element_normalization(Node& node, NodeWriter& writer) {
  require_inputs(node, 5);
  const double epsilon = take<double>(node, "epsilon").value_or(1e-5);
  const ValueId x = node.inputs[0];
  const ValueId variance = writer.emit("Add", {node.inputs[4], writer.scalar_like(epsilon, x)});
  const ValueId centred = writer.emit("Sub", {x, node.inputs[3]});
  const ValueId unit = writer.emit("Div", {centred, writer.emit("Sqrt", {variance})});
  const ValueId scaled = writer.emit("Mul", {unit, node.inputs[1]});
  writer.add({.name = node.name, .op = "Add", .inputs = {scaled, node.inputs[2]}, .outputs = {node.outputs[0]}});
  return true;
}

/// BatchNormalization of opsets with training outputs -> inference with one output
bool keep_inference_output(Node& node, NodeWriter& writer, int64_t opset) {
  node.attributes.erase("is_test");
  const bool spatial = opset >= 9 || take<int64_t>(node, "spatial").value_or(1) != 0;
  if (!node.outputs.empty()) node.outputs.resize(1);
  return !spatial && !node.outputs.empty() && expand_per_element_normalization(node, writer);
}

/// Clip(x, min=a, max=b) -> Clip(x, a, b)
bool move_bounds_to_inputs(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 1);
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double low = take<double>(node, "min").value_or(-kLargest);
  const double high = take<double>(node, "max").value_or(kLargest);
  set_input(node, 1, writer.scalar_like(low, node.inputs[0]));
  set_input(node, 2, writer.scalar_like(high, node.inputs[0]));
  return false;
}

bool set_concat_axis(Node& node, NodeWriter&, int64_t) {
  node.attributes.emplace("axis", int64_t{1});
  return false;
}

/// DFT(x, length, axis=k) -> DFT(x, length, k)
bool move_dft_axis_to_input(Node& node, NodeWriter& writer, int64_t) {
  set_input(node, 2, writer.integer(take<int64_t>(node, "axis").value_or(1)));
  return false;
}

/// Dropout(x, ratio=r) -> Dropout(x): at inference nothing is dropped
bool drop_ratio(Node& node, NodeWriter& writer, int64_t opset) {
  node.attributes.erase("ratio");
  node.attributes.erase("is_test");
  require_inputs(node, 1);
  if (opset >= 10 || node.outputs.size() < 2 || node.outputs[1] == kNoValue) return false;
  // The mask once had the type of the data.
  const ValueId mask = writer.graph().add_value(node.name + "/mask", DType::kBool);
  const ValueId old_mask = std::exchange(node.outputs[1], mask);
  const ValueId x = node.inputs[0];
  writer.add(node);
  writer.add({.name = node.name + "/CastLike", .op = "CastLike", .inputs = {mask, x}, .outputs = {old_mask}});
  return true;
}

/// GridSample(mode=bilinear) -> GridSample(mode=linear)
bool rename_grid_mode(Node& node, NodeWriter&, int64_t) {
  const std::string mode = take<std::string>(node, "mode").value_or("bilinear");
  node.attributes["mode"] = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  return false;
}

/// GroupNormalization with a scale and bias per group -> per channel, each repeated over the group's channels
bool repeat_group_parameters(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 3);
  const auto it = node.attributes.find("num_groups");
  const auto* groups = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  GRAFT_USER_CHECK(groups && *groups > 0, kInvalidModel, "the attribute 'num_groups' is missing or not positive",
                   fmt::format("node '{}' ({})", node.name, node.op));
  const ValueId channels = writer.emit("Shape", {node.inputs[0]}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  const ValueId group = writer.integers({*groups});
  const ValueId each = writer.emit("Div", {channels, group});
  const ValueId shape = writer.emit("Concat", {group, each}, {{"axis", int64_t{0}}});
  for (const size_t k : {1, 2}) {
    const ValueId column = writer.emit("Unsqueeze", {node.inputs[k], writer.integers({1})});
    const ValueId repeated = writer.emit("Expand", {column, shape});
    node.inputs[k] = writer.emit("Reshape", {repeated, writer.integers({-1})});
  }
  return false;
}

bool drop_output_sequence(Node& node, NodeWriter&, int64_t) {
  node.attributes.erase("output_sequence");
  return false;
}

bool rename_paddings(Node& node, NodeWriter&, int64_t) {
  if (auto pads = take<std::vector<int64_t>>(node, "paddings")) node.attributes["pads"] = std::move(*pads);
  return false;
}

/// Pad(x, pads=p, value=v) -> Pad(x, p, v)
bool move_pads_to_inputs(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 1);
  const double value = take<double>(node, "value").value_or(0);
  set_input(node, 1, writer.integers(take<std::vector<int64_t>>(node, "pads").value_or(std::vector<int64_t>())));
  if (value != 0) set_input(node, 2, writer.scalar_like(value, node.inputs[0]));
  return false;
}

/// Op(x, axes=a) -> Op(x, a)
bool move_axes_to_input(Node& node, NodeWriter& writer, int64_t) {
  const auto axes = take<std::vector<int64_t>>(node, "axes");
  if (axes && !axes->empty()) set_input(node, 1, writer.integers(*axes));
  return false;
}

bool move_shape_to_input(Node& node, NodeWriter& writer, int64_t) {
  if (auto shape = take<std::vector<int64_t>>(node, "shape")) set_input(node, 1, writer.integers(*shape));
  return false;
}

/// Upsample(x, scales) -> the Resize of opset 10
bool upsample_to_resize(Node& node, NodeWriter& writer, int64_t opset) {
  if (opset < 9) {
    std::vector<double> scales = take<std::vector<double>>(node, "scales").value_or(std::vector<double>());
    const auto height = take<double>(node, "height_scale");
    const auto width = take<double>(node, "width_scale");
    if (height && width) scales = {1, 1, *height, *width};
    set_input(node, 1, writer.floats({scales.begin(), scales.end()}));
  }
  const std::string mode = take<std::string>(node, "mode").value_or("nearest");
  node.attributes["mode"] = mode == "bilinear" ? "linear" : mode;
  node.op = "Resize";
  return false;
}

/// Resize(x, scales) of opset 10 -> Resize(x, , scales) with the coordinates that it had
bool state_resize_coordinates(Node& node, NodeWriter&, int64_t) {
  require_inputs(node, 2);
  node.inputs = {node.inputs[0], kNoValue, node.inputs[1]};
  node.attributes["coordinate_transformation_mode"] = "asymmetric";
  node.attributes["nearest_mode"] = "floor";
  return false;
}

/// Before opset 13 inputs that do not count had to be given all the same, as empty tensors.
bool drop_empty_resize_inputs(Node& node, NodeWriter& writer, int64_t opset) {
  const auto it = node.attributes.find("coordinate_transformation_mode");
  const auto* mode = it == node.attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (!mode || *mode != "tf_crop_and_resize") {
    if (node.inputs.size() > 1) node.inputs[1] = kNoValue;
  }
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return false;
  const bool has_sizes = node.inputs.size() > 3 && node.inputs[3] != kNoValue;
  const auto& constant = writer.graph().value(node.inputs[2]).constant;
  const bool empty = constant && constant->element_count() == 0;
  if (empty || (has_sizes && opset < 13)) node.inputs[2] = kNoValue;
  return false;
}

/// Pooling without padding, as ONNX Runtime and shape inference count its windows: those of explicit pads of 0.
bool state_no_pads(Node& node, NodeWriter&, int64_t) {
  const auto it = node.attributes.find("auto_pad");
  const auto* mode = it == node.attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (!mode || *mode != "VALID") return false;
  node.attributes.erase(it);
  node.attributes.erase("pads");
  return false;
}

/// The sizes of a Resize's input along its axes, in a type.
ValueId sizes_to_resize(const Node& node, NodeWriter& writer, DType type) {
  ValueId sizes = writer.emit("Shape", {node.inputs[0]});
  const auto axes = node.attributes.find("axes");
  const auto* chosen = axes == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&axes->second);
  if (chosen) sizes = writer.emit("Gather", {sizes, writer.integers(*chosen)});
  return cast_to(writer, sizes, type);
}

/// Resize(x, , scales) -> Resize(x, , scales, floor(sizes of x * scales)), where only the run knows the scales
bool add_sizes_to_scales(Node& node, NodeWriter& writer, int64_t) {
  const bool has_scales = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  const bool has_sizes = node.inputs.size() > 3 && node.inputs[3] != kNoValue;
  if (!has_scales || has_sizes || writer.graph().value(node.inputs[2]).constant) return false;
  const ValueId scaled = writer.emit("Mul", {sizes_to_resize(node, writer, DType::kFloat32), node.inputs[2]});
  set_input(node, 3, cast_to(writer, writer.emit("Floor", {scaled}), DType::kInt64));
  return false;
}

/// Resize(x, , , sizes) that keeps the aspect ratio, the sizes known to the run only -> Resize(x, , scales, sizes) by
/// one scale for all axes
bool share_scale(Node& node, NodeWriter& writer, int64_t) {
  const auto policy = node.attributes.find("keep_aspect_ratio_policy");
  const auto* kept = policy == node.attributes.end() ? nullptr : std::get_if<std::string>(&policy->second);
  const bool has_sizes = node.inputs.size() > 3 && node.inputs[3] != kNoValue;
  if (!kept || !has_sizes || writer.graph().value(node.inputs[3]).constant) return false;
  if (*kept != "not_larger" && *kept != "not_smaller") return false;
  const ValueId before = sizes_to_resize(node, writer, DType::kFloat64);
  const ValueId ratios = writer.emit("Div", {cast_to(writer, node.inputs[3], DType::kFloat64), before});
  const std::string_view extreme = *kept == "not_larger" ? "ReduceMin" : "ReduceMax";
  const ValueId scale = writer.emit(extreme, {ratios}, {{"keepdims", int64_t{1}}});
  const ValueId half = writer.scalar_like(0.5, scale);
  const ValueId rounded = writer.emit("Floor", {writer.emit("Add", {writer.emit("Mul", {scale, before}), half})});
  set_input(node, 2, writer.emit("Expand", {scale, writer.emit("Shape", {ratios})}));
  set_input(node, 3, cast_to(writer, rounded, DType::kInt64));
  node.attributes.erase(policy);
  return false;
}

bool set_roi_coordinates(Node& node, NodeWriter&, int64_t) {
  node.attributes["coordinate_transformation_mode"] = "output_half_pixel";
  return false;
}

/// Range of floats that only the run knows -> start + Range(0, ceil((limit - start) / delta)) delta
bool count_steps_of_floats(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 3);
  bool known = true;
  for (size_t i = 0; i < 3; ++i) known = known && writer.graph().value(node.inputs[i]).constant.has_value();
  const DType type = writer.graph().value(node.inputs[0]).type;
  if (known || !is_float(type) || node.outputs.empty() || node.outputs[0] == kNoValue) return false;
  const auto wide = [&](size_t input) { return cast_to(writer, node.inputs[input], DType::kFloat64); };
  const ValueId start = wide(0), delta = wide(2);
  const ValueId steps = writer.emit("Ceil", {writer.emit("Div", {writer.emit("Sub", {wide(1), start}), delta})});
  const ValueId count = cast_to(writer, steps, DType::kInt64);
  const ValueId integers = writer.emit("Range", {writer.integer(0), count, writer.integer(1)});
  const ValueId numbers = cast_to(writer, integers, DType::kFloat64);
  const ValueId values = writer.emit("Add", {start, writer.emit("Mul", {numbers, delta})});
  writer.add({.name = node.name,
              .op = "Cast",
              .attributes = {{"to", int64_t{onnx_code(type)}}},
              .inputs = {values},
              .outputs = {node.outputs[0]}});
  return true;
}

/// The graph of a sample: `scan`, a Scan of opset 9 whose inputs are numbers of the graph's own inputs, over sequences
/// that end after the sample's length, where there is one; what it collects then is filled up with zeros.
std::shared_ptr<const Graph> sample_graph(Node scan, size_t states, size_t own, bool has_lengths, const Graph& around,
                                          const std::vector<ValueId>& given) {
  auto graph = std::make_shared<Graph>();
  graph->name = "sample";
  graph->opsets = around.opsets;
  for (const ValueId id : given) {
    const Value& outer = around.value(id);
    graph->inputs.push_back(graph->add_value(outer.name + "/sample", outer.type));
  }
  NodeWriter writer(*graph, scan.name);
  ValueId end = kNoValue, missing = kNoValue;
  for (ValueId& id : scan.inputs) id = graph->inputs[static_cast<size_t>(id)];
  if (has_lengths) {
    end = writer.emit("Unsqueeze", {graph->inputs[own], writer.integers({0})});
    const ValueId all = writer.emit("Shape", {scan.inputs[states]}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    missing = writer.emit("Concat", {writer.integers({0}), writer.emit("Sub", {all, end})}, {{"axis", int64_t{0}}});
  }
  for (size_t k = states; has_lengths && k < own; ++k) {
    const ValueId first = writer.integers({0});
    scan.inputs[k] = writer.emit("Slice", {scan.inputs[k], first, end, first});
  }
  const size_t results = scan.outputs.size();
  for (size_t k = 0; k < results; ++k) {
    scan.outputs[k] = graph->add_value(fmt::format("{}/result_{}", scan.name, k), DType::kUndefined);
  }
  graph->outputs = scan.outputs;
  writer.add(std::move(scan));
  for (size_t k = states; has_lengths && k < results; ++k) {
    graph->outputs[k] = writer.emit("Pad", {graph->outputs[k], missing, kNoValue, writer.integers({0})});
  }
  return graph;
}

/// Scan(lengths, states, sequences), of samples -> Scan(states, sequences, lengths) along the batch, whose body is a
/// Scan of a sample.
bool scan_samples(Node& node, NodeWriter& writer, int64_t) {
  const auto scanned = static_cast<size_t>(std::max<int64_t>(take<int64_t>(node, "num_scan_inputs").value_or(0), 0));
  const auto directions = take<std::vector<int64_t>>(node, "directions");
  const auto body = take<std::shared_ptr<const Graph>>(node, "body");
  const size_t given = own_input_count(node);
  const bool fits = body && scanned > 0 && given > scanned && (*body)->inputs.size() + 1 == node.inputs.size() &&
                    (*body)->outputs.size() >= node.outputs.size();
  GRAFT_USER_CHECK(fits, kInvalidModel, "its graph or num_scan_inputs does not fit its inputs; export the model again",
                   fmt::format("node '{}' ({})", node.name, node.op));
  const size_t own = given - 1, states = own - scanned;
  const ValueId lengths = node.inputs[0];
  const auto captured = node.inputs.begin() + static_cast<std::ptrdiff_t>(given);
  std::vector<ValueId> inputs(node.inputs.begin() + 1, captured);
  if (lengths != kNoValue) inputs.push_back(lengths);
  const size_t own_outer = inputs.size();
  inputs.insert(inputs.end(), captured, node.inputs.end());
  const auto captures = static_cast<int64_t>(inputs.size() - own_outer);

  Node inner{.name = node.name + "/sample", .op = "Scan", .outputs = node.outputs};
  inner.attributes = {{"body", *body},
                      {"captures", std::vector<int64_t>{captures}},
                      {"num_scan_inputs", static_cast<int64_t>(scanned)}};
  if (directions) inner.attributes["scan_input_directions"] = *directions;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (k < own || k >= own_outer) inner.inputs.push_back(static_cast<ValueId>(k));
  }
  node.attributes["body"] = sample_graph(std::move(inner), states, own, lengths != kNoValue, writer.graph(), inputs);
  node.attributes["captures"] = std::vector<int64_t>{captures};
  node.attributes["num_scan_inputs"] = static_cast<int64_t>(own_outer);
  node.inputs = std::move(inputs);
  return false;
}

bool rename_scatter(Node& node, NodeWriter&, int64_t) {
  node.op = "ScatterElements";
  return false;
}

bool set_selu_defaults(Node& node, NodeWriter&, int64_t) {
  node.attributes.emplace("alpha", double{1.6732f});
  node.attributes.emplace("gamma", double{1.0507f});
  return false;
}

/// Slice(x, starts=s, ends=e, axes=a) -> Slice(x, s, e, a)
bool move_slice_to_inputs(Node& node, NodeWriter& writer, int64_t) {
  using List = std::vector<int64_t>;
  const auto axes = take<List>(node, "axes");
  set_input(node, 1, writer.integers(take<List>(node, "starts").value_or(List())));
  set_input(node, 2, writer.integers(take<List>(node, "ends").value_or(List())));
  if (axes && !axes->empty()) set_input(node, 3, writer.integers(*axes));
  return false;
}

/// Softmax over all axes from `axis` on -> Reshape(Softmax(Flatten(x)), Shape(x)), or simply the last axis
bool flatten_softmax(Node& node, NodeWriter& writer, int64_t) {
  require_inputs(node, 1);
  const int64_t axis = take<int64_t>(node, "axis").value_or(1);
  const ValueId x = node.inputs[0];
  node.attributes["axis"] = int64_t{-1};
  const auto rank = rank_of(writer, x);
  if (axis == -1 || (rank && axis == *rank - 1) || node.outputs.empty()) return false;
  const ValueId flat = writer.emit("Flatten", {x}, {{"axis", axis}});
  const ValueId result = writer.emit(node.op, {flat}, node.attributes);
  const ValueId shape = writer.emit("Shape", {x});
  writer.add({.name = node.name,
              .op = "Reshape",
              .attributes = {{"allowzero", int64_t{1}}},
              .inputs = {result, shape},
              .outputs = {node.outputs[0]}});
  return true;
}

/// Split(x, split=s) -> Split(x, s)
bool move_split_to_input(Node& node, NodeWriter& writer, int64_t) {
  const auto split = take<std::vector<int64_t>>(node, "split");
  if (split && !split->empty()) set_input(node, 1, writer.integers(*split));
  return false;
}

/// Split(x) -> Split(x, num_outputs=N)
bool state_split_count(Node& node, NodeWriter&, int64_t) {
  if (node.inputs.size() > 1 && node.inputs[1] != kNoValue) return false;
  node.attributes["num_outputs"] = static_cast<int64_t>(node.outputs.size());
  return false;
}

/// TopK(x, k=n) -> TopK(x, [n])
bool move_k_to_input(Node& node, NodeWriter& writer, int64_t) {
  if (const auto k = take<int64_t>(node, "k")) set_input(node, 1, writer.integers({*k}));
  return false;
}

bool refuse_old_tile(Node& node, NodeWriter&, int64_t) {
  unsupported(node, "the Tile of opset 1 is not converted; export the model with opset 6 or newer");
}

/// One change of an operator's meaning.
struct Conversion {
  std::string_view op;  ///< "*" for every operator
  int64_t before;       ///< applies to nodes of an older opset than this
  Convert convert;
};

// In order of application: a conversion sees what those above it made.
constexpr Conversion kConversions[] = {
    {"*", 6, drop_consumed_inputs},
    {"Add", 7, align_second_input},
    {"Sub", 7, align_second_input},
    {"Mul", 7, align_second_input},
    {"Div", 7, align_second_input},
    {"Pow", 7, align_second_input},
    {"And", 7, align_second_input},
    {"Or", 7, align_second_input},
    {"Xor", 7, align_second_input},
    {"Equal", 7, align_second_input},
    {"Less", 7, align_second_input},
    {"Greater", 7, align_second_input},
    {"Gemm", 7, align_second_input},
    {"PRelu", 7, align_slope},
    {"AveragePool", 29, state_no_pads},
    {"BatchNormalization", 14, keep_inference_output},
    {"Clip", 11, move_bounds_to_inputs},
    {"Concat", 4, set_concat_axis},
    {"DFT", 20, move_dft_axis_to_input},
    {"Dropout", 12, drop_ratio},
    {"GRU", 7, drop_output_sequence},
    {"GridSample", 20, rename_grid_mode},
    {"GroupNormalization", 21, repeat_group_parameters},
    {"Hardmax", 13, flatten_softmax},
    {"LSTM", 7, drop_output_sequence},
    {"LogSoftmax", 13, flatten_softmax},
    {"LpPool", 29, state_no_pads},
    {"MaxPool", 29, state_no_pads},
    {"Pad", 2, rename_paddings},
    {"Pad", 11, move_pads_to_inputs},
    {"RNN", 7, drop_output_sequence},
    {"Range", 29, count_steps_of_floats},
    {"ReduceL1", 18, move_axes_to_input},
    {"ReduceL2", 18, move_axes_to_input},
    {"ReduceLogSum", 18, move_axes_to_input},
    {"ReduceLogSumExp", 18, move_axes_to_input},
    {"ReduceMax", 18, move_axes_to_input},
    {"ReduceMean", 18, move_axes_to_input},
    {"ReduceMin", 18, move_axes_to_input},
    {"ReduceProd", 18, move_axes_to_input},
    {"ReduceSum", 13, move_axes_to_input},
    {"ReduceSumSquare", 18, move_axes_to_input},
    {"Reshape", 5, move_shape_to_input},
    {"Upsample", 10, upsample_to_resize},
    {"Resize", 11, state_resize_coordinates},
    {"Resize", 29, drop_empty_resize_inputs},
    {"Resize", 29, add_sizes_to_scales},
    {"Resize", 29, share_scale},
    {"RoiAlign", 16, set_roi_coordinates},
    {"Scan", 9, scan_samples},
    {"Scatter", 29, rename_scatter},
    {"Selu", 6, set_selu_defaults},
    {"Slice", 10, move_slice_to_inputs},
    {"Softmax", 13, flatten_softmax},
    {"Split", 13, move_split_to_input},
    {"Split", 18, state_split_count},
    {"Squeeze", 13, move_axes_to_input},
    {"Tile", 6, refuse_old_tile},
    {"TopK", 10, move_k_to_input},
    {"Unsqueeze", 13, move_axes_to_input},
};

}  // namespace

void add_converted(NodeWriter& writer, Node node, int64_t opset) {
  if (node.domain.empty()) {
    for (const Conversion& row : kConversions) {
      if (opset >= row.before || (row.op != "*" && row.op != node.op)) continue;
      if (row.convert(node, writer, opset)) return;
    }
  }
  writer.add(std::move(node));
}

}  // namespace graft
