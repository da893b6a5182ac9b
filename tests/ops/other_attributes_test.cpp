// SPDX-License-Identifier: Apache-2.0
// Every sample again with one attribute changed or left out, one input of another type or left out, or other elements
// of a list that is known when compiling: refused with a reason, or a definition whose text goes into a digest.
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "graph/op_def.h"
#include "support/golden_file.h"
#include "support/sample_case.h"
#include "support/try_definition.h"

namespace graft {
namespace {

/// An attribute of the same type with other contents.
std::vector<Attribute> other_values(const Attribute& value) {
  std::vector<Attribute> others;
  const auto lists = [&](const auto& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      for (const int step : {-1, 1}) {
        auto other = list;
        other[i] += static_cast<std::decay_t<decltype(list[0])>>(step);
        others.push_back(other);
      }
    }
    auto longer = list, shorter = list;
    longer.push_back(list.empty() ? 1 : list.back());
    others.push_back(longer);
    if (!list.empty()) shorter.pop_back(), others.push_back(shorter);
  };
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    for (const int64_t other : {*integer - 1, *integer + 1, *integer + 7, -*integer - 2}) others.emplace_back(other);
  } else if (const auto* real = std::get_if<double>(&value)) {
    for (const double other : {*real + 0.5, -*real, 0.0, 1.0}) others.emplace_back(other);
  } else if (std::holds_alternative<std::string>(value)) {
    for (const char* other : {"", "other"}) others.emplace_back(std::string(other));
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    lists(*integers);
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    lists(*reals);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> longer = *texts, other = *texts;
    longer.emplace_back(texts->empty() ? "other" : texts->back());
    others.emplace_back(longer);
    if (!texts->empty()) other[0] = "other", others.emplace_back(other), other.pop_back(), others.emplace_back(other);
  }
  return others;
}

/// The sample with one attribute changed: of its own, or of those that it leaves at their defaults.
void change_attributes(const SampleCase& sample, std::map<std::string, SampleCase>& changed) {
  for (const AttributeSpec& spec : sample.op->attributes) {
    const std::string name(spec.name);
    const auto own = sample.sample.attributes.find(name);
    const bool is_own = own != sample.sample.attributes.end();
    const std::vector<Attribute> others = other_values(is_own ? own->second : spec.default_value);
    for (size_t i = 0; i < others.size(); ++i) {
      SampleCase& c = changed[fmt::format("{} {}", name, i)] = sample;
      c.sample.attributes[name] = others[i];
    }
    if (is_own) (changed[name + " left out"] = sample).sample.attributes.erase(name);
  }
}

/// The sample with one input of another element type, left out, or of other integers where it is known when compiling.
void change_inputs(const SampleCase& sample, std::map<std::string, SampleCase>& changed) {
  for (size_t input = 0; input < sample.inputs.size(); ++input) {
    const TensorData& data = sample.inputs[input];
    if (!data || data.type() == DType::kString || kind_of(data.type()) == DTypeKind::kComplex) continue;
    for (const DType type : {DType::kInt32, DType::kFloat64, DType::kBool}) {
      if (type == data.type()) continue;
      SampleCase& c = changed[fmt::format("input {} as {}", input, name_of(type))] = sample;
      c.inputs[input] = TensorData::zeros(type, data.shape());
      c.sample.inputs[input].type = type;
    }
    SampleCase& without = changed[fmt::format("input {} left out", input)] = sample;
    without.inputs[input] = {};
    without.sample.inputs[input].absent = true;
    if (!sample.sample.inputs[input].constant || is_float(data.type()) || data.element_count() > 8) continue;
    for (int64_t i = 0; i < data.element_count(); ++i) {
      for (const int step : {-1, 1}) {
        SampleCase& c = changed[fmt::format("input {} element {} {:+}", input, i, step)] = sample;
        c.inputs[input].write_integer(i, static_cast<int64_t>(static_cast<uint64_t>(data.read_integer(i)) + step));
      }
    }
  }
}

/// Why changed samples of a case's operator are refused, each reason once; how many are taken, and as what.
std::string outcomes_of(const golden::File&, const golden::Case& of) {
  static const std::vector<SampleCase> samples = all_sample_cases();
  std::set<std::string> reasons;
  Hasher taken;
  int count = 0;
  for (const SampleCase& sample : samples) {
    if (sample.op->name != of.name) continue;
    std::map<std::string, SampleCase> changed;
    change_attributes(sample, changed);
    change_inputs(sample, changed);
    for (const auto& [what, c] : changed) {
      for (const Openness openness : {Openness::kContents, Openness::kSizes}) {
        SCOPED_TRACE(fmt::format("{}: {}", sample.sample.name, what));
        const Tried tried = try_definition(c, openness);
        if (testing::Test::HasFailure()) return "";
        if (tried.refusal.empty()) {
          ++count;
          taken.add(tried.definition);
        } else {
          reasons.insert(tried.refusal);
        }
      }
    }
  }
  std::string text;
  for (const std::string& reason : reasons) text += reason + "\n";
  return text + fmt::format("taken: {}, {}\n", count, taken.finish().to_string());
}

class OtherAttributes : public testing::TestWithParam<std::string> {};

/// `./dev update` rewrites the file, and adds a case for an operator that is new.
TEST_P(OtherAttributes, are_refused_or_mean_what_the_golden_file_says) {
  const golden::File file = golden::read_folder("attributes").at(0);
  ASSERT_TRUE(golden::has_case(file.path, GetParam())) << file.path << " lacks " << GetParam() << ": ./dev update";
  golden::check(file.path, GetParam(), outcomes_of);
}

INSTANTIATE_TEST_SUITE_P(all, OtherAttributes, testing::ValuesIn(operators_with_samples()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace graft
