// SPDX-License-Identifier: Apache-2.0
#include "export/tensorflow/replace_segments.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrEntry;
using graft_tensorflow::AttrValue;
using graft_tensorflow::NodeDef;

constexpr int kNode = 1;                     // fields of GraphDef
constexpr int kInput = 3, kAttribute = 5;    // fields of NodeDef
constexpr int kKey = 1, kValue = 2;          // fields of AttrEntry
constexpr int kText = 2;                     // field of AttrValue
constexpr const char* kPlacement = "_class";  // beside which nodes a node has to be placed

AttrValue& attribute(NodeDef& node, const std::string& key) {
  AttrEntry& entry = *node.add_attr();
  entry.set_key(key);
  return *entry.mutable_value();
}

void add_text(NodeDef& node, const std::string& key, std::string text) {
  attribute(node, key).set_s(std::move(text));
}

void add_types(NodeDef& node, const std::string& key, const std::vector<EngineTensor>& tensors) {
  auto& list = *attribute(node, key).mutable_list();
  for (const EngineTensor& tensor : tensors) {
    const int number = number_of(tensor.type);
    GRAFT_CHECK(number != 0, fmt::format("'{}' has a type that TensorFlow has not", tensor.name));
    list.add_type(number);
  }
}

void add_shapes(NodeDef& node, const std::string& key, const std::vector<EngineTensor>& tensors) {
  auto& list = *attribute(node, key).mutable_list();
  for (const EngineTensor& tensor : tensors) {
    auto& shape = *list.add_shape();
    if (!tensor.shape) shape.set_unknown_rank(true);
    for (const Size& size : tensor.shape.value_or(Shape{})) shape.add_dim()->set_size(size.as_constant().value_or(-1));
  }
}

/// The scope that all names lie in: the longest common part up to a slash.
std::string common_scope(const GraphFile& file, const std::vector<int>& nodes) {
  std::string scope = file.nodes()[static_cast<size_t>(nodes[0])].name;
  for (const int n : nodes) {
    const std::string& name = file.nodes()[static_cast<size_t>(n)].name;
    const auto ends = std::mismatch(scope.begin(), scope.end(), name.begin(), name.end());
    scope.erase(ends.first, scope.end());
  }
  const size_t slash = scope.rfind('/');
  return slash == std::string::npos ? "" : scope.substr(0, slash + 1);
}

/// The work of one call of replace_segments().
class Replacement {
 public:
  Replacement(const GraphFile& file, const std::vector<EngineNode>& engines, const std::vector<std::string>& outputs,
              const ReadGraph& read)
      : file_(file), engines_(engines), constant_(read.constant), before_(read.before),
        names_(engine_names(file, engines)), engine_of_(file.nodes().size(), -1) {
    for (size_t e = 0; e < engines.size(); ++e) {
      for (const int n : engines[e].nodes) engine_of_[static_cast<size_t>(n)] = static_cast<int>(e);
      for (size_t i = 0; i < engines[e].outputs.size(); ++i) {
        given_[engines[e].outputs[i].name] = spell(names_[e], static_cast<int>(i));
      }
    }
    for (const std::string& output : outputs) outputs_.insert(parse_source(output, "outputs").node);
    find_dead();
  }

  std::string run() {
    std::string made;
    made.reserve(expected_size());
    std::vector<bool> written(engines_.size(), false);
    for (const GraphFile::Field& field : file_.fields()) {
      if (field.node < 0) {
        append(made, field.bytes);
        continue;
      }
      const auto n = static_cast<size_t>(field.node);
      const int engine = engine_of_[n];
      if (dead_[n]) continue;
      if (engine < 0) {
        write_kept(made, field);
        continue;
      }
      if (!written[static_cast<size_t>(engine)]) write_engine(made, static_cast<size_t>(engine));
      written[static_cast<size_t>(engine)] = true;
      if (outputs_.contains(file_.nodes()[n].name)) write_output(made, file_.nodes()[n]);
    }
    GRAFT_USER_CHECK(made.size() <= INT_MAX, kUnsupported,
                     "with engines the graph is larger than the 2 GiB that its format allows: compile the model as a "
                     "whole (`graft compile`), or leave parts of it as they are", "graph");
    return made;
  }

 private:
  /// About as many bytes as the graph will have, so that they need not move while it grows.
  size_t expected_size() const {
    constexpr size_t kAround = 4096;  // of an engine beside its plan
    size_t bytes = 0;
    for (const GraphFile::Field& field : file_.fields()) {
      const auto n = static_cast<size_t>(std::max(field.node, 0));
      if (field.node < 0 || (!dead_[n] && engine_of_[n] < 0)) bytes += field.bytes.size();
    }
    for (const EngineNode& engine : engines_) bytes += engine.plan.size() + kAround;
    return bytes;
  }

