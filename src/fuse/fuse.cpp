// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/stop_if_cancelled.h"
#include "fuse/assign_layouts.h"
#include "fuse/clusters.h"
#include "fuse/contraction.h"
#include "fuse/fused_program.h"
#include "fuse/merge_attention.h"
#include "fuse/rewrite_region.h"
#include "fuse/split_step.h"
#include "graph/bodies.h"
#include "graph/output_name.h"
#include "graph/symbols.h"
#include "graph/undecided_rank.h"

namespace graft {
namespace {

bool has_affine_loads(const Region& region) {
  bool all = true;
  for (const Form& form : region.forms) {
    for_each_load(form, [&](const Expr& load) {
      for (const Expr& index : load->args) all &= affine(index).has_value();
    });
  }
  return all;
}

constexpr int kDeepest = 64;  // clusters that are emitted inside of each other

class Fusion {
 public:
  Fusion(const Graph& graph, const FusionChoices& choices)
      : graph_(graph),
        choices_(choices),
        nodes_(define_nodes(graph)),
        clusters_(cluster_nodes(graph, nodes_, choices)),
        tensor_of_(graph.values.size(), -1),
        emitted_(clusters_.nodes.size()),
        consumers_(graph.consumers()),
        is_output_(graph.values.size()) {
    for (const ValueId output : graph.outputs) is_output_[output] = true;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const SizeSource& source : nodes_[n].definition.size_sources) {
        source_of_.try_emplace(source.symbol, static_cast<int>(n), source);
      }
    }
    if (source_of_.empty()) return;
    for (const DerivedSize& derived : graph.derived.list()) derived_.emplace(derived.symbol, derived.value);
  }

  FusedProgram run() {
    program_.symbol_ranges = graph_.symbol_ranges;
    program_.derived = graph_.derived.list();
    program_.notes = clusters_.notes;
    for (const ValueId input : graph_.inputs) {
      program_.inputs.push_back(new_tensor(input));
    }
    for (size_t c = 0; c < clusters_.nodes.size(); ++c) emit_cluster(static_cast<int>(c));
    for (const ValueId output : graph_.outputs) program_.outputs.push_back(materialise(output));
    for (const ValueId output : graph_.outputs) {
      const std::string_view name = output_name(graph_, output);
      if (name != graph_.value(output).name) program_.tensors[static_cast<size_t>(tensor_of_[output])].name = name;
    }
    return std::move(program_);
  }

 private:
  int new_tensor(ValueId id) {
    const Value& value = graph_.value(id);
    const bool is_dynamic = !value.dynamic_type.empty();
    if (!is_dynamic && (!value.shape || value.type == DType::kUndefined)) {
      const Node* undecided = if_behind(graph_, id);
      throw Error(ErrorKind::kUnsupported,
                  undecided ? "its number of axes is open: " + undecided_rank(graph_, *undecided)
                            : "its type or rank is not known; give the shapes of the model's inputs",
                  fmt::format("value '{}'", value.name));
    }
    tensor_of_[id] = static_cast<int>(program_.tensors.size());
    if (is_dynamic) {
      program_.tensors.push_back({value.name, DType::kUint64, {}, {}, -1, value.dynamic_type});
    } else if (value.type == DType::kString) {
      program_.tensors.push_back({value.name, DType::kUint64, *value.shape, value.constant, -1, "str"});
    } else {
      program_.tensors.push_back({value.name, value.type, *value.shape, value.constant, -1});
    }
    return tensor_of_[id];
  }

  /// The tensor that holds a value in memory, emitting the steps that make it.
  int materialise(ValueId id) {
    if (tensor_of_[id] >= 0) return tensor_of_[id];
    const int producer = graph_.value(id).producer;
    if (producer < 0) return new_tensor(id);
    if (clusters_.of_node[producer] >= 0) {
      emit_cluster(clusters_.of_node[producer]);
      GRAFT_CHECK(tensor_of_[id] >= 0, "value " + graph_.value(id).name + " was not made by its cluster");
      return tensor_of_[id];
    }
    if (nodes_[producer].keeps_order) return alias(id, producer);
    if (nodes_[producer].drawn) return drawn(id, producer);
    emit_step({producer});
    return tensor_of_[id];
  }

