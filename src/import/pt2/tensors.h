// SPDX-License-Identifier: Apache-2.0
// Types, sizes and weights of exported programs.
#pragma once

#include <map>
#include <string>

#include "base/size.h"
#include "base/tensor_data.h"
#include "import/pt2/archive.h"
#include "import/pt2/json_reader.h"

namespace graft::pt2 {

/// The element type of torch.export's number; kUndefined for those that Graft does not have.
DType element_type(int64_t number);

/// A size: a number, or an expression over dimensions, `Mul(Integer(2), Symbol('s77', positive=True))`.
/// Throws unsupported for functions other than sums and products.
Size read_size(const json& size, const std::string& where);

/// The usual values of dimensions that stand alone, as the export saw them.
void note_hint(const json& size, std::map<std::string, int64_t, std::less<>>& hints);

/// Weights or constants by their names in the model: `folder` is `data/weights` or `data/constants`, `config` the entry
/// that describes them. Elements stay in the archive until somebody asks for them.
std::map<std::string, TensorData, std::less<>> read_tensors(const Archive& archive, const std::string& folder,
                                                            const std::string& config);

}  // namespace graft::pt2
