// SPDX-License-Identifier: Apache-2.0
// The functions of MXNet's own C interface that an extension is not handed, found in the library that loaded it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shape_text.h"

namespace graft::extension {

/// Remembers the library that has this address, which is MXNet's, and its version: major * 10000 + minor * 100 + patch.
void find_framework(void* address_in_it, int version);
/// That version.
int framework_version();

/// Waits until every array has the values that were asked of it.
void wait_for_arrays();

/// Where the elements of an array lie, in the order of its axes, once all that writes to it has run; null where MXNet
/// does not say.
const void* data_of(void* array);

/// The shapes of a symbol's outputs, in their order, where its variables have these; nothing where MXNet finds none.
std::optional<std::vector<Sizes>> infer_shapes(const std::string& symbol_json,
                                               const std::map<std::string, Sizes>& shapes);

}  // namespace graft::extension
