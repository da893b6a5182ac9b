// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <sstream>

namespace graft {
namespace {

/// What shells offer for the value of an option.
std::map<const CLI::Option*, std::vector<std::string>>& offered_values() {
  static auto* all = new std::map<const CLI::Option*, std::vector<std::string>>;
  return *all;
}

/// The option of that name, with its dashes; null where there is none.
const CLI::Option* find_option(const CLI::App* app, const std::string& name) {
  return name.starts_with('-') ? app->get_option_no_throw(name) : nullptr;
}

}  // namespace

Option Option::required(bool is) const {
  option_->required(is);
  return *this;
}

Option Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Option Option::group(const std::string& title) const {
  option_->group(title);
  return *this;
}

Option Option::description(const std::string& text) const {
  option_->description(text);
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::expected(int count) const {
  option_->expected(count);
  return *this;
}

Option Option::take_all() const {
  option_->take_all();
  return *this;
}

Option Option::delimiter(char separator) const {
  option_->delimiter(separator);
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::excludes(const std::string& name) const {
  option_->excludes(name);
  return *this;
}

Option Option::needs(Option other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return completed_by(words);
}

Option Option::completed_by(const std::vector<std::string>& words) const {
  offered_values()[option_] = words;
  return *this;
}

Option Option::in_range(int low, int high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::in_range(double low, double high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option Option::not_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::with_unit(const std::map<std::string, double>& factors) const {
  option_->transform(CLI::AsNumberWithUnit(factors));
  return *this;
}

template <class T>
Option Command::add_option(const std::string& names, T& variable, const std::string& help) {
  return Option(app_->add_option(names, variable, help));
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, int64_t&, const std::string&);
template Option Command::add_option(const std::string&, uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);

Option Command::add_flag(const std::string& names, bool& variable, const std::string& help) {
  return Option(app_->add_flag(names, variable, help));
}

Option Command::add_option_value(const std::string& names, std::function<void(const std::string&)> take,
                                 const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, std::move(take), help));
}

Option Command::add_option_values(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                                  const std::string& help) {
  return Option(app_->add_option_function<std::vector<std::string>>(names, std::move(take), help));
}

Command Command::add_command(const std::string& name, const std::string& help) {
  return Command(app_->add_subcommand(name, help));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::alias(const std::string& name) { app_->alias(name); }

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::require_command() { app_->require_subcommand(1); }

void Command::on_chosen(std::function<void()> called) { app_->callback(std::move(called)); }

std::string Command::name() const { return app_->get_name(); }

std::string Command::full_name() const {
  CLI::App* parent = app_->get_parent();
  return parent ? Command(parent).full_name() + " " + name() : name();
}

std::vector<std::string> Command::command_names() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_->get_subcommands([](const CLI::App* app) { return !app->get_name().empty(); })) {
    names.push_back(command->get_name());
    for (const std::string& alias : command->get_aliases()) names.push_back(alias);
  }
  return names;
}

std::vector<std::string> Command::option_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> Command::values_of(const std::string& option) const {
  const auto found = offered_values().find(find_option(app_, option));
  return found == offered_values().end() ? std::vector<std::string>() : found->second;
}

bool Command::takes_value(const std::string& option) const {
  const CLI::Option* found = find_option(app_, option);
  return found && found->get_expected_max() > 0;
}

Command Command::command(const std::string& name) const { return Command(app_->get_subcommand(name)); }

std::string Command::help() const {
  return app_->get_formatter()->make_help(app_, full_name(), CLI::AppFormatMode::Normal);
}

Command Command::innermost_chosen() const {
  CLI::App* app = app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return Command(app);
}

std::vector<std::string> Command::words_left() const { return app_->remaining(); }

CommandLine::CommandLine(const std::string& description, const std::string& name, const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", version);
  app_->get_formatter()->column_width(34);
}

CommandLine::~CommandLine() = default;

std::unique_ptr<ParseEnd> CommandLine::parse(int count, char** words) {
  try {
    app_->parse(count, words);
    return nullptr;
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, messages;
    const bool wrong = app_->exit(error, output, messages) != 0;
    return std::make_unique<ParseEnd>(ParseEnd{wrong, output.str(), messages.str()});
  }
}

}  // namespace graft
