// SPDX-License-Identifier: Apache-2.0
// What a parser that is installed refuses, in the words of what is documented where it has none.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "plugin/tensorrt_parser.h"
#include "plugin/tensorrt_support.h"

namespace graft::plugin {
namespace {

constexpr char kNone[] = "none";  // no parser is to be asked

/// Nodes that are documented as refused, each as a model of its own, by its number.
class Parts {
 public:
  Parts(const ModelFile& model, const std::vector<Refusal>& documented,
        const std::function<std::string(const std::string&)>& scratch) {
    for (size_t n = 0; n < model.nodes().size(); ++n) {
      const auto is_it = [&](const Refusal& each) { return each.node == model.nodes()[n].name && !each.in_body; };
      if (std::none_of(documented.begin(), documented.end(), is_it)) continue;
      std::vector<bool> alone(model.nodes().size(), false);
      alone[n] = true;
      const std::string path = scratch(fmt::format("node_{}.onnx", n));
      try {
        model.cut(model.around(alone)).save(path);
        paths_.emplace(n, path);
      } catch (const Error&) {
        // Of an operand whose type nobody knows there is no such model: it stays as it is documented.
      }
    }
  }
  ~Parts() {
    std::error_code ignored;
    for (const auto& [node, path] : paths_) {
      std::filesystem::remove(path, ignored);
      std::filesystem::remove(path + ".data", ignored);
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  const std::map<size_t, std::string>& paths() const { return paths_; }

 private:
  std::map<size_t, std::string> paths_;
};

}  // namespace

Refusals refused_by_tensorrt(const ModelFile& model, const std::string& path, const std::string& where,
                             const std::function<std::string(const std::string& name)>& scratch) {
  Refusals refusals{"TensorRT 11, as its support is documented,", refused_by_tensorrt(model)};
  if (where == kNone) return refusals;
  const Parts parts(model, refusals.nodes, scratch);
  const ParserAnswer answer = ask_tensorrt_parser(where, path, parts.paths());
  if (answer.parser.empty()) return refusals;
  const std::vector<Refusal> documented = std::move(refusals.nodes);
  refusals = {fmt::format("The parser of {}", answer.parser), {}};
  for (size_t n = 0; n < model.nodes().size(); ++n) {
    const ModelNode& node = model.nodes()[n];
    const auto parsed = answer.parsed.find(n);
    const auto is_it = [&](const Refusal& each) { return each.node == node.name; };
    const auto known = std::find_if(documented.begin(), documented.end(), is_it);
    if (const auto refused = answer.refused.find(n); refused != answer.refused.end()) {
      const std::string op = node.domain.empty() ? node.op : node.domain + "." + node.op;
      const bool in_body = known != documented.end() && known->in_body;
      refusals.nodes.push_back({node.name, op, refused->second, in_body});
    } else if (known != documented.end() && parsed == answer.parsed.end()) {
      refusals.nodes.push_back(*known);
    }
  }
  return refusals;
}

}  // namespace graft::plugin
