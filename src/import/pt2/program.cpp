// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/program.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/symbols.h"
#include "import/pt2/in_place.h"
#include "import/pt2/json_reader.h"
#include "import/pt2/tensors.h"

namespace graft::pt2 {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::ForeignNode;
using frontend::ForeignValue;
using frontend::Reference;

constexpr int64_t kSchemaMajor = 8;
constexpr int kDeepestList = 8;

/// `torch.ops.aten.add.Tensor` is `aten::add.Tensor`; `_operator.mul` is Python's own.
std::string operator_name(const std::string& target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps)) return "python::" + target.substr(target.rfind('.') + 1);
  std::string name = target.substr(kOps.size());
  const size_t dot = name.find('.');
  if (dot != std::string::npos) name.replace(dot, 1, "::");
  constexpr std::string_view kDefault = ".default";
  if (name.ends_with(kDefault)) name.resize(name.size() - kDefault.size());
  return name;
}

/// The innermost line of the model's own: `File "net.py", line 7, in forward` and the code below it.
std::string source_of(const json& node) {
  const json* trace = node.contains("metadata") && node["metadata"].is_object() &&
                              node["metadata"].contains("stack_trace")
                          ? &node["metadata"]["stack_trace"]
                          : nullptr;
  if (!trace || !trace->is_string()) return "";
  const std::string text = trace->get<std::string>();
  const size_t file = text.rfind("File \"");
  if (file == std::string::npos) return "";
  const size_t end = text.find('"', file + 6), line = text.find(", line ", file);
  if (end == std::string::npos || line == std::string::npos) return "";
  const std::string number = text.substr(line + 7, text.find_first_not_of("0123456789", line + 7) - line - 7);
  const size_t code = text.find('\n', line);
  std::string shown = code == std::string::npos ? "" : text.substr(code + 1, text.find('\n', code + 1) - code - 1);
  shown.erase(0, std::min(shown.find_first_not_of(' '), shown.size()));
  return text.substr(file + 6, end - file - 6) + ":" + number + ": " + shown;
}

class ProgramReader {
 public:
  explicit ProgramReader(const Archive& archive) : archive_(archive), where_(archive.where()) {}

