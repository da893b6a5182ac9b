// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft that exporters and converters write: those that ai.onnx has under another spelling, and
// those that some of its operators make.
#include <limits>

#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

/// The node's operator as ai.onnx has it, with the same inputs and outputs.
void expand_same(ContribCall& call, std::string_view op, const Attributes& attributes) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < call.input_count(); ++i) inputs.push_back(call.maybe(i));
  call.out(0, call.emit(op, inputs, attributes));
}

void expand_trilu(ContribCall& call) { expand_same(call, "Trilu", {{"upper", call.integer("upper", 1)}}); }
void expand_pad(ContribCall& call) { expand_same(call, "Pad", {{"mode", call.text("mode", "constant")}}); }
void expand_range(ContribCall& call) { expand_same(call, "Range", {}); }
void expand_gather_nd(ContribCall& call) { expand_same(call, "GatherND", {}); }

void expand_grid_sample(ContribCall& call) {
  const std::string mode = call.text("mode", "bilinear");
  expand_same(call, "GridSample",
              {{"mode", mode == "bilinear"  ? "linear"
                        : mode == "bicubic" ? "cubic"
                                            : mode},
               {"padding_mode", call.text("padding_mode", "zeros")},
               {"align_corners", call.integer("align_corners", 0)}});
}

/// The values in the order in which they come first, the place of each element among them, and how often each occurs.
void expand_unique(ContribCall& call) {
  const std::vector<ValueId> found = call.emit(4, "Unique", {call.in(0)}, {{"sorted", int64_t{0}}});
  call.out(0, found[0]);
  call.out(1, found[2]);
  call.out(2, found[3]);
}

void expand_expand_dims(ContribCall& call) {
  const ValueId axis = call.emit("Reshape", {call.cast(call.in(1), DType::kInt64), call.integers({1})});
  call.out(0, call.emit("Unsqueeze", {call.in(0), axis}));
}

/// Distances between all rows of two matrices.
void expand_cdist(ContribCall& call) {
  const std::string metric = call.text("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean") call.unsupported("the metric '" + metric + "'");
  const ValueId difference = call.emit("Sub", {call.unsqueeze(call.in(0), {1}), call.unsqueeze(call.in(1), {0})});
  const ValueId squares = call.emit("ReduceSumSquare", {difference, call.integers({2})}, {{"keepdims", int64_t{0}}});
  call.out(0, metric == "euclidean" ? call.emit("Sqrt", {squares}) : squares);
}

/// Real numbers -> half of their spectrum, as pairs along a new last axis; further axes are transformed whole.
void expand_rfft(ContribCall& call) {
  const int64_t axes = call.integer("signal_ndim", 1), rank = call.rank(call.in(0));
  if (call.integer("normalized", 0) != 0) call.unsupported("a normalized spectrum");
  if (axes < 1 || axes > rank) call.reject("its attribute 'signal_ndim' does not fit its input");
  ValueId y = call.unsqueeze(call.in(0), {rank});
  for (int64_t a = 0; a < axes; ++a) {
    const bool half = a == 0 && call.integer("onesided", 1) != 0;
    y = call.emit("DFT", {y, kNoValue, call.integer(rank - 1 - a)}, {{"onesided", int64_t{half}}});
  }
  call.out(0, y);
}

