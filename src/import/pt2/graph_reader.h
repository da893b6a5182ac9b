// SPDX-License-Identifier: Apache-2.0
// A graph of an exported program: nodes, what they take and give, and the functions that they run.
#pragma once

#include <map>
#include <string>

#include "frontend/foreign_graph.h"
#include "import/pt2/json_reader.h"

namespace graft::pt2 {

class GraphReader {
 public:
  /// `where`: whose it is, for errors. `hints`: sizes of symbols that the export saw go there.
  GraphReader(const json& graph, std::string where, std::map<std::string, int64_t, std::less<>>& hints, int depth = 0)
      : graph_(graph), where_(std::move(where)), hints_(hints), depth_(depth) {}

  frontend::ForeignGraph& foreign() { return foreign_; }
  int add_value(frontend::ForeignValue value);
  /// A value by its name; throws invalid_model where there is none yet.
  int index_of(const std::string& name, const std::string& part) const;
  /// Type and sizes of a tensor as the export saw it.
  frontend::ForeignValue described(const std::string& name);
  void read_node(const json& given);
  /// The graph of a function, with its inputs and results; what these are, the node around it knows.
  frontend::ForeignGraph read_function();

 private:
  void check(bool good, const std::string& what, const std::string& part = "") const;
  template <class Read>
  frontend::Argument list(const json& elements, const std::string& part, const Read& read) const;
  frontend::Argument symbol(const json& given, const std::string& part) const;
  frontend::Argument tensor(const json& given, const std::string& part) const;
  frontend::Argument boolean(const json& given, const std::string& part) const;
  frontend::Argument real(const json& given, const std::string& part) const;
  frontend::Argument argument(const json& given, const std::string& part, int depth = 0) const;
  std::string name_of(const json& node) const;
  void add_body(frontend::ForeignNode& node, const json& argument) const;
  void add_output(frontend::ForeignNode& node, const json& output, const std::string& part);
  int result(const json& given);

  const json& graph_;
  std::string where_;
  std::map<std::string, int64_t, std::less<>>& hints_;
  int depth_;
  frontend::ForeignGraph foreign_;
  std::map<std::string, int, std::less<>> indices_;
};

}  // namespace graft::pt2
