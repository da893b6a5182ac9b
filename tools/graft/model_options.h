// SPDX-License-Identifier: Apache-2.0
// What every command that takes a model or a plan shares: its options and how they become an engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "driver/compile_options.h"
#include "driver/plan.h"
#include "runtime/session.h"

namespace graft {

/// The choices for compiling, as given; keys as in graft_option.
class ModelOptions {
 public:
  /// Adds MODEL and the choices for compiling to a command.
  void add_to(Command command, const std::string& model_help);
  /// Adds the choices alone, for a command that names its models otherwise.
  void add_choices(Command command);
  /// Adds what a graph without outputs of its own is asked for.
  void add_outputs(Command command);
  /// Adds pairs for the plan that the command writes.
  void add_metadata(Command command);
  /// Lets --precision be int8, int4 or auto, which the command makes itself: then quantised_precision() names it, and
  /// compile_options() has f32. Empty: another precision.
  void take_quantised() { takes_quantised_ = true; }
  std::string quantised_precision() const;
  /// Adds the deadline, for a command that imports or compiles models.
  void add_deadline(Command command);

  /// One choice, as given: the key of graft_option and its value.
  using Choices = std::vector<std::pair<std::string, std::string>>;
  /// The same choices for another file but for these, which replace those of their keys. A plan, whose choices were
  /// made when it was compiled, gets only these and what says how it runs.
  ModelOptions with(const std::string& path, const Choices& own) const;

  /// The file. Of `-`, standard input, which is read to its end when this is called first, it is a file in memory.
  const std::string& path() const;
  /// Whether the model comes from standard input.
  bool is_standard_input() const { return path_ == "-" || path_ == "/dev/stdin"; }
  /// The choices as words of a command line.
  std::vector<std::string> words() const;
  /// Whether a choice of this key was given.
  bool has(std::string_view key) const;
  /// The device that a plan runs on: the one that was chosen, or that it was made for.
  std::string device_for(const Plan& plan) const;
  /// Whether the file is a plan rather than a model.
  bool is_plan() const;
  /// The choices in the compiler's form, with progress and Ctrl-C attached. Throws UsageError.
  CompileOptions compile_options() const;
  /// The deadline, progress and Ctrl-C alone, for run_by_deadline() of a command that makes its own options.
  CompileOptions time_limit() const;
  /// Looks at what an engine will take and give, before it is built (signature.h); throws where that does not fit.
  using SignatureCheck = std::function<void(const Engine& signature)>;
  /// Loads the plan, on the device that it was made for unless another was chosen, or compiles the model.
  std::shared_ptr<const LoadedEngine> load_engine(const SignatureCheck& check = {}) const;
  /// The same computed by the interpreter alone.
  std::shared_ptr<const LoadedEngine> load_interpreter() const;
  /// Throws UsageError where choices were given that a plan has made already, but for those of `allowed`.
  void check_plan_choices(const std::vector<std::string_view>& allowed = {}) const;
  /// The engine without code: what would run on the first target, which need not be here. Of a plan also for another.
  Engine planned_engine() const;

 private:
  Option add_choice(Command command, const std::string& flags, const std::string& key, const std::string& help);
  void check_repetition() const;

  std::string path_;
  Choices choices_;
  bool takes_quantised_ = false;
};

/// Throws UsageError where a file that has to be a model is a plan.
void refuse_plan(const std::string& path);

/// What --size chose, by name. Throws UsageError for a name that no input of the engine has, one that comes twice, or a
/// text that is not NAME=SIZE.
Bindings chosen_sizes(const Engine& engine, const std::vector<std::string>& texts);

/// A fault of the command line, as opposed to one of the model or the machine: the process ends with 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An error's text, with the file in memory that holds what standard input gave called by that name.
std::string name_standard_input(std::string text);

}  // namespace graft
