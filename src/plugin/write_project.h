// SPDX-License-Identifier: Apache-2.0
// The files of a folder of plugins.
#pragma once

#include <string>
#include <vector>

#include "plugin/generate.h"
#include "plugin/write_folder.h"

namespace graft::plugin {

/// A file that every such folder has.
inline constexpr char kMark[] = "graft_kernels.h";

/// The file of a plugin's record of choices, which generating it again reads.
std::string choices_file(const std::string& plugin, const std::string& architecture);

/// Writes sources, code, CMakeLists.txt and README.md of the plugins.
void write_project(const Generated& generated, const Request& request, const OutputFolder& folder);

}  // namespace graft::plugin
