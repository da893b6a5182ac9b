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

/// Throws for complex numbers that the model's callers would give or get: an engine has pairs of reals.
void check_borders(const frontend::ForeignGraph& foreign, const frontend::Converted& converted) {
  const auto check = [](bool good, const std::string& what, const std::string& name) {
    GRAFT_USER_CHECK(good, kUnsupported, what, "'" + name + "'");
  };
  for (const int input : foreign.inputs) {
    const frontend::ForeignValue& value = foreign.values[static_cast<size_t>(input)];
    check(kind_of(value.type) != DTypeKind::kComplex,
          "the model takes complex numbers: let it take torch.view_as_real of them", value.name);
  }
  for (const int output : foreign.outputs) {
    check(!converted.complexes.contains(output),
          "the model gives complex numbers: let it give torch.view_as_real of them",
          foreign.values[static_cast<size_t>(output)].name);
  }
}

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
  check_borders(program.foreign, converted);
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
