// SPDX-License-Identifier: Apache-2.0
#include "export/tensorflow/mixed_precision.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "amp/mixed_precision.h"
#include "amp/narrowing.h"
#include "base/error.h"
#include "base/free_name.h"
#include "export/tensorflow/graph_view.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/operator_types.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrEntry;
using graft_tensorflow::AttrValue;
using graft_tensorflow::NodeDef;

constexpr int kNode = 1;                                     // fields of GraphDef
constexpr int kName = 1, kOp = 2, kInput = 3, kAttribute = 5;  // fields of NodeDef

/// What is written in place of a node's own.
struct Changes {
  std::string name, op;                     ///< empty: as it was
  std::vector<std::string> inputs;          ///< by input of the file
  std::map<std::string, AttrValue> attributes = {};  ///< those that differ or are added
};

AttrValue type_value(DType type) {
  AttrValue value;
  value.set_type(number_of(type));
  return value;
}

/// Puts the casts of a decision into the bytes of a graph.
class Applying {
 public:
  Applying(const GraphFile& file, const GraphView& view, const amp::Decision& decision, DType low)
      : file_(file), view_(view), decision_(decision), low_(low), new_names_(file.nodes().size()) {
    for (const FileNode& node : file.nodes()) names_.insert(node.name);
    for (const int output : view.graph.outputs) give_back_name(output);
    for (const amp::Cast& cast : decision.casts) cast_names_.push_back(name_cast(cast));
    for (size_t cast = 0; cast < decision.casts.size(); ++cast) {
      casts_of_[index_of(view.sources[value_of_cast(cast)])].push_back(cast);
    }
  }

  std::string run() {
    std::string made;
    for (const GraphFile::Field& field : file_.fields()) {
      if (field.node < 0) {
        append(made, field.bytes);
        continue;
      }
      write_node(made, field);
      const auto casts = casts_of_.find(field.node);
      if (casts == casts_of_.end()) continue;
      for (const size_t cast : casts->second) write_cast(made, cast);
    }
    return made;
  }

 private:
  const FileNode& node(int n) const { return file_.nodes()[static_cast<size_t>(n)]; }
  int index_of(const Source& source) const { return file_.find(source.node); }
  size_t value_of_cast(size_t cast) const { return static_cast<size_t>(decision_.casts[cast].value); }

  bool became_low(int value) const {
    const auto id = static_cast<size_t>(value);
    return view_.graph.values[id].type == DType::kFloat32 && decision_.types[id] == low_;
  }

  /// A result of the graph that became low is cast back under its name; the node that gives it gets another.
  void give_back_name(int value) {
    const Source& source = view_.sources[static_cast<size_t>(value)];
    std::string& name = new_names_[static_cast<size_t>(index_of(source))];
    if (!became_low(value) || source.index != 0 || !name.empty()) return;
    name = take_free_name(fmt::format("{}/{}", source.node, name_of(low_)), names_);
    given_back_.insert(value);
  }

  std::string name_cast(const amp::Cast& cast) {
    const Source& source = view_.sources[static_cast<size_t>(cast.value)];
    if (cast.type == DType::kFloat32 && given_back_.contains(cast.value)) return source.node;
    std::string name = source.node;
    if (source.index > 0) name += fmt::format("_{}", source.index);
    return take_free_name(fmt::format("{}/{}", name, name_of(cast.type)), names_);
  }

  std::string spelled(int value) const {
    const Source& source = view_.sources[static_cast<size_t>(value)];
    const std::string& renamed = new_names_[static_cast<size_t>(index_of(source))];
    return spell(renamed.empty() ? source.node : renamed, source.index);
  }

  /// What input `i` of a node is now, and its type.
  std::pair<std::string, DType> reading(int n, size_t i, const std::string& as_it_is) const {
    const int value = view_.inputs[static_cast<size_t>(n)][i];
    const int abstract = view_.node_of[static_cast<size_t>(n)];
    if (abstract < 0) return {as_it_is, decision_.types[static_cast<size_t>(value)]};
    const amp::Reading& read = decision_.readings[static_cast<size_t>(abstract)][i];
    if (read.cast >= 0) {
      const auto cast = static_cast<size_t>(read.cast);
      return {cast_names_[cast], decision_.casts[cast].type};
    }
    const bool renamed = !new_names_[static_cast<size_t>(index_of(view_.sources[static_cast<size_t>(value)]))].empty();
    const DType type = decision_.types[static_cast<size_t>(read.value)];
    return {read.value != value || renamed ? spelled(read.value) : as_it_is, type};
  }

  Changes changes_of(int n) const {
    const FileNode& from = node(n);
    Changes changes{.name = new_names_[static_cast<size_t>(n)], .op = {}, .inputs = {}};
    const OperatorTypes* types = find_operator_types(from.op);
    const size_t count = view_.inputs[static_cast<size_t>(n)].size();
    const std::vector<TypedPlace> places = types ? input_types(from, *types, count) : std::vector<TypedPlace>(count);
    size_t data = 0;
    for (const Source& source : from.inputs) {
      if (source.control) {
        changes.inputs.push_back("^" + source.node);
        continue;
      }
      const auto [name, type] = reading(n, data, spell(source.node, source.index));
      const TypedPlace& place = places[data++];
      changes.inputs.push_back(name);
      const bool floats = place.type == DType::kFloat32 || place.type == DType::kFloat16 ||
                          place.type == DType::kBFloat16;
      if (floats && !place.attribute.empty() && type != place.type) {
        changes.attributes[place.attribute] = type_value(type);
      }
    }
    if (from.op == "FusedBatchNorm" && changes.attributes.contains("T")) {
      changes.op = "FusedBatchNormV2";  // which lets the statistics have a type of their own
      changes.attributes["U"] = type_value(DType::kFloat32);
    }
    const auto own = view_.value_of.find({n, 0});
    if (from.op == "Const" && own != view_.value_of.end() && became_low(own->second)) {
      changes.attributes["dtype"] = type_value(low_);
      changes.attributes["value"] = converted(from, own->second);
    }
    return changes;
  }

