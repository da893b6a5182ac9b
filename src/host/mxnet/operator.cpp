// SPDX-License-Identifier: Apache-2.0
// The operator that runs an engine in MXNet: its inputs are the engine's and, last, the array with its plan; its
// attributes say what those are for each batch.
#include <string>
#include <unordered_map>
#include <vector>

#include "engine.h"
#include "failure.h"
#include "graft/graft_host.h"
#include "tensor_type.h"

namespace graft::extension {
namespace {

using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;
using Attributes = std::unordered_map<std::string, std::string>;
using Shape = std::vector<unsigned>;

const std::string& attribute(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) throw Failure(std::string("an engine's node has no attribute '") + name + "'");
  return found->second;
}

std::vector<TensorType> types(const Attributes& attributes, const char* name) {
  return parse_tensor_types(attribute(attributes, name));
}

MXReturnValue parse_attributes(const Attributes& attributes, int* inputs, int* outputs) {
  return guarded([&] {
    *inputs = static_cast<int>(types(attributes, "inputs").size());
    *outputs = static_cast<int>(types(attributes, "outputs").size());
  });
}

MXReturnValue infer_types(const Attributes& attributes, std::vector<int>* inputs, std::vector<int>* outputs) {
  return guarded([&] {
    const std::vector<TensorType> taken = types(attributes, "inputs"), given = types(attributes, "outputs");
    for (size_t i = 0; i < inputs->size(); ++i) {
      if (inputs->at(i) != -1 && inputs->at(i) != taken.at(i).code) {
        throw Failure("input " + std::to_string(i) + " of an engine has another type than " + to_text(taken.at(i)) +
                      ", for which it was made: call optimize_for with such data");
      }
      inputs->at(i) = taken.at(i).code;
    }
    for (size_t i = 0; i < outputs->size(); ++i) outputs->at(i) = given.at(i).code;
  });
}

bool is_unknown(unsigned size) { return size == 0 || size == static_cast<unsigned>(-1); }

[[noreturn]] void refuse_shape(size_t input, const Shape& shape, const TensorType& type) {
  std::string text;
  for (const unsigned size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  throw Failure("input " + std::to_string(input) + " of an engine has the shape (" + text + "), it was made for " +
                to_text(type) + ": call optimize_for with such data");
}

/// The batch that an input's known sizes tell, or `batch`. Throws where they do not fit.
int64_t batch_of(size_t input, const Shape& shape, const TensorType& type, int64_t batch) {
  if (shape.empty() && !type.axes.empty()) return batch;
  if (shape.size() != type.axes.size()) refuse_shape(input, shape, type);
  for (size_t i = 0; i < shape.size(); ++i) {
    const Axis& axis = type.axes[i];
    if (is_unknown(shape[i])) continue;
    if (axis.per_batch != 0 && batch < 0) batch = (shape[i] - axis.fixed) / axis.per_batch;
    if (axis.at(std::max<int64_t>(batch, 0)) != shape[i]) refuse_shape(input, shape, type);
  }
  return batch;
}

bool follows_batch(const TensorType& type) {
  for (const Axis& axis : type.axes) {
    if (axis.per_batch != 0) return true;
  }
  return false;
}

/// The shape at that batch; empty, which is unknown, where it depends on one that is not known.
Shape shape_at(const TensorType& type, int64_t batch) {
  Shape shape;
  if (batch < 0 && follows_batch(type)) return shape;
  for (const Axis& axis : type.axes) shape.push_back(static_cast<unsigned>(axis.at(std::max<int64_t>(batch, 0))));
  return shape;
}

MXReturnValue infer_shapes(const Attributes& attributes, std::vector<Shape>* inputs, std::vector<Shape>* outputs) {
  return guarded([&] {
    const std::vector<TensorType> taken = types(attributes, "inputs"), given = types(attributes, "outputs");
    int64_t batch = -1;
    for (size_t i = 0; i < inputs->size(); ++i) batch = batch_of(i, inputs->at(i), taken.at(i), batch);
    for (size_t i = 0; i < inputs->size(); ++i) {
      const Shape shape = shape_at(taken.at(i), batch);
      if (!shape.empty()) inputs->at(i) = shape;
    }
    for (size_t i = 0; i < outputs->size(); ++i) outputs->at(i) = shape_at(given.at(i), batch);
  });
}

/// What MXNet keeps of the operator between runs: nothing but the engine, which all uses of its plan share.
class EngineState : public mxnet::ext::CustomStatefulOp {
 public:
  EngineState(std::string device, std::string calibration, bool shares_scratch)
      : device_(std::move(device)), calibration_(std::move(calibration)), shares_scratch_(shares_scratch) {
    ignore_warn = true;
  }
  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                        const mxnet::ext::OpResource& resource) override {
    return guarded([&] {
      if (!learning_ && !calibration_.empty()) find_learning();
      engine_ = learning_ ? learning_ : engine_of(inputs->back(), device_);
      engine_->run(inputs->data(), inputs->size() - 1, *outputs, shares_scratch_ ? &resource : nullptr);
    });
  }

 private:
  /// An engine that learns runs in the process that has made it; elsewhere its plan of fp32 does, which is counted.
  void find_learning() {
    learning_ = named_engine(calibration_);
    if (learning_) return;
    graft_host_count_fallback("an engine that was to become int8, and stays fp32",
                              "the symbol was made by another process, and saved before its calibration had ended: "
                              "call optimize_for with a calibration, or with a calibration_file");
    calibration_.clear();
  }

  std::string device_, calibration_;
  bool shares_scratch_;
  std::shared_ptr<Engine> learning_, engine_;
};

MXReturnValue create_state(const Attributes& attributes, const mxnet::ext::MXContext&, const std::vector<Shape>&,
                           const std::vector<int>, mxnet::ext::CustomStatefulOp** state) {
  return guarded([&] {
    const auto scratch = attributes.find("scratch");
    const auto calibration = attributes.find("calibration");
    *state = mxnet::ext::CustomStatefulOp::create<EngineState>(
        attribute(attributes, "device"), calibration == attributes.end() ? "" : calibration->second,
        scratch != attributes.end() && scratch->second == "mxnet");
  });
}

REGISTER_OP(_graft_engine)
    .setParseAttrs(parse_attributes)
    .setInferType(infer_types)
    .setInferShape(infer_shapes)
    .setCreateOpState(create_state, "cpu");

}  // namespace
}  // namespace graft::extension
