// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {

const frontend::Converters& converters() {
  static const frontend::Converters all = [] {
    frontend::Converters made({});
    for (const auto& family : {control_flow_rows(), convolution_rows(), detection_rows(), elementwise_rows(),
                               matmul_rows(), movement_rows(), normalization_rows(), pooling_rows(),
                               quantization_rows(), reduction_rows(), slicing_rows(), suppression_rows(),
                               tensor_list_rows(), described_rows()}) {
      for (const frontend::Row& row : family) made.add(row);
    }
    return made;
  }();
  return all;
}

}  // namespace graft::tensorflow
