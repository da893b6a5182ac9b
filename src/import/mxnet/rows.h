// SPDX-License-Identifier: Apache-2.0
// MXNet's operators as graph operators, one row each: by the names that symbols have, and by the older ones of files.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "frontend/conversion.h"

namespace graft::mxnet {

/// `{"Concat concat", "... data, num_args=0, dim=1", concat}`: names; inputs (`...`: any number), then all attributes.
/// An attribute that is not listed is refused: it could change what the operator means.
struct Row {
  std::string_view names;
  std::string_view arguments;
  std::function<void(frontend::Conversion&)> build;
  bool has_graphs = false;  ///< of its own, by their number
};

/// Rows by family, each in the file of its name.
std::vector<Row> activation_rows();
std::vector<Row> arithmetic_rows();
std::vector<Row> control_flow_rows();
std::vector<Row> convolution_rows();
std::vector<Row> creation_rows();
std::vector<Row> detection_rows();
std::vector<Row> indexing_rows();
std::vector<Row> matmul_rows();
std::vector<Row> movement_rows();
std::vector<Row> normalization_rows();
std::vector<Row> numpy_elementwise_rows();
std::vector<Row> numpy_movement_rows();
std::vector<Row> numpy_reduction_rows();
std::vector<Row> ordering_rows();
std::vector<Row> pooling_rows();
std::vector<Row> proposal_rows();
std::vector<Row> random_rows();
std::vector<Row> recurrent_rows();
std::vector<Row> reduction_rows();
std::vector<Row> region_rows();
std::vector<Row> reshaping_rows();
std::vector<Row> rounding_rows();
std::vector<Row> sequence_rows();
std::vector<Row> softmax_rows();
std::vector<Row> transformer_rows();

/// All of them. Made once.
const frontend::Converters& converters();

}  // namespace graft::mxnet
