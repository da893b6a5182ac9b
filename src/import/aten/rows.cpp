// SPDX-License-Identifier: Apache-2.0
#include "import/aten/complex.h"
#include "import/aten/rows.h"

namespace graft::aten {

const frontend::Converters& converters() {
  static const frontend::Converters all = [] {
    frontend::Converters made({});
    for (const auto& family :
         {activation_rows(), arithmetic_rows(), attention_rows(), bag_rows(), complex_rows(), control_flow_rows(),
          convolution_rows(), creation_rows(), elementwise_rows(), fourier_rows(), indexing_rows(), language_rows(),
          list_rows(), matmul_rows(), movement_rows(), normalization_rows(), pooling_rows(), quantization_rows(),
          ranking_rows(), recurrent_rows(), reduction_rows(), resizing_rows(), scattering_rows(), spectrogram_rows()}) {
      for (const frontend::Row& row : family) made.add(row);
    }
    extend_to_complex(made);
    return made;
  }();
  return all;
}

}  // namespace graft::aten
