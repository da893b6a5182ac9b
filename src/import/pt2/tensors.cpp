// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "graph/graph.h"
#include "graph/symbols.h"

namespace graft::pt2 {
namespace {

constexpr int kDeepestExpression = 64;

/// sympy's expressions as torch.export spells them.
class ExpressionReader {
 public:
  ExpressionReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Size read() {
    const Size size = expression(0);
    check(at_ == text_.size());
    return size;
  }

 private:
  void check(bool good) const {
    GRAFT_USER_CHECK(good, kUnsupported,
                     fmt::format("the size '{}' is no sum or product of dimensions", text_.substr(0, 80)), where_);
  }
  void skip(std::string_view word) {
    check(text_.substr(at_).starts_with(word));
    at_ += word.size();
  }
  std::string_view until(std::string_view ends) {
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }

  Size symbol() {
    skip("'");
    const std::string_view name = until("'");
    check(!name.empty());
    skip("'");
    until(")");  // its assumptions
    return Size::symbol(dimension_symbol(name));
  }

  Size number() {
    const std::string_view digits = until(")");
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    check(fault == std::errc() && end == digits.data() + digits.size());
    return value;
  }

  Size combination(bool product, int depth) {
    Size result = expression(depth + 1);
    while (text_.substr(at_).starts_with(", ")) {
      skip(", ");
      const Size next = expression(depth + 1);
      result = product ? result * next : result + next;
    }
    return result;
  }

