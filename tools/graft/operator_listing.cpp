// SPDX-License-Identifier: Apache-2.0
#include "operator_listing.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "amp/request.h"
#include "console.h"
#include "driver/host_graph.h"
#include "driver/precision_lists.h"
#include "graph/op_def.h"

namespace graft {
namespace {

std::string_view word_of(amp::Rule rule) {
  switch (rule) {
    case amp::Rule::kLow: return "target";
    case amp::Rule::kFollow: return "none";
    case amp::Rule::kWidest: return "widest";
    case amp::Rule::kWide: return "float32";
  }
  return "";
}

}  // namespace

int list_front_end(const std::string& front_end, const std::string& part, const std::vector<std::string>& libraries) {
  Table table("lll");
  table.add({"operator", "from", "arguments"});
  const auto converters = find_converters(front_end, libraries);
  int count = 0;
  for (const std::string& name : converters->names()) {
    if (name.find(part) == name.npos) continue;
    for (const auto& row : converters->rows_of(name)) {  // in the order in which they are asked
      std::vector<std::string> arguments;
      for (const auto& each : row.signature.parameters) arguments.push_back(each.name);
      const std::string priority = row.priority == 0 ? "" : fmt::format(" (priority {})", row.priority);
      table.add({name, (row.origin.empty() ? "built in" : row.origin) + priority,
                 fmt::format("{}", fmt::join(arguments, ", "))});
    }
    ++count;
  }
  print_to(stdout, "{}{} operators\n", table, count);
  return count > 0 ? 0 : 1;
}

int list_precision(const std::string& precision, const std::string& front_end, const std::string& part) {
  const std::string of = front_end.empty() ? "onnx" : front_end;
  const amp::DefaultLists lists = default_lists(of, amp::low_type_of(precision, "--precision"));
  std::set<std::string> names(lists.names.begin(), lists.names.end());
  if (of == "onnx") {
    for (const OpDef& op : all_ops()) names.insert(std::string(op.name));
  }
  Table table("lll");
  table.add({"operator", "rule", "float32 where"});
  int count = 0;
  for (const std::string& name : names) {
    if (name.find(part) == name.npos) continue;
    std::string condition;
    for (const amp::Condition& each : lists.conditions) {
      if (each.op == name) condition = fmt::format("{} is {}", each.attribute, fmt::join(each.values, " or "));
    }
    table.add({name, std::string(word_of(lists.rule(name).value_or(lists.otherwise))), condition});
    ++count;
  }
  print_to(stdout, "{}{} operators\n", table, count);
  return count > 0 ? 0 : 1;
}

}  // namespace graft
