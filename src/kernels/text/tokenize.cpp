// SPDX-License-Identifier: Apache-2.0
// Tokenizer of com.microsoft, as converters of scikit-learn write it: by expressions of RE2, whose time is linear.
#include <algorithm>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/run_limits.h"
#include "kernels/text/text_kernels.h"

namespace graft {
namespace {

constexpr int64_t kMostExpressionBytes = int64_t{16} << 20;
constexpr const char *kFirst = "\x02", *kLast = "\x03";  // marks of text

using Tokens = BudgetVector<std::string_view>;

std::unique_ptr<RE2> expression(const std::string& pattern, const char* attribute) {
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kMostExpressionBytes);
  options.set_longest_match(true);
  auto made = std::make_unique<RE2>(pattern, options);
  GRAFT_USER_CHECK(made->ok(), kInvalidModel,
                   fmt::format("its {} is no regular expression of RE2: {}", attribute, made->error()), "");
  return made;
}

/// Letters of UTF-8: bytes that continue none.
int64_t letters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

class Tokenizer {
 public:
  explicit Tokenizer(const Node& node) {
    const KernelAttributes attributes(node);
    mark_ = attributes.integer("mark", 0) != 0;
    least_ = attributes.integer("mincharnum", 1);
    pad_ = attributes.text("pad_value", "");
    const std::string tokens = attributes.text("tokenexp", "");
    const std::vector<std::string> separators = attributes.texts("separators");
    GRAFT_USER_CHECK(least_ >= 1, kInvalidModel, "its mincharnum should be positive", "");
    GRAFT_USER_CHECK(tokens.empty() != separators.empty(), kInvalidModel,
                     "it needs one of the attributes tokenexp and separators", "");
    if (!tokens.empty()) tokens_ = expression(tokens, "tokenexp");
    letters_ = separators.size() == 1 && separators[0].empty();
    for (const std::string& separator : separators) {
      if (!letters_) separators_.push_back(expression(separator, "separator"));
    }
  }

  std::vector<DynamicValue> run(const TensorData& x) const {
    if (x.rank() < 1 || x.rank() > 2) refuse_input(fmt::format("it takes strings [C] or [N, C], not {}", describe(x)));
    std::vector<Tokens> rows;
    size_t most = 0;
    for (const std::string& text : x.strings()) {
      rows.push_back(tokens_of(text));
      most = std::max(most, rows.back().size());
    }
    const size_t width = most + (mark_ && !rows.empty() ? 2 : 0);
    std::vector<int64_t> shape = x.shape();
    shape.push_back(static_cast<int64_t>(width));
    const int64_t count = checked_element_count(DType::kString, shape);
    TextMeter meter;
    measure(meter, rows, count);
    std::vector<std::string> all;
    all.reserve(static_cast<size_t>(count));
    for (const Tokens& row : rows) {
      stop_if_requested();
      const size_t end = all.size() + width;
      if (mark_) all.emplace_back(kFirst);
      all.insert(all.end(), row.begin(), row.end());
      if (mark_) all.emplace_back(kLast);
      all.resize(end, pad_);
    }
    return {TensorData::from_strings(std::move(shape), std::move(all))};
  }

 private:
  /// Takes what the result needs from the budget, before it is made: one text of padding may be as long as many tokens.
  void measure(TextMeter& meter, const std::vector<Tokens>& rows, int64_t count) const {
    int64_t padding = count, letters = 0;
    for (const Tokens& row : rows) {
      padding -= std::ssize(row) + (mark_ ? 2 : 0);
      for (const std::string_view token : row) letters += std::ssize(token);
    }
    constexpr const char* kWhat = "the tokens of a text";
    letters += checked_product(padding, std::ssize(pad_), kWhat);
    meter.take(static_cast<size_t>(letters + checked_product(count, int64_t{sizeof(std::string)}, kWhat)));
  }

  Tokens tokens_of(std::string_view text) const {
    if (tokens_) return matches(text);
    if (letters_) return letters_of(text);
    Tokens parts = {text};
    for (const auto& separator : separators_) {
      Tokens finer;
      for (const std::string_view part : parts) split(part, *separator, finer);
      parts = std::move(finer);
    }
    std::erase_if(parts, [&](std::string_view part) { return letters(part) < least_; });
    return parts;
  }

  Tokens matches(std::string_view text) const {
    Tokens found;
    re2::StringPiece match;
    for (size_t at = 0; at <= text.size();) {
      stop_if_requested();  // to find one match may take the whole text
      if (!tokens_->Match({text.data(), text.size()}, at, text.size(), RE2::UNANCHORED, &match, 1)) break;
      const size_t begin = static_cast<size_t>(match.data() - text.data());
      if (!match.empty() && letters({match.data(), match.size()}) >= least_)
        found.push_back(text.substr(begin, match.size()));
      at = begin + std::max<size_t>(match.size(), 1);
    }
    return found;
  }

  static void split(std::string_view text, const RE2& separator, Tokens& into) {
    re2::StringPiece match;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      stop_if_requested();
      if (!separator.Match({text.data(), text.size()}, at, text.size(), RE2::UNANCHORED, &match, 1)) break;
      const size_t found = static_cast<size_t>(match.data() - text.data());
      at = found + std::max<size_t>(match.size(), 1);
      if (match.empty()) continue;
      if (found > begin) into.push_back(text.substr(begin, found - begin));
      begin = found + match.size();
    }
    if (begin < text.size()) into.push_back(text.substr(begin));
  }

  Tokens letters_of(std::string_view text) const {
    Tokens found;
    for (size_t at = 0; at < text.size() && least_ == 1;) {
      size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      found.push_back(text.substr(at, end - at));
      at = end;
    }
    return found;
  }

  bool mark_ = false, letters_ = false;
  int64_t least_ = 1;
  std::string pad_;
  std::unique_ptr<RE2> tokens_;
  std::vector<std::unique_ptr<RE2>> separators_;
};

}  // namespace

HostKernel make_tokenizer(const Node& node) {
  const auto tokenizer = std::make_shared<const Tokenizer>(node);
  return [tokenizer](std::span<const DynamicValue> inputs) {
    return tokenizer->run(tensor_input(inputs, 0, DType::kString));
  };
}

}  // namespace graft
