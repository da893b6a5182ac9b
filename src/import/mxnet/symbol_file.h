// SPDX-License-Identifier: Apache-2.0
// MXNet's -symbol.json (versions 0.8 to 2.0): the nodes of a symbol as the file has them, and back.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace graft::mxnet {

/// An output of a node. The version counts the writes to a variable: 1 where an operator changes it.
struct SymbolEntry {
  int node = 0, output = 0, version = 0;
  auto operator<=>(const SymbolEntry&) const = default;
};

struct Symbol;

/// An operator, or a variable when `op` is empty.
struct SymbolNode {
  std::string op;
  std::string name;
  std::map<std::string, std::string> attributes = {};  ///< as texts: `(3, 3)`, `True`; a file's attrs, attr and param
  std::vector<SymbolEntry> inputs = {};
  std::vector<int> after = {};     ///< control_deps: nodes that run before
  std::vector<Symbol> subgraphs;
  int output_count = 0;            ///< 0: the file does not say

  bool is_variable() const { return op.empty(); }
};

/// Nodes in an order in which they can run, and what the symbol gives.
struct Symbol {
  std::vector<SymbolNode> nodes;
  std::vector<SymbolEntry> heads;
  std::map<std::string, std::string> attributes;  ///< as JSON: mxnet_version -> ["int", 10901]
};

/// Reads a symbol's JSON. Nodes read only nodes before them, as MXNet writes them. Throws invalid_model naming the node
/// and `where`. Memory and time are proportional to the text.
Symbol parse_symbol(std::string_view json, const std::string& where);
Symbol read_symbol(const std::string& path);

/// The text that MXNet 1.x writes: reading one of its files and writing it gives the same bytes. node_row_ptr is left
/// out when the number of outputs of a node is not known.
std::string symbol_text(const Symbol& symbol);

/// A text as JSON, in quotes.
std::string json_text(const std::string& text);

}  // namespace graft::mxnet
