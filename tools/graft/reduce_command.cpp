// SPDX-License-Identifier: Apache-2.0
// graft reduce: a small model that fails as a large one does.

#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "child_process.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "export/onnx/reduce_model.h"
#include "json_output.h"
#include "model_options.h"
#include "onnx_output.h"
#include "output.h"
#include "tensor_set.h"

namespace graft {
namespace {

/// What a search found.
struct Reduced {
  std::optional<ModelFile> whole, small;
  std::string fault;
  int trials = 0;
  bool finished = true;  ///< false: the deadline ended it, and smaller models may fail, too
};

struct ReduceCommand {
  std::string model, check, fails;
  ModelOptions options, limits;
  ToleranceOptions tolerance;
  OnnxOutput output;
  JsonOutput json;
  double timeout = 60;

  int run() const;
  std::vector<std::string> command_for(const std::string& candidate) const;
  std::string fault_of(const Ended& ended) const;
  Reduced search(const CompileOptions& limit) const;
};

/// The program that runs here, which also tries the candidates.
std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// What a candidate is given to.
std::vector<std::string> ReduceCommand::command_for(const std::string& candidate) const {
  if (!check.empty()) return {"/bin/sh", "-c", check + " \"$1\"", "sh", candidate};
  std::vector<std::string> words = {own_program(), "run", candidate};
  if (fails != "internal") {
    words.insert(words.end(), {"--reference", fails});
    const auto add = [&](const char* name, const std::optional<double>& value) {
      if (value) words.push_back(fmt::format("{}={}", name, *value));
    };
    add("--rtol", tolerance.choice.relative);
    add("--atol", tolerance.choice.absolute);
  }
  for (const std::string& word : options.words()) words.push_back(word);
  return words;
}

/// `internal: ... file.cpp:12`: what an internal error says before it names nodes and sizes.
std::string internal_fault(const std::string& errors) {
  const std::string mark = fmt::format("{}: ", name_of(ErrorKind::kInternal));
  const size_t begin = errors.find(mark);
  if (begin == errors.npos) return "";
  const std::string line = errors.substr(begin, errors.find('\n', begin) - begin);
  const size_t file = line.find(".cpp:");
  if (file == line.npos) return mark;
  const size_t start = line.find_last_of(" (", file) + 1;
  const size_t end = line.find_first_not_of("0123456789", file + 5);
  return mark + line.substr(start, end == line.npos ? end : end - start);
}

/// What kind of fault it is, in words that stay the same while the model shrinks; empty when there is none.
std::string ReduceCommand::fault_of(const Ended& ended) const {
  if (ended.timed_out) return fmt::format("takes longer than {:g} s", timeout);
  if (ended.signal != 0) return fmt::format("is ended by signal {}", ended.signal);
  if (!check.empty()) return ended.status == 0 ? "" : fmt::format("ends with status {}", ended.status);
  if (fails == "internal") return internal_fault(ended.errors);
  return ended.status == 1 && ended.output.find("WRONG: ") != ended.output.npos ? "differs from " + fails : "";
}

/// The search has a part of the time limit behind it when it fails the first time; what it has then is its result.
Reduced ReduceCommand::search(const CompileOptions& limit) const {
  Reduced made;
  report(limit, name_of(Stage::kImport), model);
  made.whole = ModelFile::open(model, limit.cancelled);
  const ScratchFolder scratch;
  const std::string candidate = scratch / "model.onnx";
  const auto try_model = [&](const ModelFile& tried) {
    tried.save(candidate);
    ++made.trials;
    return fault_of(capture_program(command_for(candidate), timeout, limit.cancelled));
  };
  report(limit, "reduce", model);
  made.fault = try_model(*made.whole);
  GRAFT_USER_CHECK(!made.fault.empty(), kInvalidArgument, "the model does not fail, so there is nothing to look for",
                   model);
  made.small = made.whole;
  const auto progress = [&](const std::string& what, size_t nodes) {
    report(limit, "reduce", fmt::format("{} nodes, {} trials; {}", nodes, made.trials, what));
  };
  const auto still_fails = [&](const ModelFile& tried) {
    const bool fails = try_model(tried) == made.fault;
    if (fails) made.small = tried;
    return fails;
  };
  try {
    made.small = reduce_model(*made.whole, still_fails, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCancelled || interrupted()) throw;
    made.finished = false;
  }
  return made;
}

int ReduceCommand::run() const {
  refuse_plan(model);
  if (check.empty() == fails.empty()) throw UsageError("say how the model fails: either --check or --fails");
  OnnxOutput::check(output.path(), {model});
  json.check({model});
  options.compile_options();  // faults of the command line are said once, here
  check_output_unread("--output", output.path());
  Reduced made;
  run_by_deadline(limits.time_limit(), [&](const CompileOptions& limit) { made = search(limit); });
  clear_progress();
  const ModelFile &whole = *made.whole, &small = *made.small;
  small.save(output.path(), output.weights());
  if (json.leaves_text()) {
    print_to(stdout, "{}: {} of {} nodes, {} of {} weights, after {} trials{}; it {}\n", output.path(),
             small.nodes().size(), whole.nodes().size(), small.weights().size(), whole.weights().size(), made.trials,
             made.finished ? "" : " (the deadline passed)", made.fault);
  }
  json.write({{"file", output.path()},
              {"fault", made.fault},
              {"trials", made.trials},
              {"finished", made.finished},
              {"nodes", small.nodes().size()},
              {"of_nodes", whole.nodes().size()},
              {"weights", small.weights().size()},
              {"of_weights", whole.weights().size()}});
  return 0;
}

}  // namespace

void add_reduce(Command app, Action& action) {
  Command sub = app.add_command("reduce", "shrink a failing model to a small one that fails in the same way");
  const auto command = std::make_shared<ReduceCommand>();
  sub.add_option("MODEL", command->model, "an ONNX file").required().type_name("FILE");
  command->output.add_to(sub, "the small model");
  sub.add_option("--check", command->check,
                  "a shell command that fails on the model; the path is its last argument; a model fails in\n"
                  "the same way if the command ends with the same status or signal").type_name("COMMAND");
  sub.add_option("--fails", command->fails,
                  "instead of --check: `graft run` has an internal error or ends by a signal (internal), or its\n"
                  "results differ from those of the interpreter or of onnxruntime")
      .one_of({"internal", "interpreter", "onnxruntime"}).type_name("HOW").excludes("--check");
  sub.add_option("--timeout", command->timeout, "limit of a trial in seconds; exceeding it is a failure, too")
      .in_range(0.1, 86400.0).show_default().type_name("SECONDS");
  command->tolerance.add_to(sub);
  command->json.add_to(sub);
  command->options.add_choices(sub);
  command->limits.add_deadline(sub);
  sub.footer(R"(
Nodes are removed, weights become inputs or zeros, and inputs become small, as long as the model fails in the same way.
Options of compiling apply to the trials of --fails. --deadline ends the search with the smallest model found.
Examples:
  graft reduce model.onnx --fails interpreter --tune off -o small.onnx
  graft reduce model.onnx --check 'python check.py' -o small.onnx)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
