// SPDX-License-Identifier: Apache-2.0
// What a converter of the C interface adds to a graph.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "frontend/converter_call.h"
#include "graph/custom_operator.h"
#include "graph/op_def.h"

namespace graft::frontend {
namespace {

/// Throws unless the node's operator exists, with those of a similar name, or where its definition is none.
void check_operator(const Node& node) {
  try {
    if (operator_of(node)) return;
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("it adds a {} that cannot be read: {}", error.where(),
                                                         error.message()));
  }
  std::vector<std::string> names;
  for (const OpDef& op : all_ops()) {
    if (op.domain == node.domain) names.emplace_back(op.name);
  }
  const std::string full = node.domain.empty() ? node.op : fmt::format("{}::{}", node.domain, node.op);
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("it adds a node of {}, which is no operator of Graft (`graft ops` lists them; one of your "
                          "own needs its definition){}",
                          full, did_you_mean(node.op, names)));
}

/// A list of numbers or texts, all of one kind.
Attribute list_attribute(const graft_host_argument& given, const std::string& where) {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  for (size_t i = 0; i < given.count; ++i) {
    const graft_host_argument& each = given.list[i];
    const bool whole = each.kind == GRAFT_ARGUMENT_INTEGER || each.kind == GRAFT_ARGUMENT_BOOL;
    if (whole) integers.push_back(each.integer);
    if (whole) reals.push_back(static_cast<double>(each.integer));
    if (each.kind == GRAFT_ARGUMENT_REAL) reals.push_back(each.real);
    if (each.kind == GRAFT_ARGUMENT_TEXT && each.text) texts.emplace_back(each.text);
  }
  if (integers.size() == given.count) return integers;
  if (reals.size() == given.count) return reals;
  GRAFT_USER_CHECK(texts.size() == given.count, kInvalidArgument,
                   where + " is a list of neither numbers nor texts alone", "");
  return texts;
}

}  // namespace

