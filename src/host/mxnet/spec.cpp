// SPDX-License-Identifier: Apache-2.0
#include "spec.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "failure.h"

namespace graft::extension {
namespace {

enum class Takes { kPartition, kCompiling };

/// Keywords that are choices of Graft's own, and how those are called.
struct Keyword {
  Takes takes;
  const char* key;
};
const std::map<std::string, Keyword>& keywords_of_graft() {
  static const std::map<std::string, Keyword> all = {
      {"minimum_size", {Takes::kPartition, "minimum-size"}},
      {"minimum_gain", {Takes::kPartition, "minimum-gain"}},
      {"most_segments", {Takes::kPartition, "most-segments"}},
      {"exclude_ops", {Takes::kPartition, "exclude-op"}},
      {"exclude", {Takes::kPartition, "exclude"}},
      {"only", {Takes::kPartition, "only"}},
      {"join", {Takes::kPartition, "join"}},
      {"ops", {Takes::kPartition, "ops"}},
      {"precision", {Takes::kCompiling, "precision"}},
      {"tune", {Takes::kCompiling, "tune"}},
      {"threads", {Takes::kCompiling, "threads"}},
      {"device", {Takes::kCompiling, "device"}},
      {"target", {Takes::kCompiling, "target"}},
      {"deadline", {Takes::kCompiling, "deadline"}},
      {"mode", {Takes::kCompiling, "mode"}},
      {"disable", {Takes::kCompiling, "disable"}},
      {"fp32_units", {Takes::kCompiling, "fp32-units"}},
      {"activations", {Takes::kCompiling, "activations"}},
      {"block", {Takes::kCompiling, "block"}},
      {"method", {Takes::kCompiling, "method"}},
      {"max_error", {Takes::kCompiling, "max-error"}},
      {"calibration_file", {Takes::kCompiling, "calibration-file"}},
      {"calibration_iters", {Takes::kCompiling, "calibration-iters"}},
  };
  return all;
}

/// `['a', 'b']`, `('a',)` or `a`: a list as Python writes it, or a single word.
std::vector<std::string> words(std::string text) {
  std::vector<std::string> found;
  const std::string decoration = "[]()'\" ";
  std::string word;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!word.empty()) found.push_back(std::exchange(word, ""));
    } else if (decoration.find(c) == std::string::npos) {
      word += c;
    }
  }
  return found;
}

[[noreturn]] void refuse(const std::string& keyword, const std::string& value, const std::string& allowed) {
  throw Failure(keyword + ": '" + value + "' is not " + allowed);
}

bool truth(const std::string& keyword, const std::string& value) {
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  refuse(keyword, value, "True or False");
}

/// `dynamic`, `fixed`, or the smallest, usual and largest batch: `(1, 8, 64)` or `1:8:64`.
void set_batch(Spec& spec, const std::string& value) {
  spec.fixed_batch = value == "fixed";
  if (value == "fixed" || value == "dynamic") return;
  std::string list = value;
  std::replace(list.begin(), list.end(), ':', ',');
  std::vector<int64_t> sizes;
  for (const std::string& word : words(list)) {
    int64_t size = 0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (fault == std::errc() && end == word.data() + word.size()) sizes.push_back(size);
  }
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] < sizes[0] || sizes[2] < sizes[1]) {
    refuse("batch", value, "dynamic, fixed, or a smallest, usual and largest size: (1, 8, 64)");
  }
  spec.smallest_batch = sizes[0], spec.usual_batch = sizes[1], spec.largest_batch = sizes[2];
}

void set_own(Spec& spec, const std::string& keyword, const std::string& value) {
  if (keyword == "data_names") {
    spec.data_names = words(value);
  } else if (keyword == "batch") {
    set_batch(spec, value);
  } else if (keyword == "engines") {
    spec.engines = words(value);
  } else if (keyword == "strict") {
    spec.strict = truth(keyword, value);
  } else if (keyword == "onnx") {
    spec.onnx_folder = value;
  } else if (keyword == "scratch") {
    if (value != "own" && value != "mxnet") refuse(keyword, value, "own or mxnet");
    spec.shares_scratch = value == "mxnet";
  } else {
    std::string known = "batch, data_names, onnx, scratch, strict";
    for (const auto& [name, row] : keywords_of_graft()) known += ", " + name;
    throw Failure("the backend graft has no option '" + keyword + "'; it has " + known);
  }
}

}  // namespace

Spec parse_spec(const std::unordered_map<std::string, std::string>& keywords) {
  Spec spec;
  for (const auto& [keyword, value] : std::map<std::string, std::string>(keywords.begin(), keywords.end())) {
    const auto row = keywords_of_graft().find(keyword);
    if (row == keywords_of_graft().end()) {
      set_own(spec, keyword, value);
      continue;
    }
    if (keyword == "precision" && (value == "int8" || value == "fp8" || value == "int4")) spec.is_int8 = true;
    if (keyword == "calibration_iters") spec.learns = true;
    if (keyword == "device") spec.device = value;
    Choices& choices = row->second.takes == Takes::kPartition ? spec.partition : spec.compiling;
    if (keyword == "join") {
      choices.emplace_back(row->second.key, truth(keyword, value) ? "true" : "false");
      continue;
    }
    if (value.find('\n') != value.npos || keyword == "calibration_file") {  // a text, such as definitions of operators
      choices.emplace_back(row->second.key, value);
      continue;
    }
    for (const std::string& word : words(value)) choices.emplace_back(row->second.key, word);
  }
  return spec;
}

std::vector<graft_option> as_options(const Choices& choices) {
  std::vector<graft_option> options;
  for (const auto& [key, value] : choices) options.push_back({key.c_str(), value.c_str()});
  return options;
}

}  // namespace graft::extension
