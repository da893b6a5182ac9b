// SPDX-License-Identifier: Apache-2.0
// The random bits that a run begins with: numbers that differ from run to run follow from them, in kernels. A step that
// is done in no way draws what it writes.
#pragma once

#include "device/device.h"

namespace graft {

/// Writes 64 bits, others in each call, whichever thread or forked process makes it, to a place on the stream's device,
/// or of the host when there is none.
void draw(void* place, DeviceStream* stream);

}  // namespace graft
