// SPDX-License-Identifier: Apache-2.0
// graft help, and what was meant by words that are no commands or options.

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/spelling.h"
#include "commands.h"
#include "console.h"
#include "model_options.h"

namespace graft {
namespace {

std::string no_such_command(const Command app, const std::string& word) {
  const std::vector<std::string> names = app.command_names();
  const std::string meant = did_you_mean(word, names);
  return fmt::format("`{}` has no command '{}'{} there are {}", app.full_name(), word, meant.empty() ? ";" : meant,
                     fmt::join(names, ", "));
}

int print_help(Command app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::vector<std::string> names = app.command_names();
    if (std::find(names.begin(), names.end(), word) == names.end()) throw UsageError(no_such_command(app, word));
    app = app.command(word);
  }
  print_text(stdout, app.help());
  return 0;
}

}  // namespace

std::string describe_misspelling(Command root) {
  const Command app = root.innermost_chosen();
  for (const std::string& word : app.words_left()) {
    if (word.starts_with('-') && word != "-") {
      const std::string name = word.substr(0, word.find('='));
      const std::string meant = did_you_mean(name, app.option_names());
      return fmt::format("`{0}` has no option '{1}'{2} `{0} --help` lists them", app.full_name(), name,
                         meant.empty() ? ";" : meant);
    }
    if (!app.command_names().empty()) return no_such_command(app, word);
  }
  return "";
}

void add_help(Command app, Action& action) {
  Command sub = app.add_command("help", "explain a command: graft help compile");
  const auto words = std::make_shared<std::vector<std::string>>();
  sub.add_option("COMMAND", *words, "the command; without it, the list of all").type_name("NAME");
  sub.on_chosen([=, &action] { action = [=] { return print_help(app, *words); }; });
}

}  // namespace graft
