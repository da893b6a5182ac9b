// SPDX-License-Identifier: Apache-2.0
#include "fuse/clusters.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/place_constants.h"
#include "fuse/recomputation.h"
#include "fuse/rewrite_region.h"
#include "graph/custom_operator.h"
#include "graph/host_operator.h"
#include "graph/bodies.h"
#include "graph/random_state.h"

namespace graft {
namespace {

NodeKind kind_of(const Region& region) {
  int contractions = 0;
  bool rows = false;
  for (const Form& form : region.forms) {
    if (const auto* reduce = std::get_if<Reduce>(&form)) {
      const auto contraction = find_contraction(*reduce);
      const bool product = contraction && !contraction->m.empty();
      contractions += product;
      rows |= !product;
    } else if (!std::holds_alternative<Compute>(form)) {
      return NodeKind::kOther;
    }
  }
  if (contractions > 0) return contractions == 1 && !rows ? NodeKind::kContraction : NodeKind::kOther;
  if (rows) return NodeKind::kRows;
  // A gather reads two tensors for an element; reading through it would repeat the look-up.
  const bool views = std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    const Expr& value = std::get<Compute>(form).value;
    return is_view(value) && cost_of(value) <= 1;
  });
  return views ? NodeKind::kView : NodeKind::kMap;
}

/// True when every load of region input `tensor` is at the point being computed.
bool reads_in_place(const Region& region, int tensor) {
  bool in_place = true;
  for (const Form& form : region.forms) {
    const auto& axes = axes_of(form);
    for_each_load(form, tensor, [&](const Expr& load) {
      in_place &= load->args.size() == axes.size();
      for (size_t d = 0; in_place && d < axes.size(); ++d) {
        in_place &= equal(load->args[d], axes[d].variable) || axes[d].extent.is(1);
      }
    });
  }
  return in_place;
}

/// Whether the region is one attention, whose strategy stores whole rows wherever they belong.
bool is_attention(Region region) {
  std::string reason;
  normalise(region);
  return find_attention(region, reason).has_value();
}

int operations_of(const Region& region) {
  int operations = 0;
  for (const Form& form : region.forms) {
    for_each_expr(form, [&](const Expr& e) { operations += count_nodes(e); });
  }
  return operations;
}

/// A view behind too many views is computed: what reads through views has indices as long as their chain.
void end_long_chains(const Graph& graph, std::vector<DefinedNode>& nodes) {
  std::vector<int> views(nodes.size(), 0);  // in the longest chain up to each node
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].kind != NodeKind::kView) continue;
    for (const ValueId input : graph.nodes[n].inputs) {
      const int producer = input == kNoValue ? -1 : graph.value(input).producer;
      if (producer >= 0) views[n] = std::max(views[n], views[producer]);
    }
    if (++views[n] <= RegionCeiling::kViews) continue;
    views[n] = 0;
    nodes[n].kind = NodeKind::kMap;
  }
}

/// Whether the node makes floats of integers or of narrower floats.
bool is_widening_cast(const DefinedNode& node) {
  const Region& region = node.definition.region;
  const auto* compute =
      node.kind == NodeKind::kView && region.forms.size() == 1 ? std::get_if<Compute>(&region.forms[0]) : nullptr;
  if (!compute || !is_call(compute->value, Intrinsic::kCast)) return false;
  const DType from = compute->value->args[0]->type, to = compute->value->type;
  return is_float(to) && (is_integer(from) || (is_float(from) && bit_width(from) < bit_width(to)));
}

/// A cast goes behind what alone it reads, if something computes that, instead of into each reader: one to a narrower
/// float, so that who reads the result reads fewer bytes, each cast once; and one to a wider float that goes on to what
/// else is computed there: of the sums of integers, which are scaled, and of what one map rounds and another one reads.
void compute_casts_behind_results(const Graph& graph, std::vector<DefinedNode>& nodes) {
  const std::vector<std::vector<int>> consumers = graph.consumers();
  const auto continues_chain = [&](int producer, int cast) {
    const NodeKind kind = nodes[producer].kind;
    const bool of_integers = is_integer(graph.value(graph.nodes[cast].inputs[0]).type);
    if (kind == NodeKind::kContraction && of_integers) return true;
    const std::vector<int>& readers = consumers[graph.nodes[cast].outputs[0]];
    return kind != NodeKind::kOther && readers.size() == 1 && nodes[readers[0]].kind == NodeKind::kMap;
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const bool widens = is_widening_cast(nodes[n]);
    if (!widens && !is_narrowing_cast(nodes[n])) continue;
    const ValueId input = graph.nodes[n].inputs[0];
    const int producer = graph.value(input).producer;
    if (widens && (producer < 0 || !continues_chain(producer, static_cast<int>(n)))) continue;
    const bool computed = producer >= 0 && nodes[producer].kind != NodeKind::kView && consumers[input].size() == 1;
    if (computed) nodes[n].kind = NodeKind::kMap;
  }
}