  int alias(ValueId id, int producer) {
    const int source = materialise(graph_.nodes[producer].inputs[0]);
    emit_sizes(producer);
    const int tensor = new_tensor(id);
    program_.tensors[tensor].alias_of = source;
    return tensor;
  }

  /// A tensor of random bits: its step has no form, the run draws them.
  int drawn(ValueId id, int producer) {
    const Node& node = graph_.nodes[producer];
    FusedStep step;
    step.name = node.name;
    step.nodes = {node.name};
    step.operators = {node.op};
    step.region.name = step.name;
    const int tensor = new_tensor(id);
    add_operand(step, tensor, false);
    push(std::move(step));
    return tensor;
  }

  /// A step that does nothing but read and check the sizes of a node, where it has any.
  void emit_sizes(int node) {
    const NodeDefinition& definition = nodes_[node].definition;
    if (definition.size_sources.empty() && definition.checks.empty()) return;
    FusedStep step;
    step.name = graph_.nodes[node].name;
    step.region.name = step.name;
    add_sizes(node, step);
    push(std::move(step));
  }

  void push(FusedStep step) {
    for (const auto& source : step.sources) bound_.insert(source.symbol);
    program_.steps.push_back(std::move(step));
  }

  /// What a node's region and results have sizes of, those of the run that have names for others looked up.
  std::set<std::string, std::less<>> symbols_of_node(int n) const {
    std::set<std::string, std::less<>> symbols;
    const auto collect = [&](const Shape& shape) {
      for (const Size& size : shape) size.collect_symbols(symbols);
    };
    const Region& region = nodes_[n].definition.region;
    for (const TensorDecl& tensor : region.tensors) collect(tensor.shape);
    for (const Form& form : region.forms) {
      for_each_expr(form, [&](const Expr& e) {
        for_each(e, [&](const Expr& node) {
          if (node->kind == ExprKind::kSize) node->size.collect_symbols(symbols);
        });
      });
    }
    std::vector<std::string> pending(symbols.begin(), symbols.end());
    while (!pending.empty()) {
      const auto derived = derived_.find(pending.back());
      pending.pop_back();
      if (derived == derived_.end()) continue;
      std::set<std::string, std::less<>> inner;
      derived->second.collect_symbols(inner);
      for (const std::string& symbol : inner) {
        if (symbols.insert(symbol).second) pending.push_back(symbol);
      }
    }
    return symbols;
  }

  /// The nodes and the views that they read through, as far as these are in no memory.
  std::vector<int> with_views(const std::vector<int>& members) const {
    std::vector<int> all = members;
    std::unordered_set<int> seen(members.begin(), members.end());
    for (size_t i = 0; i < all.size(); ++i) {
      for (const int read : nodes_[all[i]].definition.inputs) {
        const ValueId input = graph_.nodes[all[i]].inputs[static_cast<size_t>(read)];
        const int producer = input == kNoValue ? -1 : graph_.value(input).producer;
        if (producer < 0 || tensor_of_[input] >= 0 || clusters_.of_node[producer] >= 0) continue;
        if (seen.insert(producer).second) all.push_back(producer);
      }
    }
    return all;
  }

  /// A step may have a size that a view elsewhere takes from a tensor (the Shape of a Slice reads no element of it):
  /// the size is read before.
  void read_sizes_before(const std::vector<int>& members) {
    if (source_of_.empty()) return;
    std::set<std::string, std::less<>> own;
    for (const int n : with_views(members)) {
      for (const SizeSource& source : nodes_[n].definition.size_sources) own.insert(source.symbol);
    }
    for (const int n : members) {
      for (const std::string& symbol : symbols_of_node(n)) {
        const auto found = source_of_.find(symbol);
        if (found == source_of_.end() || own.contains(symbol) || bound_.contains(symbol)) continue;
        const auto& [node, source] = found->second;
        FusedStep step;
        step.name = graph_.nodes[node].name;
        step.region.name = step.name;
        const int tensor = materialise(graph_.nodes[node].inputs[static_cast<size_t>(source.input)]);
        step.sources.push_back({symbol, tensor, source.element});
        push(std::move(step));
      }
    }
  }

