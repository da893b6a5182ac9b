// SPDX-License-Identifier: Apache-2.0
#include "export/pt2/program_view.h"

#include <fmt/format.h>

#include "base/error.h"
#include "export/pt2/aten_node.h"
#include "import/pt2/tensors.h"

namespace graft::pt2 {
namespace {

using Document = nlohmann::ordered_json;
using frontend::Argument;
using frontend::ForeignNode;

/// The places of names in an argument, in the order in which they are read.
void collect_names(Document& argument, std::vector<Document*>& names) {
  if (argument.is_array()) {
    for (Document& each : argument) collect_names(each, names);
  }
  if (!argument.is_object()) return;
  for (const char* key : {"name", "as_name"}) {
    if (argument.contains(key) && argument[key].is_string()) return names.push_back(&argument[key]);
  }
  for (auto& [key, value] : argument.items()) collect_names(value, names);
}

class Viewing {
 public:
  Viewing(const Program& program, Document& document, const amp::DefaultLists& lists, const std::string& where)
      : program_(program), graph_(document["graph_module"]["graph"]), lists_(lists), where_(where) {}

  ProgramView run() {
    for (const frontend::ForeignValue& value : program_.foreign.values) add_value(value);
    for (size_t n = 0; n < program_.foreign.nodes.size(); ++n) add_node(program_.foreign.nodes[n], graph_["nodes"][n]);
    view_.graph.outputs = program_.foreign.outputs;
    return std::move(view_);
  }

 private:
  void add_value(const frontend::ForeignValue& from) {
    amp::Value value{.name = from.name, .type = from.type, .is_parameter = static_cast<bool>(from.constant)};
    const Document& known = graph_["tensor_values"];
    if (value.type == DType::kUndefined && known.contains(from.name)) {
      value.type = element_type(known[from.name]["dtype"].get<int64_t>());
    }
    if (value.type == DType::kUndefined || !from.tensor) value.type = kNoFloat;
    view_.graph.values.push_back(std::move(value));
  }

  void add_node(const ForeignNode& from, Document& described) {
    std::vector<NamedArgument> arguments;
    std::vector<Document*>& names = view_.names.emplace_back();
    size_t position = 0, read = 0;
    for (Document& input : described["inputs"]) {
      const std::string name = input["name"].get<std::string>();
      const Argument& argument = name.empty() ? from.arguments[position++] : from.attributes.find(name)->second;
      arguments.push_back({name, &argument});
      const size_t before = read;
      frontend::visit_references(argument, [&](int) { ++read; });
      if (read > before) collect_names(input["arg"], names);
      GRAFT_USER_CHECK(names.size() == read, kUnsupported,
                       fmt::format("its argument '{}' names something that is not read", name),
                       fmt::format("{}: {}", where_, from.name));
    }
    view_.graph.nodes.push_back(aten_node(from, arguments, view_.graph.values, lists_));
  }

  const Program& program_;
  Document& graph_;
  const amp::DefaultLists& lists_;
  const std::string& where_;
  ProgramView view_;
};

}  // namespace

ProgramView view_program(const Program& program, nlohmann::ordered_json& document, const amp::DefaultLists& lists,
                         const std::string& where) {
  return Viewing(program, document, lists, where).run();
}

}  // namespace graft::pt2