constexpr std::string_view kAlone = "scans, sorts, scatters and chains of products run alone";
constexpr std::string_view kTooLarge = "together they are more than one kernel should hold";

class Clustering {
 public:
  Clustering(const Graph& graph, const std::vector<DefinedNode>& nodes, const FusionChoices& choices)
      : graph_(graph), nodes_(nodes), choices_(choices), consumers_(graph.consumers()) {
    result_.of_node.assign(nodes.size(), -1);
    is_output_.resize(graph.values.size());
    for (const ValueId output : graph.outputs) is_output_[output] = true;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].kind == NodeKind::kView) continue;
      result_.of_node[n] = static_cast<int>(result_.nodes.size());
      result_.nodes.push_back({static_cast<int>(n)});
      weights_.push_back({1, nodes[n].operations, static_cast<int>(nodes[n].definition.inputs.size())});
    }
  }

  Clusters run() {
    for (const NodeKind anchor : {NodeKind::kContraction, NodeKind::kRows, NodeKind::kMap}) {
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].kind == anchor) absorb_consumers(static_cast<int>(n));
      }
      if (anchor == NodeKind::kRows) absorb_producers();
    }
    absorb_reordering();
    read_through_widening();
    drop_empty();
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (result_.of_node[n] >= 0) note_refusals(static_cast<int>(n));
    }
    return std::move(result_);
  }

 private:
  /// n's chain of element-wise consumers joins n's cluster. No value of the chain but its last has a reader outside of
  /// it, so that no way around leads back into the cluster.
  void absorb_consumers(int n) {
    const bool product = nodes_[n].kind == NodeKind::kContraction;
    for (;;) {
      const std::vector<int> maps = maps_behind(n);
      if (maps.empty()) return;
      if (product && choices_.sums_with_rows && is_sum_for_rows(maps)) return;
      for (const int map : maps) join(result_.of_node[n], map);
      n = maps.back();
    }
  }

  /// The next link of the chain behind n: the one map that reads its result; or several that read it and one another
  /// until one result is left, as x -> sigmoid(x), x * sigmoid(x) does. Empty where there is none.
  std::vector<int> maps_behind(int n) const {
    constexpr size_t kMost = 8;  // maps, and readers of one value
    std::vector<int> maps;
    std::set<int> readers;  // of the results of n and of the maps, the first of the graph first
    for (int made = n;;) {
      if (graph_.nodes[made].outputs.size() != 1) return {};
      const ValueId result = graph_.nodes[made].outputs[0];
      if (is_output_[result] || consumers_[result].size() > kMost) return {};
      readers.insert(consumers_[result].begin(), consumers_[result].end());
      if (readers.empty() || maps.size() == kMost) return {};
      made = *readers.begin();
      readers.erase(readers.begin());
      if (!can_follow(n, maps, made)) return {};
      maps.push_back(made);
      if (readers.empty()) return maps;
    }
  }

  /// Whether the map joins the cluster of n together with others that come before it.
  bool can_follow(int n, const std::vector<int>& maps, int map) const {
    if (nodes_[map].kind != NodeKind::kMap) return false;
    const auto reads = [&](int producer) {
      const std::vector<ValueId>& inputs = graph_.nodes[map].inputs;
      return std::find(inputs.begin(), inputs.end(), graph_.nodes[producer].outputs[0]) != inputs.end();
    };
    if (reads(n) && !why_map_is_apart(n, map).empty()) return false;
    for (const int before : maps) {
      if (reads(before) && !why_map_is_apart(before, map).empty()) return false;
    }
    Weight sum = weights_[result_.of_node[n]];
    for (const int before : maps) sum = together(sum, weights_[result_.of_node[before]]);
    return is_below_ceiling(together(sum, weights_[result_.of_node[map]]));
  }

  /// Whether the last of some maps behind a product adds another tensor of its result's size, and only a reduction of
  /// rows reads that, each element once.
  bool is_sum_for_rows(const std::vector<int>& maps) const {
    const Node& map = graph_.nodes[maps.back()];
    const int reader = map.outputs.size() == 1 ? only_consumer(map.outputs[0]) : -1;
    if (maps.size() > 1 || reader < 0 || nodes_[reader].kind != NodeKind::kRows) return false;
    if (times_read_by(reader, map.outputs[0]) > 1) return false;
    return std::count_if(map.inputs.begin(), map.inputs.end(), [&](ValueId value) {
             return value != kNoValue && !graph_.value(value).constant &&
                    graph_.value(value).shape == graph_.value(map.outputs[0]).shape;
           }) >= 2;
  }

  /// Why the map `consumer` does not join the cluster of `producer`, the only maker of one of its inputs; or nothing.
  std::string why_map_is_apart(int producer, int consumer) const {
    if (!alone(consumer)) return fmt::format("the second runs with {}", partner(consumer));
    return why_read_elsewhere(producer, consumer);
  }

  /// What a cluster holds, of that which has a ceiling.
  struct Weight {
    int nodes = 0, operations = 0, inputs = 0;
  };

  static Weight together(const Weight& a, const Weight& b) {
    return {a.nodes + b.nodes, a.operations + b.operations, a.inputs + b.inputs - 1};
  }
  static bool is_below_ceiling(const Weight& weight) {
    return weight.nodes <= RegionCeiling::kNodes && weight.operations <= RegionCeiling::kOperations &&
           weight.inputs <= RegionCeiling::kInputs;
  }

  /// Whether the cluster stays below the ceiling when that of the node joins it.
  bool fits(int cluster, int node) const {
    return is_below_ceiling(together(weights_[cluster], weights_[result_.of_node[node]]));
  }

  bool alone(int n) const { return result_.nodes[result_.of_node[n]].size() == 1; }

  /// The consumer, when the value has exactly one and is no output of the graph.
  int only_consumer(ValueId value) const {
    if (value == kNoValue || is_output_[value] || consumers_[value].size() != 1) return -1;
    return consumers_[value][0];
  }

  std::string why_read_elsewhere(int producer, int consumer) const {
    const ValueId value = graph_.nodes[producer].outputs[0];
    const NodeDefinition& definition = nodes_[consumer].definition;
    if (definition.region.outputs.size() != 1) return "the second has several outputs";
    if (takes_size_from(consumer, value)) return "the second takes a size from it, which has to be known before";
    const Shape& result = definition.region.tensors[definition.region.outputs[0]].shape;
    const auto& shape = graph_.value(value).shape;
    if (!shape || *shape != result) {
      return fmt::format("the shape goes from {} to {}", shape ? to_string(*shape) : "?", to_string(result));
    }
    for (size_t k = 0; k < definition.inputs.size(); ++k) {
      const bool reads = graph_.nodes[consumer].inputs[definition.inputs[k]] == value;
      if (reads && !reads_in_place(definition.region, definition.region.inputs[k])) {
        return "the second reads elements at other places than its own";
      }
    }
    return "";
  }

  /// Whether a size of the node is an element of the value, as only a run knows it.
  bool takes_size_from(int node, ValueId value) const {
    const std::vector<SizeSource>& sources = nodes_[node].definition.size_sources;
    return std::any_of(sources.begin(), sources.end(), [&](const SizeSource& source) {
      return graph_.nodes[node].inputs[static_cast<size_t>(source.input)] == value;
    });
  }

  /// Element-wise producers whose only reader is a row reduction join it, and those that only they read at their own
  /// points, unless the reduction would compute them too often.
  void absorb_producers() {
    for (size_t n = nodes_.size(); n-- > 0;) {
      if (nodes_[n].kind != NodeKind::kRows) continue;
      const int reader = static_cast<int>(n);
      for (const ValueId value : graph_.nodes[n].inputs) {
        RepeatedWork work{.times = value == kNoValue ? 1 : times_read_by(reader, value)};
        absorb_producer(value, reader, work);
      }
    }
  }

  /// The map that makes `value` joins its reader, and then those that make what it reads. `work` is what the reduction
  /// behind them repeats.
  void absorb_producer(ValueId value, int reader, RepeatedWork& work) {
    const int p = value == kNoValue ? -1 : graph_.value(value).producer;
    if (p < 0 || nodes_[p].kind != NodeKind::kMap || !alone(p)) return;
    if (only_consumer(value) != reader || graph_.nodes[p].outputs.size() != 1 || takes_size_from(reader, value)) return;
    if (nodes_[reader].kind == NodeKind::kMap && !why_read_elsewhere(p, reader).empty()) return;
    if (!fits(result_.of_node[reader], p) || !work.take(nodes_[p].definition.region)) return;
    join(result_.of_node[reader], p);
    for (const ValueId input : graph_.nodes[p].inputs) absorb_producer(input, p, work);
  }

  /// How often a node reads each element of a value.
  double times_read_by(int reader, ValueId value) const {
    const NodeDefinition& definition = nodes_[reader].definition;
    double times = 1;
    for (size_t k = 0; k < definition.inputs.size(); ++k) {
      if (graph_.nodes[reader].inputs[definition.inputs[k]] != value) continue;
      times = std::max(times, times_read(definition.region, definition.region.inputs[k]));
    }
    return times;
  }

  /// attention -> view that reorders rows, when nothing else reads the result: the rows are stored in that order.
  void absorb_reordering() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].kind != NodeKind::kOther || nodes_[n].is_alone() || !alone(static_cast<int>(n))) continue;
      const Node& node = graph_.nodes[n];
      const int next = node.outputs.size() == 1 ? only_consumer(node.outputs[0]) : -1;
      if (next < 0 || nodes_[next].kind != NodeKind::kView) continue;
      if (!reorders_rows(nodes_[next].definition.region) || !is_attention(nodes_[n].definition.region)) continue;
      result_.of_node[next] = result_.of_node[n];
      result_.nodes[result_.of_node[n]].push_back(next);
    }
  }

  /// A map that makes wide elements of narrow ones, one each and by constants, is computed by the maps and windows of
  /// other clusters that read it, with the cast that alone reads it where there is one: what passes memory is narrow.
  void read_through_widening() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const int n = static_cast<int>(i);
      if (!widens(n)) continue;
      const int cluster = result_.of_node[i];
      const int cast = cast_of_all(n);
      const int last = cast >= 0 ? cast : n;
      const ValueId value = graph_.nodes[last].outputs[0];
      if (is_output_[value] || consumers_[value].empty()) continue;
      const bool may = std::all_of(consumers_[value].begin(), consumers_[value].end(), [&](int reader) {
        if (result_.of_node[reader] == cluster || result_.of_node[reader] < 0) return false;
        if (nodes_[reader].kind == NodeKind::kMap) return why_read_elsewhere(last, reader).empty();
        return choices_.stages_windows && nodes_[reader].kind == NodeKind::kRows && is_staged(reader, value);
      });
      if (!may) continue;
      for (const int node : {n, last}) {
        std::erase(result_.nodes[cluster], node);
        result_.of_node[node] = -1;
      }
    }
  }

  /// The cast to a float still wider than what the node reads, which alone reads its result and is all else that its
  /// cluster holds; or -1.
  int cast_of_all(int n) const {
    const int cast = only_consumer(graph_.nodes[n].outputs[0]);
    if (cast < 0 || graph_.nodes[cast].op != "Cast" || result_.of_node[cast] != result_.of_node[n]) return -1;
    const bool wide = bit_width(graph_.value(graph_.nodes[cast].outputs[0]).type) >
                      bit_width(graph_.value(graph_.nodes[n].inputs[0]).type);
    return wide && result_.nodes[result_.of_node[n]].size() == 2 ? cast : -1;
  }

  /// Whether the node's windows slide over the value, one channel beside the other: such are read once for all points.
  bool is_staged(int reader, ValueId value) const {
    const NodeDefinition& definition = nodes_[reader].definition;
    Region region = definition.region;
    normalise(region);
    const auto* window = std::get_if<Reduce>(&region.forms[0]);
    if (!window || window->reduced.empty() || window->axes.size() < 2) return false;
    for (size_t k = 0; k < definition.inputs.size(); ++k) {
      if (graph_.nodes[reader].inputs[definition.inputs[k]] != value) continue;
      bool staged = true;
      for_each_load(region.forms[0], region.inputs[k], [&](const Expr& load) {
        ptrdiff_t channels = 0;
        for (const Expr& index : load->args) {
          channels += std::count_if(window->axes.begin(), window->axes.end(),
                                    [&](const Axis& axis) { return equal(index, axis.variable); });
        }
        const bool slides = std::all_of(window->reduced.begin(), window->reduced.end(), [&](const Axis& taps) {
          return std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
            return index->kind != ExprKind::kVariable && uses_variable(index, taps.variable->variable);
          });
        });
        staged = staged && channels >= 1 && slides;
      });
      if (!staged) return false;
    }
    return true;
  }

  /// Whether the node computes each element of one narrower element at its place, and of constants.
  bool widens(int n) const {
    const DefinedNode& node = nodes_[n];
    const Region& region = node.definition.region;
    constexpr int kMostOperations = 16;
    if (node.kind != NodeKind::kMap || region.forms.size() != 1 || node.operations > kMostOperations) return false;
    if (graph_.nodes[n].outputs.size() != 1) return false;
    int narrow = 0;
    for (size_t k = 0; k < node.definition.inputs.size(); ++k) {
      const Value& input = graph_.value(graph_.nodes[n].inputs[node.definition.inputs[k]]);
      if (input.constant) continue;
      const TensorDecl& result = region.tensors[region.outputs[0]];
      if (bit_width(input.type) >= bit_width(result.type)) return false;
      if (!reads_in_place(region, region.inputs[k])) return false;
      narrow += input.shape && *input.shape == result.shape;
    }
    return narrow == 1;
  }

  /// Notes, for each node of another cluster whose result `n` reads, directly or through views, why they run apart.
  void note_refusals(int n) {
    std::vector<std::pair<ValueId, int>> pending;  // a value, and the view through which it is read, or -1
    std::set<int> seen;                            // producers
    const auto push_inputs = [&](int reader, int view) {
      for (const int input : nodes_[reader].definition.inputs) {
        pending.emplace_back(graph_.nodes[reader].inputs[input], view);
      }
    };
    push_inputs(n, -1);
    for (size_t i = 0; i < pending.size(); ++i) {
      const auto [value, view] = pending[i];
      const int p = value == kNoValue ? -1 : graph_.value(value).producer;
      if (p < 0 || result_.of_node[p] == result_.of_node[n] || !seen.insert(p).second) continue;
      if (result_.of_node[p] < 0) {
        push_inputs(p, p);
      } else {
        result_.notes.push_back(apart_note(graph_.nodes[p], graph_.nodes[n], why_apart(p, n, value, view)));
      }
    }
  }

  /// Why the cluster that makes `value` and the one of `consumer` stayed two.
  std::string why_apart(int producer, int consumer, ValueId value, int view) const {
    switch (nodes_[consumer].kind) {
      case NodeKind::kContraction:
        return "products read whole operands";
      case NodeKind::kOther:
        return std::string(kAlone);
      case NodeKind::kRows:
        if (nodes_[producer].kind == NodeKind::kMap) break;
        return "reductions read whole rows";
      default:
        break;
    }
    if (nodes_[producer].kind == NodeKind::kOther) return std::string(kAlone);
    if (view >= 0) return fmt::format("'{}' ({}) lies between", graph_.nodes[view].name, graph_.nodes[view].op);
    if (is_output_[value]) return "the result of the first is an output of the model";
    if (consumers_[value].size() > 1) return fmt::format("{} nodes read the result", consumers_[value].size());
    if (graph_.nodes[producer].outputs.size() > 1) return "the first has several outputs";
    if (nodes_[consumer].kind == NodeKind::kMap) {
      const std::string reason = why_map_is_apart(producer, consumer);
      return reason.empty() || !fits(result_.of_node[producer], consumer) ? std::string(kTooLarge) : reason;
    }
    if (!fits(result_.of_node[producer], consumer)) return std::string(kTooLarge);
    RepeatedWork work{.times = times_read_by(consumer, value)};
    if (!work.take(nodes_[producer].definition.region)) {
      return fmt::format("the second would compute the first {:.3g} times", work.times);
    }
    return fmt::format("the first runs with {}", partner(producer));
  }

  /// Whom the map `n` runs with: the product or reduction of its step, else the first other node.
  std::string partner(int n) const {
    int found = -1;
    for (const int member : result_.nodes[result_.of_node[n]]) {
      const bool anchor = nodes_[member].kind != NodeKind::kMap;
      if (member != n && (found < 0 || (anchor && nodes_[found].kind == NodeKind::kMap))) found = member;
    }
    return found < 0 ? "others" : fmt::format("'{}' ({})", graph_.nodes[found].name, graph_.nodes[found].op);
  }

  void join(int cluster, int node) {
    const int old = result_.of_node[node];
    weights_[cluster] = together(weights_[cluster], weights_[old]);
    for (const int member : result_.nodes[old]) {
      result_.of_node[member] = cluster;
      result_.nodes[cluster].push_back(member);
    }
    result_.nodes[old].clear();
    std::sort(result_.nodes[cluster].begin(), result_.nodes[cluster].end());
  }

  void drop_empty() {
    std::vector<std::vector<int>> kept;
    std::vector<Weight> weights;
    for (size_t c = 0; c < result_.nodes.size(); ++c) {
      if (result_.nodes[c].empty()) continue;
      for (const int n : result_.nodes[c]) result_.of_node[n] = static_cast<int>(kept.size());
      kept.push_back(std::move(result_.nodes[c]));
      weights.push_back(weights_[c]);
    }
    result_.nodes = std::move(kept);
    weights_ = std::move(weights);
  }

  const Graph& graph_;
  const std::vector<DefinedNode>& nodes_;
  FusionChoices choices_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> is_output_;  ///< by value
  std::vector<Weight> weights_;  ///< of each cluster
  Clusters result_;
};

}  // namespace

