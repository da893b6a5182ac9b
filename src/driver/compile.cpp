// SPDX-License-Identifier: Apache-2.0
#include "driver/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/import_budget.h"
#include "base/log.h"
#include "base/trim_memory.h"
#include "device/cuda/cuda_device.h"
#include "driver/record_use.h"
#include "driver/shape_choices.h"
#include "fuse/assign_layouts.h"
#include "graph/bodies.h"
#include "graph/infer.h"
#include "import/mxnet/import.h"
#include "import/onnx/import.h"
#include "import/pt2/import.h"
#include "import/tensorflow/import.h"
#include "library/libraries.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "passes/edit.h"
#include "target/units.h"
#include "tile/panel_layout.h"

namespace graft {
namespace {

constexpr std::string_view kStageNames[] = {"import", "passes", "fuse", "plan"};

/// `text` gives it where it is wanted: the text of a graph reads all its constants.
template <class Text>
void dump(std::string_view kind, std::string_view name, const Text& text) {
  if (environment().wants_dump(kind, name)) write_dump(environment(), kind, name, text());
}

/// The process's environment with the caller's own exclusions.
Environment with_disabled(const CompileOptions& options) {
  check_disabled(environment().disabled, "GRAFT_DISABLE");
  Environment merged = environment();
  merged.disabled.insert(merged.disabled.end(), options.disabled.begin(), options.disabled.end());
  return merged;
}

/// Everything that changes the result, as the plan records it.
std::vector<std::pair<std::string, std::string>> recorded(const CompileOptions& options) {
  constexpr std::string_view kTuningNames[] = {"off", "fast", "full"};
  std::vector<std::pair<std::string, std::string>> rows = {
      {"version", GRAFT_VERSION},
      {"target", options.targets.empty() ? "native" : fmt::format("{}", fmt::join(options.targets, ";"))},
      {"threads", std::to_string(options.threads)},
      {"tune", std::string(kTuningNames[static_cast<int>(options.tuning)])},
      {"precision", std::string(name_of(options.precision))},
      {"mode", options.interpret ? "interpret" : "generated"}};
  for (const auto& [name, range] : options.dims) {
    const bool fixed = range.min == range.max;
    rows.emplace_back("dim", fixed ? fmt::format("{}={}", name, range.min)
                                   : fmt::format("{}={}:{}:{}", name, range.min, range.opt, range.max));
  }
  const std::pair<const char*, const InputShapes&> shapes[] = {{"shape", options.shapes},
                                                               {"min-shape", options.min_shapes},
                                                               {"opt-shape", options.opt_shapes},
                                                               {"max-shape", options.max_shapes}};
  for (const auto& [key, chosen] : shapes) {
    for (const auto& [name, sizes] : chosen) rows.emplace_back(key, fmt::format("{}:{}", name, fmt::join(sizes, "x")));
  }
  const Environment merged = with_disabled(options);
  if (!merged.disabled.empty()) rows.emplace_back("disable", fmt::format("{}", fmt::join(merged.disabled, ",")));
  return rows;
}

/// GRAFT_DUMP=tile and kernels: the tile programs, and what the code generator makes of them.
void dump_kernels(const Engine& engine, const Target& target) {
  for (const EngineKernel& kernel : engine.kernels) {
    dump("tile", kernel.name, [&] { return kernel.program; });
    if (!environment().wants_dump("kernels", kernel.name)) continue;
    write_dump(environment(), "kernels", kernel.name, kernel_source_text(kernel.program, target));
  }
}

/// The GPU that was asked for when it is what the target describes, else null.
std::shared_ptr<Device> device_of(const Target& target, const CompileOptions& options) {
  const int gpu = gpu_of(options.device);
  if (target.kind != TargetKind::kCuda || gpu < 0 || cuda_architecture(gpu) != target.architecture) return nullptr;
  return open_cuda_device(gpu);
}

/// What times measured on a GPU depend on beside the target.
std::string machine_of(const Device& device) {
  std::string machine = fmt::format("{}, driver {}", device.name(), cuda_driver_version());
  for (const LibraryInfo& library : all_libraries()) {
    if (library.target == TargetKind::kCuda) machine += ", " + library_version(std::string(library.name));
  }
  return machine;
}

}  // namespace

std::string_view name_of(Stage stage) { return kStageNames[static_cast<int>(stage)]; }

std::optional<Stage> parse_stage(std::string_view name) {
  for (int stage = 0; stage < 4; ++stage) {
    if (name == kStageNames[stage]) return static_cast<Stage>(stage);
  }
  return std::nullopt;
}

std::vector<Target> targets_of(const CompileOptions& options) {
  std::vector<Target> targets;
  for (const std::string& name : options.targets) targets.push_back(find_target(name, options.threads));
  const int gpu = gpu_of(options.device);
  const bool any_gpu = std::any_of(targets.begin(), targets.end(),
                                   [](const Target& target) { return target.kind == TargetKind::kCuda; });
  GRAFT_USER_CHECK(gpu < 0 || targets.empty() || any_gpu, kInvalidArgument,
                   fmt::format("the device '{}' runs nothing that is compiled for {}: leave the device out, or name "
                               "the target of a GPU", options.device, fmt::join(options.targets, " and ")), "target");
  if (targets.empty() && gpu >= 0) targets.push_back(find_target(cuda_architecture(gpu), options.threads));
  if (targets.empty()) targets.push_back(host_cpu(options.threads));
  return targets;
}

void check_precision(const CompileOptions& options, Stage done) {
  GRAFT_USER_CHECK(low_type(options.precision) == DType::kUndefined || done < Stage::kPasses, kInvalidArgument,
                   "the passes lower the precision, and they have run already: choose it where they run", "precision");
  if (options.precision != Precision::kTf32) return;
  for (const Target& target : targets_of(options)) {
    GRAFT_USER_CHECK(multiplies_tf32(target), kInvalidArgument,
                     fmt::format("{} has no units that multiply tf32, which NVIDIA GPUs have from sm_80 on; choose "
                                 "fp32, fp16 or bf16, or such a --target or --device",
                                 target.name), "precision");
  }
}

namespace {

enum class Format : uint8_t { kOnnx, kTensorflow, kMxnet, kExported };

Format format_of(const ModelSource& source) {
  if (source.bytes) return tensorflow::is_model(*source.bytes) ? Format::kTensorflow : Format::kOnnx;
  if (tensorflow::is_model(source.path)) return Format::kTensorflow;
  if (mxnet::is_model(source.path)) return Format::kMxnet;
  return pt2::is_model(source.path) ? Format::kExported : Format::kOnnx;
}

/// A choice that is another format's is a mistake.
void check_choices_of(Format format, const CompileOptions& options) {
  const auto check = [&](bool given, Format whose, const char* what, const char* option) {
    GRAFT_USER_CHECK(!given || format == whose, kInvalidArgument,
                     fmt::format("it is for {}, and this model is none", what), option);
  };
  const char* const tensorflow = "a SavedModel or a GraphDef of TensorFlow";
  check(!options.signature.empty(), Format::kTensorflow, tensorflow, "signature");
  check(!options.tags.empty(), Format::kTensorflow, tensorflow, "tag");
  check(!options.outputs.empty(), Format::kTensorflow, tensorflow, "outputs");
  check(!options.params.empty(), Format::kMxnet, "a symbol of MXNet", "params");
  check(!options.converters.empty(), Format::kExported, "a program of torch.export (.pt2)", "converters");
  check(!options.operators.empty(), Format::kOnnx, "ONNX models, which definitions join when they are imported", "ops");
}

Graph import_onnx_model(const ModelSource& source, const CompileOptions& options) {
  const ImportOptions imports{.operators = read_operator_library(options.operators)};
  return source.bytes ? import_onnx_bytes(*source.bytes, source.path, imports) : import_onnx(source.path, imports);
}

Graph import_as(Format format, const ModelSource& source, const CompileOptions& options) {
  switch (format) {
    case Format::kTensorflow: {
      const tensorflow::ImportOptions choices{.signature = options.signature, .tags = options.tags,
                                              .outputs = options.outputs, .shapes = options.shapes};
      return source.bytes ? tensorflow::import_model(*source.bytes, choices)
                          : tensorflow::import_model(source.path, choices);
    }
    case Format::kMxnet:
      return mxnet::import_model(source.path, {.params = options.params, .shapes = options.shapes,
                                               .min_shapes = options.min_shapes, .max_shapes = options.max_shapes});
    case Format::kExported:
      return pt2::import_model(source.path, options.converters);
    case Format::kOnnx:
      break;
  }
  return import_onnx_model(source, options);
}

}  // namespace

Graph import_model(const ModelSource& source, const CompileOptions& options) {
  report(options, name_of(Stage::kImport), source.bytes ? "from memory" : source.path);
  GRAFT_USER_CHECK(source.bytes || !source.path.ends_with(".keras"), kUnsupported,
                   "Keras alone reads its own files: `python -m graft` exports them first where Keras and TensorFlow "
                   "are; or call keras.saving.load_model(FILE).export(FOLDER), and compile the folder", source.path);
  const Format format = format_of(source);
  check_choices_of(format, options);
  Graph graph;
  within_import_budget(options.cancelled, source.path, [&] {
    if (source.bytes) allow_import(source.bytes->size());
    graph = import_as(format, source, options);
  });
  apply_shape_choices(graph, options);
  dump("graph", "import", [&] { return print(graph); });
  if (options.imported) options.imported(graph);
  return graph;
}

namespace {

/// Whether all of the targets have a unit that multiplies integers of given types; null where they have none at all.
std::function<bool(DType, DType)> integer_units_of(const std::vector<Target>& targets) {
  const auto all_multiply = [targets](DType a, DType b) {
    return std::all_of(targets.begin(), targets.end(),
                       [&](const Target& target) { return best_unit(target, a, b, DType::kInt32) != nullptr; });
  };
  if (!all_multiply(DType::kUint8, DType::kInt8)) return nullptr;
  return all_multiply;
}

/// Which products decode weights on all of the targets: all on CPUs; on GPUs those of 16-bit rows, which matrix units
/// multiply, of which there are few or a number that only a run knows. Many rows are faster on weights as floats.
std::function<bool(DType, std::optional<int64_t>)> decoding_of(const std::vector<Target>& targets) {
  constexpr int64_t kMostRows = 256;
  return [targets](DType type, std::optional<int64_t> rows) {
    return std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
      return target.kind == TargetKind::kCpu || (bit_width(type) == 16 && (!rows || *rows <= kMostRows));
    });
  };
}

}  // namespace

