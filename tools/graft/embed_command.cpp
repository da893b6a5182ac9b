// SPDX-License-Identifier: Apache-2.0
// graft embed: engines in a framework's model file.
#include <nlohmann/json.hpp>

#include <memory>

#include "base/file.h"
#include "commands.h"
#include "console.h"
#include "driver/embed.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"

namespace graft {
namespace {

struct EmbedCommand {
  std::string model, format = "tensorflow", output, report;
  std::vector<std::string> outputs;
  ModelOptions options;
  ModelOptions::Choices partition;
  bool strict = false;
  JsonOutput json;

  int run() const;
  EmbedChoices choices() const;
};

EmbedChoices EmbedCommand::choices() const {
  EmbedChoices made;
  made.compile = options.compile_options();
  made.strict = strict;
  for (const auto& [key, value] : partition) {
    try {
      set_choice(made, {key, value});
    } catch (const Error& error) {
      throw UsageError(std::string("--") + error.what());
    }
  }
  return made;
}

int EmbedCommand::run() const {
  refuse_plan(model);
  check_output("--output", output, {model});
  check_output("--report", report, {model});
  json.check({model});
  check_no_terminal("--output", output, "a model");
  const auto file = MappedFile::open(model);
  Embedded made;
  try {
    made = embed(format, file->bytes(), file, outputs, choices());
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), error.where().empty() ? model : model + ": " + error.where());
  }
  clear_progress();
  write_output(output, made.bytes);
  if (!report.empty()) write_output(report, made.report);
  if (json.leaves_text() && output != "-" && report != "-") {
    print_to(stdout, "{}: {} engine{}\n", output, made.engines, made.engines == 1 ? "" : "s");
  }
  json.write({{"file", output}, {"engines", made.engines}, {"report", made.report}});
  return 0;
}

void add_partition_choice(Command command, EmbedCommand& embed, const std::string& key, const std::string& type,
                          const std::string& help) {
  command.add_option_values(
             "--" + key,
             [&embed, key](const std::vector<std::string>& values) {
               for (const std::string& value : values) embed.partition.emplace_back(key, value);
             }, help)
      .group("Dividing").type_name(type).expected(1).take_all();
}

}  // namespace

void add_embed(Command app, Action& action) {
  Command sub = app.add_command("embed", "put engines into a model of TensorFlow, which then runs them");
  const auto command = std::make_shared<EmbedCommand>();
  sub.add_option("MODEL", command->model, "a frozen graph of TensorFlow (GraphDef, binary)").required()
      .type_name("FILE");
  sub.add_option("--outputs", command->outputs, "outputs of the model: nodes or tensors (softmax, split:1)")
      .type_name("NAME,...").delimiter(',').expected(1).take_all().required();
  sub.add_option("-o,--output", command->output, "the model to write").required().type_name("FILE");
  sub.add_option("--report", command->report,
                  "write a report: the engines, and the reason for each other part; - is standard output")
      .type_name("FILE");
  sub.add_flag("--strict", command->strict, "an engine that cannot be built is an error; by default its part stays");
  add_partition_choice(sub, *command, "minimum-size", "COUNT", "fewest operators of an engine (1)");
  add_partition_choice(sub, *command, "minimum-gain", "US",
                       "fewest microseconds that an engine has to save per run, by estimate");
  add_partition_choice(sub, *command, "most-segments", "COUNT",
                       "keep only this many engines, the largest ones; 0: all (0)");
  add_partition_choice(sub, *command, "exclude-op", "OP", "an operator that stays; may be repeated");
  add_partition_choice(sub, *command, "exclude", "NAME", "a node, or a scope, that stays; may be repeated");
  add_partition_choice(sub, *command, "only", "NAME", "a scope to convert; all other nodes stay; may be repeated");
  command->options.add_choices(sub);
  command->options.add_deadline(sub);
  command->json.add_to(sub);
  sub.footer(R"(
TensorFlow is not needed here. It loads the file after loading libgraft_tensorflow.so (docs/TENSORFLOW.md). --shapes and
--dim refer to inputs of the graph; a dynamic dimension is named after its input and axis.
Examples:
  graft embed frozen.pb --outputs softmax -o fast.pb --report -
  graft embed frozen.pb --outputs boxes,scores --dim image_0=1:8:64 --minimum-size 3 -o fast.pb)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
