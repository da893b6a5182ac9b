// SPDX-License-Identifier: Apache-2.0
#include "writer.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include "native_weights.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

/// The operators of a segment with what they have of their own: constants, and lists that nobody changes.
class NativeCopy {
 public:
  NativeCopy(jit::Graph& graph, const HostGraph& host, const Part& part) : graph_(graph) {
    const graft_host_segment& segment = *part.segment;
    for (size_t i = 0; i < segment.input_count; ++i) {
      jit::Value* input = host.values[static_cast<size_t>(segment.inputs[i])];
      copies_[input] = input;
    }
    for (size_t i = 0; i < segment.node_count; ++i) copy(*host.nodes[static_cast<size_t>(segment.nodes[i])]);
    std::vector<jit::Value*> outputs;
    for (size_t i = 0; i < segment.output_count; ++i) {
      outputs.push_back(copy_of(host.values[static_cast<size_t>(segment.outputs[i])]));
    }
    result_ = graph.insertNode(graph.createList(c10::TensorType::get(), outputs))->output();
  }
  jit::Value* result() const { return result_; }

 private:
  jit::Value* copy_of(jit::Value* value) {
    const auto known = copies_.find(value);
    if (known != copies_.end()) return known->second;
    if (value->node()->kind() == c10::prim::Param) return value;
    copy(*value->node());
    return copies_.at(value);
  }

  void copy(jit::Node& node) {
    for (jit::Value* input : node.inputs()) copy_of(input);
    jit::Node* made = graph_.insertNode(graph_.createClone(&node, [&](jit::Value* value) { return copy_of(value); }));
    for (size_t i = 0; i < node.outputs().size(); ++i) copies_[node.outputs()[i]] = made->outputs()[i];
  }

  jit::Graph& graph_;
  std::unordered_map<jit::Value*, jit::Value*> copies_;
  jit::Value* result_ = nullptr;
};

/// What a call gives, or, if that is nothing, what the operators that it stands for give, with weights of the engine's.
jit::Value* or_native(jit::Graph& graph, const HostGraph& host, const Part& part, jit::Value* engine,
                      jit::Value* called) {
  jit::Value* ran = graph.insert(c10::aten::gt, {graph.insert(c10::aten::len, {called}), 0});
  jit::Node* either = graph.insertNode(graph.create(c10::prim::If, {ran}, 1));
  either->addBlock()->registerOutput(called);
  jit::Block* native = either->addBlock();
  {
    const jit::WithInsertPoint inside(native);
    native->registerOutput(NativeCopy(graph, host, part).result());
  }
  take_weights(*native, *part.engine, engine);
  either->output()->setType(c10::ListType::ofTensors());
  return either->output();
}

/// Checks an argument before everything else.
void insert_guard(jit::Graph& graph, const Guard& guard) {
  jit::Value* argument = graph.inputs()[guard.argument];
  const std::string name = argument->debugName();
  const jit::WithInsertPoint at_the_begin(*graph.nodes().begin());
  if (guard.default_value) {
    graph.insert(c10::Symbol::fromQualString("graft::check_default"), {argument, *guard.default_value, name});
    return;
  }
  jit::Value* checked = graph.insert(c10::Symbol::fromQualString("graft::check_argument"),
                                     {argument, name, guard.sizes, static_cast<int64_t>(guard.dtype)});
  argument->replaceAllUsesAfterNodeWith(checked->node(), checked);
}

/// What stands for a segment.
struct Call {
  jit::Node* engine = nullptr;   ///< its engine's run
  jit::Node* results = nullptr;  ///< has the segment's outputs
};

