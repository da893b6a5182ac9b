// SPDX-License-Identifier: Apache-2.0
// A model as its file has it (nodes, names, opsets, functions, dimension names), for commands that cut models.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_data.h"
#include "export/onnx/export.h"

namespace graft::amp {
struct DefaultLists;
struct Request;
}  // namespace graft::amp

namespace graft {

struct ImportOptions;

/// A node of the model's own graph.
struct ModelNode {
  std::string name;  ///< as the file has it, else what Graft calls it: its operator, numbered
  std::string op;
  std::vector<std::string> inputs;   ///< what its bodies read from around them comes last
  std::vector<std::string> outputs;  ///< without those left out
  std::string domain;                ///< empty: ONNX's own
  std::vector<std::string> operands, results;     ///< inputs and outputs by position; empty where one is left out
  std::map<std::string, std::string> attributes;  ///< numbers and texts as text, with spaces between several
  std::vector<ModelNode> bodies;                  ///< the nodes of its bodies, and of theirs
};

/// What is known of a value's type: an element type that is undefined, or a rank of -1, is not.
struct ModelValueType {
  DType type = DType::kUndefined;
  int rank = -1;
  bool is_tensor = true;  ///< false for a sequence, an optional, and where nothing is known
};

/// A part of a model.
struct ModelCut {
  std::vector<bool> nodes;           ///< by node: whether it stays
  std::vector<std::string> inputs;   ///< what is handed in, whatever defines it in the model
  std::vector<std::string> outputs;
};

/// A node that stands for others: an operator of the reader's own, of a domain that the model then names.
struct ModelCall {
  std::vector<bool> nodes;  ///< by node: whether the call stands for it
  std::string name, domain, op;
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< texts
  std::map<std::string, DType, std::less<>> types;  ///< of its inputs and outputs that it has in another type: cast
};

/// An input of a model: its element type, and the sizes as the file has them (a number, a name, or nothing).
struct ModelInput {
  std::string name;
  DType type = DType::kUndefined;
  std::optional<std::vector<std::string>> shape;
};

/// What a conversion to mixed precision did.
struct MixedReport {
  int casts = 0;                            ///< that were inserted
  std::map<std::string, DType> parameters;  ///< weights and constants that were f32, and their types now
};

/// A model and its weights. Copies share both; a change makes another model.
class ModelFile {
 public:
  /// Reads a model, its weights in files beside it too, and finds the types of all values by importing it; a model that
  /// cannot be imported is read all the same, with the types that it states. Throws as import_onnx does for a file
  /// that is no model.
  /// Works within the budget of an import, and throws `cancelled` when `cancelled`, which may be null, says so.
  static ModelFile open(const std::string& path, const std::function<bool()>& cancelled = {});
  /// The same, with definitions for operators of the caller's own.
  static ModelFile open(const std::string& path, const ImportOptions& options,
                        const std::function<bool()>& cancelled = {});

  const std::vector<ModelNode>& nodes() const;
  std::vector<ModelInput> inputs() const;
  std::vector<std::string> outputs() const;
  /// The names of all inputs, weights and results of nodes.
  std::vector<std::string> value_names() const;
  const std::map<std::string, TensorData, std::less<>>& weights() const;
  ModelValueType type_of(const std::string& value) const;
  /// The opset of ONNX's own operators that the file states; 0 where it states none.
  int64_t opset() const;
  /// Whether the file defines the operator of that domain as a function.
  bool has_function(const std::string& domain, const std::string& name) const;
  /// The nearest names, for a message about one that does not exist.
  void check_value(const std::string& name, const std::string& where) const;

  /// What is needed to compute `outputs` (none: the model's) from `inputs` and, where these do not suffice, the
  /// model's inputs and weights. Throws invalid_argument naming what does not exist or depends on none of this.
  ModelCut between(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) const;
  /// The nodes of these names: what they read of others is handed in, and what others or the caller read of them, or
  /// nobody does, is given out.
  ModelCut around(const std::vector<std::string>& nodes) const;
  ModelCut around(const std::vector<bool>& nodes) const;

  /// The part, with the weights, functions and types that it uses. Throws invalid_model naming an input whose type
  /// nobody knows.
  ModelFile cut(const ModelCut& part) const;
  /// The model with inputs and outputs of other types, cast from and to their own.
  ModelFile with_types(const std::map<std::string, DType, std::less<>>& types) const;
  /// The model with calls in place of nodes, which no two calls share. A Constant stays where others read it; weights
  /// and facts of values that nobody reads any more go. Throws invalid_argument where calls depend on each other in a
  /// circle.
  ModelFile with_calls(const std::vector<ModelCall>& calls) const;
  /// The model with another weight of that name.
  ModelFile with_weight(const std::string& name, TensorData tensor) const;
  /// The model with a size of its inputs replaced wherever it stands: the text of a name, or a number.
  ModelFile with_size(const std::string& size, int64_t value) const;

  /// The model with casts, so that part of it computes in f16 (amp/mixed_precision.h decides where), by default lists
  /// of ONNX's operators. Inputs, outputs and what bodies read keep their types. Throws unsupported where types are not
  /// known and for bf16, invalid_argument for a request that does not fit the model.
  ModelFile mixed(const amp::Request& request, const amp::DefaultLists& lists, MixedReport& report) const;

  void save(const std::string& path, const OnnxWeights& weights = {}) const;

 private:
  struct Contents;
  static void read(Contents& contents, const std::string& path, const ImportOptions& options);
  explicit ModelFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

}  // namespace graft
