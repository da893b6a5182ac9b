// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/import_tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "import/low_bytes.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::SparseTensorProto;
using graft_onnx::TensorProto;

constexpr size_t kSmallBytes = 4096;  // tensors up to this size are copied, which aligns them
constexpr int64_t kLeastDenseBudget = int64_t{64} << 20;
constexpr int64_t kDenseGrowth = 64;  // bytes of dense tensors per byte of the model
constexpr int kHighestRank = 64;

void check(bool good, const std::string& message, const std::string& where) {
  GRAFT_USER_CHECK(good, kInvalidModel, message, where);
}

DType element_type(const TensorProto& proto, const std::string& where) {
  const auto type = dtype_from_onnx(proto.data_type());
  check(type.has_value(),
        fmt::format("its element type is number {}, which Graft does not know; export it with another type",
                    proto.data_type()),
        where);
  return *type;
}

template <class Dims>
std::vector<int64_t> extents(const Dims& dims, const std::string& where) {
  check(dims.size() <= kHighestRank, fmt::format("its rank {} is too high", dims.size()), where);
  for (const int64_t extent : dims) {
    check(extent >= 0, fmt::format("it has the negative extent {}", extent), where);
  }
  return {dims.begin(), dims.end()};
}

int64_t count_elements(DType type, const std::vector<int64_t>& shape, const std::string& where) {
  try {
    return checked_element_count(type, shape, where);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidModel, error.message(), where);
  }
}

/// Clears what the packed form leaves undefined: bits behind the last element, booleans other than 0 and 1.
void normalise(TensorData& tensor) {
  if (tensor.type() == DType::kBool) {
    const auto bytes = tensor.bytes();
    const bool clean = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
    if (clean) return;
    for (std::byte& b : tensor.mutable_bytes()) b = b == std::byte{0} ? b : std::byte{1};
  }
  const int used = static_cast<int>(tensor.element_count() * bit_width(tensor.type()) % 8);
  if (used == 0 || tensor.bytes().empty()) return;
  const auto mask = static_cast<std::byte>((1 << used) - 1);
  if ((tensor.bytes().back() & ~mask) != std::byte{0}) tensor.mutable_bytes().back() &= mask;
}

/// Small bytes are copied; larger ones are moved out of the message and kept alive by the tensor.
TensorData take_raw(DType type, const std::vector<int64_t>& shape, std::string* raw) {
  const std::unique_ptr<std::string> owned(raw);
  const auto bytes = std::as_bytes(std::span(*owned));
  if (bytes.size() <= kSmallBytes || reinterpret_cast<uintptr_t>(bytes.data()) % 16 != 0) {
    return TensorData::from_bytes(type, shape, bytes);
  }
  const auto shared = std::make_shared<std::string>(std::move(*owned));
  return TensorData::borrow(type, shape, std::as_bytes(std::span(*shared)), shared);
}

/// The bytes of the typed field that carries this element type.
std::vector<std::byte> typed_bytes(const TensorProto& proto, DType type) {
  switch (type) {
    case DType::kFloat32:
    case DType::kComplex64:
      return low_bytes(proto.float_data(), 4);
    case DType::kFloat64:
    case DType::kComplex128:
      return low_bytes(proto.double_data(), 8);
    case DType::kInt64:
      return low_bytes(proto.int64_data(), 8);
    case DType::kUint64:
      return low_bytes(proto.uint64_data(), 8);
    case DType::kUint32:
      return low_bytes(proto.uint64_data(), 4);
    default:
      break;
  }
  // Elements narrower than a byte come packed, one byte to a number.
  return low_bytes(proto.int32_data(), static_cast<size_t>(std::max(bit_width(type) / 8, 1)));
}

std::optional<uint64_t> parse_offset(const std::string& text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Where external data lies.
struct ExternalRange {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

ExternalRange external_range(const TensorProto& proto, const std::string& where) {
  ExternalRange range;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto value = parse_offset(entry.value());
    check(value.has_value(),
          fmt::format("the {} of its external data is '{}', not a number", entry.key(), entry.value()), where);
    if (entry.key() == "offset") range.offset = *value;
    if (entry.key() == "length") range.length = *value;
  }
  check(!range.location.empty(), "its data is external, but no location is given; export the model again", where);
  return range;
}

/// The linear position of sparse element `k`, from linear indices [n] or coordinates [n, rank].
int64_t sparse_position(const TensorData& indices, const std::vector<int64_t>& shape, int64_t k,
                        const std::string& where) {
  const bool linear = indices.rank() == 1;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t position = linear ? indices.read_integer(k) : 0;
  int64_t count = 1;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t extent = shape[static_cast<size_t>(axis)];
    count *= extent;
    if (linear) continue;
    const int64_t index = indices.read_integer(k * rank + axis);
    check(index >= 0 && index < extent,
          fmt::format("sparse element {} has the index {} on axis {}, outside [0, {})", k, index, axis, extent), where);
    position = position * extent + index;
  }
  check(position >= 0 && position < count,
        fmt::format("sparse element {} is at position {}, outside [0, {})", k, position, count), where);
  return position;
}

}  // namespace

TensorImporter::TensorImporter(std::string directory, size_t model_bytes)
    : directory_(std::move(directory)),
      dense_budget_(kLeastDenseBudget + kDenseGrowth * static_cast<int64_t>(model_bytes)) {}