/// The call of an engine, at the end of the graph: [inputs] -> execute_engine -> outputs.
Call append_call(jit::Graph& graph, const HostGraph& host, const Part& part, const std::string& attribute) {
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
  jit::Value* results = call->output();
  if (part.engine->has_native()) results = or_native(graph, host, part, engine, results);
  return {call, graph.insertNode(graph.createListUnpack(results, segment.output_count))};
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

/// Writes the engines of a method.
class Writing {
 public:
  Writing(jit::Module& module, jit::Graph& graph) : module_(module), graph_(graph) {}

  /// Those of inner blocks first, as nodes move when the block around is sorted.
  void write(const Parts& parts) {
    for (const Parts& block : parts.blocks) write(block);
    const HostGraph& host = *parts.host;
    stand_for_.assign(host.nodes.size(), {});
    std::vector<Call> calls;
    for (const Part& part : parts.parts) calls.push_back(write(host, part));
    // Only now, so that calls that take each other's results are changed, too.
    for (size_t p = 0; p < calls.size(); ++p) {
      const graft_host_segment& segment = *parts.parts[p].segment;
      for (size_t i = 0; i < segment.output_count; ++i) {
        jit::Value* result = calls[p].results->outputs()[i];
        result->setType(c10::TensorType::get());
        host.values[static_cast<size_t>(segment.outputs[i])]->replaceAllUsesWith(result);
      }
    }
    drop_replaced(host);
    sort_nodes(*host.block, order_of(host));
  }

 private:
  Call write(const HostGraph& host, const Part& part) {
    const std::string attribute = free_attribute(module_, number_);
    module_.register_attribute(attribute, c10::getCustomClassType<c10::intrusive_ptr<Engine>>(),
                               c10::IValue(part.engine));
    const jit::WithInsertPoint at_the_end(host.block);
    const Call call = append_call(graph_, host, part, attribute);
    for (size_t i = 0; i < part.segment->node_count; ++i) {
      auto& standing = stand_for_[static_cast<size_t>(part.segment->nodes[i])];
      standing.push_back(call.engine);
      standing.push_back(call.results->input()->node());
    }
    call_of_[call.engine] = call_of_[call.results->input()->node()] = call.engine;
    return call;
  }

  /// What engines stand for and nobody reads any more goes here, as loops and appends look as if they had effects.
  void drop_replaced(const HostGraph& host) {
    for (size_t n = host.nodes.size(); n > 0; --n) {
      jit::Node* node = host.nodes[n - 1];
      const bool used = std::any_of(node->outputs().begin(), node->outputs().end(),
                                    [](const jit::Value* output) { return output->hasUses(); });
      if (!stand_for_[n - 1].empty() && !used) node->destroy();
    }
  }

  /// Pairs of nodes whose order data does not show.
  std::vector<std::pair<jit::Node*, jit::Node*>> order_of(const HostGraph& host) {
    std::vector<std::pair<jit::Node*, jit::Node*>> before;
    for (size_t n = 0; n < host.nodes.size(); ++n) {
      if (stand_for_[n].empty()) stand_for_[n] = {host.nodes[n]};
    }
    for (size_t n = 0; n < host.nodes.size(); ++n) {
      for (const int32_t earlier : host.after[n]) {
        for (jit::Node* first : stand_for_[static_cast<size_t>(earlier)]) {
          for (jit::Node* second : stand_for_[n]) {
            if (!are_of_one_call(first, second)) before.emplace_back(first, second);
          }
        }
      }
    }
    return before;
  }

  bool are_of_one_call(const jit::Node* first, const jit::Node* second) const {
    const auto a = call_of_.find(first), b = call_of_.find(second);
    return a != call_of_.end() && b != call_of_.end() && a->second == b->second;
  }

  jit::Module& module_;
  jit::Graph& graph_;
  std::unordered_map<const jit::Node*, const jit::Node*> call_of_;  ///< an engine's run, of the nodes around it
  size_t number_ = 0;
  std::vector<std::vector<jit::Node*>> stand_for_;  ///< by node of a block: the calls that do its work
};

}  // namespace

void write_engines(jit::Module& module, const std::string& method, const Parts& parts,
                   const std::vector<Guard>& guards) {
  const std::shared_ptr<jit::Graph> graph = module.get_method(method).graph();
  Writing(module, *graph).write(parts);
  for (const Guard& guard : guards) insert_guard(*graph, guard);
  jit::EliminateDeadCode(graph);
  graph->lint();
}

}  // namespace graft::torchscript
