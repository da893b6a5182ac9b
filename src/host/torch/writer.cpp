// SPDX-License-Identifier: Apache-2.0
#include "writer.h"

#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include <torch/csrc/jit/passes/dead_code_elimination.h>

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

/// The call of an engine, at the end of the graph: [inputs] -> execute_engine -> outputs.
jit::Node* append_call(jit::Graph& graph, const HostGraph& host, const Part& part, const std::string& attribute) {
  const graft_host_segment& segment = *part.segment;
  const c10::TypePtr type = c10::getCustomClassType<c10::intrusive_ptr<Engine>>();
  std::vector<jit::Value*> inputs, outputs;
  for (size_t i = 0; i < segment.input_count; ++i) {
    inputs.push_back(host.values[static_cast<size_t>(segment.inputs[i])]);
  }
  jit::Value* engine = graph.insertGetAttr(graph.inputs()[0], attribute);
  engine->setType(type);
  jit::Value* list = graph.insertNode(graph.createList(c10::TensorType::get(), inputs))->output();
  jit::Node* call = graph.insertNode(
      graph.create(c10::Symbol::fromQualString("graft::execute_engine"), {list, engine}, 1));
  call->output()->setType(c10::ListType::ofTensors());
  return graph.insertNode(graph.createListUnpack(call->output(), segment.output_count));
}

/// Brings the nodes of the graph into an order in which they can run, as near to the old one as there is. `before`:
/// pairs of nodes whose order data does not show.
void sort_nodes(jit::Block& block, const std::vector<std::pair<jit::Node*, jit::Node*>>& before) {
  std::vector<jit::Node*> nodes(block.nodes().begin(), block.nodes().end());
  std::unordered_map<const jit::Node*, size_t> position;
  for (size_t i = 0; i < nodes.size(); ++i) position[nodes[i]] = i;
  std::vector<std::vector<size_t>> followers(nodes.size());
  std::vector<size_t> waits(nodes.size(), 0);
  const auto order = [&](const jit::Node* first, const jit::Node* second) {
    const auto a = position.find(first), b = position.find(second);
    if (a == position.end() || b == position.end() || a == b) return;
    followers[a->second].push_back(b->second);
    ++waits[b->second];
  };
  for (const jit::Node* node : nodes) {
    visit_uses(*node, [&](const jit::Value* value) { order(value->node(), node); });
  }
  for (const auto& [first, second] : before) order(first, second);
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waits[i] == 0) ready.push(i);
  }
  size_t placed = 0;
  for (; !ready.empty(); ++placed) {
    const size_t next = ready.top();
    ready.pop();
    nodes[next]->moveBefore(block.return_node());
    for (const size_t follower : followers[next]) {
      if (--waits[follower] == 0) ready.push(follower);
    }
  }
  TORCH_INTERNAL_ASSERT(placed == nodes.size(), "the segments have a cycle");
}

/// An attribute's name that the module does not have yet.
std::string free_attribute(const jit::Module& module, size_t& number) {
  for (;; ++number) {
    std::string name = "graft_engine_" + std::to_string(number);
    if (!module.hasattr(name)) return name;
  }
}

}  // namespace

void write_engines(jit::Module& module, const HostGraph& host, const std::vector<Part>& parts) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph();
  std::vector<std::vector<jit::Node*>> stand_for(host.nodes.size());  // by node: the calls that do its work
  std::vector<jit::Node*> all_results;
  size_t number = 0;
  for (const Part& part : parts) {
    const std::string attribute = free_attribute(module, number);
    module.register_attribute(attribute, c10::getCustomClassType<c10::intrusive_ptr<Engine>>(),
                              c10::IValue(part.engine));
    const jit::WithInsertPoint at_the_end(graph->block());
    jit::Node* results = append_call(*graph, host, part, attribute);
    for (size_t i = 0; i < part.segment->node_count; ++i) {
      stand_for[static_cast<size_t>(part.segment->nodes[i])].push_back(results->input()->node());
    }
    all_results.push_back(results);
  }
  // Only now, so that calls that take each other's results are changed, too.
  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t i = 0; i < parts[p].segment->output_count; ++i) {
      jit::Value* result = all_results[p]->outputs()[i];
      result->setType(c10::TensorType::get());
      host.values[static_cast<size_t>(parts[p].segment->outputs[i])]->replaceAllUsesWith(result);
    }
  }
  std::vector<std::pair<jit::Node*, jit::Node*>> before;
  for (size_t n = 0; n < host.nodes.size(); ++n) {
    if (stand_for[n].empty()) stand_for[n] = {host.nodes[n]};
  }
  for (size_t n = 0; n < host.nodes.size(); ++n) {
    for (const int32_t earlier : host.after[n]) {
      for (jit::Node* first : stand_for[static_cast<size_t>(earlier)]) {
        for (jit::Node* second : stand_for[n]) before.emplace_back(first, second);
      }
    }
  }
  sort_nodes(*graph->block(), before);
  jit::EliminateDeadCode(graph);
  graph->lint();
}

}  // namespace graft::torchscript
