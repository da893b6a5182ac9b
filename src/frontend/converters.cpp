// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "frontend/conversion.h"

namespace graft::frontend {

void Converters::add(const Row& row, const std::string& origin, int priority) {
  Signature signature = Signature::parse(row.signature);
  std::istringstream names(signature.op);
  const size_t colons = signature.op.find("::");
  const std::string space = colons == std::string::npos ? "" : signature.op.substr(0, colons + 2);
  for (std::string name; names >> name;) {
    signature.op = name.find("::") == std::string::npos ? space + name : name;
    std::vector<Entry>& rows = entries_[signature.op];
    if (origin.empty()) std::erase_if(rows, [](const Entry& each) { return each.origin.empty(); });
    const auto behind = std::find_if(rows.begin(), rows.end(),
                                     [&](const Entry& each) { return each.priority <= priority; });
    rows.insert(behind, Entry{signature, row.build, origin, priority, row.of_complex});
  }
}

void Converters::extend(std::string_view names, const std::function<Build(const Build& build)>& of) {
  std::istringstream words{std::string(names)};
  for (std::string name; words >> name;) {
    const auto found = entries_.find(name);
    GRAFT_CHECK(found != entries_.end(), "there is no row of " + name);
    for (Entry& each : found->second) {
      if (each.origin.empty()) each.of_complex = of(each.build);
    }
  }
}

const std::vector<Converters::Entry>& Converters::rows_of(std::string_view op) const {
  static const std::vector<Entry> none;
  const auto found = entries_.find(op);
  return found == entries_.end() ? none : found->second;
}

const Converters::Entry* Converters::find(std::string_view op) const {
  const std::vector<Entry>& rows = rows_of(op);
  return rows.empty() ? nullptr : &rows.front();
}

std::vector<std::string> Converters::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace graft::frontend
