// SPDX-License-Identifier: Apache-2.0
// SavedModels and checkpoints written without TensorFlow, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/tensorflow/saved_model.pb.h"

namespace graft::test {

/// How the blocks of a table are stored.
enum class Blocks : uint8_t { kRaw, kSnappy };

/// A table of LevelDB with two blocks of entries where there are that many.
std::string write_table(const std::map<std::string, std::string>& entries, Blocks blocks = Blocks::kRaw);

/// A tensor of f32, and where its bytes lie.
struct PlacedTensor {
  std::vector<float> elements;
  int shard = 0;
  int64_t offset = 0;  ///< in the shard

  std::string bytes() const;
};
/// What an index says of it.
graft_tensorflow::BundleEntryProto entry_of(const PlacedTensor& tensor);
/// The index of a checkpoint of so many shards.
std::string write_index(const std::map<std::string, graft_tensorflow::BundleEntryProto>& entries, int shards,
                        Blocks blocks = Blocks::kRaw);

/// Tensors of f32 by key, as index and one shard.
struct CheckpointBytes {
  std::string index, data;
};
CheckpointBytes write_checkpoint(const std::map<std::string, std::vector<float>>& tensors,
                                 Blocks blocks = Blocks::kRaw);

/// saved_model.pb with one graph, tagged `serve`.
struct SavedModelText {
  graft_tensorflow::GraphDef graph;
  std::string restore_op;
  struct Signature {
    std::map<std::string, std::string> inputs, outputs;  ///< tensors of f32 by name
  };
  std::map<std::string, Signature> signatures;
  std::vector<graft_tensorflow::OpDef> operators;
};
std::string write_saved_model(const SavedModelText& model);

/// A function of the graph: arguments and results (`name=node:output:0`) of f32, nodes as graph_of() reads them.
void add_function(graft_tensorflow::GraphDef& graph, const std::string& name, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& results, const std::string& nodes);

}  // namespace graft::test
