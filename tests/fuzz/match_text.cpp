// SPDX-License-Identifier: Apache-2.0
// Any bytes as a regular expression or stop words, and as strings: the kernels that look inside of strings give as many
// results as there are strings, or refuse what they are given. The time of one input is bounded by the runner.
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/host_kernel.h"
#include "kernels/text/text_kernels.h"

namespace {

using namespace graft;

constexpr size_t kMostRepeats = 1 << 12;

/// The parts between zeros.
std::vector<std::string> parts_of(const uint8_t* data, size_t size) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(static_cast<char>(data[i]));
    }
  }
  return parts;
}

std::string drawn(const std::vector<std::string>& parts, size_t k) { return k < parts.size() ? parts[k] : ""; }

/// What the kernel gives; nothing when it refuses its node or its input.
std::vector<DynamicValue> run(const Node& node, MakeHostKernel make, const std::vector<DynamicValue>& inputs) {
  try {
    return make(node)(inputs);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) __builtin_trap();
    return {};
  }
}

const TensorData* only_tensor(const std::vector<DynamicValue>& values) {
  if (values.empty()) return nullptr;
  if (values.size() != 1 || values[0].kind() != DynamicValue::Kind::kTensor) __builtin_trap();
  return &values[0].tensor();
}

void match(const std::string& pattern, const DynamicValue& texts, int64_t count) {
  Node node{.name = "n", .domain = "", .op = "RegexFullMatch", .attributes = {{"pattern", pattern}}};
  const std::vector<DynamicValue> results = run(node, make_regex_full_match, {texts});
  const TensorData* matches = only_tensor(results);
  if (matches && (matches->type() != DType::kBool || matches->element_count() != count)) __builtin_trap();
}

void normalize(const std::vector<std::string>& words, const std::string& locale, uint8_t choice,
               const DynamicValue& texts, int64_t count) {
  const char* const actions[] = {"NONE", "LOWER", "UPPER"};
  Attributes attributes = {{"case_change_action", std::string(actions[choice % 3])},
                           {"is_case_sensitive", int64_t{choice / 3 % 2}},
                           {"stopwords", words}};
  if (!locale.empty()) attributes["locale"] = locale;
  const Node node{.name = "n", .domain = "", .op = "StringNormalizer", .attributes = attributes};
  const std::vector<DynamicValue> results = run(node, make_string_normalizer, {texts});
  const TensorData* kept = only_tensor(results);
  if (kept && (kept->type() != DType::kString || kept->element_count() > std::max<int64_t>(count, 1))) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const uint8_t choice = data[0];
  const size_t repeats = static_cast<size_t>(data[1]) * data[2] % kMostRepeats + 1;
  const std::vector<std::string> parts = parts_of(data + 3, size - 3);
  std::vector<std::string> texts(parts.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(2, parts.size())),
                                 parts.end());
  std::string longest;  // what makes a matcher that steps back never end
  for (size_t i = 0; i < repeats; ++i) longest += drawn(parts, 2).substr(0, 64);
  texts.push_back(longest);
  const auto count = static_cast<int64_t>(texts.size());
  const DynamicValue value = TensorData::from_strings({count}, texts);
  match(drawn(parts, 0), value, count);
  normalize(parts, drawn(parts, 1), choice, value, count);
  return 0;
}