  Program read() {
    const json document = parse_json(model(), where_);
    check_version(document);
    const json& module = object_member(document, "graph_module", where_);
    const json& graph = object_member(module, "graph", where_);
    tensor_values_ = &object_member(graph, "tensor_values", where_);
    constants_ = read_tensors(archive_, "data/weights", "model_weights_config.json");
    constants_.merge(read_tensors(archive_, "data/constants", "model_constants_config.json"));
    const json& signature = object_member(module, "signature", where_);
    for (const json& input : list_member(signature, "input_specs", where_)) read_input(input);
    for (const json& node : list_member(graph, "nodes", where_)) read_node(node);
    for (const json& output : list_member(signature, "output_specs", where_)) read_output(output);
    read_ranges(object_member(document, "range_constraints", where_));
    rename_in_place(program_.foreign, where_);
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
                     fmt::format("its schema has version {}, and {} is read: export it with torch 2.9 to 2.11", major,
                                 kSchemaMajor),
                     where_);
  }

  // ---- Values ----

  int add_value(ForeignValue value) {
    check(indices_.emplace(value.name, std::ssize(program_.foreign.values)).second,
          fmt::format("'{}' is there twice", value.name));
    program_.foreign.values.push_back(std::move(value));
    return static_cast<int>(program_.foreign.values.size()) - 1;
  }

  int index_of(const std::string& name, const std::string& part) const {
    const auto found = indices_.find(name);
    check(found != indices_.end(), fmt::format("'{}' is used before it is made", name), part);
    return found->second;
  }

  /// Type and sizes of a tensor as the export saw it.
  ForeignValue described(const std::string& name) {
    const std::string where = where_ + ": " + name;
    const json& meta = object_member(*tensor_values_, name.c_str(), where_);
    ForeignValue value{.name = name, .type = element_type(integer(member(meta, "dtype", where), where))};
    GRAFT_USER_CHECK(value.type != DType::kUndefined, kUnsupported, "it has an element type that Graft does not have",
                     where);
    Shape shape;
    for (const json& size : list_member(meta, "sizes", where)) {
      shape.push_back(read_size(size, where));
      note_hint(size, hints_);
    }
    check(shape.size() <= static_cast<size_t>(kHighestRank), "it has too many axes", name);
    value.shape = std::move(shape);
    return value;
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
    const auto constant = constants_.find(of);
    check(constant != constants_.end(), fmt::format("the archive has no elements of '{}'", of));
    add_value({.name = name, .type = constant->second.type(), .shape = std::nullopt, .constant = constant->second});
  }

  void read_user_input(const json& argument) {
    const auto [kind, value] = tagged(argument, where_);
    if (kind != "as_tensor") {  // specialised by the export: the graph has it as a constant
      const bool fixed = kind == "as_none" || kind == "as_int" || kind == "as_float" || kind == "as_bool" ||
                         kind == "as_string";
      GRAFT_USER_CHECK(fixed, kUnsupported, fmt::format("the model takes an argument of the kind {}", kind), where_);
      return;
    }
    const std::string name = text_member(*value, "name", where_);
    program_.foreign.inputs.push_back(add_value(described(name)));
    program_.inputs.push_back(name);
  }

  // ---- Nodes ----

  Argument list(const json& elements, const std::string& part, const auto& read) {
    check(elements.is_array(), "a list is none", part);
    Arguments made;
    for (const json& each : elements) made.push_back(read(each));
    return made;
  }

  Argument symbol(const json& given, const std::string& part) {
    const auto [kind, value] = tagged(given, where_ + ": " + part);
    if (kind == "as_int") return integer(*value, where_);
    if (kind == "as_bool") return boolean(*value, part);
    if (kind == "as_float") return real(*value, part);
    check(kind == "as_name" && value->is_string(), "a number is neither there nor named", part);
    return Reference{index_of(value->get<std::string>(), part)};
  }

  Argument tensor(const json& given, const std::string& part) {
    return Reference{index_of(text_member(given, "name", where_ + ": " + part), part)};
  }

  Argument boolean(const json& given, const std::string& part) const {
    check(given.is_boolean(), "a truth value is none", part);
    return given.get<bool>();
  }

  /// JSON has no infinities: they are texts.
  Argument real(const json& given, const std::string& part) const {
    if (given.is_number()) return given.get<double>();
    const std::string word = given.is_string() ? given.get<std::string>() : "";
    check(word == "Infinity" || word == "-Infinity" || word == "NaN", "a number is none", part);
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    return word[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }

  Argument argument(const json& given, const std::string& part, int depth = 0) {
    check(depth < kDeepestList, "lists are nested too deep", part);
    const auto [kind, value] = tagged(given, where_ + ": " + part);
    const json& content = *value;
    const auto whole = [&](const json& each) { return Argument(integer(each, where_ + ": " + part)); };
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return tensor(content, part);
    if (kind == "as_tensors") return list(content, part, [&](const json& each) { return tensor(each, part); });
    if (kind == "as_int") return whole(content);
    if (kind == "as_ints") return list(content, part, whole);
    if (kind == "as_float") return real(content, part);
    if (kind == "as_floats") return list(content, part, [&](const json& each) { return real(each, part); });
    if (kind == "as_bool") return boolean(content, part);
    if (kind == "as_bools") return list(content, part, [&](const json& each) { return boolean(each, part); });
    if (kind == "as_string") {
      check(content.is_string(), "a text is none", part);
      return content.get<std::string>();
    }
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbol(content, part);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
      return list(content, part, [&](const json& each) { return symbol(each, part); });
    }
    if (kind == "as_scalar_type") return element_type(integer(content, where_ + ": " + part));
    if (kind == "as_optional_tensor") return argument(content, part, depth + 1);
    if (kind == "as_optional_tensors") {
      return list(content, part, [&](const json& each) { return argument(each, part, depth + 1); });
    }
    return kind;  // a device, a layout, a graph: nothing that computing depends on, or no row takes it
  }

  void read_node(const json& given) {
    const std::string part = text_member(given, "name", where_);
    ForeignNode node{.op = operator_name(text_member(given, "target", where_)), .name = part,
                     .source = source_of(given)};
    for (const json& input : list_member(given, "inputs", where_ + ": " + part)) {
      const std::string name = text_member(input, "name", where_ + ": " + part);
      const json& content = member(input, "arg", where_ + ": " + part);
      if (name.empty()) {
        node.arguments.push_back(argument(content, part));
      } else {
        node.attributes.insert_or_assign(name, argument(content, part));
      }
    }
    for (const json& output : list_member(given, "outputs", where_ + ": " + part)) add_output(node, output, part);
    program_.foreign.nodes.push_back(std::move(node));
  }

  void add_output(ForeignNode& node, const json& output, const std::string& part) {
    const auto [kind, value] = tagged(output, where_ + ": " + part);
    const auto add_tensor = [&](const json& each) {
      node.outputs.push_back(add_value({.name = text_member(each, "name", where_ + ": " + part)}));
    };
    if (kind == "as_tensor") return add_tensor(*value);
    if (kind == "as_tensors") {
      check(value->is_array(), "a list is none", part);
      for (const json& each : *value) add_tensor(each);
      return;
    }
    const bool number = kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool";
    std::string name = fmt::format("{}:{}", part, node.outputs.size());
    if (number && value->is_object() && value->contains("as_name")) name = text_member(*value, "as_name", where_);
    node.outputs.push_back(add_value({.name = name, .tensor = false}));
  }

  // ---- What goes out ----

  void read_output(const json& given) {
    const auto [kind, spec] = tagged(given, where_);
    GRAFT_USER_CHECK(kind == "user_output", kUnsupported,
                     fmt::format("the model writes to what outlives a call ({}), which an engine does not", kind),
                     where_);
    const auto [what, value] = tagged(member(*spec, "arg", where_), where_);
    if (what == "as_none") return;
    GRAFT_USER_CHECK(what == "as_tensor", kUnsupported,
                     fmt::format("the model gives something of the kind {}, and engines give tensors", what), where_);
    const std::string name = text_member(*value, "name", where_);
    program_.foreign.outputs.push_back(index_of(name, "outputs"));
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
  const json* tensor_values_ = nullptr;
  std::map<std::string, TensorData, std::less<>> constants_;
  std::map<std::string, int, std::less<>> indices_;
  std::map<std::string, int64_t, std::less<>> hints_;
};

}  // namespace

Program read_program(const Archive& archive) { return ProgramReader(archive).read(); }

}  // namespace graft::pt2
