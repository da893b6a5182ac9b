// SPDX-License-Identifier: Apache-2.0
// Common subexpressions: y = f(x), z = f(x) -> z is y. Equal constants become one first.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// Hashes a tensor by its type, its shape and up to 64 words spread over it; equality looks at all of it.
uint64_t hash_of(const TensorData& data) {
  uint64_t hash = mix(static_cast<uint64_t>(data.type()), data.shape().size());
  for (const int64_t extent : data.shape()) hash = mix(hash, static_cast<uint64_t>(extent));
  const auto bytes = data.bytes();
  const size_t step = std::max<size_t>(bytes.size() / 64, 1);
  for (size_t i = 0; i < bytes.size(); i += step) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(sizeof(word), bytes.size() - i));
    hash = mix(hash, word);
  }
  return hash;
}

uint64_t hash_of(const Node& node) {
  uint64_t hash = mix(std::hash<std::string>()(node.op), std::hash<std::string>()(node.domain));
  for (const ValueId id : node.inputs) hash = mix(hash, static_cast<uint64_t>(id));
  for (const auto& [name, attribute] : node.attributes) hash = mix(hash, std::hash<std::string>()(name));
  return hash;
}

/// Whether `second` computes nothing that `first` does not.
bool is_equal(const Graph& graph, const Node& first, const Node& second) {
  if (first.op != second.op || first.domain != second.domain || first.inputs != second.inputs) return false;
  if (first.outputs.size() != second.outputs.size() || !same_attributes(first.attributes, second.attributes)) {
    return false;
  }
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    if (second.outputs[i] == kNoValue) continue;
    // An output of the graph keeps its own name, and so its own node.
    if (first.outputs[i] == kNoValue || graph.is_output(second.outputs[i])) return false;
  }
  return true;
}

bool merge_constants(Graph& graph) {
  std::unordered_multimap<uint64_t, ValueId> seen;
  std::vector<ValueId> renamed(graph.values.size());
  bool changed = false;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    renamed[id] = id;
    const TensorData* data = constant_of(graph, id);
    if (!data) continue;
    const uint64_t hash = hash_of(*data);
    const auto [begin, end] = seen.equal_range(hash);
    const auto same =
        std::find_if(begin, end, [&](const auto& entry) { return *constant_of(graph, entry.second) == *data; });
    if (same == end) {
      seen.emplace(hash, id);
    } else {
      renamed[id] = same->second;
    }
  }
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) {
      if (id == kNoValue || renamed[id] == id) continue;
      id = renamed[id];
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool merge_equal_nodes(Graph& graph, const PassContext&) {
  bool changed = merge_constants(graph);
  std::unordered_multimap<uint64_t, int> seen;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[i];
    if (is_random(node)) continue;
    const uint64_t hash = hash_of(node);
    const auto [begin, end] = seen.equal_range(hash);
    const auto same =
        std::find_if(begin, end, [&](const auto& entry) { return is_equal(graph, graph.nodes[entry.second], node); });
    if (same == end) {
      seen.emplace(hash, i);
      continue;
    }
    changed = true;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] != kNoValue) graph.replace_uses(node.outputs[k], graph.nodes[same->second].outputs[k]);
    }
  }
  return changed && (sweep(graph), true);
}

}  // namespace graft::passes
