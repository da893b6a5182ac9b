// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/host_kernel.h"

namespace graft {

HostKernel make_string_normalizer(const Node& node);
HostKernel make_regex_full_match(const Node& node);
HostKernel make_tokenizer(const Node& node);

}  // namespace graft
