// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/import.h"

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "frontend/user_rows.h"
#include "frontend/whole_model.h"
#include "import/aten/rows.h"
#include "import/pt2/program.h"

namespace graft::pt2 {
namespace {

/// A result that is given twice, or is an input, has a name of its own.
std::vector<std::string> distinct(std::vector<std::string> outputs, const std::vector<std::string>& inputs) {
  std::set<std::string, std::less<>> taken(inputs.begin(), inputs.end());
  for (std::string& name : outputs) {
    const std::string base = name;
    for (int number = 2; !taken.insert(name).second; ++number) name = base + "_" + std::to_string(number);
  }
  return outputs;
}

}  // namespace

bool is_model(const std::string& path) { return path.ends_with(".pt2"); }

Graph import_model(const std::string& path, const std::vector<std::string>& converters) {
  const auto file = MappedFile::open(path);
  return import_bytes(file->bytes(), file, path, converters);
}

Graph import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where,
                   const std::vector<std::string>& converters) {
  Program program = read_program(Archive(bytes, std::move(owner), where));
  program.foreign.name = "model";
  const auto rows = frontend::with_user_rows("aten", aten::converters(), converters);
  frontend::Converted converted = frontend::convert(program.foreign, *rows);
  frontend::check_converted(program.foreign, converted,
                            "torch.compile with the backend graft makes engines of the parts around them");
  frontend::name_borders(converted.graph, program.inputs, distinct(program.outputs, program.inputs));
  std::set<std::string, std::less<>> symbols;
  for (const ValueId input : converted.graph.inputs) {
    for (const Size& size : *converted.graph.value(input).shape) size.collect_symbols(symbols);
  }
  for (const auto& [symbol, range] : program.ranges) {
    if (symbols.contains(symbol)) converted.graph.symbol_ranges[symbol] = range;
  }
  return std::move(converted.graph);
}

}  // namespace graft::pt2
