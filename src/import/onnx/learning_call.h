// SPDX-License-Identifier: Apache-2.0
// What operators of ai.onnx.ml have in common: tables out of attributes, scores and labels.
#pragma once

#include <string_view>
#include <vector>

#include "import/onnx/contrib_call.h"

namespace graft {

/// A constant of these numbers.
ValueId floats_of(ContribCall& call, std::string_view name, const std::vector<double>& values,
                  std::vector<int64_t> shape, DType type = DType::kFloat32);
ValueId floats_of(ContribCall& call, std::string_view name, const std::vector<double>& values);
ValueId strings_of(ContribCall& call, std::string_view name, const std::vector<std::string>& values);

/// The first input as [rows, features]; one axis is one row.
ValueId rows_of(ContribCall& call, DType type = DType::kFloat32);

/// The attribute `post_transform` applied to scores [rows, n].
ValueId transformed(ContribCall& call, ValueId scores, std::string_view transform);
ValueId transformed(ContribCall& call, ValueId scores);

/// The scores of two classes from that of one, [rows, 1].
ValueId complement(ContribCall& call, ValueId score);  ///< 1 - s, s
ValueId opposites(ContribCall& call, ValueId score);   ///< -s, s

/// The names of classes, integers or strings.
struct Labels {
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  size_t size() const { return texts.empty() ? integers.size() : texts.size(); }
};
Labels labels_of(ContribCall& call, std::string_view integers, std::string_view texts);
/// The label of each place, an i64 tensor.
ValueId label_at(ContribCall& call, const Labels& labels, ValueId place);
/// The label of the largest of scores [rows, n].
ValueId best_label(ContribCall& call, const Labels& labels, ValueId scores);
/// The label 1 where a condition [rows, 1] holds, else 0; without two labels the numbers 1 and 0 themselves.
ValueId label_if(ContribCall& call, const Labels& labels, ValueId condition);

/// The probabilities of classes, [rows, classes], from those of the first of each pair of them, [rows, pairs].
ValueId coupled_probabilities(ContribCall& call, ValueId pairs, int64_t classes);

}  // namespace graft
