// SPDX-License-Identifier: Apache-2.0
// Where a plan comes from, and what its maker says of it: pairs of texts that change nothing about a run.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/model_source.h"
#include "graph/graph.h"

namespace graft {

/// Pairs of a key and a value, in the order in which they were given.
///   graft.source         the name of the model's file, without its folder
///   graft.source_sha256  of the file's bytes; not of external data
///   graft.source_bytes   how many
///   graft.made           when it was compiled, `2026-11-30T13:28:00Z`, by SOURCE_DATE_EPOCH; without that
///                        environment variable a plan has no time, so that equal choices give equal plans
/// Other keys are the maker's.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Adds `KEY=VALUE`. Throws invalid_argument for a key that is empty, Graft's own, too long, or there already.
void add_metadata(Metadata& metadata, std::string_view text);

/// Puts what is known of a model's file, and the time, before the pairs. Throws as reading the file does.
void add_origin(Metadata& metadata, const ModelSource& source);

/// Adds when the file of a plan was written as `graft.made`, where the plan has none.
void add_time_of_file(Metadata& metadata, const std::string& path);

/// All pairs that are told of a plan: its metadata, `graft.version` of its compiler, and what the model's own file says
/// (`model.KEY`).
Metadata all_metadata(const Metadata& metadata, const Graph& graph,
                      const std::vector<std::pair<std::string, std::string>>& options);

}  // namespace graft
