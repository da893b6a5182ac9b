// SPDX-License-Identifier: Apache-2.0
// The driver of saving and loading: from a plan to its file and back, and to code that runs.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compile.h"
#include "engine/plan_file.h"
#include "runtime/session.h"

namespace graft {

/// A plan as its file has it. Weights that the plan holds packed are stored in that form only.
PlanFile to_file(const Plan& plan);
/// The plan behind a file's contents; weights stay where they are, and packed ones are unpacked when somebody asks.
/// Throws invalid_model naming `where`, what is wrong and the remedy.
Plan from_file(PlanFile file, const std::string& where);

/// Writes a plan; a reader sees the old file or the whole new one.
void save(const Plan& plan, const std::string& path);
/// Reads a plan. Throws Error naming the section and the remedy for a file that is damaged or foreign.
Plan open_plan(const std::string& path);
/// Whether the file begins like a plan (rather than a model); false when it cannot be read.
bool is_plan(const std::string& path);

/// The choices that a plan was compiled with, as far as they matter to a build from it.
CompileOptions options_of(const Plan& plan);

/// The engine of a plan for this machine, with the code of its kernels, from the cache or compiled.
/// `device` is cpu, cuda or cuda:N.
std::shared_ptr<const LoadedEngine> load(const Plan& plan, const std::string& device = "cpu");
/// An engine just compiled, with its code in executable memory. Throws unsupported when it was made for another
/// machine.
std::shared_ptr<const LoadedEngine> load(Engine engine, const std::string& device = "cpu");

}  // namespace graft