bool is_narrowing_cast(const DefinedNode& node) {
  const Region& region = node.definition.region;
  const auto* compute =
      node.kind == NodeKind::kView && region.forms.size() == 1 ? std::get_if<Compute>(&region.forms[0]) : nullptr;
  if (!compute || !is_call(compute->value, Intrinsic::kCast)) return false;
  const DType from = compute->value->args[0]->type, to = compute->value->type;
  return is_float(from) && is_float(to) && bit_width(to) < bit_width(from);
}

std::string apart_note(std::string_view producer, std::string_view producer_op, std::string_view consumer,
                       std::string_view consumer_op, std::string_view reason) {
  return fmt::format("fuse: '{}' ({}) and '{}' ({}) run apart: {}", producer, producer_op, consumer, consumer_op,
                     reason);
}

std::string apart_note(const Node& producer, const Node& consumer, std::string_view reason) {
  return apart_note(producer.name, producer.op, consumer.name, consumer.op, reason);
}

bool reorders_rows(const Region& region) {
  if (region.forms.size() != 1) return false;
  const auto* compute = std::get_if<Compute>(&region.forms[0]);
  if (!compute || compute->value->kind != ExprKind::kLoad || compute->axes.empty()) return false;
  const std::vector<Expr>& from = compute->value->args;
  if (from.size() != compute->axes.size() || !equal(from.back(), compute->axes.back().variable)) return false;
  return std::all_of(compute->axes.begin(), compute->axes.end(), [&](const Axis& axis) {
    const auto is_axis = [&](const Expr& index) { return equal(index, axis.variable); };
    return std::count_if(from.begin(), from.end(), is_axis) == 1;
  });
}

