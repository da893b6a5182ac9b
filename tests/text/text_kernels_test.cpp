// SPDX-License-Identifier: Apache-2.0
// Kernels of strings that stand on RE2 and ICU.
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "kernels/text/text_kernels.h"

namespace graft {
namespace {

using Texts = std::vector<std::string>;

TensorData tensor(const Texts& texts) { return TensorData::from_strings({static_cast<int64_t>(texts.size())}, texts); }

TensorData run(const HostKernel& kernel, const Texts& texts) {
  const DynamicValue input = tensor(texts);
  return kernel({&input, 1})[0].tensor();
}

Node node(Attributes attributes) {
  Node made;
  made.attributes = std::move(attributes);
  return made;
}

TEST(RegexFullMatch, takes_time_in_proportion_to_the_text) {
  const HostKernel kernel = make_regex_full_match(node({{"pattern", std::string("(a*)*(a|b)*(a*)*c")}}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run(kernel, {std::string(1 << 20, 'a'), "aabac", ""}),
            TensorData::from_values<int64_t>(DType::kBool, {3}, {0, 1, 0}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));  // backtracking would take for ever
}

TEST(RegexFullMatch, refuses_what_is_no_expression_or_a_too_large_one) {
  for (const std::string pattern : {"(", "(?=a)", "((a{100}){100}){100}"}) {
    EXPECT_THROW(make_regex_full_match(node({{"pattern", pattern}})), Error) << pattern;
  }
}

TEST(StringNormalizer, changes_the_letters_of_the_locale) {
  const auto upper = [](const std::string& locale) {
    return make_string_normalizer(node({{"case_change_action", std::string("UPPER")}, {"locale", locale}}));
  };
  EXPECT_EQ(run(upper("en_US"), {"i", "stra\xC3\x9F""e"}).strings(), (Texts{"I", "STRASSE"}));
  EXPECT_EQ(run(upper("tr_TR"), {"i"}).strings(), (Texts{"\xC4\xB0"}));
}

TEST(StringNormalizer, leaves_out_stop_words_of_either_case_unless_it_is_asked_not_to) {
  const Attributes words = {{"stopwords", Texts{"\xC3\x89t\xC3\xA9"}}};
  Attributes sensitive = words;
  sensitive["is_case_sensitive"] = int64_t{1};
  const Texts given = {"\xC3\xA9t\xC3\xA9", "a"};
  EXPECT_EQ(run(make_string_normalizer(node(words)), given).strings(), (Texts{"a"}));
  EXPECT_EQ(run(make_string_normalizer(node(sensitive)), given).strings(), given);
  EXPECT_EQ(run(make_string_normalizer(node(words)), {given[0]}).strings(), (Texts{""}));
}

TensorData tokens(Attributes attributes, const Texts& texts) {
  attributes.try_emplace("mark", int64_t{0});
  attributes.try_emplace("mincharnum", int64_t{1});
  attributes.try_emplace("pad_value", std::string("#"));
  return run(make_tokenizer(node(std::move(attributes))), texts);
}

TEST(Tokenizer, gives_what_an_expression_matches_and_fills_up_rows) {
  const Attributes words = {{"tokenexp", std::string("[a-z]+")}};
  EXPECT_EQ(tokens(words, {"red cat,dog", "", "sun"}),
            TensorData::from_strings({3, 3}, {"red", "cat", "dog", "#", "#", "#", "sun", "#", "#"}));
  Attributes long_ones = words;
  long_ones["mincharnum"] = int64_t{4};
  long_ones["mark"] = int64_t{1};
  EXPECT_EQ(tokens(long_ones, {"moon on", "a"}),
            TensorData::from_strings({2, 3}, {"\x02", "moon", "\x03", "\x02", "\x03", "#"}));
}

TEST(Tokenizer, splits_at_each_separator_or_letter) {
  EXPECT_EQ(tokens({{"separators", Texts{" ", "[.]", ","}}}, {"a b.c", ",d,", "e"}),
            TensorData::from_strings({3, 3}, {"a", "b", "c", "d", "#", "#", "e", "#", "#"}));
  EXPECT_EQ(tokens({{"separators", Texts{""}}}, {"gr\xc3\xbcn", "x"}),
            TensorData::from_strings({2, 4}, {"g", "r", "\xc3\xbc", "n", "x", "#", "#", "#"}));
  EXPECT_EQ(tokens({{"separators", Texts{" "}}}, {" ", ""}), TensorData::from_strings({2, 0}, {}));
}

TEST(Tokenizer, refuses_what_is_no_expression) {
  EXPECT_THROW(make_tokenizer(node({{"tokenexp", std::string("(")}})), Error);
  EXPECT_THROW(make_tokenizer(node({{"mincharnum", int64_t{1}}})), Error);
}

}  // namespace
}  // namespace graft