  /// Emits a cluster after those that it reads. They follow from its inputs one by one, and those of deep ones from a
  /// list, so that the stack stays small.
  void emit_cluster(int cluster) {
    if (emitted_[cluster]) return;
    if (depth_ >= kDeepest) emit_read_by(cluster);
    emitted_[cluster] = true;
    ++depth_;
    emit_step(clusters_.nodes[cluster]);
    --depth_;
  }

  /// The clusters that a cluster reads, directly or through views, where no tensor holds what it reads yet.
  std::vector<int> read_clusters(int cluster) const {
    std::vector<int> found;
    std::vector<int> pending(clusters_.nodes[cluster].rbegin(), clusters_.nodes[cluster].rend());
    std::unordered_set<int> seen(pending.begin(), pending.end());
    while (!pending.empty()) {
      const int n = pending.back();
      pending.pop_back();
      for (const ValueId input : graph_.nodes[n].inputs) {
        const int producer = input == kNoValue ? -1 : graph_.value(input).producer;
        if (producer < 0 || tensor_of_[input] >= 0 || !seen.insert(producer).second) continue;
        const int other = clusters_.of_node[producer];
        if (other < 0) pending.push_back(producer);
        if (other >= 0 && other != cluster) found.push_back(other);
      }
    }
    return found;
  }

  void emit_read_by(int cluster) {
    std::vector<std::pair<int, std::vector<int>>> waiting;
    waiting.emplace_back(cluster, read_clusters(cluster));
    while (!waiting.empty()) {
      auto& [waits, reads] = waiting.back();
      while (!reads.empty() && emitted_[reads.back()]) reads.pop_back();
      if (!reads.empty()) {
        const int next = reads.back();
        waiting.emplace_back(next, read_clusters(next));
        continue;
      }
      const int ready = waits;
      waiting.pop_back();
      if (waiting.empty() || emitted_[ready]) continue;
      emitted_[ready] = true;
      emit_step(clusters_.nodes[ready]);
    }
  }

  void add_sizes(int node, FusedStep& step) {
    const NodeDefinition& definition = nodes_[node].definition;
    for (const SizeSource& source : definition.size_sources) {
      step.sources.push_back({source.symbol, materialise(graph_.nodes[node].inputs[source.input]), source.element});
    }
    step.checks.insert(step.checks.end(), definition.checks.begin(), definition.checks.end());
  }

  /// One region from the nodes (in graph order) and the views they read through.
  struct Assembly {
    FusedStep step;
    std::unordered_map<ValueId, int> region_tensor;
    std::unordered_set<int> member;  ///< nodes
    bool only_affine = false;
    bool reads_whole = false;  ///< operands that no cast to a narrower float is read through
  };