Attribute ConverterCall::attribute_of(const graft_host_argument& given, const std::string& attribute) const {
  const std::string where = fmt::format("the attribute '{}' of a node that it adds", attribute);
  switch (given.kind) {
    case GRAFT_ARGUMENT_INTEGER: return given.integer;
    case GRAFT_ARGUMENT_BOOL: return int64_t{given.integer != 0};
    case GRAFT_ARGUMENT_REAL: return given.real;
    case GRAFT_ARGUMENT_TEXT: return std::string(given.text ? given.text : "");
    case GRAFT_ARGUMENT_TYPE: return given.integer;
    case GRAFT_ARGUMENT_VALUE: {
      const auto& known = conversion_.graph().value(checked_value(static_cast<int32_t>(given.integer), false)).constant;
      GRAFT_USER_CHECK(known, kInvalidArgument, where + " is no constant", "");
      return *known;
    }
    case GRAFT_ARGUMENT_LIST:
      GRAFT_USER_CHECK(given.list || given.count == 0, kInvalidArgument, where + " is a NULL list", "");
      return list_attribute(given, where);
    default: break;
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is of the kind {}, which none is", where, given.kind));
}

TensorData ConverterCall::data_of(const graft_tensor& given) const {
  const std::string where = "a constant that it adds";
  const auto stated = dtype_from_onnx(given.dtype);
  GRAFT_USER_CHECK(stated && *stated != DType::kString, kInvalidArgument,
                   fmt::format("{} has the element type {}, which none of a constant is", where, given.dtype), "");
  GRAFT_USER_CHECK(given.rank >= 0 && given.rank <= kHighestRank && (given.shape || given.rank == 0) &&
                       !given.strides && given.device == GRAFT_HOST,
                   kInvalidArgument, where + " is not row-major in the memory of the host, with its sizes", "");
  const std::vector<int64_t> sizes(given.shape, given.shape + given.rank);
  const int64_t bytes = packed_bytes(*stated, checked_element_count(*stated, sizes, where));
  GRAFT_USER_CHECK((given.data || bytes == 0) && (given.bytes == 0 || std::cmp_equal(given.bytes, bytes)),
                   kInvalidArgument, fmt::format("{} has {} bytes, not the {} of its shape", where, given.bytes, bytes),
                   "");
  return TensorData::from_bytes(*stated, sizes,
                                {static_cast<const std::byte*>(given.data), static_cast<size_t>(bytes)});
}

void ConverterCall::add_node(graft_added_node& given) {
  GRAFT_USER_CHECK(given.struct_size >= sizeof given, kInvalidArgument, "the struct_size of a node is not set", "");
  GRAFT_USER_CHECK(given.op && given.outputs && given.output_count > 0 && given.output_count <= INT32_MAX &&
                       (given.attribute_count == 0 || (given.attributes && given.attribute_names)),
                   kInvalidArgument, "a node that it adds has no operator, no place for results or no attributes", "");
  Node added{.name = conversion_.node().name, .domain = given.domain ? given.domain : "", .op = given.op,
             .attributes = {}, .inputs = checked_values(given.inputs, given.input_count, true), .outputs = {}};
  for (size_t i = 0; i < given.attribute_count; ++i) {
    const std::string attribute = given.attribute_names[i] ? given.attribute_names[i] : "";
    added.attributes.insert_or_assign(attribute, attribute_of(given.attributes[i], attribute));
  }
  if (given.definition) added.attributes.insert_or_assign(std::string(kDefinitionAttribute), given.definition);
  check_operator(added);
  std::vector<ValueId> made;
  try {
    made = conversion_.add_several(added.op, added.inputs, added.attributes, static_cast<int>(given.output_count),
                                   added.domain);
  } catch (const Refusal&) {  // sizes that do not fit are the model's, other operands than the operator's are not
    const Graph& graph = conversion_.graph();
    const std::string fault = graph.nodes.empty() || graph.nodes.back().op != added.op
                                  ? ""
                                  : operand_fault(*operator_of(added), graph.nodes.back(), graph);
    GRAFT_USER_CHECK(fault.empty(), kInvalidArgument, fmt::format("the node of {} that it adds: {}", added.op, fault),
                     "");
    throw;
  }
  std::ranges::copy(made, given.outputs);
}

void ConverterCall::set_builders() {
  constant = [](graft_conversion* c, const graft_tensor* tensor, int32_t* place) {
    return of(c).guarded([&] {
      GRAFT_USER_CHECK(tensor && tensor->struct_size >= sizeof *tensor, kInvalidArgument,
                       "the struct_size of a constant is not set", "");
      place_of(place) = of(c).conversion_.constant(of(c).data_of(*tensor));
    });
  };
  add = [](graft_conversion* c, graft_added_node* node) {
    return of(c).guarded([&] { of(c).add_node(place_of(node)); });
  };
  give = [](graft_conversion* c, const int32_t* values, size_t count) {
    return of(c).guarded([&] { of(c).conversion_.give(of(c).checked_values(values, count, false)); });
  };
  give_list = [](graft_conversion* c, const int32_t* values, size_t count) {
    return of(c).guarded([&] {
      GRAFT_USER_CHECK(!of(c).conversion_.node().outputs.empty(), kInvalidArgument, "the operator has no results", "");
      of(c).conversion_.give_list(of(c).checked_values(values, count, false));
      of(c).gave_list_ = true;
    });
  };
  refuse = [](graft_conversion* c, const char* reason) {
    return of(c).failed(GRAFT_UNSUPPORTED, reason && *reason ? reason : "its converter refuses it, without a reason");
  };
  fail = [](graft_conversion* c, const char* message) {
    return of(c).failed(GRAFT_INVALID_ARGUMENT, message && *message ? message : "it failed, without a reason");
  };
}

}  // namespace graft::frontend
