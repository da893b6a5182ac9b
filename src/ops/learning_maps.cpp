// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that take or give maps: the types of what they give.
#include <algorithm>

#include <fmt/format.h>

#include "graph/host_operator.h"

namespace graft {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

template <class T>
const std::vector<T>& list(const HostInference& h, std::string_view name) {
  static const std::vector<T> kNone;
  const Attribute* given = h.attribute(name);
  if (!given) return kNone;
  const auto* values = std::get_if<std::vector<T>>(given);
  if (!values) h.reject(fmt::format("its attribute '{}' is of another type; export the model again", name));
  return *values;
}

/// Keys that an attribute lists: how many there are, and their type. One of the two attributes has some.
struct Keys {
  DType type = DType::kUndefined;
  int64_t count = 0;
};

Keys keys_of(const HostInference& h, std::string_view integers, std::string_view texts) {
  const auto& whole = list<int64_t>(h, integers);
  const auto& words = list<std::string>(h, texts);
  if (whole.empty() == words.empty()) {
    h.reject(fmt::format("it has either '{}' or '{}'; export the model again", integers, texts));
  }
  if (!whole.empty()) return {.type = DType::kInt64, .count = std::ssize(whole)};
  return {.type = DType::kString, .count = std::ssize(words)};
}

/// The map that the input is, with elements of a known type.
DynamicType map_type(const HostInference& h) {
  const DynamicType given = h.type(0);
  if (given.is_tensor() && given.type == DType::kUndefined) {
    h.unsupported("the type of its map is not known: declare the input of the model as a map");
  }
  if (given.kind != DynamicType::Kind::kMap) h.reject(fmt::format("its input is {}, not a map", print(given)));
  if (!given.element->is_tensor() || given.element->type == DType::kUndefined) {
    h.unsupported(fmt::format("maps of other values than numbers and strings ({})", print(given)));
  }
  return given;
}

void infer_zip_map(HostInference& h) {
  h.require_type(0, DType::kFloat32);
  const Keys keys = keys_of(h, "classlabels_int64s", "classlabels_strings");
  if (const auto& shape = h.input(0).shape) {
    if (shape->size() != 1 && shape->size() != 2) h.reject("its input should be [classes] or [batch, classes]");
    const auto classes = shape->back().as_constant();
    if (classes && *classes != keys.count) {
      h.reject(fmt::format("its input has {} classes, its labels are {}; export the model again", *classes,
                           keys.count));
    }
  }
  DynamicType value;
  value.type = DType::kFloat32;
  value.shape.emplace();
  h.give(0, DynamicType::sequence_of(DynamicType::map_of(keys.type, value)));
}

void infer_dict_vectorizer(HostInference& h) {
  const Keys keys = keys_of(h, "int64_vocabulary", "string_vocabulary");
  const DynamicType map = map_type(h);
  if (map.type != keys.type) {
    h.reject(fmt::format("its vocabulary is of {}, its input is {}; export the model again", name_of(keys.type),
                         print(map)));
  }
  h.give(0, map.element->type, Shape{Size(1), Size(keys.count)});
}

DType cast_type(const HostInference& h) {
  const std::string to = h.text("cast_to");
  if (to == "TO_FLOAT") return DType::kFloat32;
  if (to == "TO_INT64") return DType::kInt64;
  if (to == "TO_STRING") return DType::kString;
  h.reject(fmt::format("its cast_to '{}' is none of ONNX's; export the model again", to));
}

void infer_cast_map(HostInference& h) {
  const DType type = cast_type(h);
  const DynamicType map = map_type(h);
  if (map.type != DType::kInt64) h.reject(fmt::format("its keys are integers, its input is {}", print(map)));
  const std::string form = h.text("map_form");
  if (form == "DENSE") return h.give(0, type, Shape{Size(1), h.counted(0, 1)});
  if (form != "SPARSE") h.reject(fmt::format("its map_form '{}' is none of ONNX's; export the model again", form));
  const int64_t count = h.integer("max_map");
  if (count < 1) h.reject(fmt::format("its max_map is {}, not at least 1; export the model again", count));
  h.give(0, type, Shape{Size(1), Size(count)});
}

}  // namespace

std::vector<HostOp> learning_maps_host_ops() {
  return {{.domain = kDomain, .name = "ZipMap", .since = 1, .inputs = {"x"}, .outputs = {"maps"},
           .attributes = {{"classlabels_int64s", {}, true}, {"classlabels_strings", {}, true}},
           .infer = infer_zip_map, .doc = "A map for each row: its scores by the labels of their classes."},
          {.domain = kDomain, .name = "DictVectorizer", .since = 1, .inputs = {"map"}, .outputs = {"y"},
           .attributes = {{"int64_vocabulary", {}, true}, {"string_vocabulary", {}, true}},
           .infer = infer_dict_vectorizer, .doc = "The values of a map in the order of a vocabulary, 0 where none is."},
          {.domain = kDomain, .name = "CastMap", .since = 1, .inputs = {"map"}, .outputs = {"y"},
           .attributes = {{"cast_to", std::string("TO_FLOAT")}, {"map_form", std::string("DENSE")},
                          {"max_map", int64_t{1}}},
           .infer = infer_cast_map, .doc = "The values of a map in the order of its keys, or at the places of these."}};
}

}  // namespace graft