  Size expression(int depth) {
    check(depth < kDeepestExpression);
    const std::string_view head = until("(");
    skip("(");
    Size result = 0;
    if (head == "Symbol") {
      result = symbol();
    } else if (head == "Integer") {
      result = number();
    } else {
      check(head == "Mul" || head == "Add");
      result = combination(head == "Mul", depth);
    }
    skip(")");
    return result;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

/// Numbers that tensor_meta states.
std::vector<int64_t> integers(const json& list, const std::string& where) {
  std::vector<int64_t> numbers;
  for (const json& each : list) numbers.push_back(integer(member(each, "as_int", where), where));
  GRAFT_USER_CHECK(numbers.size() <= static_cast<size_t>(kHighestRank), kInvalidModel, "it has too many axes", where);
  return numbers;
}

/// A tensor of an entry's bytes: where, and with which strides.
struct Layout {
  DType type = DType::kUndefined;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  ///< in elements
  bool empty = false, dense = true;
};

Layout read_layout(const json& meta, const std::string& where) {
  Layout layout{.type = element_type(integer(member(meta, "dtype", where), where)),
                .sizes = integers(list_member(meta, "sizes", where), where),
                .strides = integers(list_member(meta, "strides", where), where),
                .offset = integer(member(object_member(meta, "storage_offset", where), "as_int", where), where)};
  GRAFT_USER_CHECK(layout.type != DType::kUndefined, kUnsupported, "it has an element type that Graft does not have",
                   where);
  GRAFT_USER_CHECK(layout.sizes.size() == layout.strides.size() && layout.offset >= 0, kInvalidModel,
                   "its sizes and strides do not fit", where);
  int64_t expected = 1;
  for (size_t axis = layout.sizes.size(); axis-- > 0;) {
    const bool good = layout.sizes[axis] >= 0 && layout.strides[axis] >= 0;
    GRAFT_USER_CHECK(good, kInvalidModel, "it has negative sizes or strides", where);
    layout.empty |= layout.sizes[axis] == 0;
    layout.dense &= layout.sizes[axis] <= 1 || layout.strides[axis] == expected;
    const bool fits = !__builtin_mul_overflow(expected, std::max<int64_t>(layout.sizes[axis], 1), &expected);
    GRAFT_USER_CHECK(fits, kInvalidModel, "it has more elements than 64 bits count", where);
  }
  return layout;
}

/// Of the last element.
int64_t last_position(const Layout& layout, const std::string& where) {
  int64_t last = layout.offset;
  for (size_t axis = 0; axis < layout.sizes.size(); ++axis) {
    int64_t way = 0;
    const bool fits = !__builtin_mul_overflow(layout.sizes[axis] - 1, layout.strides[axis], &way) &&
                      !__builtin_add_overflow(last, way, &last);
    GRAFT_USER_CHECK(fits, kInvalidModel, "its strides overflow", where);
  }
  return last;
}

/// Row-major copies of what lies otherwise.
TensorData gathered(const Layout& layout, std::span<const std::byte> bytes, size_t width) {
  int64_t count = 1;
  for (const int64_t size : layout.sizes) count *= size;
  std::vector<std::byte> dense(static_cast<size_t>(count) * width);
  std::vector<int64_t> at(layout.sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = layout.offset;
    for (size_t axis = 0; axis < at.size(); ++axis) from += at[axis] * layout.strides[axis];
    std::memcpy(dense.data() + static_cast<size_t>(i) * width, bytes.data() + static_cast<size_t>(from) * width, width);
    for (size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < layout.sizes[axis]) break;
      at[axis] = 0;
    }
  }
  return TensorData::from_bytes(layout.type, layout.sizes, dense);
}

TensorData read_tensor(const Layout& layout, std::span<const std::byte> bytes, const Archive& archive,
                       const std::string& where) {
  if (layout.empty) return TensorData::zeros(layout.type, layout.sizes);
  const auto width = static_cast<size_t>(bit_width(layout.type) / 8);
  const int64_t last = last_position(layout, where);
  GRAFT_USER_CHECK(static_cast<uint64_t>(last) < bytes.size() / width, kInvalidModel,
                   "its elements lie outside of the bytes that the archive has of it", where);
  if (layout.dense) {
    const auto count = static_cast<size_t>(last - layout.offset + 1);
    const auto own = bytes.subspan(static_cast<size_t>(layout.offset) * width, count * width);
    if (layout.type == DType::kBool) {
      const bool clean = std::all_of(own.begin(), own.end(), [](std::byte each) { return each <= std::byte{1}; });
      GRAFT_USER_CHECK(clean, kInvalidModel, "it has truth values other than 0 and 1", where);
    }
    return TensorData::borrow(layout.type, layout.sizes, own, archive.owner());
  }
  int64_t count = 1;  // an expanded tensor may have more elements than bytes
  for (const int64_t size : layout.sizes) count *= size;
  GRAFT_USER_CHECK(static_cast<uint64_t>(count) <= bytes.size(), kUnsupported,
                   "it repeats its elements: make it contiguous before the export", where);
  GRAFT_USER_CHECK(layout.type != DType::kBool, kUnsupported, "truth values in another order than row-major", where);
  take_import(static_cast<size_t>(count) * width, "weights in another order than row-major");
  return TensorData::deferred(layout.type, layout.sizes, [layout, bytes, width, owner = archive.owner()] {
    return gathered(layout, bytes, width);
  });
}

}  // namespace

DType element_type(int64_t number) {
  switch (number) {
    case 1: return DType::kUint8;
    case 2: return DType::kInt8;
    case 3: return DType::kInt16;
    case 4: return DType::kInt32;
    case 5: return DType::kInt64;
    case 6: return DType::kFloat16;
    case 7: return DType::kFloat32;
    case 8: return DType::kFloat64;
    case 10: return DType::kComplex64;
    case 11: return DType::kComplex128;
    case 12: return DType::kBool;
    case 13: return DType::kBFloat16;
    case 28: return DType::kUint16;
    case 29: return DType::kFloat8E4M3FN;
    case 30: return DType::kFloat8E5M2;
    case 31: return DType::kFloat8E4M3FNUZ;
    case 32: return DType::kFloat8E5M2FNUZ;
    default: return DType::kUndefined;
  }
}

Size read_size(const json& size, const std::string& where) {
  const auto [kind, value] = tagged(size, where);
  if (kind == "as_int") {
    const int64_t number = integer(*value, where);
    GRAFT_USER_CHECK(number >= 0, kInvalidModel, "a size is negative", where);
    return number;
  }
  return ExpressionReader(text_member(*value, "expr_str", where), where).read();
}

void note_hint(const json& size, std::map<std::string, int64_t, std::less<>>& hints) {
  const auto name = read_size(size, "").as_symbol();
  const json* hint = name && size.contains("as_expr") && size["as_expr"].contains("hint") ? &size["as_expr"]["hint"]
                                                                                           : nullptr;
  if (hint && hint->is_object() && hint->contains("as_int")) hints.emplace(*name, integer((*hint)["as_int"], ""));
}

std::map<std::string, TensorData, std::less<>> read_tensors(const Archive& archive, const std::string& folder,
                                                            const std::string& config) {
  std::map<std::string, TensorData, std::less<>> tensors;
  const auto described = archive.find(folder + "/" + config);
  if (!described) return tensors;
  const std::string file = fmt::format("{}: {}/{}", archive.where(), folder, config);
  const json parsed = parse_entry(*described, file);
  for (const auto& [name, entry] : object_member(parsed, "config", file).items()) {
    const std::string where = fmt::format("{}: tensor '{}'", archive.where(), name);
    const json& pickled = member(entry, "use_pickle", where);
    GRAFT_USER_CHECK(pickled.is_boolean() && !pickled.get<bool>(), kUnsupported,
                     "it is pickled, which runs code of its maker: export it as a plain tensor", where);
    const std::string path = folder + "/" + text_member(entry, "path_name", where);
    const auto bytes = archive.find(path);
    GRAFT_USER_CHECK(bytes.has_value(), kInvalidModel, fmt::format("the archive has no '{}'", path), where);
    tensors.emplace(name, read_tensor(read_layout(object_member(entry, "tensor_meta", where), where), *bytes, archive,
                                      where));
  }
  return tensors;
}

}  // namespace graft::pt2
