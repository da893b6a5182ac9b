// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that look keys up: LabelEncoder, CategoryMapper, OneHotEncoder.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "import/onnx/learning_call.h"

namespace graft {
namespace {

TensorData strings(const std::vector<std::string>& values) {
  return TensorData::from_strings({static_cast<int64_t>(values.size())}, values);
}
TensorData whole(const std::vector<int64_t>& values) {
  return TensorData::from_values<int64_t>(DType::kInt64, {static_cast<int64_t>(values.size())}, values);
}
TensorData reals(const std::vector<double>& values) {
  return TensorData::from_values<double>(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

/// `first` with one more element, as a list.
TensorData with_last(const TensorData& first, const TensorData& last) {
  const int64_t count = first.element_count();
  if (first.type() == DType::kString) {
    std::vector<std::string> all = first.strings();
    all.push_back(last.strings().at(0));
    return TensorData::from_strings({count + 1}, std::move(all));
  }
  TensorData all = TensorData::zeros(first.type(), {count + 1});
  for (int64_t k = 0; k < count; ++k) {
    is_float(first.type()) ? all.write_double(k, first.read_double(k)) : all.write_integer(k, first.read_integer(k));
  }
  is_float(first.type()) ? all.write_double(count, last.read_double(0))
                         : all.write_integer(count, last.read_integer(0));
  return all;
}

bool is_nan_at(const TensorData& keys, int64_t k) { return is_float(keys.type()) && std::isnan(keys.read_double(k)); }

/// Keys in ascending order, a NaN last, and where each one was; of equal keys only the first, as a look-up finds it.
struct SortedKeys {
  TensorData keys;
  std::vector<int64_t> places;
  int64_t nan_place = -1;
};

SortedKeys sorted(const TensorData& keys) {
  std::vector<int64_t> order(static_cast<size_t>(keys.element_count()));
  std::iota(order.begin(), order.end(), 0);
  const auto less = [&](int64_t a, int64_t b) {
    if (!is_float(keys.type())) return keys.read_integer(a) < keys.read_integer(b);
    if (is_nan_at(keys, a) || is_nan_at(keys, b)) return !is_nan_at(keys, a) && is_nan_at(keys, b);
    return keys.read_double(a) < keys.read_double(b);
  };
  std::stable_sort(order.begin(), order.end(), less);
  const auto same = [&](int64_t a, int64_t b) { return !less(a, b) && !less(b, a); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  SortedKeys result{.keys = TensorData::zeros(keys.type(), {static_cast<int64_t>(order.size())}), .places = order};
  for (size_t k = 0; k < order.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    if (is_nan_at(keys, order[k])) result.nan_place = at;
    is_float(keys.type()) ? result.keys.write_double(at, keys.read_double(order[k]))
                          : result.keys.write_integer(at, keys.read_integer(order[k]));
  }
  return result;
}

/// The place of each text among keys, their number where it is none of them.
ValueId text_place(ContribCall& call, ValueId x, const TensorData& keys) {
  const ValueId same = call.emit("Equal", {call.unsqueeze(x, {-1}), call.constant("keys", keys)});
  const ValueId none = call.constant("none", TensorData::from_values<int64_t>(DType::kInt64, {1},
                                                                              {keys.element_count()}));
  std::vector<int64_t> numbers(static_cast<size_t>(keys.element_count()));
  std::iota(numbers.begin(), numbers.end(), 0);
  const ValueId places = call.emit("Where", {same, call.integers(numbers), none});
  return call.emit("ReduceMin", {places, call.integers({-1})}, {{"keepdims", int64_t{0}}});
}

/// table[place of x among keys], where the table has one more element for what is none of them.
ValueId look_up(ContribCall& call, ValueId x, const TensorData& keys, const TensorData& table) {
  if (keys.element_count() + 1 != table.element_count()) {
    call.reject(fmt::format("it has {} keys and {} values; export the model again", keys.element_count(),
                            table.element_count() - 1));
  }
  if (call.type(x) != keys.type()) {
    call.reject(fmt::format("its input is {}, its keys are {}; export the model again", name_of(call.type(x)),
                            name_of(keys.type())));
  }
  if (keys.type() == DType::kString) {
    return call.emit("Gather", {call.constant("values", table), text_place(call, x, keys)}, {{"axis", int64_t{0}}});
  }
  const SortedKeys search = sorted(keys);
  const ValueId place = call.emit_own(1, "KeyPlace", {x, call.constant("keys", search.keys)},
                                      {{"nan_place", search.nan_place}})[0];
  std::vector<int64_t> origin = search.places;
  origin.push_back(keys.element_count());
  const ValueId given = call.emit("Gather", {call.integers(origin), place}, {{"axis", int64_t{0}}});
  return call.emit("Gather", {call.constant("values", table), given}, {{"axis", int64_t{0}}});
}

/// Keys or values of a LabelEncoder: a list of one of the kinds, or a tensor.
std::optional<TensorData> list_of(ContribCall& call, const std::string& what) {
  if (const TensorData* tensor = call.tensor(what + "_tensor")) return *tensor;
  if (const auto texts = call.texts(what + "_strings"); !texts.empty()) return strings(texts);
  if (const auto numbers = call.integers(what + "_int64s"); !numbers.empty()) return whole(numbers);
  if (const auto numbers = call.reals(what + "_floats"); !numbers.empty()) return reals(numbers);
  return std::nullopt;
}

/// What a LabelEncoder gives where it finds no key.
TensorData default_of(ContribCall& call, DType type) {
  if (const TensorData* tensor = call.tensor("default_tensor"); tensor && tensor->type() == type) return *tensor;
  if (type == DType::kString) return strings({call.text("default_string", "_Unused")});
  if (is_float(type)) return TensorData::from_values<double>(type, {1}, {call.real("default_float", -0.0)});
  return TensorData::from_values<int64_t>(type, {1}, {call.integer("default_int64", -1)});
}

void expand_label_encoder(ContribCall& call) {
  const ValueId x = call.in(0);
  std::optional<TensorData> keys = list_of(call, "keys"), values = list_of(call, "values");
  if (const auto classes = call.texts("classes_strings"); !classes.empty()) {  // as version 1 has it
    std::vector<int64_t> numbers(classes.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const bool from_text = call.type(x) == DType::kString;
    keys = from_text ? strings(classes) : whole(numbers);
    values = from_text ? whole(numbers) : strings(classes);
  }
  if (!keys || !values) call.reject("it has no keys or no values; export the model again");
  call.out(0, look_up(call, x, *keys, with_last(*values, default_of(call, values->type()))));
}

void expand_category_mapper(ContribCall& call) {
  const ValueId x = call.in(0);
  const TensorData texts = strings(call.texts("cats_strings")), numbers = whole(call.integers("cats_int64s"));
  const bool from_text = call.type(x) == DType::kString;
  const TensorData otherwise = from_text ? whole({call.integer("default_int64", -1)})
                                         : strings({call.text("default_string", "_Unused")});
  call.out(0, look_up(call, x, from_text ? texts : numbers, with_last(from_text ? numbers : texts, otherwise)));
}

void expand_one_hot_encoder(ContribCall& call) {
  const ValueId x = call.in(0);
  const bool is_text = call.type(x) == DType::kString;
  if (call.integer("zeros", 1) == 0) call.unsupported("an error for a value that is no category (zeros = 0)");
  const std::vector<int64_t> numbers = call.integers("cats_int64s");
  const ValueId categories = is_text ? strings_of(call, "categories", call.texts("cats_strings"))
                                     : call.integers(numbers);
  const ValueId value = is_text ? x : call.cast(x, DType::kInt64);
  const ValueId same = call.emit("Equal", {call.unsqueeze(value, {-1}), categories});
  call.out(0, call.cast(same, DType::kFloat32));
}

ContribOperator row(std::string_view name, std::vector<std::string_view> attributes, void (*expand)(ContribCall&),
                    std::string_view doc) {
  return {name, 1, std::move(attributes), expand, doc, kMachineLearning};
}

}  // namespace

std::vector<ContribOperator> learning_encoders() {
  return {row("LabelEncoder",
              {"classes_strings", "default_float", "default_int64", "default_string", "default_tensor", "keys_floats",
               "keys_int64s", "keys_strings", "keys_tensor", "values_floats", "values_int64s", "values_strings",
               "values_tensor"},
              expand_label_encoder, "The value that belongs to each key, or a default."),
          row("CategoryMapper", {"cats_int64s", "cats_strings", "default_int64", "default_string"},
              expand_category_mapper, "Integers for texts, or texts for integers."),
          row("OneHotEncoder", {"cats_int64s", "cats_strings", "zeros"}, expand_one_hot_encoder,
              "1 at the place of the category of each element, else 0.")};
}

}  // namespace graft