/// The inverse of each matrix, by elimination of [matrix | identity] with pivots, one step for each row.
void expand_inverse(ContribCall& call) {
  constexpr int64_t kLargest = 32;
  const ValueId x = call.in(0);
  const int64_t rank = call.rank(x);
  if (rank < 2) call.reject("its input should have at least two axes");
  const int64_t n = call.constant_size(x, -1);
  if (n != call.constant_size(x, -2)) call.reject("its matrices are not square");
  if (n > kLargest) call.unsupported("matrices of more than " + std::to_string(kLargest) + " rows");
  const ValueId flat = call.emit("Reshape", {x, call.integers({-1, n, n})});
  TensorData identity = TensorData::zeros(call.type(x), {n, n});
  for (int64_t row = 0; row < n; ++row) identity.write_double(row * n + row, 1);
  const ValueId ones = call.constant("identity", std::move(identity));
  const ValueId beside = call.emit("Expand", {ones, call.emit("Shape", {flat})});
  ValueId rows = call.emit("Concat", {flat, beside}, {{"axis", int64_t{2}}});
  std::vector<int64_t> numbers;
  for (int64_t row = 0; row < n; ++row) numbers.push_back(row);
  const ValueId number = call.integers(numbers);
  const ValueId outside = call.scalar_like(-1, x);
  for (int64_t k = 0; k < n; ++k) {
    const ValueId at = call.integer(k), is_row = call.emit("Equal", {number, at});
    const ValueId column = call.emit("Abs", {call.emit("Gather", {rows, at}, {{"axis", int64_t{2}}})});
    const ValueId candidates = call.emit("Where", {call.emit("GreaterOrEqual", {number, at}), column, outside});
    const ValueId pivot = call.emit("ArgMax", {candidates}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
    const ValueId is_pivot = call.emit("Equal", {number, pivot});
    const ValueId order = call.emit("Where", {is_row, pivot, call.emit("Where", {is_pivot, at, number})});
    const ValueId places = call.emit("Expand", {call.unsqueeze(order, {2}), call.emit("Shape", {rows})});
    rows = call.emit("GatherElements", {rows, places}, {{"axis", int64_t{1}}});
    const ValueId top = call.emit("Gather", {rows, call.integers({k})}, {{"axis", int64_t{1}}});
    const ValueId unit =
        call.emit("Div", {top, call.emit("Gather", {top, call.integers({k})}, {{"axis", int64_t{2}}})});
    const ValueId factors = call.emit("Gather", {rows, call.integers({k})}, {{"axis", int64_t{2}}});
    const ValueId rest = call.emit("Sub", {rows, call.emit("Mul", {factors, unit})});
    rows = call.emit("Where", {call.unsqueeze(is_row, {1}), unit, rest});
  }
  const ValueId result = call.emit("Slice", {rows, call.integers({n}), call.integers({2 * n}), call.integers({2})});
  call.out(0, call.emit("Reshape", {result, call.emit("Shape", {x})}));
}

/// Where the samples of an axis of `size` elements lie, one row for each region: from its first bound to its last.
ValueId crop_places(ContribCall& call, ValueId first, ValueId last, ValueId size, int64_t count) {
  const ValueId steps = call.cast(call.emit("Sub", {size, call.integer(1)}), DType::kFloat32);
  if (count == 1) {
    const ValueId middle = call.emit("Mul", {call.emit("Add", {first, last}), call.scalar_like(0.5, first)});
    return call.emit("Mul", {middle, steps});
  }
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i));
  const ValueId length = call.emit("Mul", {call.emit("Sub", {last, first}), steps});
  const ValueId step = call.emit("Div", {length, call.scalar_like(static_cast<double>(count - 1), first)});
  return call.emit("Add", {call.emit("Mul", {first, steps}), call.emit("Mul", {call.floats(numbers), step})});
}

