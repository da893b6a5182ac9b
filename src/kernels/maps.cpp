// SPDX-License-Identifier: Apache-2.0
// The kernels of ai.onnx.ml that take or give maps.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "base/run_limits.h"
#include "kernels/cast_strings.h"
#include "kernels/host_kernel.h"
#include "kernels/tensor_parts.h"

namespace graft {
namespace {

using Inputs = std::span<const DynamicValue>;
using Values = std::vector<DynamicValue>;

/// Keys that a node lists, in one of two attributes.
TensorData listed_keys(const Node& node, std::string_view integers, std::string_view texts) {
  const KernelAttributes attributes(node);
  const std::vector<int64_t> whole = attributes.integers(integers);
  std::vector<std::string> words = attributes.texts(texts);
  if (words.empty()) return TensorData::from_values<int64_t>(DType::kInt64, {std::ssize(whole)}, whole);
  const auto count = std::ssize(words);
  return TensorData::from_strings({count}, std::move(words));
}

/// Places in the order of their keys; of equal keys only the last counts, as where one is written after the other.
template <class Key>
std::vector<int64_t> places_by_key(std::span<const Key> keys) {
  std::map<Key, int64_t> last;
  for (size_t k = 0; k < keys.size(); ++k) last[keys[k]] = static_cast<int64_t>(k);
  std::vector<int64_t> places;
  for (const auto& [key, place] : last) places.push_back(place);
  return places;
}

std::vector<int64_t> places_by_key(const TensorData& keys) {
  return keys.type() == DType::kString ? places_by_key<std::string>(keys.strings())
                                       : places_by_key<int64_t>(keys.as<int64_t>());
}

/// The elements at places of one axis.
TensorData picked(const TensorData& from, const std::vector<int64_t>& places) {
  TensorData to = TensorData::zeros(from.type(), {std::ssize(places)});
  for (size_t k = 0; k < places.size(); ++k) copy_elements(from, places[k], to, static_cast<int64_t>(k), 1);
  return to;
}

/// The place of each key; of equal keys the last.
template <class Key>
std::unordered_map<Key, int64_t> index_of(std::span<const Key> keys) {
  std::unordered_map<Key, int64_t> index;
  for (size_t k = 0; k < keys.size(); ++k) index[keys[k]] = static_cast<int64_t>(k);
  return index;
}

/// The values of a map at the places that a vocabulary has for their keys.
template <class Key>
TensorData vectorized(std::span<const Key> vocabulary, std::span<const Key> keys, const TensorData& values) {
  const std::unordered_map<Key, int64_t> index = index_of(keys);
  TensorData result = TensorData::zeros(values.type(), {1, std::ssize(vocabulary)});
  for (size_t k = 0; k < vocabulary.size(); ++k) {
    const auto known = index.find(vocabulary[k]);
    if (known != index.end()) copy_elements(values, known->second, result, static_cast<int64_t>(k), 1);
  }
  return result;
}

/// The values of a map in another type. ONNX says nothing of their spelling: it is that of ONNX Runtime.
TensorData cast_values(const TensorData& from, DType type) {
  if (from.type() == type || (from.type() == DType::kString && type != DType::kString)) return cast_strings(from, type);
  TensorData to = TensorData::zeros(type, from.shape());
  for (int64_t i = 0; i < from.element_count(); ++i) {
    if (type == DType::kString) {
      to.mutable_strings()[static_cast<size_t>(i)] =
          is_float(from.type()) ? fmt::format("{:f}", from.read_double(i)) : std::to_string(from.read_integer(i));
    } else if (type == DType::kInt64) {
      to.write_integer(i, from.read_integer(i));
    } else {
      to.write_double(i, from.read_double(i));
    }
  }
  return to;
}

}  // namespace

HostKernel make_zip_map(const Node& node) {
  const TensorData labels = listed_keys(node, "classlabels_int64s", "classlabels_strings");
  const std::vector<int64_t> places = places_by_key(labels);
  const TensorData keys = picked(labels, places);
  return [places, keys, count = labels.element_count()](Inputs inputs) {
    const TensorData& scores = tensor_input(inputs, 0, DType::kFloat32);
    const int rank = scores.rank();
    if ((rank != 1 && rank != 2) || scores.shape().back() != count) {
      refuse_input(fmt::format("it is given {} for {} labels", describe(scores), count));
    }
    const std::span<const float> all = scores.as<float>();
    const int64_t rows = rank == 1 ? 1 : scores.shape()[0];
    std::vector<DynamicValue> maps;
    for (int64_t row = 0; row < rows; ++row) {
      stop_if_requested();
      TensorData values = TensorData::zeros(DType::kFloat32, {std::ssize(places)});
      const std::span<float> to = values.mutable_as<float>();
      for (size_t k = 0; k < places.size(); ++k) to[k] = all[static_cast<size_t>(row * count + places[k])];
      maps.push_back(DynamicValue::map(keys, std::move(values)));
    }
    return Values{DynamicValue::sequence(std::move(maps))};
  };
}

HostKernel make_dict_vectorizer(const Node& node) {
  const TensorData vocabulary = listed_keys(node, "int64_vocabulary", "string_vocabulary");
  return [vocabulary](Inputs inputs) {
    const DynamicValue& map = map_input(inputs, 0, vocabulary.type());
    const TensorData &keys = map.tensor(), &values = map.map_values();
    return Values{vocabulary.type() == DType::kString
                      ? vectorized<std::string>(vocabulary.strings(), keys.strings(), values)
                      : vectorized<int64_t>(vocabulary.as<int64_t>(), keys.as<int64_t>(), values)};
  };
}

HostKernel make_cast_map(const Node& node) {
  const KernelAttributes attributes(node);
  const std::string to = attributes.text("cast_to", "TO_FLOAT");
  const DType type = to == "TO_STRING" ? DType::kString : to == "TO_INT64" ? DType::kInt64 : DType::kFloat32;
  const bool dense = attributes.text("map_form", "DENSE") == "DENSE";
  const int64_t count = attributes.integer("max_map", 1);
  return [type, dense, count](Inputs inputs) {
    const DynamicValue& map = map_input(inputs, 0, DType::kInt64);
    const std::vector<int64_t> places = places_by_key(map.tensor());
    const TensorData values = cast_values(picked(map.map_values(), places), type);
    if (dense) return Values{values.reshaped({1, std::ssize(places)})};
    TensorData result = TensorData::zeros(type, {1, count});
    // What ONNX Runtime puts where there is no value.
    if (type == DType::kString) std::ranges::fill(result.mutable_strings(), "0.f");
    const std::span<const int64_t> keys = map.tensor().as<int64_t>();
    for (size_t k = 0; k < places.size(); ++k) {
      const int64_t key = keys[static_cast<size_t>(places[k])];
      if (key < 0) refuse_input(fmt::format("the key {} is no place in a list of {}", key, count));
      if (key < count) copy_elements(values, static_cast<int64_t>(k), result, key, 1);
    }
    return Values{result};
  };
}

}  // namespace graft