  int index_of(const Source& source) const { return file_.find(source.node); }

  /// A control input that orders nothing.
  bool is_idle(const Source& source) const {
    const auto n = static_cast<size_t>(index_of(source));
    return source.control && constant_[n] && before_[n].empty();
  }

  /// Constants that only engines have taken.
  void find_dead() {
    const std::vector<FileNode>& nodes = file_.nodes();
    std::vector<bool> taken(nodes.size(), false), live(nodes.size(), false);
    std::vector<size_t> queue;
    const auto keep = [&](size_t n) {
      if (!live[n] && constant_[n]) queue.push_back(n);
      live[n] = true;
    };
    for (const FileNode& node : nodes) {
      for (const Source& source : node.inputs) taken[static_cast<size_t>(index_of(source))] = true;
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (outputs_.contains(nodes[n].name) || (constant_[n] && !taken[n])) keep(n);
      if (constant_[n] || engine_of_[n] >= 0) continue;
      for (const Source& source : nodes[n].inputs) {
        if (!is_idle(source) || engines_.empty()) keep(static_cast<size_t>(index_of(source)));
      }
    }
    for (const EngineNode& engine : engines_) {
      for (const EngineTensor& input : engine.inputs) {
        keep(static_cast<size_t>(index_of(parse_source(input.name, "engine"))));
      }
    }
    while (!queue.empty()) {
      const size_t n = queue.back();
      queue.pop_back();
      for (const Source& source : nodes[n].inputs) keep(static_cast<size_t>(index_of(source)));
    }
    dead_.resize(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) dead_[n] = constant_[n] && !live[n];
  }

  bool is_gone(std::string_view name) const {
    const int n = file_.find(name);
    return n >= 0 && (dead_[static_cast<size_t>(n)] || engine_of_[static_cast<size_t>(n)] >= 0);
  }

  /// What stands for an input now.
  std::string input_now(const Source& source) const {
    const int engine = engine_of_[static_cast<size_t>(index_of(source))];
    if (source.control) return "^" + (engine < 0 ? source.node : names_[static_cast<size_t>(engine)]);
    const std::string tensor = spell(source.node, source.index);
    const auto given = given_.find(tensor);
    return given == given_.end() ? tensor : given->second;
  }

  /// A node as its bytes are, but for what has to change.
  void write_kept(std::string& made, const GraphFile::Field& field) const {
    const FileNode& node = file_.nodes()[static_cast<size_t>(field.node)];
    std::string changed;
    bool differs = false;
    size_t input = 0;
    for (const WireField& part : wire_fields(node.bytes).value_or(std::vector<WireField>{})) {
      if (part.number == kInput && part.has_payload) {
        const Source& source = node.inputs[input++];
        if (is_idle(source) && dead_[static_cast<size_t>(index_of(source))]) {
          differs = true;
          continue;
        }
        if (engine_of_[static_cast<size_t>(index_of(source))] >= 0) {
          append_field(changed, kInput, input_now(source));
          differs = true;
          continue;
        }
      }
      if (part.number == kAttribute && part.has_payload && places_beside_gone(part)) {
        differs = true;
        continue;
      }
      append(changed, part.whole);
    }
    if (!differs) return append(made, field.bytes);
    append_field(made, kNode, changed);
  }

  bool places_beside_gone(const WireField& part) const {
    AttrEntry entry;
    if (!entry.ParseFromArray(part.payload.data(), static_cast<int>(part.payload.size()))) return false;
    if (entry.key() != kPlacement) return false;
    const auto& beside = entry.value().list().s();
    return std::any_of(beside.begin(), beside.end(), [&](const std::string& each) {
      return each.starts_with("loc:@") && is_gone(std::string_view(each).substr(5));
    });
  }

  void write_engine(std::string& made, size_t number) const {
    const EngineNode& engine = engines_[number];
    NodeDef node;
    node.set_name(names_[number]);
    node.set_op("GraftEngine");
    for (const EngineTensor& input : engine.inputs) node.add_input(input_now(parse_source(input.name, "engine")));
    for (const std::string& before : controls_of(number)) node.add_input(before);
    node.set_device(device_of(engine));
    add_types(node, "InT", engine.inputs);
    add_types(node, "OutT", engine.outputs);
    add_shapes(node, "output_shapes", engine.outputs);
    add_text(node, "device", engine.device);
    if (!engine.learning.empty()) add_text(node, "calibration", engine.learning);
    add_text(node, "contents", contents_of(engine));
    NodeDef rest;
    auto& names = *attribute(rest, "nodes").mutable_list();
    for (const int n : engine.nodes) names.add_s(file_.nodes()[static_cast<size_t>(n)].name);
    auto& results = *attribute(rest, "results").mutable_list();
    for (const EngineTensor& output : engine.outputs) results.add_s(output.name);
    append_node(made, node.SerializeAsString(), engine.plan, rest.SerializeAsString());
  }

