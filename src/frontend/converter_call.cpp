// SPDX-License-Identifier: Apache-2.0
#include "frontend/converter_call.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/user_rows.h"
#include "graph/infer.h"

namespace graft::frontend {
namespace {

std::string type_text(DType type, const std::optional<Shape>& shape) {
  if (!shape) return std::string(name_of(type));
  std::vector<std::string> sizes;
  for (const Size& size : *shape) sizes.push_back(size.to_string());
  return fmt::format("{}[{}]", name_of(type), fmt::join(sizes, ", "));
}

/// Whether both can be shapes of one value.
bool may_agree(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](const Size& one, const Size& other) {
    return !one.is_constant() || !other.is_constant() || one.constant() == other.constant();
  });
}

}  // namespace

ConverterCall::ConverterCall(Conversion& conversion) : graft_conversion{}, conversion_(conversion) {
  const ForeignNode& node = conversion.node();
  struct_size = sizeof(graft_conversion);
  op = node.op.c_str(), name = node.name.c_str(), scope = node.scope.c_str(), source = node.source.c_str();
  result_count = node.outputs.size();
  set_readers();
  set_builders();
}

graft_status ConverterCall::failed(graft_status with, std::string_view why) noexcept {
  if (status_ != GRAFT_OK) return status_;
  status_ = with;
  try {
    message_ = why;
  } catch (const std::bad_alloc&) {
    status_ = GRAFT_OUT_OF_MEMORY;
  }
  return status_;
}

// ---- What a converter asks ----

void ConverterCall::set_readers() {
  argument = [](graft_conversion* c, const char* name, graft_host_argument* place) {
    return of(c).guarded([&] {
      const std::string_view checked = of(c).checked_name(name);
      place_of(place) = of(c).described(of(c).conversion_.argument(checked), checked);
    });
  };
  tensor = [](graft_conversion* c, const char* name, int32_t* place) {
    return of(c).guarded([&] { place_of(place) = of(c).conversion_.tensor(of(c).checked_name(name)); });
  };
  tensors = [](graft_conversion* c, const char* name, const int32_t** place, size_t* count) {
    return of(c).guarded([&] {
      const std::vector<ValueId> found = of(c).conversion_.tensors(of(c).checked_name(name));
      const auto& kept = of(c).values_.emplace_back(found.begin(), found.end());
      place_of(place) = kept.data(), place_of(count) = kept.size();
    });
  };
  integer = [](graft_conversion* c, const char* name, int64_t* place) {
    return of(c).guarded([&] { place_of(place) = of(c).conversion_.integer(of(c).checked_name(name)); });
  };
  integers = [](graft_conversion* c, const char* name, size_t wanted, const int64_t** place, size_t* count) {
    return of(c).guarded([&] {
      const auto& kept = of(c).integers_.emplace_back(of(c).conversion_.integers(of(c).checked_name(name), wanted));
      place_of(place) = kept.data(), place_of(count) = kept.size();
    });
  };
  real = [](graft_conversion* c, const char* name, double* place) {
    return of(c).guarded([&] { place_of(place) = of(c).conversion_.real(of(c).checked_name(name)); });
  };
  flag = [](graft_conversion* c, const char* name, int32_t* place) {
    return of(c).guarded([&] { place_of(place) = of(c).conversion_.flag(of(c).checked_name(name)); });
  };
  text = [](graft_conversion* c, const char* name, const char** place) {
    return of(c).guarded([&] {
      place_of(place) = of(c).texts_.emplace_back(of(c).conversion_.text(of(c).checked_name(name))).c_str();
    });
  };
  type = [](graft_conversion* c, const char* name, int32_t* place) {
    return of(c).guarded([&] { place_of(place) = onnx_code(of(c).conversion_.type(of(c).checked_name(name))); });
  };
  shape_tensor = [](graft_conversion* c, const char* name, int32_t* place) {
    return of(c).guarded([&] { place_of(place) = of(c).conversion_.shape_tensor(of(c).checked_name(name)); });
  };
  describe = [](graft_conversion* c, int32_t value, const graft_value_info** place) {
    return of(c).guarded([&] { place_of(place) = of(c).info_of(of(c).checked_value(value, false)); });
  };
  content = [](graft_conversion* c, int32_t value, graft_tensor* place) {
    return of(c).guarded([&] { place_of(place) = of(c).elements_of(of(c).checked_value(value, false)); });
  };
}

std::string_view ConverterCall::checked_name(const char* asked) const {
  const auto& parameters = conversion_.signature().parameters;
  std::vector<std::string_view> names;
  for (const Parameter& each : parameters) {
    if (asked && each.name == asked) return each.name;
    names.push_back(each.name);
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("it asks for the argument '{}', and its signature has {}",
                                                       asked ? asked : "", fmt::join(names, ", ")));
}

