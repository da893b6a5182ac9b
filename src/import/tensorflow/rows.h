// SPDX-License-Identifier: Apache-2.0
// TensorFlow's operators as graph operators: one row each. Signatures name inputs first and then, behind `*`,
// attributes with their defaults. Beside an input stands its type: that of an attribute (`T`) or one of TensorFlow's
// names (`int32`), `:4` where it has to have so many axes, and `N*` before a list of N; from these the reader learns
// about values whose makers tell nothing.
#pragma once

#include <string>
#include <vector>

#include "frontend/conversion.h"

namespace graft::tensorflow {

/// Rows by family, each in the file of its name.
std::vector<frontend::Row> control_flow_rows();
std::vector<frontend::Row> convolution_rows();
std::vector<frontend::Row> detection_rows();
std::vector<frontend::Row> elementwise_rows();
std::vector<frontend::Row> matmul_rows();
std::vector<frontend::Row> movement_rows();
std::vector<frontend::Row> normalization_rows();
std::vector<frontend::Row> pooling_rows();
std::vector<frontend::Row> quantization_rows();
std::vector<frontend::Row> reduction_rows();
std::vector<frontend::Row> slicing_rows();
std::vector<frontend::Row> suppression_rows();
std::vector<frontend::Row> tensor_list_rows();
/// Operators that stay, of which only types and sizes of the results are known.
std::vector<frontend::Row> described_rows();

/// What the functions of a Case are called among a node's.
std::string branch_name(size_t number);

/// All of them. Made once.
const frontend::Converters& converters();

}  // namespace graft::tensorflow
