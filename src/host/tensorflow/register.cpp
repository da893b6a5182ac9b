// SPDX-License-Identifier: Apache-2.0
// What TensorFlow sees of Graft: the operator GraftEngine.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "built_engines.h"
#include "element_types.h"
#include "engine_set.h"
#include "graft/graft_host.h"
#include "run_engine.h"
#include "segment_model.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graft::tensorflow_host {
namespace {

using tensorflow::DataType;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
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

/// Runs an engine: that of `plan`, or of the tightest of `profiles` that takes the call's shapes, which lie in the node
/// or in `files`; where none does, or it cannot be loaded, the operators that it stands for (`segment`), if the node
/// has them. A node whose engines lie in it, and that has nothing to fall back to, loads them when it is made. One with
/// `build` builds engines of these operators for shapes that come, and with `fallback` runs them where it cannot. One
/// with `calibration` runs the engine of the process that has this name, which learns to be of int8.
class GraftEngineKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit GraftEngineKernel(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    std::vector<DataType> inputs;
    int files = 0, most = 0;
    OP_REQUIRES_OK(construction, construction->GetAttr("device", &device_));
    OP_REQUIRES_OK(construction, construction->GetAttr("InT", &inputs));
    OP_REQUIRES_OK(construction, construction->GetAttr("OutT", &outputs_));
    OP_REQUIRES_OK(construction, construction->GetAttr("N", &files));
    OP_REQUIRES_OK(construction, construction->GetAttr("maximum_cached_engines", &most));
    std::vector<tensorflow::NameAttrList> segment;
    OP_REQUIRES_OK(construction, construction->GetAttr("segment", &segment));
    if (!segment.empty()) segment_ = segment.front();
    OP_REQUIRES_OK(construction, construction->GetAttr("build", &build_));
    OP_REQUIRES_OK(construction, construction->GetAttr("fallback", &falls_back_));
    inputs_ = std::move(inputs), files_ = files, most_ = static_cast<size_t>(std::max(most, 1));
    std::string calibration;
    OP_REQUIRES_OK(construction, construction->GetAttr("calibration", &calibration));
    if (!calibration.empty()) {
      const auto engine = caught([&] { return LoadedEngine::named(calibration, device_); });
      OP_REQUIRES_OK(construction, engine.status());
      OP_REQUIRES_OK(construction, check(**engine));
      learning_ = *engine;
      return;
    }
    if (!build_.empty()) {
      built_ = std::make_unique<BuiltEngines>(most_);
      return;
    }
    if (files_ > 0) return;
    std::vector<PlanSource> plans;
    const auto profiles = def().attr().find("profiles");  // where they lie: they may be as large as the weights
    if (profiles != def().attr().end()) {
      for (const auto& plan : profiles->second.list().s()) plans.push_back({plan});
    }
    const auto plan = def().attr().find("plan");
    if (plan != def().attr().end() && !plan->second.s().empty()) plans.push_back({plan->second.s()});
    OP_REQUIRES(construction, !plans.empty() || has_segment(), absl::InvalidArgumentError("there is no plan"));
    engines_ = std::make_unique<EngineSet>(std::move(plans), device_, most_);
    if (has_segment()) return;
    for (size_t i = 0; i < engines_->size(); ++i) {
      const auto engine = engines_->load(i);
      OP_REQUIRES_OK(construction, engine.status());
      OP_REQUIRES_OK(construction, check(**engine));
    }
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    absl::StatusOr<std::shared_ptr<LoadedEngine>> engine = find_engine(*context);
    while (engine.ok() && *engine) {
      const absl::Status status = run(**engine, *context);
      if (built_ && absl::IsInvalidArgument(status) && built_->refused(**engine)) {
        engine = find_engine(*context);
        continue;
      }
      OP_REQUIRES_OK_ASYNC(context, status, done);
      return done();
    }
    const absl::Status reason = engine.ok() ? why_none(*context) : engine.status();
    OP_REQUIRES_ASYNC(context, has_segment() && falls_back_, reason, done);
    graft_host_count_fallback(name().c_str(), std::string(reason.message()).c_str());
    run_segment(context, std::move(done));
  }

 private:
  bool has_segment() const { return !segment_.name().empty(); }
  int input_count() const { return static_cast<int>(inputs_.size()); }

  Shapes shapes_of(OpKernelContext& context) const {
    Shapes shapes;
    for (int i = 0; i < input_count(); ++i) {
      const auto sizes = context.input(i).shape().dim_sizes();
      shapes.emplace_back(sizes.begin(), sizes.end());
    }
    return shapes;
  }

  /// Null where no engine takes the shapes. A node with a single one and nothing else to run gives that, whose run says
  /// by itself what does not fit.
  absl::StatusOr<std::shared_ptr<LoadedEngine>> find_engine(OpKernelContext& context) {
    if (learning_) return learning_;
    if (built_) return find_built(context);
    EngineSet& engines = engines_of(context);
    if (engines.size() == 1 && !has_segment()) return engines.load(0);
    return engines.find(shapes_of(context));
  }

  absl::StatusOr<std::shared_ptr<LoadedEngine>> find_built(OpKernelContext& context) {
    FunctionLibraryRuntime* const library = context.function_library();
    if (!library) return absl::InternalError("there is no library of functions");
    const SegmentModel model{*library->GetFunctionLibraryDefinition(), segment_, inputs_, outputs_};
    const auto build = [&](const ShapeRanges& ranges) { return model.build(ranges, build_, device_); };
    return caught([&] { return built_->find(shapes_of(context), build); });
  }

