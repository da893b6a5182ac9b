// SPDX-License-Identifier: Apache-2.0
// Operators that look inside of strings: the types of what they give.
#include <algorithm>

#include <fmt/format.h>

#include "graph/host_operator.h"

namespace graft {
namespace {

const Shape& known_shape(const HostInference& h, size_t input) {
  const auto& shape = h.input(input).shape;
  if (!shape) h.unsupported("the rank of its input is not known: give the shapes of the model's inputs");
  return *shape;
}

/// A tensor of `type` as large as the strings of the first input.
void give_for_each(const HostInference& h, DType type) {
  h.require_type(0, DType::kString);
  h.give(0, type, Shape(known_shape(h, 0)));
}

void infer_string_concat(HostInference& h) {
  h.require_type(0, DType::kString);
  h.require_type(1, DType::kString);
  h.give(0, DType::kString, h.broadcast(known_shape(h, 0), known_shape(h, 1), 0));
}

void infer_equal(HostInference& h) {
  h.require_type(0, DType::kString);
  h.require_type(1, DType::kString);
  h.give(0, DType::kBool, h.broadcast(known_shape(h, 0), known_shape(h, 1), 0));
}

void infer_string_split(HostInference& h) {
  h.require_type(0, DType::kString);
  Shape parts = known_shape(h, 0);
  h.give(1, DType::kInt64, Shape(parts));
  parts.push_back(h.counted(0, parts.size()));
  h.give(0, DType::kString, std::move(parts));
}

void infer_string_normalizer(HostInference& h) {
  h.require_type(0, DType::kString);
  const Shape& shape = known_shape(h, 0);
  if (shape.empty() || shape.size() > 2) h.reject("it takes strings [C] or [1, C]");
  const std::string action = h.text("case_change_action");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") h.reject("its case_change_action is " + action);
  if (shape.size() == 1) return h.give_counted(0, DType::kString, 1);
  h.give(0, DType::kString, Shape{Size(1), h.counted(0, 1)});
}

void infer_tokenizer(HostInference& h) {
  h.require_type(0, DType::kString);
  Shape tokens = known_shape(h, 0);
  if (tokens.empty() || tokens.size() > 2) h.reject("it takes strings [C] or [N, C]");
  tokens.push_back(h.counted(0, tokens.size()));
  h.give(0, DType::kString, std::move(tokens));
}

void infer_regex_full_match(HostInference& h) {
  h.text("pattern");
  give_for_each(h, DType::kBool);
}

void infer_tf_idf_vectorizer(HostInference& h) {
  const Shape& shape = known_shape(h, 0);
  const Attribute* given = h.attribute("ngram_indexes");
  const auto* indexes = given ? std::get_if<std::vector<int64_t>>(given) : nullptr;
  if (!indexes || indexes->empty()) h.reject("its ngram_indexes are missing");
  const auto [low, high] = std::minmax_element(indexes->begin(), indexes->end());
  constexpr int64_t kMost = int64_t{1} << 40;
  if (*low < 0 || *high >= kMost) h.reject(fmt::format("its ngram_indexes reach from {} to {}", *low, *high));
  if (shape.empty() || shape.size() > 2) h.reject("it takes tokens [C] or [N, C]");
  const Size row(*high + 1);
  h.give(0, DType::kFloat32, shape.size() == 1 ? Shape{row} : Shape{shape[0], row});
}

bool is_text(const Node& node, size_t index, const Graph& graph) {
  return index < node.inputs.size() && node.inputs[index] != kNoValue &&
         graph.value(node.inputs[index]).type == DType::kString;
}

bool casts_text(const Node& node, const Graph& graph) {
  const auto to = node.attributes.find("to");
  const auto* type = to == node.attributes.end() ? nullptr : std::get_if<int64_t>(&to->second);
  return is_text(node, 0, graph) != (type && *type == onnx_code(DType::kString));
}

bool casts_like_text(const Node& node, const Graph& graph) {
  return is_text(node, 0, graph) != is_text(node, 1, graph);
}

bool compares_text(const Node& node, const Graph& graph) { return is_text(node, 0, graph) || is_text(node, 1, graph); }

void give_cast(const HostInference& h, DType type) {
  for (const DType end : {h.input(0).type, type}) {
    if (kind_of(end) == DTypeKind::kComplex || bit_width(end) < 8) {
      h.unsupported(fmt::format("conversion between {} and {}", name_of(h.input(0).type), name_of(type)));
    }
  }
  h.give(0, type, Shape(known_shape(h, 0)));
}

void infer_cast(HostInference& h) {
  const auto type = dtype_from_onnx(static_cast<int>(h.integer("to")));
  if (!type) h.reject(fmt::format("its type {} is no element type", h.integer("to")));
  give_cast(h, *type);
}

void infer_cast_like(HostInference& h) { give_cast(h, h.input(1).type); }

std::vector<AttributeSpec> cast_like_attributes() {
  return {{"saturate", int64_t{1}}, {"round_mode", std::string("up")}};
}

std::vector<AttributeSpec> cast_attributes() {
  std::vector<AttributeSpec> attributes = cast_like_attributes();
  attributes.push_back({"to"});
  return attributes;
}

}  // namespace

std::vector<HostOp> text_host_ops() {
  return {{.domain = "", .name = "StringConcat", .since = 20, .inputs = {"x", "y"}, .outputs = {"z"}, .attributes = {},
           .infer = infer_string_concat, .doc = "The strings of two tensors, one behind the other."},
          {.domain = "", .name = "StringSplit", .since = 20, .inputs = {"x"}, .outputs = {"y", "counts?"},
           .attributes = {{"maxsplit", {}, true}, {"delimiter", std::string()}}, .infer = infer_string_split,
           .doc = "The parts of each string between delimiters, and how many there are."},
          {.domain = "", .name = "StringNormalizer", .since = 10, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {{"case_change_action", std::string("NONE")}, {"is_case_sensitive", int64_t{0}},
                          {"locale", {}, true}, {"stopwords", {}, true}},
           .infer = infer_string_normalizer, .doc = "Strings without stop words, in lower or upper case."},
          {.domain = "", .name = "RegexFullMatch", .since = 20, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {{"pattern"}}, .infer = infer_regex_full_match,
           .doc = "Whether a regular expression of RE2 matches all of each string."},
          {.domain = "com.microsoft", .name = "Tokenizer", .since = 1, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {{"mark"}, {"mincharnum"}, {"pad_value"}, {"separators", {}, true}, {"tokenexp", {}, true}},
           .infer = infer_tokenizer,
           .doc = "The tokens of each string: what an expression matches, or between separators."},
          {.domain = "", .name = "TfIdfVectorizer", .since = 9, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {{"max_gram_length"}, {"max_skip_count"}, {"min_gram_length"}, {"mode"}, {"ngram_counts"},
                          {"ngram_indexes"}, {"pool_int64s", {}, true}, {"pool_strings", {}, true},
                          {"weights", {}, true}},
           .infer = infer_tf_idf_vectorizer, .doc = "How often each of a list of n-grams comes, weighted."},
          {.domain = "", .name = "Cast", .since = 25, .inputs = {"x"}, .outputs = {"y"},
           .attributes = cast_attributes(), .infer = infer_cast, .doc = "Numbers as strings, or strings as numbers.",
           .when = casts_text},
          {.domain = "", .name = "CastLike", .since = 25, .inputs = {"x", "like"}, .outputs = {"y"},
           .attributes = cast_like_attributes(), .infer = infer_cast_like,
           .doc = "Numbers as strings, or strings as numbers.", .when = casts_like_text},
          {.domain = "", .name = "Equal", .since = 19, .inputs = {"a", "b"}, .outputs = {"y"}, .attributes = {},
           .infer = infer_equal, .doc = "Whether two strings are the same.", .when = compares_text}};
}

}  // namespace graft
