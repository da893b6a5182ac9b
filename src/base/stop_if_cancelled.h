// SPDX-License-Identifier: Apache-2.0
// Work that a caller may stop: it asks now and then.
#pragma once

#include <functional>
#include <string>

namespace graft {

/// Throws `cancelled`, naming `where`, when `cancelled`, which may be null, says so.
void stop_if_cancelled(const std::function<bool()>& cancelled, const std::string& where);

}  // namespace graft
