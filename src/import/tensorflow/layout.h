// SPDX-License-Identifier: Apache-2.0
// Where an operator has its channels: graph operators have them second, TensorFlow's mostly last. Between two operators
// of one layout the transposes that this adds cancel.
#pragma once

#include "frontend/conversion.h"

namespace graft::tensorflow {

/// Whether the attribute data_format says that channels are last: NHWC, NDHWC. Refuses packed layouts.
bool channels_last(const frontend::Conversion& c);
/// How many axes a value has beside batch and channels; refuses one without any.
size_t spatial_axes(const frontend::Conversion& c, ValueId value);
ValueId to_channels_second(frontend::Conversion& c, ValueId value, bool last);
ValueId from_channels_second(frontend::Conversion& c, ValueId value, bool last);

/// What a list with an element for each axis says of the spatial ones. Refuses where batch or channels have another
/// element than 1.
std::vector<int64_t> spatial(const frontend::Conversion& c, std::string_view attribute, size_t axes, bool last);
/// The attributes `padding` and `explicit_paddings` as ONNX has them.
void add_padding(const frontend::Conversion& c, Attributes& attributes, size_t axes, bool last);

}  // namespace graft::tensorflow
