// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer: counts of n-grams, whose tokens may have others between them.
#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/run_limits.h"
#include "kernels/host_kernel.h"

namespace graft {
namespace {

using Inputs = std::span<const DynamicValue>;

/// Tokens by number: the n-grams and the texts are lists of those.
class Vocabulary {
 public:
  explicit Vocabulary(const Node& node) {
    const KernelAttributes attributes(node);
    const std::vector<int64_t> numbers = attributes.integers("pool_int64s");
    const std::vector<std::string> texts = attributes.texts("pool_strings");
    GRAFT_USER_CHECK(numbers.empty() != texts.empty(), kInvalidModel, "it has either pool_int64s or pool_strings", "");
    of_texts_ = !texts.empty();
    for (const int64_t number : numbers) pool_.push_back(numbers_.emplace(number, numbers_.size()).first->second);
    for (const std::string& text : texts) pool_.push_back(texts_.emplace(text, texts_.size()).first->second);
  }

  /// The tokens of the pool, one n-gram behind the other.
  const std::vector<size_t>& pool() const { return pool_; }

  static constexpr size_t kUnknown = static_cast<size_t>(-1);
  size_t token(const TensorData& x, int64_t at) const {
    if (of_texts_) {
      const auto known = texts_.find(x.strings()[static_cast<size_t>(at)]);
      return known == texts_.end() ? kUnknown : known->second;
    }
    const auto known = numbers_.find(x.read_integer(at));
    return known == numbers_.end() ? kUnknown : known->second;
  }
  void check(const TensorData& x) const {
    const bool fits = of_texts_ ? x.type() == DType::kString : is_integer(x.type());
    if (!fits) refuse_input(fmt::format("its n-grams are of {}, and it is given {}", of_texts_ ? "strings" : "integers",
                                        describe(x)));
  }

 private:
  bool of_texts_ = false;
  std::unordered_map<int64_t, size_t> numbers_;
  std::unordered_map<std::string, size_t> texts_;
  std::vector<size_t> pool_;
};

class TfIdf {
 public:
  explicit TfIdf(const Node& node) : vocabulary_(node) {
    const KernelAttributes attributes(node);
    shortest_ = attributes.integer("min_gram_length", 0);
    longest_ = attributes.integer("max_gram_length", 0);
    skips_ = attributes.integer("max_skip_count", 0);
    mode_ = attributes.text("mode", "");
    weights_ = attributes.reals("weights");
    coordinates_ = attributes.integers("ngram_indexes");
    constexpr int64_t kLongest = 1 << 16;
    check(shortest_ >= 1 && longest_ >= shortest_ && longest_ <= kLongest, "its lengths of n-grams are no range");
    check(skips_ >= 0 && skips_ <= std::numeric_limits<int32_t>::max(), "its max_skip_count is out of range");
    check(mode_ == "TF" || mode_ == "IDF" || mode_ == "TFIDF", "its mode is " + mode_);
    check(!coordinates_.empty() && *std::min_element(coordinates_.begin(), coordinates_.end()) >= 0,
          "its ngram_indexes are missing or negative");
    row_ = *std::max_element(coordinates_.begin(), coordinates_.end()) + 1;
    check(weights_.empty() || static_cast<int64_t>(weights_.size()) >= row_ || mode_ == "TF",
          "it has fewer weights than coordinates");
    read_grams(attributes.integers("ngram_counts"));
  }

  TensorData run(const TensorData& x) const {
    vocabulary_.check(x);
    if (x.rank() != 1 && x.rank() != 2) refuse_input(fmt::format("it takes tokens [C] or [N, C], not {}", describe(x)));
    const int64_t rows = x.rank() == 1 ? 1 : x.shape()[0], length = x.shape().back();
    std::vector<int64_t> shape = x.shape();
    shape.back() = row_;
    TensorData result = TensorData::zeros(DType::kFloat32, std::move(shape));
    const std::span<float> counts = result.mutable_as<float>();
    std::vector<size_t> tokens(static_cast<size_t>(length));
    for (int64_t r = 0; r < rows; ++r) {
      stop_if_requested();
      for (int64_t i = 0; i < length; ++i) tokens[static_cast<size_t>(i)] = vocabulary_.token(x, r * length + i);
      const auto row = counts.subspan(static_cast<size_t>(r * row_), static_cast<size_t>(row_));
      count(tokens, row);
      weigh(row);
    }
    return result;
  }

 private:
  static void check(bool good, const std::string& message) { GRAFT_USER_CHECK(good, kInvalidModel, message, ""); }

  /// The pool holds the n-grams of one token, then those of two and so on, which begin at `starts`.
  void read_grams(const std::vector<int64_t>& starts) {
    const std::vector<size_t>& pool = vocabulary_.pool();
    const auto total = static_cast<int64_t>(pool.size());
    size_t number = 0;
    for (size_t k = 0; k < starts.size(); ++k) {
      const int64_t begin = starts[k], end = k + 1 < starts.size() ? starts[k + 1] : total;
      const auto length = static_cast<int64_t>(k) + 1;
      check(begin >= 0 && begin <= end && end <= total && (end - begin) % length == 0,
            "its ngram_counts do not fit its pool");
      for (int64_t at = begin; at < end; at += length, ++number) {
        check(number < coordinates_.size(), "it has fewer ngram_indexes than n-grams");
        if (length < shortest_ || length > longest_) continue;
        const auto first = pool.begin() + at;
        grams_[std::vector<size_t>(first, first + length)] = coordinates_[number];
      }
    }
  }

  /// N-grams of neighbours, then those with one token left out between each two of theirs, and so on.
  void count(const std::vector<size_t>& tokens, std::span<float> row) const {
    const auto length = static_cast<int64_t>(tokens.size());
    int64_t shortest = shortest_;
    std::vector<size_t> gram;
    for (int64_t distance = 1; distance <= std::min(skips_ + 1, std::max<int64_t>(length, 1)); ++distance) {
      stop_if_requested();
      for (int64_t begin = 0; begin + distance * (shortest - 1) < length; ++begin) {
        stop_if_requested();
        gram.clear();
        for (int64_t at = begin; at < length && static_cast<int64_t>(gram.size()) < longest_; at += distance) {
          const size_t token = tokens[static_cast<size_t>(at)];
          if (token == Vocabulary::kUnknown) break;
          gram.push_back(token);
          if (static_cast<int64_t>(gram.size()) < shortest) continue;
          const auto known = grams_.find(gram);
          if (known != grams_.end()) row[static_cast<size_t>(known->second)] += 1;
        }
      }
      // Single tokens have nothing between them: they are counted once.
      if (shortest == 1 && ++shortest > longest_) return;
    }
  }

  void weigh(std::span<float> row) const {
    if (mode_ == "TF") return;
    for (size_t i = 0; i < row.size(); ++i) {
      if (mode_ == "IDF") row[i] = row[i] > 0 ? 1.0f : 0.0f;
      if (!weights_.empty()) row[i] *= static_cast<float>(weights_[i]);
    }
  }

  Vocabulary vocabulary_;
  int64_t shortest_ = 0, longest_ = 0, skips_ = 0, row_ = 0;
  std::string mode_;
  std::vector<double> weights_;
  std::vector<int64_t> coordinates_;
  std::map<std::vector<size_t>, int64_t> grams_;  ///< the coordinate of each
};

}  // namespace

HostKernel make_tf_idf_vectorizer(const Node& node) {
  const auto table = std::make_shared<const TfIdf>(node);
  return [table](Inputs inputs) { return std::vector<DynamicValue>{table->run(tensor_input(inputs, 0))}; };
}

}  // namespace graft
