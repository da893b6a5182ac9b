// SPDX-License-Identifier: Apache-2.0
// A GraphDef as its file has it: nodes by name, and the bytes of everything.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"
#include "import/tensorflow/wire.h"

namespace graft_tensorflow {
class AttrValue;
class NodeDef;
}  // namespace graft_tensorflow

namespace graft::tensorflow {

struct FunctionGraph;

/// What a node takes: output `index` of another, or nothing but to run after it.
struct Source {
  std::string node;
  int index = 0;
  bool control = false;
};
/// `conv`, `split:1`, `^init`. Throws invalid_model naming `where` for other texts.
Source parse_source(std::string_view text, const std::string& where);
/// The shortest spelling, which is TensorFlow's own: `conv`, `split:1`.
std::string spell(std::string_view node, int index);

/// A node, with what was read of its message but the elements of a large constant.
struct FileNode {
  std::string name, op, device;
  std::vector<Source> inputs;
  std::shared_ptr<const graft_tensorflow::NodeDef> message;
  std::span<const std::byte> bytes;  ///< the message's, as the file has them
  TensorData tensor = {};            ///< of a Const whose elements lie elsewhere: a variable's

  /// Null where it has none of that name.
  const graft_tensorflow::AttrValue* attribute(std::string_view name) const;
};
/// Reads a node's message; `where` is called for when it is damaged. Throws invalid_model.
FileNode parse_node(std::span<const std::byte> bytes, const std::string& where);

/// The graph and what keeps its bytes.
class GraphFile {
 public:
  /// Reads a graph whose bytes `owner` keeps. Throws invalid_model naming the node for bytes that are no GraphDef,
  /// names that come twice, and inputs and functions that the graph does not have.
  GraphFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// A graph made of nodes of a file whose functions were inlined; it has no fields. Throws invalid_model for inputs
  /// that it does not have.
  GraphFile(std::vector<FileNode> nodes, const GraphFile& made_of);
  /// Functions that no library has, by name: made of nodes of a graph.
  using MadeFunctions = std::map<std::string, std::shared_ptr<const FunctionGraph>, std::less<>>;
  GraphFile(std::vector<FileNode> nodes, const GraphFile& made_of, MadeFunctions functions);

  const std::vector<FileNode>& nodes() const { return nodes_; }
  /// -1: there is none.
  int find(std::string_view node) const;
  /// Fields of the graph in their order: a node by its index, or another field's bytes.
  struct Field {
    int node = -1;
    std::span<const std::byte> bytes;
  };
  const std::vector<Field>& fields() const { return fields_; }
  bool has_function(std::string_view name) const { return functions_.contains(name); }
  /// The bytes of each function's definition, by name.
  using Functions = std::map<std::string, std::span<const std::byte>, std::less<>>;
  const Functions& functions() const { return functions_; }
  const MadeFunctions& made_functions() const { return made_functions_; }
  /// The version of TensorFlow's formats that wrote it; 0 where it says none.
  int producer() const { return producer_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  void read_node(std::span<const std::byte> bytes);
  void read_versions(std::span<const std::byte> bytes);
  void read_functions(std::span<const std::byte> library);
  void check_references() const;

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::vector<FileNode> nodes_;
  std::vector<Field> fields_;
  std::map<std::string, int, std::less<>> by_name_;
  Functions functions_;
  MadeFunctions made_functions_;
  int producer_ = 0;
};

}  // namespace graft::tensorflow
