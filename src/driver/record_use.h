// SPDX-License-Identifier: Apache-2.0
// The record of choices that a caller gives: read, and whether it was any use.
#pragma once

#include <span>

#include "driver/compile_options.h"
#include "driver/plan.h"
#include "engine/record.h"

namespace graft {

/// The choices that the options name a file of: a plan, or the text of a record; nothing without one. Throws
/// invalid_argument when none of them is for a machine of these kinds.
Plan read_known_choices(const CompileOptions& options, std::span<const Target> targets);

/// Warns, with numbers, when a record that was given was used only in part by builds that gave these; throws
/// invalid_argument when nothing of it was.
void check_use(const Plan& known, std::span<const Record> built, const CompileOptions& options);

}  // namespace graft
