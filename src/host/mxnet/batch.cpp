// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <charconv>
#include <utility>

#include "failure.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::JsonType;
using mxnet::ext::JsonVal;
using mxnet::ext::Node;
using Roles = std::map<const Node*, Role>;

/// The integers of `[2,3]` from `position` on, which ends behind the bracket.
Sizes read_list(const std::string& text, size_t& position) {
  Sizes numbers;
  const size_t end = std::min(text.find(']', position), text.size());
  while (position < end) {
    int64_t number = 0;
    const auto [stop, fault] = std::from_chars(text.data() + position, text.data() + end, number);
    if (fault == std::errc()) numbers.push_back(number);
    position = fault == std::errc() ? static_cast<size_t>(stop - text.data()) : position + 1;
  }
  position = std::min(end + 1, text.size());
  return numbers;
}

/// `[[2,3],[]]`
std::vector<Sizes> read_lists(const std::string& text) {
  std::vector<Sizes> lists;
  for (size_t at = text.find('[', 1); at != std::string::npos; at = text.find('[', at)) {
    lists.push_back(read_list(text, ++at));
  }
  return lists;
}

/// `{"mxnet_version": ["int", 10901]}`: without it MXNet takes a symbol for one of version 0.8, and converts it.
JsonVal symbol_version() {
  JsonVal version(JsonType::LIST), attributes(JsonType::MAP);
  version.list = {JsonVal("int"), JsonVal(framework_version())};
  attributes.map[JsonVal("mxnet_version")] = version;
  return attributes;
}

/// Takes what MXNet inferred out of a graph's nodes, and puts it back: `Custom` would hand it to its operator, as it
/// does with all attributes, and MXNet ends when that refuses them.
class WithoutInference {
 public:
  explicit WithoutInference(Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.size(); ++i) {
      kept_.push_back(graph.getNode(i)->attrs);
      graph.getNode(i)->attrs.erase(MX_STR_SHAPE);
      graph.getNode(i)->attrs.erase(MX_STR_DTYPE);
    }
  }
  ~WithoutInference() {
    for (size_t i = 0; i < kept_.size(); ++i) graph_.getNode(i)->attrs = std::move(kept_[i]);
  }
  WithoutInference(const WithoutInference&) = delete;
  WithoutInference& operator=(const WithoutInference&) = delete;

 private:
  Graph& graph_;
  std::vector<decltype(Node::attrs)> kept_;
};

/// The symbol of these entries alone.
std::string symbol_of(Graph& graph, const std::vector<Entry>& entries) {
  std::vector<mxnet::ext::NodeEntry> outputs;
  for (const auto& [node, index] : entries) outputs.push_back({node, index});
  std::map<std::string, JsonVal> attributes = graph.attrs;
  attributes["attrs"] = symbol_version();
  std::swap(graph.outputs, outputs);
  std::swap(graph.attrs, attributes);
  const std::string json = [&] {
    const WithoutInference plain(graph);
    return graph.toString();
  }();
  std::swap(graph.outputs, outputs);
  std::swap(graph.attrs, attributes);
  return json;
}

std::map<std::string, Sizes> shapes_at(const Roles& roles, int64_t batch, int64_t other) {
  std::map<std::string, Sizes> shapes;
  for (const auto& [variable, role] : roles) {
    Sizes sizes = inferred_outputs(*variable).at(0).sizes;
    if (role == Role::kData && !sizes.empty() && sizes[0] == batch) sizes[0] = other;
    shapes[variable->name] = sizes;
  }
  return shapes;
}

/// The axis that has these sizes at three batches.
std::optional<Axis> axis_through(const int64_t batches[3], const int64_t sizes[3]) {
  const int64_t slope = (sizes[1] - sizes[0]) / (batches[1] - batches[0]);
  const Axis axis{sizes[0] - slope * batches[0], slope};
  for (int i = 0; i < 3; ++i) {
    if (axis.at(batches[i]) != sizes[i]) return std::nullopt;
  }
  return axis;
}

}  // namespace

std::vector<Inferred> inferred_outputs(const Node& node) {
  const auto shapes = node.attrs.find(MX_STR_SHAPE), types = node.attrs.find(MX_STR_DTYPE);
  if (shapes == node.attrs.end() || types == node.attrs.end()) {
    throw Failure("'" + node.name +
                  "' has no inferred shape: hand in args or shape_dict, and do not skip the inference");
  }
  const std::vector<Sizes> sizes = read_lists(shapes->second);
  size_t position = 1;
  const Sizes codes = read_list(types->second, position);
  std::vector<Inferred> outputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    outputs.push_back({i < codes.size() ? static_cast<int>(codes[i]) : -1, sizes[i]});
  }
  return outputs;
}

int64_t given_batch(const Graph& graph, const Roles& roles) {
  for (const Node* variable : graph.inputs) {
    if (roles.at(variable) != Role::kData) continue;
    const Sizes sizes = inferred_outputs(*variable).at(0).sizes;
    if (!sizes.empty()) return sizes[0];
  }
  return 0;
}

std::optional<std::vector<std::vector<Axis>>> axes_by_batch(Graph& graph, const Roles& roles,
                                                            const std::vector<Entry>& entries, int64_t batch) {
  const int64_t batches[] = {batch, batch + 1, batch + 4};
  const std::string symbol = symbol_of(graph, entries);
  std::vector<std::vector<Sizes>> shapes;
  for (const int64_t each : batches) {
    auto found = infer_shapes(symbol, shapes_at(roles, batch, each));
    if (!found || found->size() != entries.size()) return std::nullopt;
    shapes.push_back(std::move(*found));
  }
  std::vector<std::vector<Axis>> axes(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t rank = shapes[0][i].size();
    if (shapes[1][i].size() != rank || shapes[2][i].size() != rank) return std::nullopt;
    for (size_t a = 0; a < rank; ++a) {
      const int64_t sizes[] = {shapes[0][i][a], shapes[1][i][a], shapes[2][i][a]};
      const auto axis = axis_through(batches, sizes);
      if (!axis) return std::nullopt;
      axes[i].push_back(*axis);
    }
  }
  return axes;
}

}  // namespace graft::extension
