// SPDX-License-Identifier: Apache-2.0
// Reads the text form that print_graph.cpp shows. The text may come from anywhere: nothing in it is believed, and no
// size that it states is allocated before it is checked.
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/graph.h"
#include "graph/optima.h"
#include "graph/symbols.h"
#include "graph/text_form.h"
#include "graph/text_reader.h"

namespace graft {
namespace {

using Weights = std::map<std::string, TensorData, std::less<>>;

constexpr int64_t kMostUniformBytes = int64_t{1} << 30;  // of all `all X` constants together

/// A number of the text in the type that rounds once.
template <class T>
T real(TextReader& reader, std::string_view text) {
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size()) return value;
  reader.fail(fmt::format("a number is expected, got {}", quote(text.substr(0, 40))));
}

/// Recursive descent; one object reads a graph and the graphs in its attributes.
class GraphParser {
 public:
  GraphParser(std::string_view text, const Weights* weights) : reader_(text), weights_(weights) {}

  Graph parse() {
    Graph graph = parse_body("", 0);
    if (!reader_.at_end()) reader_.fail("nothing may follow the graph");
    return graph;
  }

 private:
  Graph parse_body(const std::string& prefix, int depth);
  void parse_statement(Graph& graph, const std::string& prefix, int depth);
  void parse_range(Graph& graph);
  [[noreturn]] void refuse_reserved(const std::string& symbol) const {
    reader_.fail(fmt::format("the dimension {} has a name that is kept for sizes found while running; names have "
                             "neither '$' nor ':'",
                             quote(symbol)));
  }
  void parse_derived(Graph& graph);
  void parse_constant(Graph& graph, const std::string& prefix);
  void parse_node(Graph& graph, const std::string& prefix, int depth);
  void parse_attributes(Node& node, const std::string& prefix, int depth);
  Attribute parse_attribute(const std::string& path, int depth);
  Attribute parse_list();
  ValueId parse_declaration(Graph& graph);
  ValueId parse_reference(const Graph& graph);
  TensorData parse_elements(DType type, const Shape& shape);
  TensorData parse_uniform(DType type, const Shape& shape);
  TensorData find_weights(const std::string& name, DType type, const Shape& shape);
  void parse_element(TensorData& tensor, int64_t index);
  double parse_part(DType type);
  std::vector<int64_t> concrete(const Shape& shape);
  DType parse_type();

