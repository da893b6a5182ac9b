// SPDX-License-Identifier: Apache-2.0
// Where library calls come from: the module of the library, opened when the first call is made ready and not before.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"
#include "library/call.h"
#include "library/schedule.h"
#include "runtime/library_call.h"

namespace graft {

/// Makes calls ready for the sessions of one loaded engine: what follows from a step's region is worked out once.
LibrarySource library_source();

/// Empty when the library's module and the library itself are there and open, else what is missing. Thread-safe.
std::string why_no_library(const std::string& library);

/// Why a library does not do a call of concrete sizes in a way of its own, or an empty text: the call is made ready as
/// for a run. Thread-safe.
using LibraryRefusal = std::function<std::string(const LibrarySchedule& schedule, const LibraryCall& call)>;
/// Asks for runs on this stream of a device; null: for runs on this CPU.
LibraryRefusal library_refusal(std::shared_ptr<DeviceStream> stream);

/// Name and version of the library; opens it. Empty when there is none.
std::string library_version(const std::string& library);

}  // namespace graft
