// SPDX-License-Identifier: Apache-2.0
// What a framework's operator takes, by name: the schema of a converter row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/foreign_graph.h"

namespace graft::frontend {

/// One argument of a signature.
struct Parameter {
  std::string name;
  std::string type = {};  ///< as it is written, `Tensor?`, `int[2]`; a front end may read more out of it
  std::optional<int> rank = {};  ///< of a tensor whose number of axes is given: `T:4`, of type `T`
  bool has_default = false;
  Argument default_value = {};
};

/// `aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`: types are kept as
/// they are, and `*` is read over, so that a framework's own schema can be pasted.
struct Signature {
  std::string op;
  std::vector<Parameter> parameters;
  std::optional<size_t> results = {};  ///< how many stand behind `->`

  /// Throws Error{internal} for texts that are no signature: rows are ours, or checked where users' come in.
  static Signature parse(std::string_view text);
};

}  // namespace graft::frontend
