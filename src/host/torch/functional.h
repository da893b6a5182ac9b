// SPDX-License-Identifier: Apache-2.0
// Rewrites that take out writes which nobody outside of the graph sees.
#pragma once

#include <memory>

#include <torch/csrc/jit/ir/ir.h>

namespace graft::torchscript {

/// Lists and dicts that one block makes, changes and reads become what they hold: what is read is the element itself,
/// and operators that take a whole list get one that nobody changes. Gives whether something changed.
///
///   y = []; y.append(a); z = cat(y); y.append(b); return y   ->   z = cat([a]); return [a, b]
bool functional_containers(torch::jit::Graph& graph);

/// Writes into parts of a tensor that the graph made become operators whose result stands for it from then on. Gives
/// whether something changed.
///
///   m = zeros(..); m[0:2].fill_(1); return m   ->   m = zeros(..); n = slice_scatter(m, fill(m[0:2], 1), ..); return n
bool functional_views(torch::jit::Graph& graph);

}  // namespace graft::torchscript
