// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/program.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/symbols.h"
#include "import/pt2/graph_reader.h"
#include "import/pt2/in_place.h"
#include "import/pt2/json_reader.h"
#include "import/pt2/tensors.h"

namespace graft::pt2 {
namespace {

constexpr int64_t kSchemaMajor = 8;

class ProgramReader {
 public:
  explicit ProgramReader(const Archive& archive) : archive_(archive), where_(archive.where()) {}

  Program read() {
    const json document = parse_entry(model(), where_);
    check_version(document);
    const json& module = object_member(document, "graph_module", where_);
    const json& graph = object_member(module, "graph", where_);
    GraphReader reader(graph, where_, hints_);
    reader_ = &reader;
    constants_ = read_tensors(archive_, "data/weights", "model_weights_config.json");
    constants_.merge(read_tensors(archive_, "data/constants", "model_constants_config.json"));
    const json& signature = object_member(module, "signature", where_);
    for (const json& output : list_member(signature, "output_specs", where_)) note_written(output);
    for (const json& input : list_member(signature, "input_specs", where_)) read_input(input);
    for (const json& node : list_member(graph, "nodes", where_)) reader.read_node(node);
    const json& outputs = list_member(graph, "outputs", where_);
    const json& specs = list_member(signature, "output_specs", where_);
    check(outputs.size() == specs.size(),
          fmt::format("its graph gives {} outputs, its signature names {}", outputs.size(), specs.size()));
    for (size_t i = 0; i < specs.size(); ++i) read_output(specs[i], outputs[i]);
    read_ranges(object_member(document, "range_constraints", where_));
    rename_in_place(reader.foreign(), where_);
    program_.foreign = std::move(reader.foreign());
    return std::move(program_);
  }

 private:
  void check(bool good, const std::string& what, const std::string& part = "") const {
    GRAFT_USER_CHECK(good, kInvalidModel, what, part.empty() ? where_ : where_ + ": " + part);
  }

  /// The one model of the archive.
  std::span<const std::byte> model() const {
    const std::vector<std::string> models = archive_.names("models/");
    GRAFT_USER_CHECK(!models.empty(), kUnsupported,
                     "it has no models/NAME.json: torch.export.save of torch 2.9 or newer writes what can be read here",
                     where_);
    GRAFT_USER_CHECK(models.size() == 1, kUnsupported,
                     fmt::format("it has {} models: save each to a file of its own", models.size()), where_);
    if (const auto order = archive_.find("byteorder")) {
      const std::string_view text(reinterpret_cast<const char*>(order->data()), order->size());
      GRAFT_USER_CHECK(text == "little", kUnsupported, "its bytes are of another order than little-endian", where_);
    }
    return *archive_.find(models[0]);
  }

  void check_version(const json& document) const {
    const json& version = object_member(document, "schema_version", where_);
    const int64_t major = integer(member(version, "major", where_), where_);
    GRAFT_USER_CHECK(major == kSchemaMajor, kUnsupported,
                     fmt::format("its schema has version {}, and {} is read: export it with torch 2.9 to 2.12", major,
                                 kSchemaMajor),
                     where_);
  }

  // ---- What comes in ----

  void read_input(const json& given) {
    const auto [kind, spec] = tagged(given, where_);
    if (kind == "user_input") return read_user_input(member(*spec, "arg", where_));
    static const std::map<std::string, const char*> kNamed = {
        {"parameter", "parameter_name"}, {"buffer", "buffer_name"}, {"tensor_constant", "tensor_constant_name"}};
    const auto named = kNamed.find(kind);
    if (named == kNamed.end()) {
      if (kind == "constant_input") return;
      GRAFT_USER_CHECK(false, kUnsupported, fmt::format("the model takes a {}", kind), where_);
    }
    const std::string name = text_member(object_member(*spec, "arg", where_), "name", where_);
    const std::string of = text_member(*spec, named->second, where_);
    if (written_.contains(of)) return take_input(name);
    const auto constant = constants_.find(of);
    check(constant != constants_.end(), fmt::format("the archive has no elements of '{}'", of));
    reader_->add_value(
        {.name = name, .type = constant->second.type(), .shape = std::nullopt, .constant = constant->second});
  }