  /// A node with the attribute `plan` between two parts of its fields: the plan, which is large, is copied once.
  static void append_node(std::string& made, const std::string& before, std::span<const std::byte> plan,
                          const std::string& behind) {
    std::string value, entry, attribute;
    append_field_head(value, kText, plan.size());
    append_field(entry, kKey, "plan");
    append_field_head(entry, kValue, value.size() + plan.size());
    append_field_head(attribute, kAttribute, entry.size() + value.size() + plan.size());
    attribute += entry + value;
    append_field_head(made, kNode, before.size() + attribute.size() + plan.size() + behind.size());
    made += before;
    made += attribute;
    append(made, plan);
    made += behind;
  }

  /// What has to run before any of an engine's nodes, each once; constants that it holds wait for others, too.
  std::vector<std::string> controls_of(size_t number) const {
    std::set<std::string> controls;
    const auto add = [&](int before) {
      const int engine = engine_of_[static_cast<size_t>(before)];
      if (engine == static_cast<int>(number)) return;
      const std::string& name = file_.nodes()[static_cast<size_t>(before)].name;
      controls.insert("^" + (engine < 0 ? name : names_[static_cast<size_t>(engine)]));
    };
    for (const int n : engines_[number].nodes) {
      for (const Source& source : file_.nodes()[static_cast<size_t>(n)].inputs) {
        const auto from = static_cast<size_t>(index_of(source));
        if (constant_[from]) {
          for (const int before : before_[from]) add(before);
        } else if (source.control) {
          add(static_cast<int>(from));
        }
      }
    }
    return {controls.begin(), controls.end()};
  }

  /// `Conv2D, Relu 2`
  std::string contents_of(const EngineNode& engine) const {
    std::map<std::string, int> count;
    for (const int n : engine.nodes) ++count[file_.nodes()[static_cast<size_t>(n)].op];
    std::vector<std::string> words;
    for (const auto& [op, times] : count) words.push_back(times == 1 ? op : fmt::format("{} {}", op, times));
    return fmt::format("{}", fmt::join(words, ", "));
  }

  /// Where all its nodes were placed, or nothing.
  std::string device_of(const EngineNode& engine) const {
    const std::string& first = file_.nodes()[static_cast<size_t>(engine.nodes[0])].device;
    const bool all = std::all_of(engine.nodes.begin(), engine.nodes.end(), [&](int n) {
      return file_.nodes()[static_cast<size_t>(n)].device == first;
    });
    return all ? first : "";
  }

  /// An output of the graph under the name of the node that gave it.
  void write_output(std::string& made, const FileNode& node) const {
    const auto given = given_.find(node.name);
    GRAFT_CHECK(given != given_.end(), fmt::format("no engine gives '{}'", node.name));
    NodeDef identity;
    identity.set_name(node.name);
    identity.set_op("Identity");
    identity.add_input(given->second);
    identity.set_device(node.device);
    for (const EngineNode& engine : engines_) {
      for (const EngineTensor& output : engine.outputs) {
        if (output.name == node.name) attribute(identity, "T").set_type(number_of(output.type));
      }
    }
    append_field(made, kNode, identity.SerializeAsString());
  }

  const GraphFile& file_;
  const std::vector<EngineNode>& engines_;
  const std::vector<bool>& constant_;
  const std::vector<std::vector<int>>& before_;            // see ReadGraph
  std::vector<std::string> names_;                        // of engines
  std::vector<int> engine_of_;                            // by node of the file
  std::map<std::string, std::string, std::less<>> given_;  // tensor -> what gives it now
  std::set<std::string, std::less<>> outputs_;            // nodes
  std::vector<bool> dead_;                                // by node of the file
};

}  // namespace

std::vector<std::string> engine_names(const GraphFile& file, const std::vector<EngineNode>& engines) {
  std::vector<std::string> names;
  int number = 0;
  for (const EngineNode& engine : engines) {
    const std::string scope = common_scope(file, engine.nodes);
    std::string name;
    do {
      name = fmt::format("{}graft_engine_{}", scope, number++);
    } while (file.find(name) >= 0);
    names.push_back(std::move(name));
  }
  return names;
}

std::string replace_segments(const GraphFile& file, const std::vector<EngineNode>& engines,
                             const std::vector<std::string>& outputs, const ReadGraph& read) {
  return Replacement(file, engines, outputs, read).run();
}

}  // namespace graft::tensorflow
