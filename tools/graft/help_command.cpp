// SPDX-License-Identifier: Apache-2.0
// graft help, and what was meant by words that are no commands or options.
#include <CLI/CLI.hpp>

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/spelling.h"
#include "commands.h"
#include "console.h"
#include "model_options.h"

namespace graft {
namespace {

bool is_command(const CLI::App* app) { return !app->get_name().empty(); }

/// The names and aliases of the commands below one.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(is_command)) {
    names.push_back(command->get_name());
    for (const std::string& alias : command->get_aliases()) names.push_back(alias);
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// `graft cache`
std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::string no_such_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  const std::string meant = did_you_mean(word, names);
  return fmt::format("`{}` has no command '{}'{} there are {}", full_name(app), word, meant.empty() ? ";" : meant,
                     fmt::join(names, ", "));
}

int print_help(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const std::vector<std::string> names = command_names(*app);
    if (std::find(names.begin(), names.end(), word) == names.end()) throw UsageError(no_such_command(*app, word));
    app = app->get_subcommand(word);
  }
  print_text(stdout, app->get_formatter()->make_help(app, full_name(*app), CLI::AppFormatMode::Normal));
  return 0;
}

}  // namespace

std::string describe_misspelling(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  for (const std::string& word : app->remaining()) {
    if (word.starts_with('-') && word != "-") {
      const std::string name = word.substr(0, word.find('='));
      const std::string meant = did_you_mean(name, option_names(*app));
      return fmt::format("`{0}` has no option '{1}'{2} `{0} --help` lists them", full_name(*app), name,
                         meant.empty() ? ";" : meant);
    }
    if (!command_names(*app).empty()) return no_such_command(*app, word);
  }
  return "";
}

void add_help(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("help", "explain a command: graft help compile");
  const auto words = std::make_shared<std::vector<std::string>>();
  sub->add_option("COMMAND", *words, "the command; without it, the list of all")->type_name("NAME");
  const CLI::App* root = &app;
  sub->callback([=, &action] { action = [=] { return print_help(*root, *words); }; });
}

}  // namespace graft