  /// The step of an If or a Loop, with a program for each body.
  void emit_control(int n) {
    const Node& node = graph_.nodes[n];
    FusedStep step;
    step.name = node.name;
    step.nodes = {node.name};
    step.operators = {node.op};
    step.region.name = step.name;
    ControlFlow& control = step.control;
    const bool loops = node.op == "Loop";
    control.kind = loops ? ControlFlow::Kind::kLoop : ControlFlow::Kind::kBranch;
    control.has_limit = loops && node.inputs[0] != kNoValue;
    control.has_condition = node.inputs[loops ? 1 : 0] != kNoValue;
    control.carried = loops ? static_cast<int>(own_input_count(node)) - 2 : 0;
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) add_operand(step, materialise(id), true);
    }
    for (const NodeBody& body : bodies_of(node)) {
      FusionChoices choices = choices_;
      choices.any_order.clear();
      FusedProgram inner = fuse(*body.graph, choices);
      inner.prefix = node.name + "/" + body.attribute + "/";
      inner.symbol_ranges.insert(graph_.symbol_ranges.begin(), graph_.symbol_ranges.end());
      program_.notes.insert(program_.notes.end(), inner.notes.begin(), inner.notes.end());
      control.captured.push_back(static_cast<int>(body.captures));
      step.bodies.push_back(std::make_shared<const FusedProgram>(std::move(inner)));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (add_result(step, node, i)) control.results.push_back(static_cast<int>(i));
    }
    program_.steps.push_back(std::move(step));
  }

  /// Makes an output of a node one of its step, with the sizes that the step finds, where somebody reads it.
  bool add_result(FusedStep& step, const Node& node, size_t output) {
    const ValueId id = node.outputs[output];
    if (id == kNoValue || (!is_output_[id] && consumers_[id].empty())) return false;
    add_operand(step, tensor_of_[id] >= 0 ? tensor_of_[id] : new_tensor(id), false);
    std::vector<std::string>& symbols = step.control.symbols;
    for (const Size& size : graph_.value(id).shape.value_or(Shape())) {
      const auto symbol = size.as_symbol();
      if (!symbol || !symbol->starts_with(count_symbol(node.name, ""))) continue;
      const auto place = std::lower_bound(symbols.begin(), symbols.end(), *symbol);
      if (place == symbols.end() || *place != *symbol) symbols.insert(place, *symbol);
    }
    return true;
  }

  /// The step of a kernel of the host.
  void emit_host(int n) {
    const Node& node = graph_.nodes[n];
    FusedStep step;
    step.name = step.region.name = node.name;
    step.nodes = {node.name};
    step.operators = {node.op};
    auto call = std::make_shared<Node>(node);
    for (ValueId& id : call->inputs) {
      if (id == kNoValue) continue;
      add_operand(step, materialise(id), true);
      id = static_cast<ValueId>(step.inputs.size()) - 1;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      call->outputs[i] = add_result(step, node, i) ? static_cast<ValueId>(step.outputs.size()) - 1 : kNoValue;
    }
    step.host = std::move(call);
    program_.steps.push_back(std::move(step));
  }

  /// A tensor that a step of control flow reads or writes as it lies in memory.
  void add_operand(FusedStep& step, int tensor, bool reads) {
    const FusedTensor& source = program_.tensors[tensor];
    step.region.tensors.push_back({source.name, source.type, source.shape});
    (reads ? step.region.inputs : step.region.outputs).push_back(static_cast<int>(step.region.tensors.size()) - 1);
    (reads ? step.inputs : step.outputs).push_back(tensor);
  }

  void emit_step(const std::vector<int>& members) {
    const int first = members.front();
    stop_if_cancelled(choices_.cancelled, fmt::format("node '{}'", graph_.nodes[first].name));
    read_sizes_before(members);
    if (nodes_[first].has_bodies) return emit_control(first);
    if (nodes_[first].on_host) return emit_host(first);
    Assembly assembly;
    for (const int n : members) {
      assembly.member.insert(n);
      assembly.only_affine |= nodes_[n].kind == NodeKind::kContraction || nodes_[n].kind == NodeKind::kOther;
      assembly.reads_whole |= nodes_[n].kind == NodeKind::kOther;
    }
    FusedStep& step = assembly.step;
    for (const int n : members) {
      append(n, assembly);
      step.nodes.push_back(graph_.nodes[n].name);
      step.operators.push_back(graph_.nodes[n].op);
    }
    step.name = graph_.nodes[first].name;
    step.region.name = step.name;
    for (const int n : members) {
      for (const ValueId value : graph_.nodes[n].outputs) {
        if (value == kNoValue || !assembly.region_tensor.contains(value) || !leaves(value, assembly)) continue;
        step.region.outputs.push_back(assembly.region_tensor.at(value));
        step.outputs.push_back(tensor_of_[value] >= 0 ? tensor_of_[value] : new_tensor(value));
      }
    }
    verify(step.region);
    int operations = 0;
    for (const int n : members) operations += nodes_[n].operations;
    if (is_too_large(step.region, operations)) {
      for (FusedStep& part : split_forms(step, program_.tensors, choices_.gathers_columns)) push(std::move(part));
    } else {
      push(std::move(step));
    }
  }

  /// Whether a single node is more than a kernel should hold.
  static bool is_too_large(const Region& region, int operations) {
    return region.forms.size() > 1 && (region.forms.size() > RegionCeiling::kForms ||
                                       operations > RegionCeiling::kOperationsOfOne ||
                                       region.inputs.size() > 2 * static_cast<size_t>(RegionCeiling::kInputs));
  }

  bool leaves(ValueId value, const Assembly& assembly) const {
    if (is_output_[value]) return true;
    return std::any_of(consumers_[value].begin(), consumers_[value].end(),
                       [&](int n) { return !assembly.member.contains(n); });
  }

  /// The region tensor for a value that member `reader` reads.
  int resolve(ValueId value, int reader, Assembly& assembly) {
    if (const auto known = assembly.region_tensor.find(value); known != assembly.region_tensor.end()) {
      return known->second;
    }
    const int producer = graph_.value(value).producer;
    const bool view = producer >= 0 && clusters_.of_node[producer] < 0 && tensor_of_[value] < 0;
    if (view && !nodes_[producer].drawn && !(assembly.reads_whole && is_narrowing_cast(nodes_[producer]))) {
      const DefinedNode& node = nodes_[producer];
      const bool affine = is_affine(producer);
      if (affine || (!node.keeps_order && !assembly.only_affine)) {
        append_view(producer, value, assembly);
        return assembly.region_tensor.at(value);
      }
      if (!node.keeps_order) {
        program_.notes.push_back(apart_note(graph_.nodes[producer], graph_.nodes[reader],
                                            "the first divides indices, the second would do so for each element"));
      }
    }
    const int input = materialise(value);
    const FusedTensor& source = program_.tensors[input];
    Region& region = assembly.step.region;
    region.tensors.push_back({source.name, source.type, source.shape});
    region.inputs.push_back(static_cast<int>(region.tensors.size()) - 1);
    assembly.step.inputs.push_back(input);
    assembly.region_tensor[value] = region.inputs.back();
    return region.inputs.back();
  }

  /// Whether the loads of a node are at sums of products of axes.
  bool is_affine(int n) {
    signed char& known = affine_.try_emplace(n, -1).first->second;
    if (known < 0) known = has_affine_loads(nodes_[n].definition.region);
    return known != 0;
  }

  /// Adds what makes `value`, of a view with many results, or all of a view.
  void append_view(int n, ValueId value, Assembly& assembly) {
    const NodeDefinition& definition = nodes_[n].definition;
    const Region& source = definition.region;
    const auto* form = source.forms.size() > RegionCeiling::kParts ? form_of(n, value) : nullptr;
    if (!form) return append(n, assembly);
    Region& region = assembly.step.region;
    std::unordered_map<int, int> mapped;
    for (const int tensor : read_tensors(*form)) {
      const auto k = std::find(source.inputs.begin(), source.inputs.end(), tensor) - source.inputs.begin();
      mapped[tensor] = resolve(graph_.nodes[n].inputs[definition.inputs[static_cast<size_t>(k)]], n, assembly);
    }
    const int made = defined_tensors(*form)[0];
    mapped[made] = assembly.region_tensor[value] = static_cast<int>(region.tensors.size());
    region.tensors.push_back(source.tensors[made]);
    region.tensors.back().name = graph_.value(value).name;
    region.forms.push_back(renumber_tensors(*form, [&](int tensor) { return mapped.at(tensor); }));
  }

  /// The form of the node that makes the value from nothing but inputs of the node; null when there is none.
  const Form* form_of(int n, ValueId value) {
    const auto [place, fresh] = forms_.try_emplace(n);
    auto& forms = place->second;
    if (fresh) {
      emit_sizes(n);
      const NodeDefinition& definition = nodes_[n].definition;
      std::unordered_map<int, const Form*> definer;
      const std::set<int> inputs(definition.region.inputs.begin(), definition.region.inputs.end());
      for (const Form& form : definition.region.forms) {
        const auto reads = read_tensors(form);
        const bool direct =
            std::all_of(reads.begin(), reads.end(), [&](int tensor) { return inputs.contains(tensor); });
        if (direct && defined_tensors(form).size() == 1) definer[defined_tensors(form)[0]] = &form;
      }
      for (size_t k = 0; k < definition.outputs.size(); ++k) {
        const auto form = definer.find(definition.region.outputs[k]);
        if (form != definer.end()) forms[graph_.nodes[n].outputs[definition.outputs[k]]] = form->second;
      }
    }
    const auto form = forms.find(value);
    return form == forms.end() ? nullptr : form->second;
  }

  /// Adds a node's forms to the region, its tensors renumbered.
  void append(int n, Assembly& assembly) {
    const NodeDefinition& definition = nodes_[n].definition;
    const Region& source = definition.region;
    std::vector<int> mapped(source.tensors.size(), -1);
    for (size_t k = 0; k < definition.inputs.size(); ++k) {
      mapped[source.inputs[k]] = resolve(graph_.nodes[n].inputs[definition.inputs[k]], n, assembly);
    }
    add_sizes(n, assembly.step);
    Region& region = assembly.step.region;
    for (size_t k = 0; k < definition.outputs.size(); ++k) {
      const ValueId value = graph_.nodes[n].outputs[definition.outputs[k]];
      const int tensor = source.outputs[k];
      if (value == kNoValue) continue;
      GRAFT_CHECK(mapped[tensor] < 0, "an output of " + graph_.nodes[n].op + " is another tensor of it");
      mapped[tensor] = static_cast<int>(region.tensors.size());
      region.tensors.push_back(source.tensors[tensor]);
      region.tensors.back().name = graph_.value(value).name;
      assembly.region_tensor[value] = mapped[tensor];
    }
    for (size_t t = 0; t < mapped.size(); ++t) {
      if (mapped[t] >= 0) continue;
      mapped[t] = static_cast<int>(region.tensors.size());
      region.tensors.push_back(source.tensors[t]);
    }
    for (const Form& form : source.forms) {
      region.forms.push_back(renumber_tensors(form, mapped));
      if (const auto* compact = std::get_if<Compact>(&form)) assembly.step.count_symbol = compact->count;
    }
  }

  const Graph& graph_;
  FusionChoices choices_;
  std::vector<DefinedNode> nodes_;
  Clusters clusters_;
  std::vector<int> tensor_of_;
  std::vector<bool> emitted_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> is_output_;  ///< by value
  std::map<std::string, std::pair<int, SizeSource>, std::less<>> source_of_;  ///< by symbol: who reads it first
  std::map<std::string, Size, std::less<>> derived_;                          ///< sizes that have names
  std::set<std::string, std::less<>> bound_;                                  ///< symbols that steps so far read
  std::unordered_map<int, signed char> affine_;
  std::unordered_map<int, std::unordered_map<ValueId, const Form*>> forms_;  ///< of nodes with many
  int depth_ = 0;
  FusedProgram program_;
};

