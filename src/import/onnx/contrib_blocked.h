// SPDX-License-Identifier: Apache-2.0
// What no file says of the nodes of ONNX Runtime's domain for tensors in blocks of channels: the size of a block.
#pragma once

#include <cstdint>
#include <string_view>

namespace graft_onnx {
class GraphProto;
}  // namespace graft_onnx

namespace graft {

inline constexpr std::string_view kBlockedDomain = "com.microsoft.nchwc";
/// The attribute by which import tells a node of that domain how many channels a block has.
inline constexpr std::string_view kChannelBlock = "channel_block";

/// How many channels a block of the file has: 8 where the weights are no whole blocks of 16, else as many as ONNX
/// Runtime takes on this machine, by the width of its vectors: it reads such files the same way.
int64_t channel_block(const graft_onnx::GraphProto& graph);

}  // namespace graft
