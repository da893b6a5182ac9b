// SPDX-License-Identifier: Apache-2.0
// Convolutions whose source has too few channels to be read as vectors: its windows become channels first.
#pragma once

#include <vector>

#include "fuse/fused_program.h"
#include "target/target.h"

namespace graft {

/// y = conv(x, w) by stride s -> t[.., p, (c, r)] = x[.., s * p + r, c]; y = conv(t, w') by stride 1, where matrix
/// units multiply the operands and x has fewer channels c than they read at a time (space to depth; along an axis of
/// stride 1 only the channels are padded). What a network's first layer does to images: its cast, normalisation and
/// padding become part of t, which is made once and read without guards. Channels are padded with zeros to whole
/// vectors. Where those of a tap don't fill an instruction, the taps along a row join them: t's rows are one axis,
/// which w' reads at s' * p + (tap, c, r). On GPUs, and on CPUs with matrix registers. Weights must be constant; w' is
/// made of them now. New tensors are appended to `tensors`; other steps come back as they are.
std::vector<FusedStep> pack_channels(FusedStep step, std::vector<FusedTensor>& tensors, const Target& target);

}  // namespace graft
