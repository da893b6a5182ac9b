// SPDX-License-Identifier: Apache-2.0
#include "amp/mixed_precision.h"

#include <map>
#include <set>

#include "base/error.h"

namespace graft::amp {
namespace {

/// What casts of mixed precision convert; other types pass them as they are.
bool is_castable(DType type) {
  return type == DType::kUndefined || type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
}

/// The type that holds both; unknown with an unknown one, unless f32 is the widest anyway.
DType widest(DType a, DType b) {
  if (a == DType::kFloat32 || b == DType::kFloat32) return DType::kFloat32;
  if (a == DType::kUndefined || b == DType::kUndefined) return DType::kUndefined;
  return a == b ? a : DType::kFloat32;
}

/// How a node's operands are brought to a type.
struct Demand {
  enum class Kind : uint8_t { kPlain, kType, kMulticast };
  Kind kind = Kind::kPlain;
  DType type = DType::kUndefined;  ///< that the operands then have
};

class Deciding {
 public:
  Deciding(const Graph& graph, const Rules& rules, const Options& options)
      : graph_(graph), rules_(rules), options_(options), multicast_of_(graph.values.size(), -1),
        changed_(graph.values.size()) {
    for (const Value& value : graph.values) originals_.push_back(value.type);
    for (const Node& node : graph.nodes) set_results(node, widest_of(node, originals_), originals_);
  }

  Decision run() {
    find_flexible();
    decision_.types = originals_;
    for (const Node& node : graph_.nodes) {
      const Demand demand = demand_of(node);
      demands_.push_back(demand);
      note_wishes(node, demand);
      set_results(node, demand.type, decision_.types);
      note_changes(node, demand);
    }
    for (const int output : graph_.outputs) wishes_[output].insert(originals_[output]);
    convert_parameters();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) read_inputs(i);
    for (const int output : graph_.outputs) {
      decision_.outputs.push_back(is_castable(decision_.types[output]) ? read_as(output, originals_[output])
                                                                       : Reading{output});
    }
    return std::move(decision_);
  }

 private:
  bool is_operand(const Node& node, size_t input, const std::vector<DType>& types) const {
    return !node.keeps(input) && is_castable(types[node.inputs[input]]);
  }

