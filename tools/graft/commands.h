// SPDX-License-Identifier: Apache-2.0
// The subcommands of `graft`. Each adds itself to the command line, and sets the action when it was chosen.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace graft {

/// Does the work after the command line was understood; gives the exit status.
using Action = std::function<int()>;

void add_compile(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_extract(CLI::App& app, Action& action);
void add_reduce(CLI::App& app, Action& action);
void add_plugin(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_embed(CLI::App& app, Action& action);
void add_opt(CLI::App& app, Action& action);
void add_ops(CLI::App& app, Action& action);
void add_env(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_kernel_archives(CLI::App& cache, Action& action);  ///< of `graft cache`
void add_help(CLI::App& app, Action& action);

/// Which command or option of a command line that was not understood does not exist, and which one was probably meant;
/// empty when that is not what is wrong.
std::string describe_misspelling(const CLI::App& app);

}  // namespace graft
