// SPDX-License-Identifier: Apache-2.0
// A GraphDef as its file has it: nodes by name, and the bytes of everything.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/tensorflow/wire.h"

namespace graft_tensorflow {
class AttrValue;
class NodeDef;
}  // namespace graft_tensorflow

namespace graft::tensorflow {

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

  /// Null where it has none of that name.
  const graft_tensorflow::AttrValue* attribute(std::string_view name) const;
};

/// The graph and what keeps its bytes.
class GraphFile {
 public:
  /// Reads a graph whose bytes `owner` keeps. Throws invalid_model naming the node for bytes that are no GraphDef,
  /// names that come twice, and inputs and functions that the graph does not have.
  GraphFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

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
  std::set<std::string, std::less<>> functions_;
  int producer_ = 0;
};

}  // namespace graft::tensorflow
