// SPDX-License-Identifier: Apache-2.0
// The head of TensorFlow's detectors.
#include <limits>

#include "graph/symbols.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

constexpr float kNever = -std::numeric_limits<float>::infinity();  // the score of a box that is not kept

/// CombinedNonMaxSuppression: of each class the best boxes that do not cover one another, of these the best of an
/// image, zeros behind them. The kept ones' scores stand at their places among all, from which TopK takes.
class CombinedSuppression {
 public:
  explicit CombinedSuppression(Conversion& c) : c_(c), boxes_(c.tensor("boxes")), scores_(c.tensor("scores")) {
    shared_ = c.size_of(boxes_, 2).is(1);
    classes_ = known_size(scores_, 2, "the number of classes");
    if (!shared_ && !c.size_of(boxes_, 2).is(classes_)) c.refuse("boxes of neither all classes nor each");
    most_ = c.integer("max_total_size");
    const int64_t of_class = c.integer("max_output_size_per_class");
    if (c.flag("pad_per_class")) most_ = std::min(most_, c.product(of_class, classes_));
    if (most_ < 1 || of_class < 1) c.refuse("it keeps no boxes");
  }

  void convert() {
    arrange();
    const auto best = c_.add_several("TopK", {kept_scores(), c_.integers_constant({most_})},
                                     {{"axis", int64_t{-1}}}, 2);
    const ValueId valid = c_.add("Greater", {best[0], number(kNever)}), zero = number(0);
    const ValueId index = c_.add("Where", {valid, best[1], integer(0)});
    const ValueId count = c_.add("Gather", {c_.add("Shape", {columns_}), integer(1)});
    const ValueId place = shared_ ? c_.add("Mod", {index, count}) : index;
    const ValueId kind = c_.cast(c_.add("Div", {index, count}), DType::kFloat32);
    ValueId found = c_.add("GatherND", {flat_boxes_, c_.add("Unsqueeze", {place, c_.integers_constant({-1})})},
                           {{"batch_dims", int64_t{1}}});
    if (c_.flag("clip_boxes")) found = c_.add("Clip", {found, zero, number(1)});
    const ValueId row_valid = c_.add("Unsqueeze", {valid, c_.integers_constant({-1})});
    const ValueId valid_count = c_.add("ReduceSum", {c_.cast(valid, DType::kInt32), c_.integers_constant({1})},
                                       {{"keepdims", int64_t{0}}});
    c_.give({c_.add("Where", {row_valid, found, zero}), c_.add("Where", {valid, best[0], zero}),
             c_.add("Where", {valid, kind, zero}), valid_count});
  }

 private:
  int64_t known_size(ValueId value, int64_t axis, const char* what) {
    const auto size = c_.size_of(value, axis).as_constant();
    if (!size) c_.refuse(std::string(what) + " is known only while running");
    return *size;
  }
  ValueId size_of(ValueId value, int64_t axis) {
    return c_.add("Shape", {value}, {{"start", axis}, {"end", axis + 1}});
  }
  ValueId joined(std::vector<ValueId> sizes) {
    return c_.add("Concat", std::move(sizes), {{"axis", int64_t{0}}});
  }
  ValueId number(double element) { return c_.real_constant(element, DType::kFloat32); }
  ValueId integer(int64_t element) {
    return c_.constant(TensorData::from_values(DType::kInt64, {}, std::vector{element}));
  }

  /// Boxes and scores as NonMaxSuppression takes them; where each class has its own boxes, as an image of its own.
  void arrange() {
    const ValueId by_class = c_.add("Transpose", {scores_}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    if (shared_) {
      columns_ = rows_ = c_.add("Squeeze", {boxes_, c_.integers_constant({2})});
      flat_boxes_ = columns_, row_scores_ = by_class;
      return;
    }
    const ValueId turned = c_.add("Transpose", {boxes_}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const ValueId images = size_of(boxes_, 0), count = size_of(boxes_, 1), classes = c_.integers_constant({classes_});
    const ValueId one = c_.integers_constant({1}), corners = c_.integers_constant({4});
    const ValueId rows = c_.add("Mul", {images, classes});
    rows_ = c_.add("Reshape", {turned, joined({rows, count, corners})});
    flat_boxes_ = c_.add("Reshape", {turned, joined({images, c_.add("Mul", {classes, count}), corners})});
    row_scores_ = c_.add("Reshape", {by_class, joined({rows, one, count})});
    columns_ = boxes_;
  }

  /// By image the scores of all boxes of all classes, and behind them so many of no box.
  ValueId kept_scores() {
    const ValueId of_class = c_.add("Reshape", {c_.cast(c_.tensor("max_output_size_per_class"), DType::kInt64),
                                                c_.integers_constant({1})});
    const auto threshold = [&](const char* name) {
      return c_.add("Reshape", {c_.tensor(name), c_.integers_constant({1})});
    };
    const Size count = Size::symbol(dimension_symbol(c_.node().name + "_kept"));
    const ValueId kept = c_.add_described("NonMaxSuppression", {rows_, row_scores_, of_class,
                                                                threshold("iou_threshold"),
                                                                threshold("score_threshold")},
                                          DType::kInt64, Shape{count, Size(3)});
    const ValueId none = c_.add("Expand", {number(kNever), c_.add("Shape", {row_scores_})});
    const ValueId marked = c_.add("ScatterND", {none, kept, c_.add("GatherND", {row_scores_, kept})});
    const ValueId image = c_.add("Gather", {c_.add("Shape", {scores_}), c_.integers_constant({0})});
    const ValueId all = c_.add("Reshape", {marked, c_.add("Concat", {image, c_.integers_constant({-1})},
                                                          {{"axis", int64_t{0}}})});
    const ValueId padding = c_.add("Expand", {number(kNever), c_.add("Concat", {image, c_.integers_constant({most_})},
                                                                     {{"axis", int64_t{0}}})});
    return c_.add("Concat", {all, padding}, {{"axis", int64_t{1}}});
  }

  Conversion& c_;
  ValueId boxes_, scores_;
  bool shared_ = false;  ///< one set of boxes for all classes
  int64_t classes_ = 0, most_ = 0;
  ValueId rows_ = kNoValue, row_scores_ = kNoValue, flat_boxes_ = kNoValue;
  ValueId columns_ = kNoValue;  ///< what has the boxes of a class along its second axis
};

}  // namespace

std::vector<frontend::Row> detection_rows() {
  return {
      {"CombinedNonMaxSuppression(float:4 boxes, float:3 scores, int32:0 max_output_size_per_class, int32:0 "
       "max_total_size, float:0 iou_threshold, float:0 score_threshold, *, pad_per_class=False, clip_boxes=True)",
       [](Conversion& c) { CombinedSuppression(c).convert(); }},
  };
}

}  // namespace graft::tensorflow
