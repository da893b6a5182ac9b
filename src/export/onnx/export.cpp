// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/export.h"

#include "export/onnx/write_graph.h"
#include "export/onnx/write_model.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

/// The format's own version that came with an opset of ai.onnx, so that a reader of the opset reads the file.
int64_t ir_version_of(int64_t opset) {
  struct Row {
    int64_t opset, ir_version;
  };
  constexpr Row kRows[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}};
  for (const Row& row : kRows) {
    if (opset >= row.opset) return row.ir_version;
  }
  return 8;
}

MakeModel writer_of(const Graph& graph) {
  return [&graph](TensorWriter& tensors, graft_onnx::ModelProto& model) {
    GraphWriter writer(tensors);
    writer.write(graph, *model.mutable_graph());
    model.set_ir_version(ir_version_of(writer.opset()));
    model.set_producer_name("graft");
    model.set_producer_version(GRAFT_VERSION);
    const auto import = [&](const std::string& domain, int64_t version) {
      auto* entry = model.add_opset_import();
      entry->set_domain(domain);
      entry->set_version(version);
    };
    import("", writer.opset());
    for (const auto& [domain, version] : graph.opsets) {
      if (!domain.empty()) import(domain, version);
    }
    for (const std::string& domain : writer.domains()) {
      if (!domain.empty() && !graph.opsets.count(domain)) import(domain, 1);
    }
    for (const auto& [key, value] : graph.metadata) {
      auto* entry = model.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
  };
}

}  // namespace

void export_onnx(const Graph& graph, const std::string& path, const OnnxWeights& weights) {
  write_model(writer_of(graph), constant_bytes(graph), path, weights);
}

std::string export_onnx_bytes(const Graph& graph) { return model_bytes(writer_of(graph)); }

}  // namespace graft