void rewrite(Graph& graph, const CompileOptions& options, CompileNotes* notes) {
  const Environment merged = with_disabled(options);
  PassContext context{.low_type = low_type(options.precision), .cancelled = options.cancelled, .environment = &merged};
  const std::vector<Target> targets = targets_of(options);
  context.multiplies_integers = integer_units_of(targets);
  context.decodes_weights = decoding_of(targets);
  if (notes) context.statistics = &notes->passes, context.reasons = &notes->reasons;
  report(options, name_of(Stage::kPasses), fmt::format("{} nodes", graph.nodes.size()));
  run_passes(graph, context);
  dump("graph", "passes", [&] { return print(graph); });
}

namespace {

FusedProgram fuse_for(const Target& target, const Graph& graph, const CompileOptions& options, CompileNotes* notes) {
  report(options, name_of(Stage::kFuse), fmt::format("{} nodes", graph.nodes.size()));
  Graph read = graph;
  passes::rewrite_with_bodies(read, passes::sweep);  // what nobody reads is no step, whoever wrote the graph
  FusedProgram program = fuse(read, {.sums_with_rows = target.kind == TargetKind::kCuda,
                                     .gathers_columns = target.kind == TargetKind::kCuda,
                                     .stages_windows = target.kind == TargetKind::kCpu,
                                     .cancelled = options.cancelled});
  if (target.kind == TargetKind::kCpu) for_each_program(program, turn_results);
  if (options.precision == Precision::kTf32) for_each_program(program, allow_tf32);
  if (notes) notes->reasons.insert(notes->reasons.end(), program.notes.begin(), program.notes.end());
  dump("region", "fuse", [&] { return print(program); });
  return program;
}

}  // namespace

