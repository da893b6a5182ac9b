// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/symbol_file.h"

#include <climits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/import_budget.h"
#include "base/parse_json.h"

namespace graft::mxnet {
namespace {

using nlohmann::json;

constexpr int kDeepestSubgraph = 32;
constexpr int kMostOutputs = 1 << 24;  // of all nodes

/// A name in messages, of which each graph in a graph keeps some.
std::string shortened(const std::string& name) {
  constexpr size_t kMost = 80;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
}

/// Turns one JSON graph into a Symbol; `where` grows with each level.
class SymbolReader {
 public:
  SymbolReader(std::string where, int depth) : where_(std::move(where)), depth_(depth) {
    check(depth < kDeepestSubgraph, "graphs are nested too deep");
  }

  Symbol read(const json& graph) {
    check(graph.is_object(), "a graph is an object with nodes, arg_nodes and heads");
    for (const json& node : array(graph, "nodes")) read_node(node);
    read_arguments(array(graph, "arg_nodes"));
    if (graph.contains("node_row_ptr")) read_output_counts(array(graph, "node_row_ptr"));
    const json& heads = array(graph, "heads");
    for (size_t i = 0; i < heads.size(); ++i) {
      symbol_.heads.push_back(entry(heads[i], static_cast<int>(symbol_.nodes.size()), fmt::format("head {}", i)));
    }
    if (graph.contains("attrs")) read_graph_attributes(graph["attrs"]);
    return std::move(symbol_);
  }

 private:
  void check(bool holds, const std::string& message, const std::string& part = "") const {
    const std::string where = part.empty() ? where_ : where_ + ": " + part;
    GRAFT_USER_CHECK(holds, kInvalidModel, message, where);
  }

  const json& array(const json& object, const char* key, const std::string& part = "") const {
    const auto found = object.find(key);
    check(found != object.end() && found->is_array(), fmt::format("'{}' is missing or no list", key), part);
    return *found;
  }

  std::string text(const json& object, const char* key, const std::string& part) const {
    const auto found = object.find(key);
    check(found != object.end() && found->is_string(), fmt::format("'{}' is missing or no text", key), part);
    return found->get<std::string>();
  }

  /// A number from 0 to below `limit`.
  int number(const json& value, int64_t limit, const std::string& what, const std::string& part) const {
    const bool whole = value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(limit);
    check(whole, fmt::format("{} is no number below {}", what, limit), part);
    return value.get<int>();
  }

  SymbolEntry entry(const json& value, int before, const std::string& part) const {
    check(value.is_array() && (value.size() == 2 || value.size() == 3), "an entry is [node, output, version]", part);
    SymbolEntry result{.node = number(value[0], before, "the node that it reads", part),
                       .output = number(value[1], INT_MAX, "the output that it reads", part)};
    if (value.size() == 3) result.version = number(value[2], INT_MAX, "a version", part);
    const SymbolNode& source = symbol_.nodes[result.node];
    check(!source.is_variable() || result.output == 0,
          fmt::format("reads output {} of the variable '{}', which has one", result.output, source.name), part);
    return result;
  }

  void read_node(const json& given) {
    const int index = static_cast<int>(symbol_.nodes.size());
    std::string part = fmt::format("node {}", index);
    check(given.is_object(), "a node is an object", part);
    SymbolNode node{.op = text(given, "op", part), .name = text(given, "name", part)};
    take_import(kImportedPartBytes + node.name.size(), "nodes of a symbol");
    part += fmt::format(" '{}'", shortened(node.name));
    check(!node.op.empty(), "'op' is empty; a variable has \"null\"", part);
    if (node.op == "null") node.op.clear();
    for (const char* key : {"param", "attr", "attrs"}) read_attributes(given, key, node, part);
    for (const json& input : array(given, "inputs", part)) node.inputs.push_back(entry(input, index, part));
    check(!node.is_variable() || node.inputs.empty(), "a variable has inputs", part);
    if (given.contains("control_deps")) {
      for (const json& before : array(given, "control_deps", part)) {
        node.after.push_back(number(before, index, "a node in control_deps", part));
      }
    }
    if (given.contains("subgraphs")) {
      for (const json& graph : array(given, "subgraphs", part)) {
        take_import(kImportedPartBytes, "graphs of a symbol");
        const std::string inside = fmt::format("{}: {}: subgraph {}", where_, part, node.subgraphs.size());
        node.subgraphs.push_back(SymbolReader(inside, depth_ + 1).read(graph));
      }
    }
    symbol_.nodes.push_back(std::move(node));
  }

  void read_attributes(const json& given, const char* key, SymbolNode& node, const std::string& part) const {
    const auto found = given.find(key);
    if (found == given.end()) return;
    check(found->is_object(), fmt::format("'{}' is no object of texts", key), part);
    for (const auto& [name, value] : found->items()) {
      check(value.is_string(), fmt::format("attribute '{}' is no text", name), part);
      node.attributes.insert_or_assign(name, value.get<std::string>());
    }
  }

  void read_arguments(const json& given) const {
    for (const json& argument : given) {
      const auto count = static_cast<int64_t>(symbol_.nodes.size());
      const int index = number(argument, count, "a node", "arg_nodes");
      check(symbol_.nodes[index].is_variable(),
            fmt::format("node {} '{}' is an operator, no variable", index, symbol_.nodes[index].name), "arg_nodes");
    }
  }

  /// Sums of the numbers of outputs.
  void read_output_counts(const json& given) {
    if (given.empty()) return;
    check(given.size() == symbol_.nodes.size() + 1, "has not one number more than there are nodes", "node_row_ptr");
    int last = number(given[0], kMostOutputs, "its first number", "node_row_ptr");
    for (size_t i = 0; i < symbol_.nodes.size(); ++i) {
      const int next = number(given[i + 1], kMostOutputs, fmt::format("its number {}", i + 1), "node_row_ptr");
      check(next > last, fmt::format("node {} '{}' has no output", i, symbol_.nodes[i].name), "node_row_ptr");
      symbol_.nodes[i].output_count = next - last;
      last = next;
    }
  }

