// SPDX-License-Identifier: Apache-2.0
#include "support/library_case.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "plan/roofline.h"

namespace graft {
namespace {

TensorData random_tensor(const TensorDecl& decl, const Bindings& bindings, Random& random) {
  std::vector<int64_t> extents;
  for (const Size& size : decl.shape) extents.push_back(size.evaluate(bindings));
  std::vector<double> values(static_cast<size_t>(checked_element_count(decl.type, extents)));
  for (double& value : values) value = static_cast<float>(random.uniform(-1, 1));
  TensorData data = TensorData::zeros(decl.type, extents);
  data.write_doubles(0, values);
  return data;
}

Size bytes_of(const Shape& shape, DType type) { return element_count(shape) * Size(bit_width(type) / 8); }

void* allocate_result(void* context, int, DType type, std::span<const int64_t> shape, size_t) {
  auto& result = *static_cast<TensorData*>(context);
  result = TensorData::zeros(type, {shape.begin(), shape.end()});
  return result.mutable_bytes().data();
}

}  // namespace

Region region_of(std::string_view text, std::string_view node) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  FusedProgram program = fuse(graph);
  for (FusedStep& step : program.steps) {
    if (std::find(step.nodes.begin(), step.nodes.end(), node) == step.nodes.end()) continue;
    normalise(step.region);
    return std::move(step.region);
  }
  throw Error(ErrorKind::kInvalidArgument, "the graph has no such node", std::string(node));
}

std::string call_text(const Region& region, std::string_view schedule) {
  const auto match = match_library(region, parse_library_schedule(schedule));
  if (const auto* reason = std::get_if<std::string>(&match)) return "no: " + *reason;
  return print(std::get<LibraryMatch>(match).call);
}

LibraryCase::LibraryCase(Region region, std::string_view schedule, Bindings bindings)
    : region_(std::move(region)), schedule_(parse_library_schedule(schedule)), bindings_(std::move(bindings)) {
  Random random(7);
  for (const int input : region_.inputs) {
    inputs_.push_back(random_tensor(region_.tensors[input], bindings_, random));
  }
}

TensorData LibraryCase::expected() const {
  Bindings bindings = bindings_;
  return interpret(region_, inputs_, bindings)[0];
}

TensorData LibraryCase::packed_weights(size_t input, const tile::PanelLayout& layout) const {
  const TensorDecl& decl = region_.tensors[region_.inputs[input]];
  Bindings none;
  return interpret(tile::packing_region(layout, decl.type, decl.shape), {&inputs_[input], 1}, none)[0];
}

Engine LibraryCase::engine() const {
  const auto match = match_library(region_, schedule_);
  const auto* matched = std::get_if<LibraryMatch>(&match);
  Engine engine;
  EngineStep step;
  step.name = region_.name;
  step.kind = StepKind::kLibrary;
  step.library = schedule_.library;
  step.schedule = print(schedule_);
  step.region = print(region_);
  step.operations = operations_of(region_) + Size(1 << 24);  // always worth sharing
  step.bytes = bytes_of(region_.tensors[region_.outputs[0]].shape, region_.tensors[region_.outputs[0]].type);
  step.input_count = static_cast<int>(region_.inputs.size());
  for (size_t i = 0; i < region_.inputs.size(); ++i) {
    const TensorDecl& decl = region_.tensors[region_.inputs[i]];
    const auto layout = matched ? matched->layouts[region_.inputs[i]] : std::nullopt;
    EngineTensor tensor{
        .name = decl.name, .type = decl.type, .shape = decl.shape, .bytes = bytes_of(decl.shape, decl.type)};
    if (layout) {
      tensor.storage = Storage::kConstant;
      tensor.index = 0;
      tensor.shape = tile::physical_shape(*layout, decl.shape);
      tensor.bytes = bytes_of(tensor.shape, tensor.type);
      engine.constants = {packed_weights(i, *layout)};
    } else {
      tensor.storage = Storage::kInput;
      tensor.index = static_cast<int>(engine.inputs.size());
      engine.inputs.push_back(static_cast<int>(i));
    }
    engine.tensors.push_back(std::move(tensor));
    step.tensors.push_back(static_cast<int>(i));
  }
  const TensorDecl& result = region_.tensors[region_.outputs[0]];
  engine.outputs = {static_cast<int>(engine.tensors.size())};
  step.tensors.push_back(engine.outputs[0]);
  engine.tensors.push_back({.name = result.name,
                            .type = result.type,
                            .shape = result.shape,
                            .bytes = bytes_of(result.shape, result.type),
                            .storage = Storage::kOutput,
                            .index = 0});
  engine.steps.push_back(std::move(step));
  return engine;
}

TensorData LibraryCase::run(int threads, Status& status, LibrarySource source, std::shared_ptr<Device> device) const {
  Session session(load_code(std::make_shared<const Engine>(engine()), std::move(source), std::move(device)), threads);
  std::vector<BufferView> views;
  for (const int tensor : session.engine().inputs) {
    const TensorData& data = inputs_[static_cast<size_t>(tensor)];
    views.push_back({const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}});
  }
  TensorData result;
  std::vector<BufferView> outputs(1);
  status = session.run(views, outputs, allocate_result, &result);
  return result;
}

double LibraryCase::difference(const TensorData& expected, const TensorData& actual) {
  if (expected.shape() != actual.shape()) return HUGE_VAL;
  double largest = 1e-30, apart = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    largest = std::max(largest, std::fabs(expected.read_double(i)));
    const double difference = std::fabs(expected.read_double(i) - actual.read_double(i));
    apart = std::max(apart, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return apart / largest;
}

}  // namespace graft