  absl::Status run(LoadedEngine& engine, OpKernelContext& context) const {
    TF_RETURN_IF_ERROR(check(engine));
    return run_engine(engine, context, input_count());
  }

  /// Where plans lie in files, these are named by inputs.
  EngineSet& engines_of(OpKernelContext& context) {
    const std::lock_guard lock(mutex_);
    if (!engines_) {
      std::vector<PlanSource> plans;
      for (int i = 0; i < files_; ++i) {
        const tensorflow::Tensor& file = context.input(input_count() + i);
        plans.push_back(PlanSource::in_file(
            file.NumElements() == 1 ? std::string(file.flat<tensorflow::tstring>()(0)) : ""));
      }
      engines_ = std::make_unique<EngineSet>(std::move(plans), device_, most_);
    }
    return *engines_;
  }

  absl::Status why_none(OpKernelContext& context) const {
    std::string shapes;
    for (int i = 0; i < input_count(); ++i) absl::StrAppend(&shapes, " ", context.input(i).shape().DebugString());
    return absl::InvalidArgumentError(absl::StrCat("no engine of it was made for the shapes", shapes));
  }

  void run_segment(OpKernelContext* context, DoneCallback done) {
    FunctionLibraryRuntime* const library = context->function_library();
    OP_REQUIRES_ASYNC(context, library, absl::InternalError("there is no library of functions"), done);
    FunctionLibraryRuntime::Handle handle = 0;
    OP_REQUIRES_OK_ASYNC(context,
                         library->Instantiate(segment_.name(), tensorflow::AttrSlice(&segment_.attr()), &handle), done);
    FunctionLibraryRuntime::Options options;
    options.rendezvous = context->rendezvous();
    options.cancellation_manager = context->cancellation_manager();
    options.runner = context->runner();
    options.step_container = context->step_container();  // where arrays of TensorFlow 1 live
    std::vector<tensorflow::Tensor> given;
    for (int i = 0; i < input_count(); ++i) given.push_back(context->input(i));
    auto results = std::make_shared<std::vector<tensorflow::Tensor>>();
    library->Run(options, handle, given, results.get(),
                 [context, results, done = std::move(done)](const absl::Status& status) {
                   OP_REQUIRES_OK_ASYNC(context, status, done);
                   for (size_t i = 0; i < results->size(); ++i) {
                     context->set_output(static_cast<int>(i), (*results)[i]);
                   }
                   done();
                 });
  }

  absl::Status check(const LoadedEngine& engine) const {
    const auto* handle = engine.handle();
    TF_RETURN_IF_ERROR(check(inputs_, "InT", graft_engine_input_count(handle),
                             [&](size_t i) { return graft_engine_input(handle, i)->dtype; }));
    return check(outputs_, "OutT", graft_engine_output_count(handle),
                 [&](size_t i) { return graft_engine_output(handle, i)->dtype; });
  }

  template <class Types, class TypeOf>
  static absl::Status check(const Types& types, const char* attribute, size_t count, const TypeOf& type_of) {
    bool same = static_cast<size_t>(types.size()) == count;
    for (size_t i = 0; same && i < count; ++i) same = element_type(types[i]) == type_of(i);
    if (same) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its attribute ", attribute, " is not what its plan has: convert "
                                                   "the graph again"));
  }

  std::string device_;
  std::vector<DataType> inputs_, outputs_;
  int files_ = 0;
  size_t most_ = 1;
  tensorflow::NameAttrList segment_;
  std::vector<std::string> build_;  ///< options of graft_compile
  bool falls_back_ = true;
  std::unique_ptr<BuiltEngines> built_;
  std::shared_ptr<LoadedEngine> learning_;
  std::mutex mutex_;
  std::unique_ptr<EngineSet> engines_;
};

}  // namespace

REGISTER_OP("GraftEngine")
    .Input("inputs: InT")
    .Input("files: N * string")
    .Output("outputs: OutT")
    .Attr("InT: list(type) >= 0")
    .Attr("OutT: list(type) >= 1")
    .Attr("N: int >= 0 = 0")
    .Attr("plan: string = ''")
    .Attr("profiles: list(string) = []")
    .Attr("maximum_cached_engines: int >= 1 = 1000000")
    .Attr("segment: list(func) = []")  // at most one; a function without a name is what tf.data looks for in vain
    .Attr("build: list(string) = []")
    .Attr("fallback: bool = true")
    .Attr("calibration: string = ''")
    .Attr("device: string = 'cpu'")
    .Attr("output_shapes: list(shape) = []")
    .Attr("contents: string = ''")
    .Attr("nodes: list(string) = []")
    .Attr("results: list(string) = []")
    .SetShapeFn(infer_shapes)
    .Doc("An engine of Graft in place of the operators that it is made of (`contents`, by name in `nodes`).");

REGISTER_KERNEL_BUILDER(Name("GraftEngine").Device(tensorflow::DEVICE_CPU), GraftEngineKernel);

}  // namespace graft::tensorflow_host

/// Found in the file before it is loaded, as another version of TensorFlow lacks symbols that it needs.
extern "C" __attribute__((visibility("default"), used)) const char graft_tensorflow_built_for[] =
    "graft_tensorflow built for TensorFlow " GRAFT_TENSORFLOW_VERSION;

/// See graft.tensorflow.retry_failed_engines().
extern "C" __attribute__((visibility("default"), used)) void graft_tensorflow_retry_failed_engines() {
  graft::tensorflow_host::retry_failed();
}

/// See graft.tensorflow.build_count().
extern "C" __attribute__((visibility("default"), used)) uint64_t graft_tensorflow_build_count() {
  return graft::tensorflow_host::build_count();
}
