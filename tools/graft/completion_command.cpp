// SPDX-License-Identifier: Apache-2.0
// graft completion: what shells complete, from the command line's own tables.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "model_options.h"

namespace graft {
namespace {

// The scripts are those of tools/completion, which are installed; a test compares them.
constexpr const char* kBash = R"sh(# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completes the command `graft` in bash: commands, options and their values, otherwise files. Installed as
# share/bash-completion/completions/graft; or `eval "$(graft completion bash)"`.
_graft() {
  mapfile -t COMPREPLY < <("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _graft graft
)sh";

constexpr const char* kZsh = R"sh(#compdef graft
# SPDX-License-Identifier: Apache-2.0
# Completes the command `graft` in zsh: commands, options and their values, otherwise files. Installed as
# share/zsh/site-functions/_graft; or `eval "$(graft completion zsh)"` behind compinit.
_graft() {
  local -a found
  found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=(${found:#})
  if (( $#found )); then compadd -a found; else _files; fi
}
if [[ $funcstack[1] == _graft ]]; then _graft "$@"; else compdef _graft graft; fi
)sh";

constexpr const char* kFish = R"sh(# SPDX-License-Identifier: Apache-2.0
# Completes the command `graft` in fish: commands, options and their values, beside files. Installed as
# share/fish/vendor_completions.d/graft.fish; or `graft completion fish | source`.
function __graft_complete
  set -l line (commandline -opc) (commandline -ct)
  graft completion words -- $line[2..-1] 2>/dev/null
end
complete -c graft -a '(__graft_complete)'
)sh";

/// Those that begin like the word, in front of which `before` stands.
std::vector<std::string> beginning(const std::vector<std::string>& all, const std::string& word,
                                   const std::string& before = "") {
  std::vector<std::string> found;
  for (const std::string& each : all) {
    if (each.starts_with(word)) found.push_back(before + each);
  }
  return found;
}

/// What may stand in place of the last word of a line, whose first words are behind `graft`. Empty where files may.
std::vector<std::string> completions(Command app, std::vector<std::string> words) {
  std::string last = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  if (last == "=") words.emplace_back("="), last.clear();  // bash takes `--tune=fast` for three words
  if (!words.empty() && words[0] == "help") return beginning(app.command_names(), last);
  std::string option;
  for (const std::string& word : words) {
    const std::vector<std::string> names = app.command_names();
    if (std::find(names.begin(), names.end(), word) != names.end()) app = app.command(word);
    if (word != "=") option = word;
  }
  if (const auto values = app.values_of(option); !values.empty()) return beginning(values, last);
  if (const size_t equals = last.find('='); last.starts_with("--") && equals != last.npos) {
    return beginning(app.values_of(last.substr(0, equals)), last.substr(equals + 1), last.substr(0, equals + 1));
  }
  if (last.starts_with('-')) return beginning(app.option_names(), last);
  return app.takes_value(option) ? std::vector<std::string>() : beginning(app.command_names(), last);
}

int complete(const Command& root, const std::string& shell, const std::vector<std::string>& words) {
  if (shell == "words") {
    for (const std::string& each : completions(root, words)) print_to(stdout, "{}\n", each);
    return 0;
  }
  if (!words.empty()) throw UsageError("completion: the name of the shell is all that it takes");
  print_text(stdout, shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return 0;
}

}  // namespace

void add_completion(Command app, Action& action) {
  Command sub = app.add_command("completion", "print the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  const auto words = std::make_shared<std::vector<std::string>>();
  sub.add_option("SHELL", *shell, "bash, zsh or fish; `words` lists what completes the line behind `--`")
      .required().one_of({"bash", "zsh", "fish", "words"}).type_name("NAME");
  sub.add_option("WORD", *words, "with `words`: the line so far, without `graft`").type_name("");
  sub.footer(R"help(
Examples:
  eval "$(graft completion bash)"       in ~/.bashrc; not needed with an installed tree
  graft completion fish | source)help");
  sub.on_chosen([=, &action] { action = [=] { return complete(app, *shell, *words); }; });
}

}  // namespace graft
