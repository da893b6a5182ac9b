// SPDX-License-Identifier: Apache-2.0
// What TensorFlow sees of Graft: the operator GraftEngine.
#include "absl/strings/str_cat.h"
#include "element_types.h"
#include "engine.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graft::tensorflow_host {
namespace {

using tensorflow::DataType;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

/// Sizes that the graph's writer knew; the others are open.
absl::Status infer_shapes(InferenceContext* context) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(context->GetAttr("output_shapes", &shapes));
  for (int i = 0; i < context->num_outputs(); ++i) {
    ShapeHandle shape = context->UnknownShape();
    if (static_cast<size_t>(i) < shapes.size()) {
      TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes[static_cast<size_t>(i)], &shape));
    }
    context->set_output(i, shape);
  }
  return absl::OkStatus();
}

/// Runs the engine of a plan, which it loads when it is made.
class GraftEngineKernel : public tensorflow::OpKernel {
 public:
  explicit GraftEngineKernel(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    std::string device;
    std::vector<DataType> inputs, outputs;
    OP_REQUIRES_OK(construction, construction->GetAttr("device", &device));
    OP_REQUIRES_OK(construction, construction->GetAttr("InT", &inputs));
    OP_REQUIRES_OK(construction, construction->GetAttr("OutT", &outputs));
    const auto plan = def().attr().find("plan");  // where it lies: it may be as large as the weights
    OP_REQUIRES(construction, plan != def().attr().end(), absl::InvalidArgumentError("there is no plan"));
    auto engine = Engine::of(plan->second.s(), device);
    OP_REQUIRES_OK(construction, engine.status());
    OP_REQUIRES_OK(construction, check(inputs, "InT", graft_engine_input_count((*engine)->handle()), [&](size_t i) {
      return graft_engine_input((*engine)->handle(), i)->dtype;
    }));
    OP_REQUIRES_OK(construction, check(outputs, "OutT", graft_engine_output_count((*engine)->handle()), [&](size_t i) {
      return graft_engine_output((*engine)->handle(), i)->dtype;
    }));
    engine_ = *std::move(engine);
  }

  void Compute(tensorflow::OpKernelContext* context) override { OP_REQUIRES_OK(context, engine_->run(*context)); }

 private:
  template <class TypeOf>
  static absl::Status check(const std::vector<DataType>& types, const char* attribute, size_t count,
                            const TypeOf& type_of) {
    bool same = types.size() == count;
    for (size_t i = 0; same && i < count; ++i) same = element_type(types[i]) == type_of(i);
    if (same) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its attribute ", attribute, " is not what its plan has: convert "
                                                   "the graph again"));
  }

  std::shared_ptr<Engine> engine_;
};

}  // namespace

REGISTER_OP("GraftEngine")
    .Input("inputs: InT")
    .Output("outputs: OutT")
    .Attr("InT: list(type) >= 0")
    .Attr("OutT: list(type) >= 1")
    .Attr("plan: string")
    .Attr("device: string = 'cpu'")
    .Attr("output_shapes: list(shape) = []")
    .Attr("contents: string = ''")
    .Attr("nodes: list(string) = []")
    .SetShapeFn(infer_shapes)
    .Doc("An engine of Graft in place of the operators that it is made of (`contents`, by name in `nodes`).");

REGISTER_KERNEL_BUILDER(Name("GraftEngine").Device(tensorflow::DEVICE_CPU), GraftEngineKernel);

}  // namespace graft::tensorflow_host

/// Found in the file before it is loaded, as another version of TensorFlow lacks symbols that it needs.
extern "C" __attribute__((visibility("default"), used)) const char graft_tensorflow_built_for[] =
    "graft_tensorflow built for TensorFlow " GRAFT_TENSORFLOW_VERSION;
