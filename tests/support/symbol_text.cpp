// SPDX-License-Identifier: Apache-2.0
#include "support/symbol_text.h"

#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace graft::test {
namespace {

using mxnet::SymbolEntry;
using mxnet::SymbolNode;

class SymbolText {
 public:
  mxnet::Symbol read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && !line.starts_with("//")) read_line(line);
    }
    return std::move(symbol_);
  }

 private:
  void read_line(const std::string& line) {
    static const std::regex variable(R"(variable %(\w+)(.*))"), head(R"(head (%[\w:]+))");
    static const std::regex node(R"(%(\w+) = (\w+)\(([^)]*)\)(.*))");
    std::smatch match;
    if (std::regex_match(line, match, variable)) {
      add({.op = "", .name = match[1], .attributes = attributes(match[2])});
    } else if (std::regex_match(line, match, head)) {
      symbol_.heads.push_back(entry(match[1]));
    } else if (std::regex_match(line, match, node)) {
      SymbolNode made{.op = match[2], .name = match[1], .attributes = attributes(match[4])};
      const std::string operands = match[3];
      static const std::regex operand(R"(%[\w:]+)");
      for (std::sregex_iterator it(operands.begin(), operands.end(), operand), end; it != end; ++it) {
        made.inputs.push_back(entry(it->str()));
      }
      add(std::move(made));
    } else {
      throw std::runtime_error("no line of a symbol: " + line);
    }
  }

  static std::map<std::string, std::string> attributes(const std::string& text) {
    static const std::regex pair("(\\w+) = \"([^\"]*)\"");
    std::map<std::string, std::string> result;
    for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it) result[(*it)[1]] = (*it)[2];
    return result;
  }

  /// `%name` or `%name:output`.
  SymbolEntry entry(const std::string& text) const {
    const size_t colon = text.find(':');
    const std::string name = text.substr(1, colon == text.npos ? text.npos : colon - 1);
    if (!index_.contains(name)) throw std::runtime_error("nothing before it is called " + name);
    return {index_.at(name), colon == text.npos ? 0 : std::stoi(text.substr(colon + 1))};
  }

  void add(SymbolNode node) {
    index_[node.name] = static_cast<int>(symbol_.nodes.size());
    symbol_.nodes.push_back(std::move(node));
  }

  mxnet::Symbol symbol_;
  std::map<std::string, int> index_;
};

}  // namespace

mxnet::Symbol symbol_from(const std::string& text) { return SymbolText().read(text); }

std::string text_of(const mxnet::Symbol& symbol, const std::vector<std::string>& types) {
  const auto show = [&](const SymbolEntry& entry) {
    const std::string& name = symbol.nodes[entry.node].name;
    return entry.output == 0 ? "%" + name : fmt::format("%{}:{}", name, entry.output);
  };
  std::string text;
  for (size_t i = 0; i < symbol.nodes.size(); ++i) {
    const SymbolNode& node = symbol.nodes[i];
    const std::string type = i < types.size() && !types[i].empty() ? ": " + types[i] : "";
    std::vector<std::string> operands, attributes;
    for (const SymbolEntry& input : node.inputs) operands.push_back(show(input));
    for (const auto& [key, value] : node.attributes) attributes.push_back(fmt::format("{} = \"{}\"", key, value));
    if (node.is_variable()) {
      text += fmt::format("variable %{}{}", node.name, type);
    } else {
      text += fmt::format("%{}{} = {}({})", node.name, type, node.op, fmt::join(operands, ", "));
    }
    text += attributes.empty() ? "\n" : fmt::format(" {{{}}}\n", fmt::join(attributes, ", "));
  }
  for (const SymbolEntry& head : symbol.heads) text += fmt::format("head {}\n", show(head));
  return text;
}

}  // namespace graft::test