/// Regions of images, given by y and x of two corners between 0 and 1, sampled at a size.
void expand_crop_and_resize(ContribCall& call) {
  const std::string mode = call.text("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") call.unsupported("the mode '" + mode + "'");
  const auto size = call.known_integers(call.in(3));
  if (!size || size->size() != 2) call.unsupported("a crop_size that is not known when compiling");
  const ValueId x = call.transpose(call.in(0), {0, 2, 3, 1});
  const std::vector<ValueId> bounds =
      call.emit(4, "Split", {call.in(1)}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{4}}});
  const ValueId height = call.squeeze(call.size_of(x, 1), {0}), width = call.squeeze(call.size_of(x, 2), {0});
  const ValueId rows = call.unsqueeze(crop_places(call, bounds[0], bounds[2], height, (*size)[0]), {2});
  const ValueId columns = call.unsqueeze(crop_places(call, bounds[1], bounds[3], width, (*size)[1]), {1});
  const ValueId batches = call.unsqueeze(call.cast(call.in(2), DType::kInt64), {1, 2});
  const auto inside = [&](ValueId at, ValueId extent) {
    const ValueId last = call.cast(call.emit("Sub", {extent, call.integer(1)}), DType::kFloat32);
    return call.emit(
        "And", {call.emit("GreaterOrEqual", {at, call.scalar_like(0, at)}), call.emit("LessOrEqual", {at, last})});
  };
  const auto bounded = [&](ValueId at, ValueId extent) {
    const ValueId last = call.emit("Sub", {extent, call.integer(1)});
    return call.emit("Max", {call.emit("Min", {call.cast(at, DType::kInt64), last}), call.integer(0)});
  };
  const ValueId flat_shape = call.emit(
      "Concat", {call.size_of(call.in(1), 0), call.integers({(*size)[0], (*size)[1], 1})}, {{"axis", int64_t{0}}});
  const auto element = [&](ValueId row, ValueId column) {
    std::vector<ValueId> parts;
    for (const ValueId part : {batches, bounded(row, height), bounded(column, width)}) {
      parts.push_back(call.emit("Expand", {call.unsqueeze(part, {3}), flat_shape}));
    }
    return call.emit("GatherND", {x, call.emit("Concat", parts, {{"axis", int64_t{3}}})});
  };
  ValueId y = kNoValue;
  if (mode == "nearest") {
    y = element(call.emit("Round", {rows}), call.emit("Round", {columns}));
  } else {
    const ValueId top = call.emit("Floor", {rows}), left = call.emit("Floor", {columns});
    const ValueId bottom = call.emit("Ceil", {rows}), right = call.emit("Ceil", {columns});
    const ValueId down = call.unsqueeze(call.emit("Sub", {rows, top}), {3});
    const ValueId across = call.unsqueeze(call.emit("Sub", {columns, left}), {3});
    const auto between = [&](ValueId a, ValueId b, ValueId share) {
      return call.emit("Add", {a, call.emit("Mul", {call.emit("Sub", {b, a}), share})});
    };
    y = between(between(element(top, left), element(top, right), across),
                between(element(bottom, left), element(bottom, right), across), down);
  }
  const ValueId kept = call.unsqueeze(call.emit("And", {inside(rows, height), inside(columns, width)}), {3});
  y = call.emit("Where", {kept, y, call.scalar_like(call.real("extrapolation_value", 0), y)});
  call.out(0, call.transpose(y, {0, 3, 1, 2}));
}

/// MurmurHash3 of 32 bits of each element of 4 or 8 bytes.
void expand_murmur_hash(ContribCall& call) {
  const DType type = call.type(call.in(0));
  if (type != DType::kInt32 && type != DType::kUint32 && type != DType::kFloat32) {
    call.unsupported(std::string("hashes of ") + std::string(name_of(type)));
  }
  const auto bits = [&](uint32_t value) {
    return call.constant("bits", TensorData::from_values<uint32_t>(DType::kUint32, {}, {value}));
  };
  const auto shifted = [&](ValueId x, uint32_t by, const char* direction) {
    return call.emit("BitShift", {x, bits(by)}, {{"direction", std::string(direction)}});
  };
  const auto times = [&](ValueId x, uint32_t factor) { return call.emit("Mul", {x, bits(factor)}); };
  const auto turned = [&](ValueId x, uint32_t by) {
    return call.emit("BitwiseOr", {shifted(x, by, "LEFT"), shifted(x, 32 - by, "RIGHT")});
  };
  const auto mixed = [&](ValueId x, uint32_t by) { return call.emit("BitwiseXor", {x, shifted(x, by, "RIGHT")}); };
  const ValueId x = type == DType::kUint32
                        ? call.in(0)
                        : call.emit("BitCast", {call.in(0)}, {{"to", int64_t{onnx_code(DType::kUint32)}}});
  const ValueId key = times(turned(times(x, 0xcc9e2d51U), 15), 0x1b873593U);
  ValueId hash = call.emit("BitwiseXor", {bits(static_cast<uint32_t>(call.integer("seed", 0))), key});
  hash = call.emit("Add", {times(turned(hash, 13), 5), bits(0xe6546b64U)});
  hash = mixed(call.emit("BitwiseXor", {hash, bits(4)}), 16);
  hash = mixed(times(hash, 0x85ebca6bU), 13);
  hash = mixed(times(hash, 0xc2b2ae35U), 16);
  const bool positive = call.integer("positive", 1) != 0;
  call.out(0, positive ? hash : call.emit("BitCast", {hash}, {{"to", int64_t{onnx_code(DType::kInt32)}}}));
}

