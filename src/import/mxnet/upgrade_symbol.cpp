// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/upgrade_symbol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "import/mxnet/precision_lists.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

constexpr int kOldest = 800, kWithAuxiliaryInputs = 900, kWithOptionalAxis = 905;

/// What files before 1.0 have among an operator's attributes, for it or for one of its inputs (`weight_lr_mult`).
constexpr std::array<std::string_view, 6> kHidden = {"ctx_group",       "lr_mult",      "wd_mult",
                                                     "force_mirroring", "mirror_stage", "profiler_scope"};

bool is_hidden(std::string_view key) {
  return std::ranges::any_of(kHidden, [&](std::string_view hidden) {
    return key == hidden || key.ends_with(fmt::format("_{}", hidden));
  });
}

/// The names of the auxiliary states that a node should have and has not.
std::vector<std::string> missing_states(const SymbolNode& node) {
  const uint64_t auxiliary = operand_row(node.op).auxiliary;
  const auto* row = converters().find(node.op);
  std::vector<std::string> names;
  if (!row || auxiliary == 0) return names;
  // They stand last, so that those are missing which the inputs do not reach.
  const auto first = static_cast<size_t>(std::countr_zero(auxiliary));
  const auto end = static_cast<size_t>(std::bit_width(auxiliary));
  if (node.inputs.size() != first) return names;
  for (size_t i = first; i < end && i < row->signature.parameters.size(); ++i) {
    names.push_back(fmt::format("{}_{}", node.name, row->signature.parameters[i].name));
  }
  return names;
}

void add_missing_states(Symbol& symbol) {
  std::vector<SymbolNode> nodes;
  std::vector<int> place;  // by old node: where it stands now
  for (SymbolNode& node : symbol.nodes) {
    for (SymbolEntry& input : node.inputs) input.node = place[static_cast<size_t>(input.node)];
    for (int& before : node.after) before = place[static_cast<size_t>(before)];
    for (std::string& name : missing_states(node)) {
      node.inputs.push_back({.node = static_cast<int>(nodes.size()), .output = 0, .version = 1});
      nodes.push_back({.op = "", .name = std::move(name), .subgraphs = {}, .output_count = 1});
    }
    place.push_back(static_cast<int>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  for (SymbolEntry& head : symbol.heads) head.node = place[static_cast<size_t>(head.node)];
  symbol.nodes = std::move(nodes);
}

}  // namespace

int version_of(const Symbol& symbol) {
  const auto stated = symbol.attributes.find("mxnet_version");  // ["int", 10901]
  if (stated == symbol.attributes.end()) return kOldest;
  const std::string& text = stated->second;
  const size_t at = text.find_first_of("0123456789");
  int version = kOldest;
  if (at != text.npos) std::from_chars(text.data() + at, text.data() + text.size(), version);
  return version;
}

void upgrade(Symbol& symbol) {
  const int version = version_of(symbol);
  for (SymbolNode& node : symbol.nodes) {
    if (node.is_variable()) continue;
    std::erase_if(node.attributes, [](const auto& each) { return is_hidden(each.first); });
    const auto axis = node.attributes.find("axis");
    const bool finds_index = node.op == "argmax" || node.op == "argmin";
    if (version < kWithOptionalAxis && finds_index && axis != node.attributes.end() && axis->second == "-1") {
      node.attributes.erase(axis);
    }
  }
  if (version < kWithAuxiliaryInputs) add_missing_states(symbol);
}

}  // namespace graft::mxnet
