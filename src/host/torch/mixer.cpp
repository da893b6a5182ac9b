// SPDX-License-Identifier: Apache-2.0
#include "mixer.h"

#include <map>
#include <utility>

#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/shape_analysis.h>

#include "element_types.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

class Mixing {
 public:
  Mixing(jit::Graph& graph, const HostGraph& host) : graph_(graph), host_(host) {}

  void apply(const graft_host_reading& reading) {
    jit::Value* value = host_.values[static_cast<size_t>(reading.value)];
    if (reading.node == GRAFT_READING_PARAMETER) return convert(value, reading.dtype);
    jit::Value* now = host_.values[static_cast<size_t>(reading.now)];
    if (reading.dtype != 0) now = cast(now, reading.dtype);
    jit::Node* reader = reading.node == GRAFT_READING_RESULT ? graph_.return_node()
                                                             : host_.nodes[static_cast<size_t>(reading.node)];
    replace(reader, value, now);
  }

  size_t casts() const { return casts_.size(); }

 private:
  static c10::ScalarType type_of(int32_t code) {
    const auto type = scalar_type(code);
    TORCH_INTERNAL_ASSERT(type.has_value(), "there is no element type ", code);
    return *type;
  }

  static void convert(jit::Value* value, int32_t type) {
    const at::Tensor tensor = value->node()->t(c10::attr::value).to(type_of(type));
    value->node()->t_(c10::attr::value, tensor);
    value->setType(c10::TensorType::create(tensor));
  }

  jit::Value* cast(jit::Value* value, int32_t type) {
    jit::Value*& made = casts_[{value, type}];
    if (made) return made;
    const bool argument = value->node()->kind() == c10::prim::Param;
    jit::Node* next = argument ? *graph_.nodes().begin() : value->node()->next();
    const jit::WithInsertPoint behind(next);
    made = graph_.insert(c10::aten::to, {value, static_cast<int64_t>(type_of(type)), false, false});
    return made;
  }

  /// Of what a node reads itself, in a list that is made for it, and in its blocks.
  void replace(jit::Node* reader, jit::Value* from, jit::Value* to) {
    for (size_t i = 0; i < reader->inputs().size(); ++i) {
      jit::Value* input = reader->inputs()[i];
      if (input == from) {
        reader->replaceInput(i, to);
      } else if (input->node()->kind() == c10::prim::ListConstruct) {
        replace_in_list(reader, i, from, to);
      }
    }
    for (jit::Block* block : reader->blocks()) {
      for (jit::Node* inner : block->nodes()) replace(inner, from, to);
      replace(block->return_node(), from, to);
    }
  }

  /// A list may have other readers, which read it as it was.
  void replace_in_list(jit::Node* reader, size_t input, jit::Value* from, jit::Value* to) {
    jit::Node* list = reader->inputs()[input]->node();
    bool has = false;
    for (const jit::Value* element : list->inputs()) has |= element == from;
    if (!has) return;
    jit::Node* copy = graph_.createClone(list, [&](jit::Value* value) { return value == from ? to : value; });
    copy->insertBefore(reader);
    reader->replaceInput(input, copy->output());
  }

  jit::Graph& graph_;
  const HostGraph& host_;
  std::map<std::pair<jit::Value*, int32_t>, jit::Value*> casts_;
};

}  // namespace

size_t write_casts(const std::shared_ptr<jit::Graph>& graph, const HostGraph& host,
                   const std::vector<graft_host_reading>& readings) {
  Mixing mixing(*graph, host);
  for (const graft_host_reading& reading : readings) mixing.apply(reading);
  jit::EraseShapeInformation(graph);
  jit::EliminateDeadCode(graph);
  graph->lint();
  return mixing.casts();
}

}  // namespace graft::torchscript