TensorData TensorImporter::import(TensorProto& proto, const std::string& where) {
  const auto it = done_.find(&proto);
  if (it != done_.end()) return it->second;
  return done_.emplace(&proto, read(proto, where)).first->second;
}

TensorData TensorImporter::import_sparse(SparseTensorProto& proto, const std::string& where) {
  const auto it = done_.find(&proto);
  if (it != done_.end()) return it->second;
  return done_.emplace(&proto, read_sparse(proto, where)).first->second;
}

TensorData TensorImporter::read(TensorProto& proto, const std::string& where) {
  const DType type = element_type(proto, where);
  const std::vector<int64_t> shape = extents(proto.dims(), where);
  const int64_t count = count_elements(type, shape, where);
  if (type == DType::kString) {
    check(proto.string_data_size() == count,
          fmt::format("it has {} strings where its shape needs {}", proto.string_data_size(), count), where);
    return TensorData::from_strings(shape, {proto.string_data().begin(), proto.string_data().end()});
  }
  TensorData tensor;
  if (proto.data_location() == TensorProto::EXTERNAL) {
    tensor = read_external(proto, type, shape, where);
  } else {
    const auto expected = static_cast<size_t>(packed_bytes(type, count));
    const bool raw = proto.has_raw_data();
    const std::vector<std::byte> typed = raw ? std::vector<std::byte>() : typed_bytes(proto, type);
    const size_t given = raw ? proto.raw_data().size() : typed.size();
    check(given == expected,
          fmt::format("it holds {} bytes of data where {} of its shape need {}; the file is damaged or was cut short",
                      given, name_of(type), expected),
          where);
    tensor = raw ? take_raw(type, shape, proto.release_raw_data()) : TensorData::from_bytes(type, shape, typed);
  }
  normalise(tensor);
  return tensor;
}

std::shared_ptr<const MappedFile> TensorImporter::map(const std::string& location, const std::string& where) {
  check(!directory_.empty(), "its data lies in another file, but the model was given as bytes; give its folder", where);
  auto& file = files_[location];
  if (file) return file;
  try {
    file = MappedFile::open_contained(directory_, location);
  } catch (const Error& error) {
    const ErrorKind kind = error.kind() == ErrorKind::kInvalidArgument ? ErrorKind::kInvalidModel : error.kind();
    throw Error(kind, fmt::format("its external data cannot be used: {}", error.what()), where);
  }
  return file;
}

TensorData TensorImporter::read_external(const TensorProto& proto, DType type, const std::vector<int64_t>& shape,
                                         const std::string& where) {
  const ExternalRange range = external_range(proto, where);
  const auto expected = static_cast<size_t>(packed_bytes(type, count_elements(type, shape, where)));
  check(!range.length || *range.length == expected,
        fmt::format("its external data is {} bytes long where {} of its shape need {}", range.length.value_or(0),
                    name_of(type), expected),
        where);
  const auto file = map(range.location, where);
  check(range.offset <= file->bytes().size() && expected <= file->bytes().size() - range.offset,
        fmt::format(
            "its external data is bytes {} to {} of '{}', which has only {}; the file is damaged or was cut short",
            range.offset, range.offset + expected, range.location, file->bytes().size()),
        where);
  const auto bytes = file->bytes().subspan(range.offset, expected);
  const auto width = static_cast<uintptr_t>(std::clamp(bit_width(type) / 8, 1, 8));
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % width == 0;
  if (!aligned || bytes.size() <= kSmallBytes) return TensorData::from_bytes(type, shape, bytes);
  return TensorData::borrow(type, shape, bytes, file);
}

TensorData TensorImporter::read_sparse(SparseTensorProto& proto, const std::string& where) {
  const TensorData values = read(*proto.mutable_values(), where + ", its values");
  const TensorData indices = read(*proto.mutable_indices(), where + ", its indices");
  const std::vector<int64_t> shape = extents(proto.dims(), where);
  const int64_t count = count_elements(values.type(), shape, where);
  check(values.rank() == 1, "the values of a sparse tensor form a list", where);
  const int64_t known = values.element_count();
  const auto rank = static_cast<int64_t>(shape.size());
  const std::vector<int64_t> pairs = {known, rank};
  check(indices.type() == DType::kInt64 && (indices.shape() == std::vector<int64_t>{known} || indices.shape() == pairs),
        fmt::format("the indices of a sparse tensor with {} values are i64[{}] or i64[{}, {}], not {}", known, known,
                    known, rank, describe(indices)),
        where);
  check(values.type() != DType::kString, "a sparse tensor holds numbers", where);
  dense_budget_ -= packed_bytes(values.type(), count);
  GRAFT_USER_CHECK(dense_budget_ >= 0, kUnsupported,
                   "the dense form of the model's sparse tensors is far larger than the model; store it dense", where);
  TensorData dense = TensorData::zeros(values.type(), shape);
  const auto into = dense.mutable_bytes();
  const int width = bit_width(values.type());
  for (int64_t k = 0; k < known; ++k) {
    const int64_t position = sparse_position(indices, shape, k, where);
    if (width < 8) {
      dense.write_double(position, values.read_double(k));
      continue;
    }
    const size_t size = static_cast<size_t>(width) / 8;
    std::memcpy(into.data() + static_cast<size_t>(position) * size,
                values.bytes().data() + static_cast<size_t>(k) * size, size);
  }
  return dense;
}

}  // namespace graft
