// SPDX-License-Identifier: Apache-2.0
// What a person compares of a kernel: its launch, what it calls of the device's functions, and a digest of its text.
#pragma once

#include <string>

namespace graft::cuda {

/// The text itself if it has at most `most_lines`; else its first line, a line for what it calls and declares packs of
/// (each with its template arguments and how often it stands there), one for its loops, branches and barriers, and its
/// lines with the digest. GRAFT_KERNEL_TEXTS=FOLDER also writes the whole text there, as NAME.cu.
std::string kernel_outline(const std::string& name, const std::string& text, int most_lines);

}  // namespace graft::cuda