  /// `["int", 10901]`: a tag, and a number, a text or a list of these.
  void read_graph_attributes(const json& given) {
    check(given.is_object(), "is no object", "attrs");
    for (const auto& [name, value] : given.items()) {
      const std::string part = fmt::format("attrs: '{}'", name);
      check(value.is_array() && value.size() == 2 && value[0].is_string(), "is not [tag, value]", part);
      const auto plain = [](const json& one) { return one.is_number() || one.is_string(); };
      std::string content = plain(value[1]) ? value[1].dump() : "[";
      if (!plain(value[1])) {
        check(value[1].is_array(), "its value is no number, text or list", part);
        for (size_t i = 0; i < value[1].size(); ++i) {
          check(plain(value[1][i]), "its list holds more than numbers and texts", part);
          content += (i > 0 ? ", " : "") + value[1][i].dump();
        }
        content += "]";
      }
      symbol_.attributes[name] = fmt::format("[{}, {}]", value[0].dump(), content);
    }
  }

  std::string where_;
  int depth_;
  Symbol symbol_;
};

/// JSON laid out as dmlc's writer does: a list stands in one line when it is short and plain, an object of one text
/// too, and a comma is followed by a space even at the end of a line.
class SymbolWriter {
 public:
  void write(const Symbol& symbol) {
    begin('{', true);
    key("nodes");
    begin('[', true);
    for (const SymbolNode& node : symbol.nodes) {
      separate();
      write_node(node);
    }
    end(']');
    std::vector<int64_t> arguments, sums = {0};
    bool counted = true;
    for (size_t i = 0; i < symbol.nodes.size(); ++i) {
      if (symbol.nodes[i].is_variable()) arguments.push_back(static_cast<int64_t>(i));
      counted &= symbol.nodes[i].output_count > 0;
      sums.push_back(sums.back() + symbol.nodes[i].output_count);
    }
    write_list("arg_nodes", arguments);
    if (counted) write_list("node_row_ptr", sums);
    write_entries("heads", symbol.heads);
    if (!symbol.attributes.empty()) write_map("attrs", symbol.attributes, [](const std::string& json) { return json; });
    end('}');
  }

  std::string take() { return std::move(text_); }

 private:
  void write_node(const SymbolNode& node) {
    begin('{', true);
    key("op");
    text_ += quoted(node.is_variable() ? "null" : node.op);
    key("name");
    text_ += quoted(node.name);
    if (!node.attributes.empty()) write_map("attrs", node.attributes, quoted);
    write_entries("inputs", node.inputs);
    if (!node.after.empty()) write_list("control_deps", {node.after.begin(), node.after.end()});
    if (!node.subgraphs.empty()) {
      key("subgraphs");
      begin('[', true);
      for (const Symbol& graph : node.subgraphs) {
        separate();
        write(graph);
      }
      end(']');
    }
    end('}');
  }

  template <class Show>
  void write_map(const char* name, const std::map<std::string, std::string>& map, const Show& show) {
    key(name);
    begin('{', map.size() > 1);
    for (const auto& [each, value] : map) {
      key(each);
      text_ += show(value);
    }
    end('}');
  }

  void write_list(const char* name, const std::vector<int64_t>& list) {
    key(name);
    begin('[', list.size() > kLongestLine);
    for (const int64_t each : list) {
      separate();
      text_ += std::to_string(each);
    }
    end(']');
  }

  void write_entries(const char* name, const std::vector<SymbolEntry>& list) {
    key(name);
    begin('[', list.size() > kLongestLine);
    for (const SymbolEntry& each : list) {
      separate();
      text_ += fmt::format("[{}, {}, {}]", each.node, each.output, each.version);
    }
    end(']');
  }

  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      const size_t special = std::string_view("\r\n\\\t\"").find(c);
      const bool control = c >= 0 && c < ' ';  // which dmlc's writer would leave, and no reader of JSON takes
      if (special == std::string_view::npos) {
        result += control ? fmt::format("\\u{:04x}", static_cast<int>(c)) : std::string(1, c);
      } else {
        result += '\\';
        result += "rn\\t\""[special];
      }
    }
    return result + '"';
  }

  void begin(char open, bool lines) {
    text_ += open;
    scopes_.push_back({lines, 0});
  }
  void end(char close) {
    const Scope scope = scopes_.back();
    scopes_.pop_back();
    if (scope.lines && scope.count > 0) new_line();
    text_ += close;
  }
  void separate() {
    if (scopes_.back().count++ > 0) text_ += ", ";
    if (scopes_.back().lines) new_line();
  }
  void key(const std::string& name) {
    separate();
    text_ += quoted(name) + ": ";
  }
  void new_line() { text_ += '\n' + std::string(2 * scopes_.size(), ' '); }

  static constexpr size_t kLongestLine = 10;
  struct Scope {
    bool lines = false;
    int count = 0;
  };
  std::vector<Scope> scopes_;
  std::string text_;
};

}  // namespace

Symbol parse_symbol(std::string_view text, const std::string& where) {
  return SymbolReader(where, 0).read(parse_json(text, ErrorKind::kInvalidModel, where));
}

Symbol read_symbol(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  return parse_symbol({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

std::string json_text(const std::string& text) { return json(text).dump(); }

std::string symbol_text(const Symbol& symbol) {
  SymbolWriter writer;
  writer.write(symbol);
  return writer.take();
}

}  // namespace graft::mxnet
