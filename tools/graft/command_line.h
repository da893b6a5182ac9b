// SPDX-License-Identifier: Apache-2.0
// The command line as the subcommands see it. CLI11 parses it, in command_line.cpp alone: its templates take a compiler
// eight seconds in each file that reads them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace graft {

/// An option or a positional argument of a command; a handle, valid as long as the CommandLine.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required(bool is = true) const;
  Option type_name(const std::string& name) const;    ///< how the help calls its value
  Option group(const std::string& title) const;       ///< the heading that the help lists it under
  Option description(const std::string& text) const;  ///< replaces the help
  Option show_default() const;                        ///< the help shows the variable's value
  Option expected(int count) const;                   ///< values after one mention of it
  Option take_all() const;                            ///< the values of all mentions of it
  Option delimiter(char separator) const;             ///< between values of one word
  Option excludes(Option other) const;                ///< both together are a wrong command line
  Option excludes(const std::string& name) const;     ///< of the same command, added before
  Option needs(Option other) const;                   ///< a wrong command line without the other
  Option one_of(const std::vector<std::string>& words) const;
  Option completed_by(const std::vector<std::string>& words) const;  ///< what shells offer; others are values too
  Option in_range(int low, int high) const;  ///< both ends are valid
  Option in_range(double low, double high) const;
  Option positive() const;
  Option not_negative() const;
  /// A number with one of these units behind it is multiplied by the unit's factor.
  Option with_unit(const std::map<std::string, double>& factors) const;

 private:
  CLI::Option* option_;
};

/// The command `graft` or one below it; a handle, valid as long as the CommandLine.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  /// `names` as in "-o,--output", or "MODEL" for a positional argument. The variable keeps its value unless the option
  /// is given. T: string, vector<string>, int, int64_t, uint64_t, double, optional of int64_t or double.
  template <class T>
  Option add_option(const std::string& names, T& variable, const std::string& help);
  Option add_flag(const std::string& names, bool& variable, const std::string& help);
  /// Calls the function with the value, or all values, of the option where it is given.
  Option add_option_value(const std::string& names, std::function<void(const std::string&)> take,
                          const std::string& help);
  Option add_option_values(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                           const std::string& help);
  Command add_command(const std::string& name, const std::string& help);
  Option option(const std::string& name) const;  ///< one that was added

  void alias(const std::string& name);
  void footer(const std::string& text);
  void require_command();                            ///< wrong without one of the commands below it
  void on_chosen(std::function<void()> called);      ///< once, after its options were set

  std::string name() const;
  std::string full_name() const;                     ///< `graft cache list`
  std::vector<std::string> command_names() const;    ///< of the commands below it, aliases too
  std::vector<std::string> option_names() const;     ///< with their dashes
  std::vector<std::string> values_of(const std::string& option) const;  ///< what shells offer for it, named with dashes
  bool takes_value(const std::string& option) const;
  Command command(const std::string& name) const;    ///< one below it, by name or alias
  std::string help() const;
  /// The last command on the command line that was found, and the words behind it that were not understood.
  Command innermost_chosen() const;
  std::vector<std::string> words_left() const;

 private:
  CLI::App* app_;
};

/// What a command line ended in that is not to be carried out: wrong usage, or the help or version that it asked for.
struct ParseEnd {
  bool wrong;
  std::string output, messages;  ///< for standard output and standard error
};

/// The whole command line of the program.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& name, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() const { return Command(app_.get()); }
  /// Sets the variables of all options and calls what was chosen. Null where all is well.
  std::unique_ptr<ParseEnd> parse(int count, char** words);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace graft
