// SPDX-License-Identifier: Apache-2.0
// The context of definitions, the table of operators, and `define`.
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"
#include "expr/verify_region.h"
#include "graph/custom_operator.h"
#include "graph/op_def.h"
#include "graph/symbols.h"
#include "graph/unknown_operator.h"

namespace graft {

#define GRAFT_OPS(family) std::vector<OpDef> family##_ops();
#include "ops/all_ops.inc"
#undef GRAFT_OPS

namespace {

/// The message with both sizes as the model names them.
std::string with_sizes(std::string_view message, const Size& a, const Size& b) {
  const auto text = [](const Size& size) {
    return reserved_symbol_of({size}).empty() ? size.to_string() : "a size that the run computes";
  };
  return fmt::format("{} ({} and {})", message, text(a), text(b));
}

/// Sizes that inference has named get their names, so that they are seen to be what other nodes' sizes are.
void name_sizes(Region& region, const DerivedSizes& derived) {
  if (derived.empty()) return;
  const auto rename = [&](Axis& axis) { axis.extent = derived.named(axis.extent); };
  for (TensorDecl& tensor : region.tensors) {
    for (Size& size : tensor.shape) size = derived.named(size);
  }
  for (Form& form : region.forms) {
    std::visit(
        [&](auto& f) {
          for (Axis& axis : f.axes) rename(axis);
          if constexpr (requires { f.reduced; }) {
            for (Axis& axis : f.reduced) rename(axis);
          }
          if constexpr (requires { f.axis; }) rename(f.axis);
          if constexpr (requires { f.count.is_constant(); }) f.count = derived.named(f.count);
        },
        form);
  }
}

/// Strings and complex numbers can be moved, but not computed with: which of the two an operator does shows in its
/// region.
void check_moved_elements(const Definition& definition, const Region& region) {
  const auto is_moved = [](const TensorDecl& tensor) {
    const DTypeKind kind = kind_of(tensor.type);
    return tensor.type != DType::kUndefined && (kind == DTypeKind::kOpaque || kind == DTypeKind::kComplex);
  };
  if (std::none_of(region.tensors.begin(), region.tensors.end(), is_moved)) return;
  const std::optional<std::string> fault = region_fault(region);
  if (fault) definition.unsupported("strings and complex numbers can only be moved, not computed with: " + *fault);
}

/// A definition that a model or plan brings may break any rule.
void check_carried(const Definition& definition, const Region& region) {
  if (const std::optional<std::string> fault = region_fault(region)) definition.reject("its definition: " + *fault);
}

}  // namespace

Definition::Definition(const OpDef& op, const Node& node, const Graph& graph)
    : op_(op), node_(node), graph_(graph), input_tensors_(node.inputs.size()), output_tensors_(node.outputs.size()) {
  if (const auto fault = operand_fault(op, node, graph); !fault.empty()) reject(fault);
  for (const ValueId id : node.inputs) {
    const auto* shape = id == kNoValue || !graph.value(id).shape ? nullptr : &*graph.value(id).shape;
    if (shape && shape->size() > kHighestRank) {
      unsupported(fmt::format("its input '{}' has {} axes, at most {} are supported", graph.value(id).name,
                              shape->size(), kHighestRank));
    }
  }
}

bool Definition::has_input(int index) const { return index < input_count() && node_.inputs[index] != kNoValue; }

bool Definition::wants_output(int index) const { return index < output_count() && node_.outputs[index] != kNoValue; }

DType Definition::input_type(int index) const {
  GRAFT_CHECK(has_input(index), "the input is absent");
  return graph_.value(node_.inputs[index]).type;
}

const Shape& Definition::input_shape(int index) const {
  GRAFT_CHECK(has_input(index), "the input is absent");
  const Value& value = graph_.value(node_.inputs[index]);
  if (!value.shape) unsupported(fmt::format("the rank of its input '{}' is unknown", value.name));
  return *value.shape;
}

Tensor Definition::in(int index) {
  GRAFT_CHECK(has_input(index), "the input is absent");
  Tensor& tensor = input_tensors_[index];
  if (!tensor) {
    tensor = input(operand_name(op_.inputs, static_cast<size_t>(index)), input_type(index), input_shape(index));
    result_.inputs.push_back(index);
  }
  return tensor;
}

const Attribute& Definition::attribute(std::string_view name) const {
  static const Attribute absent;
  if (const auto it = node_.attributes.find(name); it != node_.attributes.end()) return it->second;
  for (const AttributeSpec& spec : op_.attributes) {
    if (spec.name != name) continue;
    if (std::holds_alternative<std::monostate>(spec.default_value) && !spec.optional) {
      reject(fmt::format("its attribute '{}' is missing", name));
    }
    return spec.default_value;
  }
  GRAFT_CHECK(false, "an attribute that the operator does not list: " + std::string(name));
  return absent;
}

bool Definition::has(std::string_view name) const { return !std::holds_alternative<std::monostate>(attribute(name)); }

namespace {

/// The attribute's value as `T`, or a rejection that says which type is expected.
template <class T>
const T& expect(const Definition& d, const Attribute& attribute, std::string_view name, std::string_view kind) {
  const T* value = std::get_if<T>(&attribute);
  if (!value) d.reject(fmt::format("its attribute '{}' is not {}", name, kind));
  return *value;
}

}  // namespace

int64_t Definition::integer(std::string_view name) const {
  return expect<int64_t>(*this, attribute(name), name, "an integer");
}

double Definition::real(std::string_view name) const {
  return expect<double>(*this, attribute(name), name, "a number");
}

std::string Definition::text(std::string_view name) const {
  return expect<std::string>(*this, attribute(name), name, "a string");
}

std::vector<int64_t> Definition::integers(std::string_view name) const {
  return expect<std::vector<int64_t>>(*this, attribute(name), name, "a list of integers");
}

std::vector<double> Definition::reals(std::string_view name) const {
  return expect<std::vector<double>>(*this, attribute(name), name, "a list of numbers");
}

const TensorData* Definition::tensor(std::string_view name) const { return std::get_if<TensorData>(&attribute(name)); }

DType Definition::type(std::string_view name) const {
  const int64_t code = integer(name);
  const auto type = dtype_from_onnx(static_cast<int>(code));
  if (!type) reject(fmt::format("its attribute '{}' is {}, which is no element type", name, code));
  return *type;
}

const TensorData* Definition::constant(int index) const {
  if (!has_input(index)) return nullptr;
  const Value& value = graph_.value(node_.inputs[index]);
  return value.constant ? &*value.constant : nullptr;
}

bool Definition::knows(int index) const {
  return has_input(index) && (constant(index) || graph_.value(node_.inputs[index]).content);
}

std::vector<Size> Definition::sizes_of(int index, std::optional<int64_t> length) {
  const Shape& shape = input_shape(index);
  const Value& value = graph_.value(node_.inputs[index]);
  if (shape.size() > 1) reject(fmt::format("its input '{}' should have one axis at most", value.name));
  if (!is_integer(value.type)) reject(fmt::format("its input '{}' should be of an integer type", value.name));
  const Size elements = element_count(shape);
  if (!knows(index) && !elements.is_constant() && length) {
    require_equal(elements, *length, fmt::format("its input '{}' is of another length", value.name));
  } else if (!knows(index) && !elements.is_constant()) {
    unsupported(fmt::format("the number of elements of '{}', which decides ranks, is not known", value.name));
  }
  const int64_t count = knows(index) && value.content ? static_cast<int64_t>(value.content->size())
                        : value.constant              ? value.constant->element_count()
                                                      : elements.as_constant().value_or(length.value_or(0));
  // Each element that only a run knows is a symbol; what decides ranks has no more of them than shapes have axes.
  constexpr int64_t kMostSymbols = 256;
  if (!knows(index) && count > kMostSymbols) {
    unsupported(fmt::format("'{}' has {} elements, more than {} that are known only while running", value.name, count,
                            kMostSymbols));
  }
  // Lists hold numbers of axes, two of each for pads, or, of Split, of outputs.
  if (count > std::max(2 * kHighestRank, output_count())) {
    unsupported(fmt::format("its input '{}' has {} elements, but tensors have at most {} axes", value.name, count,
                            kHighestRank));
  }
  std::vector<Size> sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(size_of(index, i));
  return sizes;
}

Size Definition::size_of(int index, int64_t element) {
  GRAFT_CHECK(has_input(index), "the input is absent");
  const Value& value = graph_.value(node_.inputs[index]);
  if (value.constant) {
    if (element >= value.constant->element_count()) reject(fmt::format("its input '{}' is too short", value.name));
    if (is_float(value.type)) return double_to_integer(DType::kInt64, value.constant->read_double(element));
    return value.constant->read_integer(element);
  }
  if (value.content) {
    if (element >= static_cast<int64_t>(value.content->size())) {
      reject(fmt::format("its input '{}' is too short", value.name));
    }
    return (*value.content)[element];
  }
  // A float counts by its whole part (OneHot's depth).
  if (!is_integer(value.type) && !is_float(value.type)) {
    reject(fmt::format("its input '{}' should be a number", value.name));
  }
  require_at_least(element_count(input_shape(index)), Size(element + 1),
                   fmt::format("its input '{}' is too short", value.name));
  const std::string symbol = number_symbol(value.name, element);
  const auto& sources = result_.size_sources;
  if (std::none_of(sources.begin(), sources.end(), [&](const SizeSource& s) { return s.symbol == symbol; })) {
    result_.size_sources.push_back({symbol, index, element});
  }
  return Size::symbol(symbol);
}

std::string Definition::fresh_symbol(std::string_view hint) { return count_symbol(node_.name, hint); }

int Definition::axis(int64_t value, int rank) const {
  if (value < -rank || value >= rank) {
    reject(fmt::format("axis {} is outside [-{}, {}), the axes of its input", value, rank, rank));
  }
  return static_cast<int>(value < 0 ? value + rank : value);
}

void Definition::require_equal(const Size& a, const Size& b, std::string_view message) {
  const Size difference = a - b;
  if (difference.is(0)) return;
  if (difference.is_constant()) reject(with_sizes(message, a, b));
  result_.checks.push_back({difference, false, std::string(message)});
}

void Definition::require_at_least(const Size& a, const Size& least, std::string_view message) {
  const Size difference = a - least;
  if (difference.is_constant()) {
    if (difference.constant() < 0) {
      reject(fmt::format("{} ({}, at least {})", message, a.to_string(), least.to_string()));
    }
    return;
  }
  result_.checks.push_back({difference, true, std::string(message)});
}

void Definition::require_shape(const Tensor& t, const Shape& shape, std::string_view message) {
  if (t.shape().size() != shape.size()) {
    reject(fmt::format("{} ({} and {})", message, to_string(t.shape()), to_string(shape)));
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) require_equal(t.shape()[axis], shape[axis], message);
}

void Definition::require_fits(const Tensor& t, const Shape& shape, std::string_view message) {
  const size_t rank = t.shape().size();
  if (rank > shape.size()) reject(fmt::format("{} ({} and {})", message, to_string(t.shape()), to_string(shape)));
  for (size_t axis = 0; axis < rank; ++axis) {
    const Size& size = t.shape()[axis];
    const Size& whole = shape[shape.size() - rank + axis];
    if (size == whole || size.is(1)) continue;
    if (may_repeat(size, whole)) {
      repeat(size, whole, message);
    } else {
      require_equal(size, whole, message);
    }
  }
}

/// The dimensions that a size is: one that callers choose, or those of a broadcast before. Nothing where it is computed
/// of others in another way.
std::optional<Definition::Dimensions> Definition::dimensions_of(const Size& size) const {
  if (const auto symbol = size.as_symbol()) {
    const std::vector<DerivedSize>& derived = graph_.derived.list();
    const auto named = std::find_if(derived.begin(), derived.end(), [&](const auto& d) { return d.symbol == *symbol; });
    if (named != derived.end()) return dimensions_of(named->value);
    if (symbol->starts_with('$')) return std::nullopt;
    return Dimensions{*symbol};
  }
  Dimensions dimensions;
  size.collect_symbols(dimensions);
  if (dimensions.size() < 2 || !(size == common_size(dimensions))) return std::nullopt;
  return dimensions;
}

/// What dimensions broadcast to: all are 1 or the largest, and where one is 0 so is the result.
Size Definition::common_size(const Dimensions& dimensions) {
  Size largest = Size::symbol(*dimensions.begin()), least = largest;
  for (const std::string& dimension : dimensions) {
    largest = max(largest, Size::symbol(dimension));
    least = min(least, Size::symbol(dimension));
  }
  return largest * min(1, least);
}

/// Whether a size may turn out to be 1 where `whole` is not. Sizes that follow from others are taken to be equal, which
/// a run checks: what is read with one stride is faster.
bool Definition::may_repeat(const Size& size, const Size& whole) const {
  const auto dimensions = dimensions_of(size);
  if (!dimensions || (!whole.is_constant() && !dimensions_of(whole))) return false;
  return std::all_of(dimensions->begin(), dimensions->end(), [&](const std::string& symbol) {
    const auto range = graph_.symbol_ranges.find(symbol);
    return range == graph_.symbol_ranges.end() || range->second.min <= 1;
  });
}

/// The run checks that `size` is 1 or `whole`, and reads it with a stride of 0 where it is 1.
void Definition::repeat(const Size& size, const Size& whole, std::string_view message) {
  result_.checks.push_back({(size - Size(1)) * (size - whole), false, with_sizes(message, size, whole)});
  repeated_.insert(size);
}

Size Definition::broadcast(const Size& a, const Size& b) {
  constexpr const char* kMessage = "the shapes of its inputs do not broadcast";
  constexpr const char* kComputed = "the shapes of its inputs do not broadcast; computed sizes are repeated only where "
                                    "they are seen to be 1, so state the dimensions that are 1, as --dim NAME=1";
  if (a == b || b.is(1)) return a;
  if (a.is(1)) return b;
  const bool first = may_repeat(a, b), second = may_repeat(b, a);
  if (first && second) {
    Dimensions both = *dimensions_of(a);
    both.merge(*dimensions_of(b));
    const Size common = graph_.derived.named(common_size(both));
    for (const Size& size : {a, b}) {
      if (!(size == common)) repeated_.insert(size);
    }
    result_.checks.push_back({(a - Size(1)) * (b - Size(1)) * (a - b), false, with_sizes(kMessage, a, b)});
    return common;
  }
  if (first || second) {
    const auto& [one, whole] = first ? std::tie(a, b) : std::tie(b, a);
    repeat(one, whole, kMessage);
    return whole;
  }
  require_equal(a, b, (a - b).is_constant() ? kMessage : with_sizes(kComputed, a, b));
  // Of two names for one size the simplest goes on, so that later shapes are seen to agree.
  return a.is_constant() || (a.as_symbol() && !b.is_constant()) ? a : b;
}

Shape Definition::broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) result[offset + i] = broadcast(longer[offset + i], shorter[i]);
  return result;
}

