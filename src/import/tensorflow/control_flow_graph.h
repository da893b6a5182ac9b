// SPDX-License-Identifier: Apache-2.0
// A graph in which control flow is being raised: its nodes, who takes what, and functions made of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/inline_functions.h"
#include "import/tensorflow/raise_control_flow.h"

namespace graft::tensorflow {

/// Nodes at the places that they have in a file.
class ControlFlowGraph {
 public:
  explicit ControlFlowGraph(const GraphFile& file);

  const std::vector<FileNode>& nodes() const { return nodes_; }
  const FileNode& node(int n) const { return nodes_[static_cast<size_t>(n)]; }
  int find(const std::string& name) const;
  /// The nodes that take a result of one, or run after it, as of the last refresh().
  const std::vector<int>& takers(int n) const { return takers_[static_cast<size_t>(n)]; }
  void refresh();

  /// The data inputs of a node.
  std::vector<Source> data_of(int n) const;
  /// The number of the type in an attribute; 0: it has none.
  int type_of(int n, const char* attribute = "T") const;
  /// A tensor behind all that only hands it on.
  Source behind_identities(Source source) const;

  /// What a function takes, by tensor: the number of its argument.
  using Arguments = std::map<std::string, int>;
  /// What becomes of a tensor that a result needs.
  enum class Way { kInside, kArgument, kOutside };
  /// The nodes that results need, up to arguments. `way` is asked for tensors that are none yet, and may add them.
  /// Empty and false where it meets control flow that has not been raised, or a tensor from outside.
  bool collect(const std::vector<Source>& results, Arguments& arguments,
               const std::function<Way(const Source&)>& way, std::set<int>& inside) const;
  /// A function of such nodes that takes so many arguments; gives its name.
  std::string add_function(const std::string& name, const std::set<int>& inside, const Arguments& arguments,
                           size_t argument_count, const std::vector<Source>& results);

  /// Puts a node in place of others: at the place of the first, with results that some of their tensors are from now
  /// on. It runs after what those ran after, and what ran after one of those runs after it.
  void replace(const std::set<int>& old, FileNode made, const std::vector<Source>& results);

  RaisedGraph finish(const GraphFile& file) &&;

 private:
  std::vector<FileNode> nodes_;
  std::map<std::string, int, std::less<>> by_name_;
  std::vector<std::vector<int>> takers_;
  std::vector<std::vector<int>> stands_for_;
  std::map<std::string, std::string> tensors_;
  std::map<std::string, Source> moved_;
  GraphFile::MadeFunctions functions_;
  const GraphFile& file_;
};

/// Sets an attribute of a node that is made.
graft_tensorflow::AttrValue& new_attribute(graft_tensorflow::NodeDef& node, const char* key);

/// Raises the loops whose insides are raised; gives how many.
int raise_loops(ControlFlowGraph& graph, bool drops_checks);
/// The same of conditionals.
int raise_conditionals(ControlFlowGraph& graph);

}  // namespace graft::tensorflow