namespace {

/// Strings are moved as what stands for them, so that whatever moves integers moves them.
void move_handles(Region& region) {
  const auto is_text = [](const TensorDecl& tensor) { return tensor.type == DType::kString; };
  if (std::none_of(region.tensors.begin(), region.tensors.end(), is_text)) return;
  for (TensorDecl& tensor : region.tensors) {
    if (is_text(tensor)) tensor.type = DType::kUint64;
  }
  const auto retype = [](const Expr& node) {
    if (node->type != DType::kString) return Expr();
    ExprNode moved = *node;
    moved.type = DType::kUint64;
    return Expr(std::make_shared<const ExprNode>(std::move(moved)));
  };
  for (Form& form : region.forms) form = map_exprs(form, [&](const Expr& e) { return transform(e, retype); });
}

}  // namespace

std::vector<DefinedNode> define_nodes(const Graph& graph) {
  std::vector<DefinedNode> nodes;
  for (const Node& node : graph.nodes) {
    DefinedNode defined;
    defined.has_bodies = is_control_flow(node);
    defined.on_host = runs_on_host(node, graph);
    if (defined.is_alone()) {
      nodes.push_back(std::move(defined));
      continue;
    }
    defined.definition = define(node, graph);
    move_handles(defined.definition.region);
    place_constants(graph, node, defined.definition);
    defined.kind = kind_of(defined.definition.region);
    defined.operations = operations_of(defined.definition.region);
    const std::shared_ptr<const OpDef> op = operator_of(node);
    defined.keeps_order = op && op->keeps_order;
    defined.drawn = is_drawn(node);
    if (defined.drawn) defined.kind = NodeKind::kView;  // of memory that the session fills
    nodes.push_back(std::move(defined));
  }
  end_long_chains(graph, nodes);
  compute_casts_behind_results(graph, nodes);
  return nodes;
}

Clusters cluster_nodes(const Graph& graph, const std::vector<DefinedNode>& nodes, const FusionChoices& choices) {
  return Clustering(graph, nodes, choices).run();
}

}  // namespace graft
