// SPDX-License-Identifier: Apache-2.0
#include "segment_model.h"

#include <list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/public/version.h"

namespace graft::tensorflow_host {
namespace {

constexpr const char* kGiven = "graft_given_";
constexpr const char* kResult = "graft_result_";
constexpr const char* kCall = "PartitionedCall";  // a name that Graft leaves out where it names the function's nodes

/// A placeholder; an axis of several sizes is open.
void add_placeholder(tensorflow::GraphDef& graph, size_t number, tensorflow::DataType type,
                     const ShapeRanges& ranges) {
  tensorflow::NodeDef& node = *graph.add_node();
  node.set_name(absl::StrCat(kGiven, number));
  node.set_op("Placeholder");
  tensorflow::AddNodeAttr("dtype", type, &node);
  auto& shape = *(*node.mutable_attr())["shape"].mutable_shape();
  for (size_t axis = 0; axis < ranges.least[number].size(); ++axis) {
    const int64_t least = ranges.least[number][axis];
    shape.add_dim()->set_size(least == ranges.most[number][axis] ? least : -1);
  }
}

/// Choices of graft_compile, with the texts that they point to.
class Options {
 public:
  void add(std::string key, std::string value) {
    const auto& [kept_key, kept_value] = texts_.emplace_back(std::move(key), std::move(value));
    options_.push_back({kept_key.c_str(), kept_value.c_str()});
  }
  const std::vector<graft_option>& all() const { return options_; }

 private:
  std::list<std::pair<std::string, std::string>> texts_;
  std::vector<graft_option> options_;
};

}  // namespace

std::string SegmentModel::graph(const ShapeRanges& ranges) const {
  const tensorflow::FunctionDef* const definition = library.Find(function.name());
  if (!definition) throw Error(ErrorKind::kInternal, "there is no function '" + function.name() + "'");
  tensorflow::GraphDef made;
  made.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  tensorflow::NodeDef call;
  for (size_t i = 0; i < inputs.size(); ++i) {
    add_placeholder(made, i, inputs[i], ranges);
    call.add_input(absl::StrCat(kGiven, i));
  }
  call.set_name(kCall);
  call.set_op("PartitionedCall");
  tensorflow::AddNodeAttr("Tin", inputs, &call);
  tensorflow::AddNodeAttr("Tout", outputs, &call);
  *(*call.mutable_attr())["f"].mutable_func() = function;
  *made.add_node() = call;
  for (size_t i = 0; i < outputs.size(); ++i) {
    tensorflow::NodeDef& result = *made.add_node();
    result.set_name(absl::StrCat(kResult, i));
    result.set_op("Identity");
    result.add_input(absl::StrCat(kCall, ":", i));
    tensorflow::AddNodeAttr("T", outputs[i], &result);
  }
  *made.mutable_library() = library.ReachableDefinitions(*definition).ToProto();
  *made.mutable_library()->add_function() = *definition;
  std::string bytes;
  if (!made.SerializeToString(&bytes)) {
    throw Error(ErrorKind::kUnsupported, "its operators are more than a GraphDef holds, 2 GiB: build its engine when "
                                         "the graph is converted");
  }
  return bytes;
}

std::shared_ptr<LoadedEngine> SegmentModel::build(const ShapeRanges& ranges, const std::vector<std::string>& options,
                                                  const std::string& device) const {
  Options chosen;
  for (const std::string& option : options) {
    const size_t equals = std::min(option.find('='), option.size());
    chosen.add(option.substr(0, equals), option.substr(std::min(equals + 1, option.size())));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (ranges.least[i] == ranges.most[i]) continue;
    for (const auto& [key, sizes] : {std::pair("min-shape", ranges.least[i]), std::pair("opt-shape", ranges.usual[i]),
                                     std::pair("max-shape", ranges.most[i])}) {
      chosen.add(key, absl::StrCat(kGiven, i, ":", absl::StrJoin(sizes, "x")));
    }
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < outputs.size(); ++i) results.push_back(absl::StrCat(kResult, i));
  chosen.add("outputs", absl::StrJoin(results, ","));
  return LoadedEngine::build(graph(ranges), chosen.all(), device);
}

}  // namespace graft::tensorflow_host