  TextReader reader_;
  const Weights* weights_;
  int64_t uniform_bytes_ = 0;
};

Graph GraphParser::parse_body(const std::string& prefix, int depth) {
  if (depth > kDeepestGraph) reader_.fail("graphs are nested too deeply");
  if (!reader_.accept_word("graph")) reader_.fail("a graph starts with 'graph \"name\" {'");
  Graph graph;
  graph.name = reader_.quoted("the graph's name");
  reader_.expect("{");
  while (!reader_.accept("}")) parse_statement(graph, prefix, depth);
  return graph;
}

void GraphParser::parse_statement(Graph& graph, const std::string& prefix, int depth) {
  if (reader_.accept_word("opset")) {
    const std::string domain = reader_.quoted("a domain");
    graph.opsets[domain] = reader_.integer("an opset");
  } else if (reader_.accept_word("metadata")) {
    std::string key = reader_.quoted("a key");
    graph.metadata.emplace_back(std::move(key), reader_.quoted("a value"));
  } else if (reader_.accept_word("range")) {
    parse_range(graph);
  } else if (reader_.accept_word("derived")) {
    parse_derived(graph);
  } else if (reader_.accept_word("input")) {
    graph.inputs.push_back(parse_declaration(graph));
    if (graph.inputs.back() == kNoValue) reader_.fail("an input has a name");
    // What the body of a loop or branch captures may have sizes that were inferred outside of it.
    const Value& input = graph.value(graph.inputs.back());
    Shape sizes = input.shape.value_or(Shape());
    if (input.content) sizes.insert(sizes.end(), input.content->begin(), input.content->end());
    if (const std::string symbol = depth == 0 ? reserved_symbol_of(sizes) : ""; !symbol.empty()) {
      refuse_reserved(symbol);
    }
  } else if (reader_.accept_word("constant")) {
    parse_constant(graph, prefix);
  } else if (reader_.accept_word("output")) {
    graph.outputs.push_back(parse_reference(graph));
    if (graph.outputs.back() == kNoValue) reader_.fail("an output names a value");
  } else if (reader_.peek() == '%' || reader_.peek() == '_' || reader_.peek() == '(') {
    parse_node(graph, prefix, depth);
  } else {
    reader_.fail(
        "a statement starts with opset, metadata, range, derived, input, constant, output, or a value such as "
        "'%x: f32[2]'");
  }
}

void GraphParser::parse_range(Graph& graph) {
  const std::string symbol = reader_.name("a dimension");
  if (is_reserved_symbol(symbol)) refuse_reserved(symbol);
  Graph::Range range;
  range.min = reader_.integer("the least size");
  range.opt = reader_.integer("the usual size");
  while (reader_.accept(",")) {
    range.others.push_back(reader_.integer("another usual size"));
    if (range.others.size() == kMostOptima) reader_.fail(fmt::format("{} has too many usual sizes", quote(symbol)));
  }
  range.max = reader_.integer("the largest size");
  graph.symbol_ranges[symbol] = range;
}

void GraphParser::parse_derived(Graph& graph) {
  const std::string symbol = reader_.name("a derived size");
  reader_.expect("=");
  const Shape value = reader_.sizes();
  if (value.size() != 1) reader_.fail("a derived size has one value");
  graph.derived.add({symbol, value[0]});
}

DType GraphParser::parse_type() {
  if (reader_.accept("?")) return DType::kUndefined;
  const std::string_view word = reader_.word();
  const auto type = parse_dtype(word);
  if (!type) reader_.fail(fmt::format("{} is not an element type", quote(word.substr(0, 40))));
  return *type;
}

ValueId GraphParser::parse_declaration(Graph& graph) {
  if (reader_.accept_word("_")) return kNoValue;
  reader_.expect("%");
  const std::string name = reader_.name("a value's name");
  if (name.empty()) reader_.fail("a value's name is not empty");
  if (graph.find_value(name) != kNoValue) {
    reader_.fail(fmt::format("the value '{}' is defined a second time", name));
  }
  reader_.expect(":");
  Value value;
  if (reader_.peek() == '"') {
    value.dynamic_type = reader_.quoted("a type");
    if (value.dynamic_type.empty()) reader_.fail("a type is not empty");
  } else {
    value.type = parse_type();
    if (reader_.peek() == '[') value.shape = reader_.sizes();
    if (value.shape && value.shape->size() > static_cast<size_t>(kHighestRank)) reader_.fail("the rank is too high");
    if (reader_.accept_word("as")) value.content = reader_.sizes();
  }
  const ValueId id = graph.add_value(name, value.type, std::move(value.shape));
  graph.value(id).content = std::move(value.content);
  graph.value(id).dynamic_type = std::move(value.dynamic_type);
  return id;
}

ValueId GraphParser::parse_reference(const Graph& graph) {
  if (reader_.accept_word("_")) return kNoValue;
  reader_.expect("%");
  const std::string name = reader_.name("a value's name");
  const ValueId id = graph.find_value(name);
  if (id == kNoValue) {
    reader_.fail(fmt::format("the value '{}' is used before it is defined", name));
  }
  return id;
}

void GraphParser::parse_constant(Graph& graph, const std::string& prefix) {
  const ValueId id = parse_declaration(graph);
  if (id == kNoValue) reader_.fail("a constant has a name");
  Value& value = graph.value(id);
  if (value.type == DType::kUndefined || !value.shape) {
    reader_.fail(fmt::format("the constant '{}' has a type and a shape", value.name));
  }
  reader_.expect("=");
  if (reader_.accept_word("weights")) {
    value.constant = find_weights(prefix + value.name, value.type, *value.shape);
  } else if (reader_.accept("#")) {
    const std::string digits(reader_.word());
    value.constant = find_weights(prefix + value.name, value.type, *value.shape);
    if (digits != content_hash(*value.constant).to_string()) {
      reader_.fail(fmt::format("the weights '{}' have other contents than those of the text", prefix + value.name));
    }
  } else if (reader_.accept_word("all")) {
    value.constant = parse_uniform(value.type, *value.shape);
  } else {
    value.constant = parse_elements(value.type, *value.shape);
  }
}

std::vector<int64_t> GraphParser::concrete(const Shape& shape) {
  std::vector<int64_t> extents;
  for (const Size& size : shape) {
    if (!size.is_constant() || size.constant() < 0) {
      reader_.fail(fmt::format("the extent '{}' of a constant is not a number", size.to_string()));
    }
    extents.push_back(size.constant());
  }
  return extents;
}

/// `{1, 2, 3}`: as many elements as the shape says, so at least two characters of text for each.
TensorData GraphParser::parse_elements(DType type, const Shape& shape) {
  const std::vector<int64_t> extents = concrete(shape);
  const int64_t count = checked_element_count(type, extents, "a constant");
  reader_.expect("{");
  std::vector<TensorData> blocks;
  // Elements are kept in blocks, so that a false shape allocates nothing.
  constexpr int64_t kBlock = 1024;
  for (int64_t i = 0; i < count; ++i) {
    if (i) reader_.expect(",");
    if (i % kBlock == 0) blocks.push_back(TensorData::zeros(type, {std::min(kBlock, count - i)}));
    parse_element(blocks.back(), i % kBlock);
  }
  reader_.expect("}");
  if (type == DType::kString) {
    std::vector<std::string> strings;
    for (const TensorData& block : blocks) {
      strings.insert(strings.end(), block.strings().begin(), block.strings().end());
    }
    return TensorData::from_strings(extents, std::move(strings));
  }
  std::vector<std::byte> bytes;
  for (const TensorData& block : blocks) {
    bytes.insert(bytes.end(), block.bytes().begin(), block.bytes().end());
  }
  return TensorData::from_bytes(type, extents, bytes);
}

TensorData GraphParser::parse_uniform(DType type, const Shape& shape) {
  const std::vector<int64_t> extents = concrete(shape);
  const int64_t count = checked_element_count(type, extents, "a constant");
  if (bit_width(type) < 8 || type == DType::kString) {
    reader_.fail("'all' is for elements of whole bytes");
  }
  TensorData one = TensorData::zeros(type, {1});
  parse_element(one, 0);
  if (packed_bytes(type, count) > kUniformBytes || (uniform_bytes_ += packed_bytes(type, count)) > kMostUniformBytes) {
    reader_.fail("a constant given as 'all' is too large; give its data as weights");
  }
  TensorData tensor = TensorData::zeros(type, extents);
  const auto bytes = tensor.mutable_bytes();
  const auto pattern = one.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern[i % pattern.size()];
  return tensor;
}

TensorData GraphParser::find_weights(const std::string& name, DType type, const Shape& shape) {
  const auto it = weights_ ? weights_->find(name) : Weights::const_iterator();
  if (!weights_ || it == weights_->end()) {
    reader_.fail(fmt::format("the data of constant '{}' is not in the text; give it as weights", name));
  }
  const TensorData& data = it->second;
  if (data.type() != type || data.shape() != concrete(shape)) {
    reader_.fail(fmt::format("the weights '{}' are {}, not what the text says", name, describe(data)));
  }
  return data;
}

double GraphParser::parse_part(DType type) {
  const std::string_view text = reader_.number();
  if (bit_width(type) == 32 || type == DType::kComplex64) return real<float>(reader_, text);
  return real<double>(reader_, text);
}

void GraphParser::parse_element(TensorData& tensor, int64_t index) {
  const DType type = tensor.type();
  switch (kind_of(type)) {
    case DTypeKind::kOpaque:
      tensor.mutable_strings()[index] = reader_.quoted("a string");
      return;
    case DTypeKind::kComplex: {
      reader_.expect("(");
      const double re = parse_part(type);
      reader_.expect(",");
      const double im = parse_part(type);
      reader_.expect(")");
      if (type == DType::kComplex64) {
        tensor.mutable_as<float>()[2 * index] = static_cast<float>(re);
        tensor.mutable_as<float>()[2 * index + 1] = static_cast<float>(im);
      } else {
        tensor.mutable_as<double>()[2 * index] = re;
        tensor.mutable_as<double>()[2 * index + 1] = im;
      }
      return;
    }
    case DTypeKind::kFloat:
      if (reader_.accept_word("bits")) {
        const std::string_view digits = reader_.number();
        uint64_t bits = 0;
        const char* end = digits.data() + digits.size();
        if (digits.size() < 3 || digits.substr(0, 2) != "0x" ||
            std::from_chars(digits.data() + 2, end, bits, 16).ptr != end) {
          reader_.fail("'bits' is followed by a number such as 0x7fc1");
        }
        if (bit_width(type) < 64) bits &= (uint64_t{1} << bit_width(type)) - 1;
        set_element_bits(tensor, index, bits);
      } else {
        tensor.write_double(index, parse_part(type));
      }
      return;
    default:
      break;
  }
  if (type == DType::kUint64) {
    const std::string_view text = reader_.number();
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    if (stop != end || code != std::errc()) reader_.fail("an element is expected as an integer");
    tensor.write_integer(index, static_cast<int64_t>(value));
    return;
  }
  const int64_t value = reader_.integer("an element");
  tensor.write_integer(index, value);
  if (tensor.read_integer(index) != value) {
    reader_.fail(fmt::format("{} is outside the range of {}", value, name_of(type)));
  }
}

void GraphParser::parse_node(Graph& graph, const std::string& prefix, int depth) {
  Node node;
  if (reader_.accept("(")) {
    reader_.expect(")");
  } else {
    do {
      node.outputs.push_back(parse_declaration(graph));
    } while (reader_.accept(","));
  }
  reader_.expect("=");
  node.op = reader_.name("an operator");
  if (reader_.accept("::")) {
    node.domain = std::move(node.op);
    node.op = reader_.name("an operator");
  }
  node.name = reader_.quoted("a node's name");
  if (node.name.empty()) reader_.fail("a node's name is not empty");
  const std::string name = node.name;
  reader_.expect("(");
  if (!reader_.accept(")")) {
    do {
      node.inputs.push_back(parse_reference(graph));
      for (const ValueId output : node.outputs) {
        if (output != kNoValue && output == node.inputs.back()) {
          reader_.fail(fmt::format("node '{}' reads its own result", node.name));
        }
      }
    } while (reader_.accept(","));
    reader_.expect(")");
  }
  parse_attributes(node, prefix, depth);
  if (graph.add_node(std::move(node)).name != name) {
    reader_.fail(fmt::format("a second node has the name '{}'", name));
  }
}

void GraphParser::parse_attributes(Node& node, const std::string& prefix, int depth) {
  if (!reader_.accept("{")) return;
  if (reader_.accept("}")) return;
  do {
    const std::string key = reader_.name("an attribute's name");
    reader_.expect("=");
    Attribute value = parse_attribute(fmt::format("{}{}/{}/", prefix, node.name, key), depth);
    if (!node.attributes.emplace(key, std::move(value)).second) {
      reader_.fail(fmt::format("the attribute '{}' is given twice", key));
    }
  } while (reader_.accept(","));
  reader_.expect("}");
}

Attribute GraphParser::parse_attribute(const std::string& path, int depth) {
  const char next = reader_.peek();
  if (next == '"') return reader_.quoted("a text");
  if (next == '[') return parse_list();
  if (next == 'g') return std::make_shared<const Graph>(parse_body(path, depth + 1));
  if ((next >= '0' && next <= '9') || next == '-') {
    const std::string_view text = reader_.number();
    if (text.find_first_of(".ein") != text.npos) return real<double>(reader_, text);
    return real<int64_t>(reader_, text);
  }
  const std::string word(reader_.word());
  if (word == "none") return std::monostate();
  if (word == "nan" || word == "inf") return real<double>(reader_, word);
  if (word == "ints" || word == "floats" || word == "strings") {
    reader_.expect("[");
    reader_.expect("]");
    if (word == "ints") return std::vector<int64_t>();
    if (word == "floats") return std::vector<double>();
    return std::vector<std::string>();
  }
  const auto type = parse_dtype(word);
  if (!type) reader_.fail(fmt::format("{} does not start an attribute's value", quote(word)));
  return parse_elements(*type, reader_.sizes());
}

Attribute GraphParser::parse_list() {
  reader_.expect("[");
  if (reader_.peek() == '"') {
    std::vector<std::string> strings;
    do {
      strings.push_back(reader_.quoted("a text"));
    } while (reader_.accept(","));
    reader_.expect("]");
    return strings;
  }
  std::vector<std::string_view> items;
  bool integers = true;
  do {
    items.push_back(reader_.number());
    integers = integers && items.back().find_first_of(".ein") == std::string_view::npos;
  } while (reader_.accept(","));
  reader_.expect("]");
  if (integers) {
    std::vector<int64_t> values;
    for (const std::string_view item : items) values.push_back(real<int64_t>(reader_, item));
    return values;
  }
  std::vector<double> values;
  for (const std::string_view item : items) values.push_back(real<double>(reader_, item));
  return values;
}

}  // namespace

Graph parse_graph(std::string_view text, const Weights* weights) {
  Graph graph = GraphParser(text, weights).parse();
  verify(graph, /*trusted=*/false);
  return graph;
}

}  // namespace graft