  void read_user_input(const json& argument) {
    const auto [kind, value] = tagged(argument, where_);
    if (kind != "as_tensor") {  // specialised by the export: the graph has it as a constant
      const bool fixed = kind == "as_none" || kind == "as_int" || kind == "as_float" || kind == "as_bool" ||
                         kind == "as_string";
      GRAFT_USER_CHECK(fixed, kUnsupported, fmt::format("the model takes an argument of the kind {}", kind), where_);
      return;
    }
    take_input(text_member(*value, "name", where_));
  }

  void take_input(const std::string& name) {
    reader_->foreign().inputs.push_back(reader_->add_value(reader_->described(name)));
    program_.inputs.push_back(name);
  }

  /// Buffers that the model writes to are no constants: an engine takes them and gives their new contents.
  void note_written(const json& given) {
    const auto [kind, spec] = tagged(given, where_);
    if (kind == "buffer_mutation") written_.insert(text_member(*spec, "buffer_name", where_));
  }

  // ---- What goes out ----

  /// As the signature names it; the graph names the same.
  void read_output(const json& given, const json& in_graph) {
    const auto [kind, spec] = tagged(given, where_);
    if (kind == "buffer_mutation" || kind == "user_input_mutation") {  // new contents, as the first results
      return give(text_member(object_member(*spec, "arg", where_), "name", where_));
    }
    GRAFT_USER_CHECK(kind == "user_output", kUnsupported,
                     fmt::format("the model writes to what outlives a call ({}), which an engine does not", kind),
                     where_);
    const auto [what, value] = tagged(member(*spec, "arg", where_), where_);
    const auto [graph_kind, graph_value] = tagged(in_graph, where_);
    check(what == graph_kind, fmt::format("its graph gives {} where its signature names {}", graph_kind, what));
    if (what == "as_none") return;
    GRAFT_USER_CHECK(what == "as_tensor", kUnsupported,
                     fmt::format("the model gives something of the kind {}, and engines give tensors", what), where_);
    const std::string name = text_member(*value, "name", where_);
    check(text_member(*graph_value, "name", where_) == name,
          fmt::format("its graph gives another value where its signature names '{}'", name));
    give(name);
  }

  void give(const std::string& name) {
    reader_->foreign().outputs.push_back(reader_->index_of(name, "outputs"));
    program_.outputs.push_back(name);
  }

  void read_ranges(const json& constraints) {
    for (const auto& entry : constraints.items()) {
      const std::string& name = entry.key();
      const json& range = entry.value();
      const std::string symbol = dimension_symbol(name);
      const auto bound = [&](const char* key, int64_t otherwise) {
        return range.is_object() && range.contains(key) && range[key].is_number_integer() ? integer(range[key], where_)
                                                                                          : otherwise;
      };
      const int64_t low = std::max<int64_t>(bound("min_val", 0), 0), high = bound("max_val", 0);
      check(high == 0 || high >= low, fmt::format("the range of '{}' is empty", name));
      const auto hint = hints_.find(symbol);
      const int64_t seen = hint == hints_.end() ? low : std::max(low, hint->second);
      program_.ranges[symbol] = {.min = low, .opt = high == 0 ? seen : std::min(seen, high), .max = high};
    }
  }

  const Archive& archive_;
  std::string where_;
  Program program_;
  GraphReader* reader_ = nullptr;
  std::map<std::string, TensorData, std::less<>> constants_;
  std::set<std::string, std::less<>> written_;  ///< names of buffers that the model writes to
  std::map<std::string, int64_t, std::less<>> hints_;
};

}  // namespace

Program read_program(const Archive& archive) { return ProgramReader(archive).read(); }

}  // namespace graft::pt2