ValueId ConverterCall::checked_value(int32_t value, bool may_miss) const {
  const bool known = value >= 0 && static_cast<size_t>(value) < conversion_.graph().values.size();
  GRAFT_USER_CHECK(known || (may_miss && value == -1), kInvalidArgument,
                   value == -1 ? std::string("a value is wanted, and -1 is none")
                               : fmt::format("there is no value {}", value), "");
  return value;
}

std::vector<ValueId> ConverterCall::checked_values(const int32_t* values, size_t count, bool may_miss) const {
  GRAFT_USER_CHECK(values || count == 0, kInvalidArgument, "a list of values is NULL", "");
  std::vector<ValueId> checked;
  for (size_t i = 0; i < count; ++i) checked.push_back(checked_value(values[i], may_miss));
  return checked;
}

graft_host_argument ConverterCall::listed(std::vector<graft_host_argument> elements) {
  const auto& kept = lists_.emplace_back(std::move(elements));
  graft_host_argument made = {};
  made.kind = GRAFT_ARGUMENT_LIST, made.list = kept.data(), made.count = kept.size();
  return made;
}

/// A value of the framework's graph: a tensor of ours, or the numbers and lists that it is known to be.
graft_host_argument ConverterCall::referred(Reference reference, std::string_view asked) {
  graft_host_argument made = {};
  made.kind = GRAFT_ARGUMENT_VALUE;
  if (const List* known = conversion_.list_of(reference)) {
    std::vector<graft_host_argument> list;
    for (const ValueId each : conversion_.elements(*known)) made.integer = each, list.push_back(made);
    return listed(std::move(list));
  }
  const ValueId value = conversion_.converted(reference);
  if (value == kNoValue) {
    conversion_.refuse(fmt::format("its argument '{}' comes from what stays in the framework", asked));
  }
  made.integer = value;
  const Value& known = conversion_.graph().value(value);
  if (conversion_.foreign().values[static_cast<size_t>(reference.value)].tensor || !known.shape) return made;
  const auto sizes = known_content(known);
  if (!sizes || !std::ranges::all_of(*sizes, &Size::is_constant)) return made;
  std::vector<graft_host_argument> numbers;
  graft_host_argument number = {};
  number.kind = known.type == DType::kBool ? GRAFT_ARGUMENT_BOOL : GRAFT_ARGUMENT_INTEGER;
  for (const Size& size : *sizes) number.integer = size.constant(), numbers.push_back(number);
  return known.shape->empty() && numbers.size() == 1 ? numbers[0] : listed(std::move(numbers));
}

graft_host_argument ConverterCall::described(const Argument& given, std::string_view asked) {
  graft_host_argument made = {};
  if (const auto* reference = std::get_if<Reference>(&given.is)) return referred(*reference, asked);
  if (const auto* tensor = std::get_if<TensorData>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_VALUE, made.integer = conversion_.constant(*tensor);
  } else if (const auto* integer = std::get_if<int64_t>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_INTEGER, made.integer = *integer;
  } else if (const auto* real = std::get_if<double>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_REAL, made.real = *real;
  } else if (const auto* flag = std::get_if<bool>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_BOOL, made.integer = *flag;
  } else if (const auto* text = std::get_if<std::string>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_TEXT, made.text = text->c_str();
  } else if (const auto* type = std::get_if<DType>(&given.is)) {
    made.kind = GRAFT_ARGUMENT_TYPE, made.integer = onnx_code(*type);
  } else if (const auto* list = std::get_if<Arguments>(&given.is)) {
    std::vector<graft_host_argument> elements;
    for (const Argument& each : *list) elements.push_back(described(each, asked));
    return listed(std::move(elements));
  }
  return made;
}

const graft_value_info* ConverterCall::info_of(ValueId value) {
  const Value& known = conversion_.graph().value(value);
  std::vector<graft_axis>& axes = axes_.emplace_back();
  for (const Size& size : known.shape.value_or(Shape{})) {
    const int64_t fixed = size.is_constant() ? size.constant() : -1;
    const int64_t most = std::max<int64_t>(fixed, 0);
    axes.push_back({.size = fixed, .text = texts_.emplace_back(size.to_string()).c_str(), .min = most, .opt = most,
                    .max = most});
  }
  return &infos_.emplace_back(graft_value_info{.name = texts_.emplace_back(known.name).c_str(),
                                               .dtype = onnx_code(known.type),
                                               .rank = known.shape ? static_cast<int32_t>(axes.size()) : -1,
                                               .axes = axes.data()});
}