/// Scores of what would repeat a run of tokens become minus infinity: each token that came after the last
/// `ngram_size - 1` tokens before.
void expand_ngram_repeat_block(ContribCall& call) {
  const int64_t size = call.integer("ngram_size", 0);
  if (size < 1) call.reject("its attribute 'ngram_size' should be positive");
  const ValueId ids = call.cast(call.in(0), DType::kInt64), scores = call.in(1);
  const ValueId length = call.size_of(ids, 1);
  const auto part = [&](ValueId x, ValueId begin, ValueId end) {
    return call.emit("Slice", {x, begin, end, call.integers({1})});
  };
  // Where runs may begin: 0 .. length - size, none in shorter rows.
  const ValueId starts = call.emit("Max", {call.emit("Sub", {length, call.integers({size - 1})}), call.integers({0})});
  const ValueId row =
      call.unsqueeze(call.emit("Range", {call.integer(0), call.squeeze(starts, {0}), call.integer(1)}), {0});
  const auto tokens = [&](int64_t offset) {
    const ValueId at = call.emit("Add", {row, call.integer(offset)});
    return call.emit("Gather", {ids, call.squeeze(at, {0})}, {{"axis", int64_t{1}}});
  };
  ValueId same = call.emit("GreaterOrEqual", {row, call.integer(0)});
  for (int64_t k = 0; k + 1 < size; ++k) {
    const ValueId from_end =
        call.emit("Max", {call.emit("Sub", {length, call.integers({size - 1 - k})}), call.integers({0})});
    const ValueId last = part(ids, from_end, call.emit("Add", {from_end, call.integers({1})}));
    same = call.emit("And", {same, call.emit("Equal", {tokens(k), last})});
  }
  // [batch, starts, vocabulary]: the banned tokens of each run.
  const ValueId vocabulary =
      call.emit("Range", {call.integer(0), call.squeeze(call.size_of(scores, 1), {0}), call.integer(1)});
  const ValueId banned = call.emit(
      "And", {call.unsqueeze(same, {2}), call.emit("Equal", {call.unsqueeze(tokens(size - 1), {2}), vocabulary})});
  const ValueId times =
      call.emit("ReduceSum", {call.cast(banned, DType::kInt32), call.integers({1})}, {{"keepdims", int64_t{0}}});
  const ValueId hit = call.emit("Greater", {times, call.scalar_like(0, times)});
  const ValueId none = call.scalar_like(-std::numeric_limits<double>::infinity(), scores);
  call.out(0, call.emit("Where", {hit, none, scores}));
}

}  // namespace

std::vector<ContribOperator> contrib_standard() {
  return {
      {"Trilu", 1, {"upper"}, expand_trilu, "As in ai.onnx."},
      {"Pad", 2, {"mode"}, expand_pad, "As in ai.onnx."},
      {"Range", 2, {}, expand_range, "As in ai.onnx."},
      {"GatherND", 2, {}, expand_gather_nd, "As in ai.onnx."},
      {"GridSample", 2, {"align_corners", "mode", "padding_mode"}, expand_grid_sample, "As in ai.onnx."},
      {"Unique", 1, {}, expand_unique, "The values of a list in the order in which they come first."},
      {"ExpandDims", 2, {}, expand_expand_dims, "Unsqueeze at one axis."},
      {"CDist", 2, {"metric"}, expand_cdist, "Euclidean distances between all rows of two matrices."},
      {"Rfft", 1, {"normalized", "onesided", "signal_ndim"}, expand_rfft, "The spectrum of real numbers."},
      {"Inverse", 1, {}, expand_inverse, "The inverse of square matrices."},
      {"CropAndResize", 4, {"extrapolation_value", "mode"}, expand_crop_and_resize, "Regions of images at one size."},
      {"MurmurHash3", 1, {"positive", "seed"}, expand_murmur_hash, "MurmurHash3 of numbers of 32 bits."},
      {"NGramRepeatBlock",
       2,
       {"ngram_size"},
       expand_ngram_repeat_block,
       "Scores in which tokens that would repeat a run of tokens are hidden."}};
}

}  // namespace graft
