// SPDX-License-Identifier: Apache-2.0
// The subcommands of `graft`. Each adds itself to the command line, and sets the action when it was chosen.
#pragma once

#include <functional>
#include <string>

#include "command_line.h"

namespace graft {

/// Does the work after the command line was understood; gives the exit status.
using Action = std::function<int()>;

void add_compile(Command app, Action& action);
void add_run(Command app, Action& action);
void add_bench(Command app, Action& action);
void add_check(Command app, Action& action);
void add_inspect(Command app, Action& action);
void add_compare(Command app, Action& action);
void add_extract(Command app, Action& action);
void add_reduce(Command app, Action& action);
void add_plugin(Command app, Action& action);
void add_convert(Command app, Action& action);
void add_embed(Command app, Action& action);
void add_serve(Command app, Action& action);
void add_opt(Command app, Action& action);
void add_ops(Command app, Action& action);
void add_env(Command app, Action& action);
void add_cache(Command app, Action& action);
void add_kernel_archives(Command cache, Action& action);  ///< of `graft cache`
void add_completion(Command app, Action& action);
void add_help(Command app, Action& action);

/// Which command or option of a command line that was not understood does not exist, and which one was probably meant;
/// empty when that is not what is wrong.
std::string describe_misspelling(const Command app);

}  // namespace graft
