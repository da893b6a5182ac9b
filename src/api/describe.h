// SPDX-License-Identifier: Apache-2.0
// An engine as JSON, for tools in any language.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "driver/check_model.h"
#include "driver/plan_metadata.h"
#include "engine/engine.h"

namespace graft {

/// Quotes and escapes a text for JSON, what does not show (base/printable.h) too; bytes that are no UTF-8 become
/// U+FFFD.
std::string json_text(std::string_view text);

/// How many steps run which way: generated, library, host, interpreter, none; and `folded`, the outputs that were
/// computed while compiling.
std::map<std::string, int> count_ways(const Engine& engine);

/// The object that graft_engine_describe documents.
std::string describe(const Engine& engine);
/// The object that graft_engine_metadata documents.
std::string describe_metadata(const Metadata& metadata);
/// The object that graft_check documents.
std::string describe(const ModelCheck& check);

}  // namespace graft
