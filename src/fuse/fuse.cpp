// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "fuse/assign_layouts.h"
#include "fuse/clusters.h"
#include "fuse/contraction.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

bool has_affine_loads(const Region& region) {
  bool all = true;
  for (const Form& form : region.forms) {
    for_each_expr(form, [&](const Expr& e) {
      for_each(e, [&](const Expr& node) {
        if (node->kind != ExprKind::kLoad) return;
        for (const Expr& index : node->args) all &= affine(index).has_value();
      });
    });
  }
  return all;
}

class Fusion {
 public:
  Fusion(const Graph& graph, const FusionChoices& choices)
      : graph_(graph),
        nodes_(define_nodes(graph)),
        clusters_(cluster_nodes(graph, nodes_, choices)),
        tensor_of_(graph.values.size(), -1),
        emitted_(clusters_.nodes.size()),
        consumers_(graph.consumers()) {}

  FusedProgram run() {
    program_.symbol_ranges = graph_.symbol_ranges;
    program_.notes = clusters_.notes;
    for (const ValueId input : graph_.inputs) {
      program_.inputs.push_back(new_tensor(input));
    }
    for (size_t c = 0; c < clusters_.nodes.size(); ++c) emit_cluster(static_cast<int>(c));
    for (const ValueId output : graph_.outputs) program_.outputs.push_back(materialise(output));
    return std::move(program_);
  }

 private:
  int new_tensor(ValueId id) {
    const Value& value = graph_.value(id);
    GRAFT_USER_CHECK(value.shape && value.type != DType::kUndefined, kUnsupported,
                     value.dynamic_type.empty() ? "its type or rank is not known; give the shapes of the model's inputs"
                                                : fmt::format("it is {}, not a tensor", value.dynamic_type),
                     fmt::format("value '{}'", value.name));
    program_.tensors.push_back({value.name, value.type, *value.shape, value.constant, -1});
    tensor_of_[id] = static_cast<int>(program_.tensors.size()) - 1;
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
    emit_step({producer});
    return tensor_of_[id];
  }

  int alias(ValueId id, int producer) {
    const NodeDefinition& definition = nodes_[producer].definition;
    const int source = materialise(graph_.nodes[producer].inputs[0]);
    if (!definition.size_sources.empty() || !definition.checks.empty()) {
      FusedStep step;
      step.name = graph_.nodes[producer].name;
      step.region.name = step.name;
      add_sizes(producer, step);
      program_.steps.push_back(std::move(step));
    }
    const int tensor = new_tensor(id);
    program_.tensors[tensor].alias_of = source;
    return tensor;
  }

  void emit_cluster(int cluster) {
    if (emitted_[cluster]) return;
    emitted_[cluster] = true;
    emit_step(clusters_.nodes[cluster]);
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
    std::vector<int> region_tensor;  ///< by value; -1
    std::vector<bool> member;        ///< by node
    bool only_affine = false;
  };

  void emit_step(const std::vector<int>& members) {
    Assembly assembly;
    assembly.region_tensor.assign(graph_.values.size(), -1);
    assembly.member.assign(graph_.nodes.size(), false);
    for (const int n : members) {
      assembly.member[n] = true;
      assembly.only_affine |= nodes_[n].kind == NodeKind::kContraction || nodes_[n].kind == NodeKind::kOther;
    }
    FusedStep& step = assembly.step;
    for (const int n : members) {
      append(n, assembly);
      step.nodes.push_back(graph_.nodes[n].name);
      step.operators.push_back(graph_.nodes[n].op);
    }
    step.name = step.nodes.front();
    step.region.name = step.name;
    for (const int n : members) {
      for (const ValueId value : graph_.nodes[n].outputs) {
        if (value == kNoValue || assembly.region_tensor[value] < 0 || !leaves(value, assembly)) continue;
        step.region.outputs.push_back(assembly.region_tensor[value]);
        step.outputs.push_back(tensor_of_[value] >= 0 ? tensor_of_[value] : new_tensor(value));
      }
    }
    program_.steps.push_back(std::move(step));
  }

  bool leaves(ValueId value, const Assembly& assembly) const {
    if (graph_.is_output(value)) return true;
    return std::any_of(consumers_[value].begin(), consumers_[value].end(), [&](int n) { return !assembly.member[n]; });
  }

  /// The region tensor for a value that member `reader` reads.
  int resolve(ValueId value, int reader, Assembly& assembly) {
    int& tensor = assembly.region_tensor[value];
    if (tensor >= 0) return tensor;
    const int producer = graph_.value(value).producer;
    const bool view = producer >= 0 && clusters_.of_node[producer] < 0 && tensor_of_[value] < 0;
    if (view) {
      const DefinedNode& node = nodes_[producer];
      const bool affine = has_affine_loads(node.definition.region);
      if (affine || (!node.keeps_order && !assembly.only_affine)) {
        append(producer, assembly);
        return assembly.region_tensor[value];
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
  std::vector<DefinedNode> nodes_;
  Clusters clusters_;
  std::vector<int> tensor_of_;
  std::vector<bool> emitted_;
  std::vector<std::vector<int>> consumers_;
  FusedProgram program_;
};

}  // namespace

FusedProgram fuse(const Graph& graph, const FusionChoices& choices) {
  FusedProgram program = Fusion(graph, choices).run();
  assign_layouts(program);
  for (const std::string& note : program.notes) log(LogLevel::kReason, "{}", note);
  return program;
}

void allow_tf32(FusedProgram& program) {
  for (FusedStep& step : program.steps) {
    for (const Form& form : step.region.forms) {
      const auto* reduce = std::get_if<Reduce>(&form);
      step.region.tf32 |= reduce && find_contraction(*reduce).has_value();
    }
  }
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
                        print(step.region));
  }
  return text;
}

}  // namespace graft
