// SPDX-License-Identifier: Apache-2.0
// The driver of loading: from a plan, or an engine just compiled, to code that runs.
#pragma once

#include <memory>
#include <string>

#include "driver/compile.h"
#include "runtime/session.h"

namespace graft {

/// The choices that a plan was compiled with, as far as they matter to a build from it.
CompileOptions options_of(const Plan& plan);

/// The device that a plan was made for: the first of its targets that is here, as `cpu`, `cuda` or `cuda:N`. Where none
/// is, a GPU of another kind for a plan of GPUs, else `cpu`.
std::string device_of(const Plan& plan);

/// The engine of a plan for this machine, with the code of its kernels, from the cache or compiled.
/// `device` is cpu, cuda or cuda:N, or auto: device_of(plan). `threads` of a CPU run it; 0: as many as the plan was
/// made for, and no more than this process can use. A plan that was made for other machines only is planned anew, with
/// a warning that says so.
std::shared_ptr<const LoadedEngine> load(const Plan& plan, const std::string& device = "cpu", int threads = 0);
/// Why an engine cannot run on `device` of this machine, which is not the kind that it was made for; empty when it can.
std::string why_not_here(const Engine& engine, const std::string& device);
/// An engine just compiled, with its code in executable memory. Throws unsupported when it was made for another
/// machine.
std::shared_ptr<const LoadedEngine> load(Engine engine, const std::string& device = "cpu", int threads = 0);

}  // namespace graft
