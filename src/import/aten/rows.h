// SPDX-License-Identifier: Apache-2.0
// torch's ATen operators as graph operators: one row each, for TorchScript graphs, exported programs and torch.compile.
#pragma once

#include <vector>

#include "frontend/conversion.h"

namespace graft::aten {

/// Rows by family, each in the file of its name.
std::vector<frontend::Row> activation_rows();
std::vector<frontend::Row> arithmetic_rows();
std::vector<frontend::Row> attention_rows();
std::vector<frontend::Row> bag_rows();
std::vector<frontend::Row> complex_rows();
std::vector<frontend::Row> control_flow_rows();
std::vector<frontend::Row> convolution_rows();
std::vector<frontend::Row> creation_rows();
std::vector<frontend::Row> elementwise_rows();
std::vector<frontend::Row> fourier_rows();
std::vector<frontend::Row> indexing_rows();
std::vector<frontend::Row> language_rows();
std::vector<frontend::Row> list_rows();
std::vector<frontend::Row> matmul_rows();
std::vector<frontend::Row> movement_rows();
std::vector<frontend::Row> normalization_rows();
std::vector<frontend::Row> pooling_rows();
std::vector<frontend::Row> quantization_rows();
std::vector<frontend::Row> ranking_rows();
std::vector<frontend::Row> recurrent_rows();
std::vector<frontend::Row> reduction_rows();
std::vector<frontend::Row> resizing_rows();
std::vector<frontend::Row> scattering_rows();
std::vector<frontend::Row> spectrogram_rows();

/// All of them. Made once.
const frontend::Converters& converters();

}  // namespace graft::aten