  AttrValue converted(const FileNode& from, int value) const {
    const TensorData data = amp::converted(view_.contents.at(value), low_);
    const auto& given = from.attribute("value")->tensor();
    AttrValue made;
    auto& tensor = *made.mutable_tensor();
    tensor.set_dtype(number_of(low_));
    *tensor.mutable_tensor_shape() = given.tensor_shape();
    const bool filled = given.float_val_size() == 1 && data.element_count() > 0;  // one element for all
    if (filled) {
      tensor.add_half_val(data.as<uint16_t>()[0]);
    } else {
      const auto bytes = data.bytes();
      tensor.set_tensor_content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return made;
  }

  void write_node(std::string& made, const GraphFile::Field& field) const {
    const FileNode& from = node(field.node);
    const Changes changes = changes_of(field.node);
    bool same = changes.name.empty() && changes.op.empty() && changes.attributes.empty();
    for (size_t i = 0; i < changes.inputs.size() && same; ++i) {
      const Source& source = from.inputs[i];
      same = changes.inputs[i] == (source.control ? "^" + source.node : spell(source.node, source.index));
    }
    if (same) return append(made, field.bytes);
    std::string bytes;
    std::set<std::string> written;
    size_t input = 0;
    for (const WireField& part : wire_fields(from.bytes).value_or(std::vector<WireField>{})) {
      if (part.number == kName && !changes.name.empty()) {
        append_field(bytes, kName, changes.name);
      } else if (part.number == kOp && !changes.op.empty()) {
        append_field(bytes, kOp, changes.op);
      } else if (part.number == kInput && input < changes.inputs.size()) {
        append_field(bytes, kInput, changes.inputs[input++]);
      } else if (!write_attribute(bytes, part, changes, written)) {
        append(bytes, part.whole);
      }
    }
    for (const auto& [key, value] : changes.attributes) {
      if (!written.contains(key)) append_attribute(bytes, key, value);
    }
    append_field(made, kNode, bytes);
  }

  static void append_attribute(std::string& bytes, const std::string& key, const AttrValue& value) {
    AttrEntry entry;
    entry.set_key(key);
    *entry.mutable_value() = value;
    append_field(bytes, kAttribute, entry.SerializeAsString());
  }

  /// Whether the part is an attribute that differs; writes it then.
  static bool write_attribute(std::string& bytes, const WireField& part, const Changes& changes,
                              std::set<std::string>& written) {
    if (part.number != kAttribute || changes.attributes.empty()) return false;
    std::string key;
    for (const WireField& each : wire_fields(part.payload).value_or(std::vector<WireField>{})) {
      if (each.number == 1) key = std::string(text_of(each.payload));
    }
    const auto changed = changes.attributes.find(key);
    if (changed == changes.attributes.end()) return false;
    append_attribute(bytes, key, changed->second);
    written.insert(key);
    return true;
  }

  void write_cast(std::string& made, size_t cast) const {
    const auto value = static_cast<int>(value_of_cast(cast));
    NodeDef node;
    node.set_name(cast_names_[cast]);
    node.set_op("Cast");
    node.add_input(spelled(value));
    node.set_device(this->node(index_of(view_.sources[static_cast<size_t>(value)])).device);
    const auto set = [&](const char* key, DType type) {
      AttrEntry& entry = *node.add_attr();
      entry.set_key(key);
      entry.mutable_value()->set_type(number_of(type));
    };
    set("SrcT", decision_.types[static_cast<size_t>(value)]);
    set("DstT", decision_.casts[cast].type);
    append_field(made, kNode, node.SerializeAsString());
  }

  const GraphFile& file_;
  const GraphView& view_;
  const amp::Decision& decision_;
  DType low_;
  std::set<std::string> names_;
  std::vector<std::string> new_names_;   // by node of the file; empty: its own
  std::set<int> given_back_;             // values whose name a cast has now
  std::vector<std::string> cast_names_;  // by cast
  std::map<int, std::vector<size_t>> casts_of_;  // by node of the file
};

}  // namespace

MixedGraph convert_graph(const GraphFile& file, const std::vector<std::string>& outputs, const amp::Request& request,
                         const amp::DefaultLists& lists) {
  GRAFT_USER_CHECK(!request.data_names && request.input_types.empty(), kInvalidArgument,
                   "a graph says itself what its inputs are: leave out data_names and input_dtypes", "lists");
  const GraphView view = view_graph(file, outputs, request.low);
  const amp::Rules rules(lists, request.lists, view.graph);
  amp::Options options{.low = request.low, .convert_parameters = request.convert_parameters};
  options.why_not = [&](int value) { return amp::conversion_fault(view.contents.at(value), request.low); };
  const amp::Decision decision = amp::decide(view.graph, rules, options);
  MixedGraph made;
  for (const auto& [value, data] : view.contents) {
    const auto id = static_cast<size_t>(value);
    made.constants[view.graph.values[id].name] = decision.types[id];
  }
  made.casts = static_cast<int>(decision.casts.size());
  made.bytes = Applying(file, view, decision, request.low).run();
  return made;
}

}  // namespace graft::tensorflow
