// SPDX-License-Identifier: Apache-2.0
// StringNormalizer, with the letters of ICU.
#include <memory>
#include <unordered_set>

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/text/text_kernels.h"

namespace graft {
namespace {

enum class Case : uint8_t { kKeep, kLower, kUpper };

class Normalizer {
 public:
  explicit Normalizer(const Node& node) {
    const KernelAttributes attributes(node);
    const std::string action = attributes.text("case_change_action", "NONE");
    GRAFT_USER_CHECK(action == "NONE" || action == "LOWER" || action == "UPPER", kInvalidModel,
                     "its case_change_action is " + action, "");
    action_ = action == "LOWER" ? Case::kLower : action == "UPPER" ? Case::kUpper : Case::kKeep;
    ignores_case_ = attributes.integer("is_case_sensitive", 0) == 0;
    const std::string name = attributes.text("locale", "en_US");
    locale_ = icu::Locale::createCanonical(name.c_str());
    GRAFT_USER_CHECK(!locale_.isBogus(), kInvalidModel,
                     fmt::format("its locale is \"{}\", which ICU does not know", printable(name)), "");
    for (const std::string& word : attributes.texts("stopwords")) stopwords_.insert(compared(word));
  }

  std::vector<DynamicValue> run(const TensorData& x) const {
    const bool fits = x.rank() == 1 || (x.rank() == 2 && x.shape()[0] == 1);
    if (!fits) refuse_input(fmt::format("it takes strings [C] or [1, C], not {}", describe(x)));
    std::vector<std::string> kept;
    TextMeter meter;
    for (const std::string& text : x.strings()) {
      meter.take(text.size());
      if (!stopwords_.contains(compared(text))) kept.push_back(changed(text, action_));
    }
    if (kept.empty()) kept.emplace_back();
    const auto count = static_cast<int64_t>(kept.size());
    std::vector<int64_t> shape = x.rank() == 1 ? std::vector<int64_t>{count} : std::vector<int64_t>{1, count};
    return {TensorData::from_strings(std::move(shape), std::move(kept))};
  }

 private:
  std::string compared(const std::string& text) const {
    return ignores_case_ ? changed(text, Case::kLower) : text;
  }

  std::string changed(const std::string& text, Case action) const {
    if (action == Case::kKeep) return text;
    constexpr size_t kLongest = size_t{1} << 30;
    if (text.size() > kLongest) refuse_input(fmt::format("a string has {} bytes, more than ICU takes", text.size()));
    icu::UnicodeString letters = icu::UnicodeString::fromUTF8(text);
    if (action == Case::kLower) {
      letters.toLower(locale_);
    } else {
      letters.toUpper(locale_);
    }
    std::string result;
    letters.toUTF8String(result);
    return result;
  }

  Case action_ = Case::kKeep;
  bool ignores_case_ = true;
  icu::Locale locale_;
  std::unordered_set<std::string> stopwords_;  ///< as they are compared
};

}  // namespace

HostKernel make_string_normalizer(const Node& node) {
  const auto normalizer = std::make_shared<const Normalizer>(node);
  return [normalizer](std::span<const DynamicValue> inputs) {
    return normalizer->run(tensor_input(inputs, 0, DType::kString));
  };
}

}  // namespace graft