graft_tensor ConverterCall::elements_of(ValueId value) {
  const Value& known = conversion_.graph().value(value);
  TensorData data = known.constant.value_or(TensorData());
  if (!data) {
    const auto sizes = known.shape ? known_content(known) : std::nullopt;
    if (!sizes || !std::ranges::all_of(*sizes, &Size::is_constant)) {
      conversion_.refuse(fmt::format("'{}' is no constant", known.name));
    }
    std::vector<int64_t> shape;
    for (const Size& size : *known.shape) shape.push_back(size.constant());
    data = TensorData::zeros(known.type, shape);
    for (size_t i = 0; i < sizes->size(); ++i) data.write_integer(static_cast<int64_t>(i), (*sizes)[i].constant());
  }
  if (data.type() == DType::kString) conversion_.refuse(fmt::format("'{}' holds texts", known.name));
  const TensorData& kept = elements_.emplace_back(std::move(data));
  graft_tensor made = {};
  made.struct_size = sizeof made, made.name = texts_.emplace_back(known.name).c_str();
  made.dtype = onnx_code(kept.type()), made.rank = kept.rank(), made.shape = kept.shape().data();
  made.data = const_cast<std::byte*>(kept.bytes().data()), made.bytes = kept.bytes().size();
  return made;
}

// ---- The call ----

void ConverterCall::run(const graft_converter& converter) {
  graft_status returned = GRAFT_OK;
  try {
    returned = converter.convert(this, converter.context);
  } catch (const std::exception& error) {
    failed(GRAFT_INTERNAL, fmt::format("it threw: {}", error.what()));
  } catch (...) {
    failed(GRAFT_INTERNAL, "it threw");
  }
  if (returned != GRAFT_OK) {
    failed(returned, returned == GRAFT_UNSUPPORTED ? std::string("its converter refuses it, without a reason")
                                                   : fmt::format("it failed with the status {}", returned));
  }
  if (status_ == GRAFT_UNSUPPORTED) conversion_.refuse(message_);
  GRAFT_USER_CHECK(status_ == GRAFT_OK, kInvalidArgument, message_, "");
  check_results();
}

void ConverterCall::check_results() const {
  const ForeignNode& node = conversion_.node();
  const bool one_value = node.outputs.size() == 1 && !conversion_.foreign().values[node.outputs[0]].tensor;
  if (gave_list_ && one_value) return;
  const std::vector<ValueId>& results = conversion_.results();
  const size_t stated = gave_list_ ? 0 : conversion_.signature().results.value_or(0);
  const size_t wanted = std::max(stated, node.outputs.size());
  GRAFT_USER_CHECK(results.size() == wanted, kInvalidArgument,
                   fmt::format("it gives {} results, and the operator has {}", results.size(), wanted), "");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ForeignValue& known = conversion_.foreign().values[static_cast<size_t>(node.outputs[i])];
    const Value& made = conversion_.graph().value(results[i]);
    const bool type = known.type == DType::kUndefined || made.type == DType::kUndefined || known.type == made.type;
    const bool shape = !known.shape || !made.shape || may_agree(*known.shape, *made.shape);
    GRAFT_USER_CHECK(type && shape, kInvalidArgument,
                     fmt::format("its result {} is {}, and the graph states {}", i, type_text(made.type, made.shape),
                                 type_text(known.type, known.shape)), "");
  }
}

Row row_of(std::shared_ptr<const graft_converter> converter, const std::string& origin) {
  GRAFT_USER_CHECK(converter->signature && converter->convert, kInvalidArgument,
                   "a converter has no signature or no function", origin);
  const std::string signature = converter->signature;
  try {
    const std::string op = Signature::parse(signature).op;
    GRAFT_USER_CHECK(op.find("::") != std::string::npos, kInvalidArgument,
                     fmt::format("'{}' names no namespace: write it as torch does, my::op(Tensor self) -> Tensor",
                                 signature), origin);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInvalidArgument) throw;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("'{}' is no signature: write it as torch does, my::op(Tensor self, int dim=0) -> Tensor",
                            signature), origin);
  }
  const auto build = [converter, origin](Conversion& conversion) {
    try {
      ConverterCall(conversion).run(*converter);
    } catch (const Error& error) {
      const ForeignNode& node = conversion.node();
      const std::string source = node.source.empty() ? "" : fmt::format(", {}", node.source);
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the converter of {} is at fault: {}; correct it, or leave it out", origin,
                              error.message()),
                  fmt::format("node '{}' ({}{})", node.name, node.op, source));
    }
  };
  return {.signature = signature, .build = build};
}

}  // namespace graft::frontend