FusedProgram fuse(Graph graph, const CompileOptions& options, CompileNotes* notes) {
  return fuse_for(targets_of(options)[0], graph, options, notes);
}

BuiltEngine plan(FusedProgram program, const Target& target, const CompileOptions& options, const Plan* known) {
  report(options, name_of(Stage::kPlan), fmt::format("{} steps", program.steps.size()));
  BuildOptions build{.target = target, .tuning = options.tuning};
  if (known) build.record = record_for(known->records, target), build.packed = &known->packed;
  if (!options.interpret) {
    // Asked between kernels, from any thread.
    const KernelProgress stop = [&](std::string_view) { return options.cancelled && options.cancelled(); };
    build.compile_kernels = [stop, use = options.kernel_use](const std::string& programs, const Target& machine) {
      return interruptible_kernel_code(programs, machine, stop, use);
    };
  }
  if (options.source_only) {
    build.compile_kernels = [](const std::string& programs, const Target& machine) {
      kernel_texts(programs, machine, /*with_ptx=*/false, /*with_cubin=*/false);
      return std::vector<std::byte>{};
    };
  }
  build.device = device_of(target, options);
  if (build.tuning != Tuning::kOff && !build.device && !why_not_runnable(target, host_cpu(target.threads)).empty()) {
    log(LogLevel::kStep, "{}: nothing can be measured here, so the cost model chooses", target.name);
    build.tuning = Tuning::kOff;
  }
  if (build.device || target.kind == TargetKind::kCpu) build.libraries = {library_source(), why_no_library};
  if (build.libraries.source) {
    build.libraries.refuses = library_refusal(build.device ? build.device->make_stream() : nullptr);
  }
  build.disabled = with_disabled(options).disabled;
  build.timings = build.device ? timing_cache(target, machine_of(*build.device)) : timing_cache(target);
  build.keep_references = environment().validate;
  build.choices_only = options.choices_only;
  build.cancelled = options.cancelled;
  build.progress = [&](const std::string& step, int done, int total) {
    report(options, name_of(Stage::kPlan), step, done, total);
  };
  BuiltEngine built = build_engine(std::move(program), build);
  dump("plan", "plan", [&] { return print(built.engine); });
  dump("record", "record", [&] { return print(built.record); });
  dump_kernels(built.engine, build.target);
  return built;
}

