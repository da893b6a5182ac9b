// SPDX-License-Identifier: Apache-2.0
// The symbol by which MXNet is asked for shapes. Of _cond and _while_loop it infers none before they have run, so that
// what their graphs compute stands in their place there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mxnet/lib_api.h"

namespace graft::extension {

/// A result of a node, or a variable.
using Entry = std::pair<mxnet::ext::Node*, int>;

class ShapeGraph {
 public:
  /// Throws Failure for attributes that name what there is not.
  explicit ShapeGraph(const mxnet::ext::Graph& graph);

  /// Two results of the copy that have one shape, or what follows is known only while running.
  struct Agreement {
    Entry first, second;
    std::string otherwise;
  };
  const std::vector<Agreement>& agreements() const { return agreements_; }

  /// The result of the copy that has an entry's shape.
  Entry copy_of(const Entry& entry) const;
  /// The symbol whose outputs are these results of the copy.
  std::string symbol_of(const std::vector<Entry>& copies);

 private:
  struct Copy {
    mxnet::ext::Node* node = nullptr;
    std::vector<Entry> results = {};  ///< where no node stands for it
  };
  using Copies = std::map<const mxnet::ext::Node*, Copy>;

  static Entry find(const Copies& copies, const mxnet::ext::NodeEntry& entry);
  mxnet::ext::Graph& new_graph();
  void copy(const mxnet::ext::Graph& from, mxnet::ext::Graph& to, Copies& copies);
  mxnet::ext::Node* copy_node(const mxnet::ext::Node& node, mxnet::ext::Graph& to, const Copies& copies);
  std::vector<Entry> call(const mxnet::ext::Node& node, size_t function, const char* locations, mxnet::ext::Graph& to,
                          const Copies& copies);
  std::vector<Entry> branch(const mxnet::ext::Node& node, mxnet::ext::Graph& to, const Copies& copies);
  std::vector<Entry> loop(const mxnet::ext::Node& node, mxnet::ext::Graph& to, const Copies& copies);

  std::vector<std::unique_ptr<mxnet::ext::Graph>> graphs_;  ///< the first is the whole one
  Copies copies_;
  std::vector<Agreement> agreements_;
};

}  // namespace graft::extension
