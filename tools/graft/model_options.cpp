// SPDX-License-Identifier: Apache-2.0
#include "model_options.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/spelling.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/quantize_options.h"
#include "quantize/format.h"
#include "signature.h"
#include "target/cpus.h"

namespace graft {
namespace {

/// Choices that add up; of any other the last would silently win.
constexpr std::string_view kRepeatable[] = {"dim",       "shape",   "min-shape",   "opt-shape",
                                            "max-shape", "ops",     "overridable", "converters",
                                            "tag",       "outputs", "target",      "disable",
                                            "metadata"};

/// The names of sizes that the inputs of an engine have.
std::vector<std::string> input_symbols(const Engine& engine) {
  std::set<std::string, std::less<>> symbols;
  for (const int input : engine.inputs) {
    for (const Size& size : engine.tensors[input].shape) size.collect_symbols(symbols);
  }
  return {symbols.begin(), symbols.end()};
}

/// What was said of a size when compiling (`8`, `1:8:64`), or nothing.
std::string compiled_size(const Engine& engine, const std::string& name) {
  for (const auto& [key, value] : engine.options) {
    if (key == "dim" && value.starts_with(name + "=")) return value.substr(name.size() + 1);
  }
  return "";
}

/// The flags of shapes are called `--shapes`, their keys `shape`.
std::string_view plural_of(std::string_view key) { return key.ends_with("shape") ? "s" : ""; }

/// Precisions that are made by measuring.
bool is_quantised_precision(std::string_view value) { return quantize::parse_codes(value) || value == kAutomatic; }

/// Choices that say how a plan runs.
bool runs_a_plan(std::string_view key) { return key == "device" || key == "threads"; }

}  // namespace

namespace {

/// Whether a run can choose a size, whose names are `names`; false for one that is this anyway. Throws UsageError.
bool has_size(const Engine& engine, const std::vector<std::string>& names, const std::string& name, int64_t size) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  const std::string fixed = compiled_size(engine, name);
  if (fixed == std::to_string(size)) return false;
  if (!fixed.empty()) {
    throw UsageError(
        fmt::format("--size: '{}' is {} in this engine, as it was compiled; leave --size out, or "
                    "compile it for {}",
                    name, fixed, size));
  }
  throw UsageError(names.empty() ? fmt::format("--size: all sizes of the inputs are fixed; there is no '{}'", name)
                                 : fmt::format("--size: no input has a size named '{}'; there are {}{}", name,
                                               fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace

Bindings chosen_sizes(const Engine& engine, const std::vector<std::string>& texts) {
  const std::vector<std::string> names = input_symbols(engine);
  Bindings sizes;
  for (const std::string& text : texts) {
    CompileOptions parsed;
    try {
      set_option(parsed, {"dim", text});
    } catch (const Error&) {
      throw UsageError(fmt::format("--size: '{}' is not NAME=SIZE with a whole size", text));
    }
    if (text.find(':', text.find('=')) != text.npos) {
      throw UsageError(fmt::format("--size: '{}' is a range; a run has one size, NAME=SIZE", text));
    }
    for (const auto& [name, range] : parsed.dims) {
      if (!has_size(engine, names, name, range.opt)) continue;
      if (!sizes.emplace(name, range.opt).second) throw UsageError(fmt::format("--size: '{}' was chosen twice", name));
    }
  }
  return sizes;
}

void refuse_plan(const std::string& path) {
  if (!is_plan(path)) return;
  throw UsageError(
      fmt::format("'{}' is a plan of Graft: give the model that it was compiled from; `graft inspect`, "
                  "`run`, `bench` and `compare` take plans",
                  path));
}

void ModelOptions::check_repetition() const {
  std::set<std::string> seen;
  for (const auto& [key, value] : choices_) {
    const bool adds_up = std::find(std::begin(kRepeatable), std::end(kRepeatable), key) != std::end(kRepeatable);
    if (!seen.insert(key).second && !adds_up) throw UsageError(fmt::format("--{} was given twice; give it once", key));
  }
}

Option ModelOptions::add_choice(Command command, const std::string& flags, const std::string& key,
                                const std::string& help) {
  return command
      .add_option_values(
          flags,
          [this, key](const std::vector<std::string>& values) {
            for (const std::string& value : values) choices_.emplace_back(key, value);
          },
          help)
      .group("Compiling")
      .expected(1)
      .take_all()
      .type_name("TEXT");
}

void ModelOptions::add_to(Command command, const std::string& model_help) {
  command.add_option("MODEL", path_, model_help).required().type_name("FILE");
  add_choices(command);
  add_choice(command, "--signature", "signature", "of a SavedModel: the signature to compile (serving_default)");
  add_choice(command, "--tag", "tag", "of a SavedModel: a tag of its graph (serve); may be repeated");
  add_choice(command, "--params", "params",
             "of a symbol of MXNet: its parameters (NET-0000.params beside NET-symbol.json)");
}

void ModelOptions::add_choices(Command command) {
  add_choice(command, "--dim", "dim",
             "set a dynamic dimension: batch=8, batch=MIN:MAX, batch=MIN:OPT:MAX, or with several optima\n"
             "batch=MIN:OPT,OPT,...:MAX (a run takes the smallest that is not below its size); may be\n"
             "repeated for other dimensions");
  add_choice(command, "--shapes", "shape",
             "fix the shape of an input: x:1x3x224x224; of several x:1x3,y:1x4; may be\n"
             "repeated");
  add_choice(command, "--min-shapes", "min-shape", "smallest shape of an input with dynamic dimensions");
  add_choice(command, "--opt-shapes", "opt-shape", "its optimum shape (the largest if not given)");
  add_choice(command, "--max-shapes", "max-shape", "its largest shape");
  add_choice(command, "--device", "device",
             "cpu, cuda or cuda:NUMBER (cpu; for a plan, the device that it was made for,\n"
             "if available)")
      .completed_by({"cpu", "cuda"});
  add_choice(command, "--threads", "threads", "number of threads; 0: all available, or, for a plan, as compiled (0)");
  add_choice(command, "--tune", "tune", "off, fast or full: how long candidates are measured (fast)")
      .completed_by({"off", "fast", "full"});
  add_choice(command, "--precision", "precision",
             "fp32, tf32, fp16 or bf16: type of tensors and products of an f32 network;\n"
             "sums, softmax and normalisations stay f32 inside, inputs and outputs keep\n"
             "their types; tf32 is for GPUs (fp32)")
      .completed_by({"fp32", "tf32", "fp16", "bf16"});
  add_choice(command, "--fp32-units", "fp32-units",
             "any or fma: whether products of f32 may run on matrix units that split their\n"
             "operands into parts, with an error not above that of multiply-adds (any)")
      .completed_by({"any", "fma"});
  add_choice(command, "--target", "target",
             "machine to compile for, also another one: native, portable, x86-64-v3,\n"
             "x86-64-v4, armv8-a, neoverse-n1 ..., or a GPU: sm_80, sm_90a ... (native); a\n"
             "false name lists all; may be repeated for a plan with choices for several")
      .completed_by(target_names());
  add_choice(command, "--ops", "ops",
             "define operators of your own: a file of definitions (docs/OWN_OPERATORS.md), or\n"
             "an ONNX file of functions; may be repeated");
  add_choice(command, "--overridable", "overridable",
             "an input of an ONNX model that has an initializer stays an input, which each run\n"
             "gives; otherwise it is constant; may be repeated");
  add_choice(command, "--converters", "converters",
             "load converters of operators of a .pt2 from this shared library\n"
             "(docs/ADDING_A_CONVERTER.md); may be repeated");
  add_choice(command, "--record", "record",
             "reuse the choices of a plan, or of a record as text; --tune decides for all\n"
             "other regions; a warning counts unused choices; a record without any choice\n"
             "that fits is an error");
  add_choice(command, "--mode", "mode", "interpret: run in the interpreter, without generated kernels and libraries")
      .completed_by({"generated", "interpret"});
  add_choice(command, "--disable", "disable",
             "skip passes (`graft opt` lists them), rewrites of regions and libraries\n"
             "(`graft env`): names separated by commas; may be repeated")
      .completed_by(names_to_disable());
}

void ModelOptions::add_outputs(Command command) {
  add_choice(command, "--outputs", "outputs",
             "of a GraphDef: its outputs, nodes or tensors, separated by commas (those that\n"
             "no node reads)");
}

void ModelOptions::add_metadata(Command command) {
  add_choice(command, "--metadata", "metadata",
             "keep KEY=VALUE in the plan, for graft inspect --metadata; may be repeated");
}

void ModelOptions::add_deadline(Command command) {
  add_choice(command, "--deadline", "deadline",
             "limit of the time in seconds for importing and compiling; 0: none (0)");
}

namespace {

std::string standard_input;  // the file that holds what was read from there

/// What standard input holds, as a file that can be mapped.
std::string file_of_standard_input() {
  const int file = memfd_create("stdin", 0);
  GRAFT_USER_CHECK(file >= 0, kDevice, std::generic_category().message(errno), "standard input");
  std::vector<char> buffer(1 << 20);
  for (;;) {
    stop_if_interrupted();
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    GRAFT_USER_CHECK(got >= 0, kInvalidArgument, std::generic_category().message(errno), "standard input");
    if (got == 0) break;
    for (ssize_t done = 0; done < got;) {
      const ssize_t wrote = ::write(file, buffer.data() + done, static_cast<size_t>(got - done));
      GRAFT_USER_CHECK(wrote > 0, kOutOfMemory, std::generic_category().message(errno), "standard input");
      done += wrote;
    }
  }
  return fmt::format("/proc/self/fd/{}", file);  // open as long as the process
}

}  // namespace

const std::string& ModelOptions::path() const {
  if (!is_standard_input()) return path_;
  if (standard_input.empty()) standard_input = file_of_standard_input();
  return standard_input;
}

std::string name_standard_input(std::string text) {
  const size_t at = standard_input.empty() ? text.npos : text.find(standard_input);
  return at == text.npos ? text : text.replace(at, standard_input.size(), "standard input");
}

bool ModelOptions::is_plan() const { return path().ends_with(".graft") || graft::is_plan(path()); }

std::string ModelOptions::quantised_precision() const {
  for (const auto& [key, value] : choices_) {
    if (key == "precision" && is_quantised_precision(value)) return value;
  }
  return "";
}

namespace {

/// Sets an option as graft_option does; errors name the flag.
void set_choice(CompileOptions& options, const std::string& key, const std::string& value) {
  try {
    set_option(options, {key, value});
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string_view rest = std::string_view(text).substr(text.starts_with(key) ? key.size() : 0);
    if (rest.size() == text.size()) throw UsageError("--" + text);
    throw UsageError(fmt::format("--{}{}{}", key, plural_of(key), rest));
  }
}

}  // namespace

CompileOptions ModelOptions::compile_options() const {
  check_repetition();
  CompileOptions options;
  for (const auto& [key, value] : choices_) {
    if (takes_quantised_ && key == "precision" && is_quantised_precision(value)) continue;
    set_choice(options, key, value);
  }
  if (options.precision == Precision::kTf32) {
    try {
      check_precision(options);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInvalidArgument) throw UsageError(std::string("--") + error.what());
      throw;
    }
  }
  options.progress = show_progress;
  options.cancelled = interrupted;
  return options;
}

CompileOptions ModelOptions::time_limit() const {
  CompileOptions options;
  for (const auto& [key, value] : choices_) {
    if (key == "deadline") set_choice(options, key, value);
  }
  options.progress = show_progress;
  options.cancelled = interrupted;
  return options;
}

ModelOptions ModelOptions::with(const std::string& path, const Choices& own) const {
  ModelOptions other;
  other.path_ = path;
  const bool plan = other.is_plan();
  for (const auto& choice : choices_) {
    const bool replaced =
        std::any_of(own.begin(), own.end(), [&](const auto& row) { return row.first == choice.first; });
    if (!replaced && (!plan || runs_a_plan(choice.first))) other.choices_.push_back(choice);
  }
  other.choices_.insert(other.choices_.end(), own.begin(), own.end());
  return other;
}

std::vector<std::string> ModelOptions::words() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : choices_) words.push_back(fmt::format("--{}{}={}", key, plural_of(key), value));
  return words;
}

bool ModelOptions::has(std::string_view key) const {
  return std::any_of(choices_.begin(), choices_.end(), [&](const auto& choice) { return choice.first == key; });
}

void ModelOptions::check_plan_choices(const std::vector<std::string_view>& allowed) const {
  for (const auto& [key, value] : choices_) {
    if (runs_a_plan(key) || std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    const std::string_view instead = key == "deadline" ? " (the time of a run has --run-deadline)" : "";
    throw UsageError(
        fmt::format("--{} is chosen when a plan is compiled; {} is a plan already{}", key, path_, instead));
  }
}

Engine ModelOptions::planned_engine() const {
  CompileOptions options = compile_options();
  options.choices_only = true;
  if (!is_plan()) {
    Engine engine = compile({.path = path()}, options).engine;
    clear_progress();
    return engine;
  }
  check_plan_choices({"target"});
  const Plan plan = open_plan(path());
  CompileOptions recorded = options_of(plan);
  recorded.choices_only = true;
  const bool chosen = !options.targets.empty() || plan.records.empty();
  return build(plan, chosen ? targets_of(options)[0] : parse_target(plan.records[0].target), recorded);
}

std::string ModelOptions::device_for(const Plan& plan) const {
  return has("device") ? compile_options().device : device_of(plan);
}

std::shared_ptr<const LoadedEngine> ModelOptions::load_engine(const SignatureCheck& check) const {
  CompileOptions options = compile_options();
  if (is_plan()) {
    check_plan_choices();
    const Plan plan = open_plan(path());
    if (const auto signature = check ? signature_of(plan.graph, plan.options) : std::nullopt) check(*signature);
    return load(plan, device_for(plan), options.threads);
  }
  options.imported = [&](const Graph& graph) {
    if (const auto signature = check ? signature_of(graph, fixed_sizes(options)) : std::nullopt) check(*signature);
  };
  auto engine = load(compile({.path = path()}, options).engine, options.device, options.threads);
  clear_progress();
  return engine;
}

std::shared_ptr<const LoadedEngine> ModelOptions::load_interpreter() const {
  CompileOptions options = compile_options();
  options.device = "cpu";
  options.targets.clear();
  options.record.clear();
  options.interpret = true;
  options.tuning = Tuning::kOff;
  if (!is_plan()) return load(compile({.path = path()}, options).engine);
  const Plan plan = open_plan(path());
  return load(build(plan, targets_of(options)[0], options));
}

}  // namespace graft