namespace {

using PackedByName = std::map<std::string, const PackedConstant*, std::less<>>;

/// The same for a graph whose constants have that prefix in the plan, and for its bodies.
void share_weights(Graph& graph, const std::string& prefix, const PackedByName& packings) {
  for (Value& value : graph.values) {
    if (!value.constant) continue;
    const auto known = packings.find(prefix + value.name);
    if (known == packings.end()) continue;
    const std::vector<int64_t> shape = value.constant->shape();
    value.constant = TensorData::deferred(value.constant->type(), shape, [packed = *known->second, shape] {
      return tile::unpack(tile::parse_panel_layout(packed.layout), packed.data, packed.view).reshaped(shape);
    });
  }
  for (Node& node : graph.nodes) {
    for (const NodeBody& body : bodies_of(node)) {
      auto copy = std::make_shared<Graph>(*body.graph);
      share_weights(*copy, fmt::format("{}{}/{}/", prefix, node.name, body.attribute), packings);
      node.attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
    }
  }
}

/// Weights that an engine holds packed are made from there again when somebody asks for them: in memory once.
void share_weights(Plan& plan) {
  PackedByName packings;
  for (const PackedConstant& packed : plan.packed) packings.try_emplace(packed.name, &packed);
  if (!packings.empty()) share_weights(plan.graph, "", packings);
}

}  // namespace

Engine build(const Plan& plan, const Target& target, const CompileOptions& options) {
  CompileOptions chosen = options;
  chosen.tuning = Tuning::kOff;
  if (!options.interpret && !record_for(plan.records, target)) {
    std::vector<std::string> names;
    for (const Record& record : plan.records) names.push_back(parse_target(record.target).name);
    const bool on_gpu = target.kind == TargetKind::kCuda;
    log(LogLevel::kWarning,
        "the plan was made for {} only; here it runs on {}, as the cost model chooses, which can be much slower: "
        "compile it for this machine too, or choose the device that it was made for",
        fmt::join(names, " and "), on_gpu ? target.name : fmt::format("the CPU with {} threads", target.threads));
  }
  Engine engine = graft::plan(fuse_for(target, plan.graph, chosen, nullptr), target, chosen, &plan).engine;
  engine.name = plan.graph.name;
  engine.options = plan.options;
  return engine;
}

namespace {

Compiled compile_stages(Graph graph, Stage done, const CompileOptions& options) {
  check_precision(options, done);
  if (done < Stage::kPasses) rewrite(graph, options);
  Compiled compiled;
  const std::vector<Target> targets = targets_of(options);
  const Plan known = read_known_choices(options, targets);
  compiled.plan.options = recorded(options);
  infer_types(graph);
  bool first = true;
  for (const Target& target : targets) {
    BuiltEngine built = plan(fuse_for(target, graph, options, nullptr), target, options, &known);
    compiled.plan.records.push_back(std::move(built.record));
    for (PackedConstant& packed : built.packed) compiled.plan.packed.push_back(std::move(packed));
    if (first) compiled.engine = std::move(built.engine);
    first = false;
  }
  check_use(known, compiled.plan.records, options);
  compiled.engine.name = graph.name;
  compiled.engine.options = compiled.plan.options;
  compiled.plan.graph = std::move(graph);
  share_weights(compiled.plan);
  return compiled;
}

}  // namespace

Compiled compile_from(Graph graph, Stage done, const CompileOptions& options) {
  Compiled compiled;
  run_by_deadline(options, [&](const CompileOptions& timed) {
    compiled = compile_stages(std::move(graph), done, timed);
  });
  trim_memory();
  return compiled;
}

Compiled compile(const ModelSource& source, const CompileOptions& options) {
  Compiled compiled;
  run_by_deadline(options, [&](const CompileOptions& timed) {
    compiled = compile_stages(import_model(source, timed), Stage::kImport, timed);
  });
  trim_memory();
  return compiled;
}

}  // namespace graft
