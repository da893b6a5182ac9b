// SPDX-License-Identifier: Apache-2.0
// From nodes of a model to plugins for other engines: the list of the stages.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/compile_options.h"
#include "plugin/consumer.h"
#include "plugin/definition.h"
#include "plugin/select_nodes.h"
#include "plugin/tensorrt_support.h"

namespace graft::plugin {

struct Request {
  std::string model;
  Selection selection;
  std::string name;  ///< of the one plugin; empty: as `names` says, else made from names of nodes
  std::map<std::string, std::string> names;  ///< of plugins, by the name of a node of theirs
  Consumer consumer = Consumer::kTensorRT;
  std::string batch;       ///< the size or range of the first axes of the model's inputs: 1:8:64
  std::string parser;      ///< of TensorRT, for the selection of what it refuses: as refused_by_tensorrt() takes it
  CompileOptions options;  ///< sizes, targets (none: sm_80 and sm_90a), precision, record, callbacks
  std::string folder;      ///< made; one that this made before is replaced
};

/// A part of the model and the plugin that does it.
struct PlacedPlugin {
  std::string node;  ///< the name of the node in the rewritten model
  std::vector<std::string> nodes;  ///< of the model, that it stands for
  size_t plugin = 0;
};

/// A node that TensorRT refuses and for which no plugin can be made.
struct LeftNode {
  std::string node, why;
};

/// What was written.
struct Generated {
  std::vector<Definition> plugins;
  std::vector<PlacedPlugin> nodes;
  std::vector<Refusal> refused;  ///< nodes that TensorRT refuses, where these were selected
  std::string refused_by;        ///< who says so, as Refusals has it
  std::vector<LeftNode> left;    ///< of them, those without a plugin
  std::string model;  ///< the rewritten model's path; empty where there is none
};

/// Writes the folder, whole or not at all. Throws Error naming what to change.
Generated generate(const Request& request);
/// The plugins that generate() would write, whose kernels are not compiled; writes nothing that stays.
Generated propose(const Request& request);

}  // namespace graft::plugin