Expr Definition::at(const Tensor& t, const Indices& indices, bool wide) const {
  const size_t rank = t.shape().size();
  if (indices.size() < rank) {
    reject(fmt::format("its '{}' has {} axes; at most {} can be broadcast here",
                       decl(t.id()).name, rank, indices.size()));
  }
  Indices own(indices.end() - static_cast<std::ptrdiff_t>(rank), indices.end());
  for (size_t i = 0; i < rank; ++i) own[i] = broadcast_index(t.shape()[i], own[i]);
  return wide ? t.wide(own) : t(own);
}

Expr Definition::broadcast_index(const Size& size, const Expr& index) const {
  if (size.is(1)) return make_index(0);
  return repeated_.contains(size) ? index * make_size(min(1, size - Size(1))) : index;
}

void Definition::out(int index, const Tensor& tensor) {
  if (!wants_output(index)) return;
  if (tensor.rank() > kHighestRank) {
    unsupported(fmt::format("its result has {} axes, at most {} are supported", tensor.rank(), kHighestRank));
  }
  for (const Size& size : tensor.shape()) {
    if (size.as_constant().value_or(0) < 0) reject(fmt::format("its result has an axis of size {}", size.to_string()));
  }
  output_tensors_[index] = tensor;
}

void Definition::reject(const std::string& message) const {
  throw Error(ErrorKind::kInvalidModel, message, fmt::format("node '{}' ({})", node_.name, op_.name));
}