bool has_contraction(const Region& region) {
  return std::any_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    const auto* reduce = std::get_if<Reduce>(&form);
    return reduce && find_contraction(*reduce).has_value();
  });
}

}  // namespace

FusedProgram fuse(const Graph& graph, const FusionChoices& choices) {
  FusedProgram program = Fusion(graph, choices).run();
  merge_attention(program);
  assign_layouts(program, choices.any_order);
  for (const std::string& note : program.notes) log(LogLevel::kReason, "{}", note);
  return program;
}

void for_each_program(FusedProgram& program, const std::function<void(FusedProgram&)>& change) {
  for (FusedStep& step : program.steps) {
    for (auto& body : step.bodies) {
      FusedProgram inner = *body;
      for_each_program(inner, change);
      body = std::make_shared<const FusedProgram>(std::move(inner));
    }
  }
  change(program);
}

void allow_tf32(FusedProgram& program) {
  for (FusedStep& step : program.steps) step.region.tf32 |= has_contraction(step.region);
}

void keep_multiply_adds(FusedProgram& program) {
  for (FusedStep& step : program.steps) step.region.fma |= has_contraction(step.region);
}

std::string print(const FusedProgram& program) {
  std::string text;
  const auto names = [&](const std::vector<int>& tensors) {
    std::string list;
    for (const int t : tensors) list += (list.empty() ? "" : ", ") + printable(program.tensors[t].name);
    return list;
  };
  text += fmt::format("inputs: {}\noutputs: {}\n", names(program.inputs), names(program.outputs));
  for (const FusedTensor& tensor : program.tensors) {
    if (tensor.alias_of < 0) continue;
    text += fmt::format("alias {} = {}\n", printable(tensor.name),
                        printable(program.tensors[tensor.alias_of].name));
  }
  for (const FusedStep& step : program.steps) {
    text += fmt::format("\nstep {} ({}) -> ({})\n{}", printable(step.name), names(step.inputs), names(step.outputs),
                        step.bodies.empty() ? print(step.region) : "");
    for (const auto& body : step.bodies) text += fmt::format("\nbody {}\n{}", printable(body->prefix), print(*body));
  }
  return text;
}

}  // namespace graft
