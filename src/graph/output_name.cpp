// SPDX-License-Identifier: Apache-2.0
#include "graph/output_name.h"

#include <string>

namespace graft {
namespace {

constexpr std::string_view kKey = "graft output ";  // before the value's name

}  // namespace

std::string_view output_name(const Graph& graph, ValueId output) {
  const std::string& name = graph.value(output).name;
  for (const auto& [key, told] : graph.metadata) {
    if (key.starts_with(kKey) && std::string_view(key).substr(kKey.size()) == name) return told;
  }
  return name;
}

bool is_output_name(std::string_view key) { return key.starts_with(kKey); }

void set_output_name(Graph& graph, ValueId output, std::string_view name) {
  graph.metadata.emplace_back(std::string(kKey) + graph.value(output).name, name);
}

}  // namespace graft
