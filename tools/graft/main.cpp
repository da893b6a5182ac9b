// SPDX-License-Identifier: Apache-2.0
// The command `graft`. Exit status: 0 success, 1 failure, 2 a command line that was not understood, 130 interrupted,
// 143 ended by SIGTERM.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "json_output.h"
#include "model_options.h"

namespace graft {
namespace {

constexpr const char* kExamples = R"(
A first day:
  graft check model.onnx                          does it run here, and how?
  graft compile model.onnx -o model.graft         once, for all sizes within the ranges
  graft run model.graft --input x=x.npy --output y.npz
  graft run model.onnx --reference onnxruntime    are the results right?
  graft bench model.graft --size batch=8          how fast is it?
  graft inspect model.graft                       where does the time go?

`graft help COMMAND` explains a command. Exit status: 1 failure, 2 wrong usage.)";

int fail(int status, const std::string& message) noexcept {
  clear_progress();
  try {
    print_to(stderr, "graft: {}\n", message);
  } catch (const std::exception&) {
    // Standard error is closed: the status is all that can be said.
  }
  return status;
}

/// The flag of the command line that an error is about, where it names a choice of the compiler's (`dim`, `target`) or
/// an option; empty for faults of files and models.
std::string flag_of(const Error& error) {
  if (error.kind() != ErrorKind::kInvalidArgument) return "";
  constexpr std::string_view kOfWords = "abcdefghijklmnopqrstuvwxyz0123456789-";
  const std::string word = error.where().substr(0, error.where().find_first_not_of(kOfWords));
  if (word.starts_with("--")) return word;
  if (word.ends_with("shape")) return "--" + word + "s";
  constexpr std::string_view kChoices[] = {"dim",  "shapes",  "target",    "device", "precision", "threads", "tune",
                                           "mode", "disable", "signature", "tag",    "outputs",   "params",
                                           "overridable", "fp32-units"};
  return std::find(std::begin(kChoices), std::end(kChoices), word) != std::end(kChoices) ? "--" + word : "";
}

int fail(int status, const Error& error) {
  write_json_error(status, name_of(error.kind()), name_standard_input(error.where()), error.message());
  return fail(status, fmt::format("{}: {}", name_of(error.kind()), name_standard_input(error.what())));
}

/// What an error says of a flag: where within its value, and what is wrong.
std::string text_behind(const std::string& flag, const Error& error) {
  const size_t name = error.where().find_first_of(" ,:");
  if (name == error.where().npos || flag.empty()) return error.message();
  const size_t rest = error.where().find_first_not_of(" ,:", name);
  return rest == error.where().npos ? error.message()
                                    : fmt::format("{}: {}", error.where().substr(rest), error.message());
}

int fail_usage(const std::string& where, const std::string& message) {
  write_json_error(kUsage, "usage", where, message);
  return fail(kUsage, where.empty() ? message : fmt::format("{}: {}", where, message));
}

int run_action(const Action& action) {
  try {
    const int status = action();
    clear_progress();
    // What was printed may be on a full disk or a closed pipe.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) return fail(kFailure, "the output could not be written");
    return status;
  } catch (const UsageError& error) {
    return fail_usage("", error.what());
  } catch (const Error& error) {
    const bool stopped = error.kind() == ErrorKind::kCancelled && interrupted();
    if (stopped) return fail(stopped_status(), "stopped; nothing was left behind");
    const std::string flag = flag_of(error);
    return flag.empty() ? fail(kFailure, error) : fail_usage(flag, text_behind(flag, error));
  } catch (const PrintError& error) {
    return fail(kFailure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailure, "out of memory: use smaller sizes, or free some");
  } catch (const std::exception& error) {
    return fail(kFailure, fmt::format("internal error: {}", error.what()));
  }
}

/// What a command line that was not understood meant, or the help or version that it asked for.
int explain(const CommandLine& line, const ParseEnd& end) {
  const std::string misspelt = end.wrong ? describe_misspelling(line.root()) : "";
  if (!misspelt.empty()) return fail(kUsage, misspelt);
  return run_action([&] {
    print_text(stdout, end.output);
    print_text(stderr, end.wrong ? "graft: " + end.messages : end.messages);
    return end.wrong ? kUsage : 0;
  });
}

int main(int count, char** words) {
  CommandLine line("Graft compiles trained networks into engines that run fast on the machine you have.", "graft",
                   "graft " GRAFT_VERSION);
  Command root = line.root();
  root.footer(kExamples);
  root.require_command();
  Action action;
  for (const auto add : {add_compile, add_run, add_bench, add_check, add_inspect, add_compare, add_extract, add_reduce,
                         add_plugin, add_convert, add_embed, add_serve, add_opt, add_ops, add_env, add_cache,
                         add_completion, add_help}) {
    add(root, action);
  }
  if (const auto end = line.parse(count, words)) return explain(line, *end);
  catch_interrupts();
  return run_action(action);
}

}  // namespace
}  // namespace graft

int main(int count, char** words) { return graft::main(count, words); }