  DType widest_of(const Node& node, const std::vector<DType>& types) const {
    std::optional<DType> result;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_operand(node, i, types)) continue;
      const DType type = types[node.inputs[i]];
      result = result ? widest(*result, type) : type;
    }
    return result.value_or(DType::kUndefined);
  }

  /// Results have the type of the operands; of what is no float, that of the first input.
  void set_results(const Node& node, DType computed, std::vector<DType>& types) const {
    if (node.kind == NodeKind::kClosed && &types != &originals_) {
      for (const int output : node.outputs) types[output] = originals_[output];
      return;
    }
    bool has_operands = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) has_operands |= is_operand(node, i, types);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const bool multicast = node.kind == NodeKind::kMulticast && k < node.inputs.size();
      const bool own = k < node.results.size() && node.results[k].has_value();
      const size_t source = multicast ? k : 0;
      const DType given = source < node.inputs.size() ? types[node.inputs[source]] : DType::kUndefined;
      DType type = has_operands ? computed : given;
      if (own) type = *node.results[k];
      if ((multicast || node.kind == NodeKind::kCast) && !is_castable(given)) type = given;
      types[node.outputs[k]] = type;
    }
  }

  /// Parameters that are as good in either type.
  void find_flexible() {
    flexible_.resize(graph_.values.size());
    if (!options_.convert_parameters) return;
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      if (!value.is_parameter || value.type != DType::kFloat32 || rules_.excludes(value.name)) continue;
      flexible_[id] = !options_.why_not || options_.why_not(static_cast<int>(id)).empty();
    }
  }

  Demand demand_of(const Node& node) {
    if (node.kind == NodeKind::kCast) return {.type = widest_of(node, decision_.types)};
    if (node.kind == NodeKind::kMulticast) {
      for (const int output : node.outputs) multicast_of_[output] = node.outputs[0];
      return {.type = widest_of(node, decision_.types)};
    }
    const Rule rule = rules_.of(node);
    if (rule == Rule::kLow) return {Demand::Kind::kType, options_.low};
    if (rule == Rule::kWide) return {Demand::Kind::kType, DType::kFloat32};
    return agreement(node, rule == Rule::kWidest);
  }

  /// One type for all operands: that of those which have one, f32 where they differ. Parameters follow them. Where
  /// a type is not known, a multicast finds the widest; an operator that is not on the list of those which need it does
  /// without as long as its operands are what they were.
  Demand agreement(const Node& node, bool needs_widest) const {
    std::set<DType> known;
    std::set<int> values, sources;
    int unknown = 0, flexible = 0;
    bool changed = needs_widest;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_operand(node, i, decision_.types)) continue;
      const int value = node.inputs[i];
      values.insert(value);
      changed |= changed_[value];
      sources.insert(multicast_of_[value]);
      if (flexible_[value]) {
        ++flexible;
      } else if (decision_.types[value] == DType::kUndefined) {
        ++unknown;
      } else {
        known.insert(decision_.types[value]);
      }
    }
    const bool agreed = sources.size() == 1 && !sources.contains(-1);  // by a multicast that is there already
    const bool stays = unknown > 0 && (values.size() == 1 || !changed);
    if (values.empty() || stays || agreed) return {.type = widest_of(node, decision_.types)};
    if (unknown > 0) {  // a parameter has no operand to follow, and stays f32
      const bool wide = known.contains(DType::kFloat32) || known.size() > 1 || flexible > 0;
      return {Demand::Kind::kMulticast, wide ? DType::kFloat32 : DType::kUndefined};
    }
    const bool low = known.size() == 1 && (*known.begin() == options_.low || flexible == 0);
    return {Demand::Kind::kType, low ? *known.begin() : DType::kFloat32};
  }

  void note_wishes(const Node& node, const Demand& demand) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool takes = demand.kind == Demand::Kind::kType && !node.keeps(i) && node.kind != NodeKind::kClosed;
      wishes_[node.inputs[i]].insert(takes ? demand.type : DType::kFloat32);
    }
  }

  /// A result may have another type than in the model, also one that is not known.
  void note_changes(const Node& node, const Demand& demand) {
    bool may_change = demand.kind == Demand::Kind::kMulticast;
    for (const int input : node.inputs) may_change |= changed_[input];
    for (const int output : node.outputs) {
      const DType type = decision_.types[output];
      changed_[output] = type != originals_[output] || (type == DType::kUndefined && may_change);
    }
  }

  void convert_parameters() {
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      if (!flexible_[id]) continue;
      const std::set<DType>& wishes = wishes_[static_cast<int>(id)];
      if (wishes.size() == 1 && *wishes.begin() == options_.low) decision_.types[id] = options_.low;
    }
  }

  void read_inputs(size_t index) {
    const Node& node = graph_.nodes[index];
    const Demand& demand = demands_[index];
    std::vector<Reading>& readings = decision_.readings.emplace_back();
    std::vector<int>& multicast = decision_.multicasts.emplace_back();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int value = node.inputs[i];
      if (node.kind == NodeKind::kClosed) {
        readings.push_back(is_castable(decision_.types[value]) ? read_as(value, originals_[value]) : Reading{value});
        continue;
      }
      const bool operand = is_operand(node, i, decision_.types);
      readings.push_back(operand && demand.kind == Demand::Kind::kType ? read_as(value, demand.type) : Reading{value});
      if (operand && demand.kind == Demand::Kind::kMulticast) multicast.push_back(static_cast<int>(i));
    }
    if (node.kind != NodeKind::kCast || node.inputs.size() != 1 || node.outputs.size() != 1) return;
    // A cast of the model's own serves as one of ours: what it gives, and, where it widened, what it was given.
    const int from = node.inputs[0], to = node.outputs[0];
    if (!is_castable(decision_.types[from])) return;
    forms_.try_emplace({from, decision_.types[to]}, Reading{to});
    const bool widens = decision_.types[from] != DType::kUndefined && decision_.types[to] == DType::kFloat32;
    if (widens) forms_.try_emplace({to, decision_.types[from]}, Reading{from});
  }

  Reading read_as(int value, DType type) {
    if (type == DType::kUndefined || decision_.types[value] == type) return {value};
    const int next = static_cast<int>(decision_.casts.size());
    const auto [form, is_new] = forms_.try_emplace({value, type}, Reading{value, next});
    if (is_new) decision_.casts.push_back({value, type});
    return form->second;
  }

  const Graph& graph_;
  const Rules& rules_;
  const Options& options_;
  std::vector<DType> originals_;           ///< by value: its type in the model as it is
  std::vector<bool> flexible_;             ///< by value
  std::vector<int> multicast_of_;          ///< by value: the first output of the multicast that gives it; -1: none does
  std::vector<bool> changed_;              ///< by value: whether its type may be another than the original
  std::vector<Demand> demands_;            ///< by node
  std::map<int, std::set<DType>> wishes_;  ///< by value: the types that it is read in
  std::map<std::pair<int, DType>, Reading> forms_;
  Decision decision_;
};

}  // namespace

Decision decide(const Graph& graph, const Rules& rules, const Options& options) {
  GRAFT_USER_CHECK(options.low == DType::kFloat16 || options.low == DType::kBFloat16, kInvalidArgument,
                   "mixed precision is of float16 or bfloat16, not " + std::string(name_of(options.low)),
                   "target_dtype");
  return Deciding(graph, rules, options).run();
}

}  // namespace graft::amp