void Definition::unsupported(const std::string& reason) const {
  throw Error(ErrorKind::kUnsupported, reason, fmt::format("node '{}' ({})", node_.name, op_.name));
}

NodeDefinition Definition::finish() {
  std::vector<Tensor> outputs;
  for (int i = 0; i < output_count(); ++i) {
    if (!wants_output(i)) continue;
    const bool given = static_cast<bool>(output_tensors_[i]);
    const std::string_view name = op_.outputs[std::min<size_t>(i, op_.outputs.size() - 1)];
    if (!given && (name.ends_with('?') || name.ends_with('*'))) {
      reject(fmt::format("its output '{}' has no value with these inputs and attributes; leave it out of the model",
                         operand_name(op_.outputs, static_cast<size_t>(i))));
    }
    GRAFT_CHECK(given, "a definition left out an output of " + std::string(op_.name));
    outputs.push_back(output_tensors_[i]);
    result_.outputs.push_back(i);
  }
  result_.region = RegionBuilder::finish(node_.name, outputs);
  return std::move(result_);
}

const std::vector<OpDef>& all_ops() {
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all;
#define GRAFT_OPS(family) \
  for (OpDef & op : family##_ops()) all.push_back(std::move(op));
#include "ops/all_ops.inc"
#undef GRAFT_OPS
    return all;
  }();
  return ops;
}

const OpDef* find_op(std::string_view domain, std::string_view name) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const std::map<Key, const OpDef*> index = [] {
    std::map<Key, const OpDef*> by_name;
    for (const OpDef& op : all_ops()) {
      const bool inserted = by_name.emplace(Key{op.domain, op.name}, &op).second;
      GRAFT_CHECK(inserted, "an operator is defined twice: " + std::string(op.name));
    }
    return by_name;
  }();
  const auto it = index.find({domain, name});
  return it == index.end() ? nullptr : it->second;
}

NodeDefinition define(const Node& node, const Graph& graph) {
  const std::shared_ptr<const OpDef> op = operator_of(node);
  GRAFT_USER_CHECK(
      op != nullptr, kUnsupported,
      no_definition(node),
      fmt::format("node '{}'", node.name));
  Definition definition(*op, node, graph);
  NodeDefinition result;
  try {
    op->define(definition);
    result = definition.finish();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    definition.reject(error.message());  // sizes of the model's that cannot be computed with
  }
  check_moved_elements(definition, result.region);
  if (carried_definition(node)) check_carried(definition, result.region);
  name_sizes(result.region, graph.derived);
  return result;
}

}  // namespace graft
