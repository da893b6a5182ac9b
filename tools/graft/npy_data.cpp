// SPDX-License-Identifier: Apache-2.0
// The data of an .npy file: byte order, order of the axes and elements narrower than a byte.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "console.h"
#include "npy.h"

namespace graft {
namespace {

/// After this much work there is a look whether a stop was asked for.
constexpr size_t kBlock = size_t{1} << 22;

/// Calls `work(first, count)` for blocks of `total` elements.
template <class Work>
void in_blocks(size_t total, size_t block, const Work& work) {
  for (size_t first = 0; first < total; first += block) {
    stop_if_interrupted();
    work(first, std::min(block, total - first));
  }
}

/// The type that has the elements' place in the file.
DType file_type(DType type) { return bit_width(type) < 8 ? DType::kUint8 : type; }

void swap_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t at = 0; at < bytes.size(); at += width) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + width));
  }
}

/// Column-major elements in row-major order.
TensorData from_column_major(const TensorData& tensor) {
  const std::vector<int64_t>& shape = tensor.shape();
  TensorData result = TensorData::zeros(tensor.type(), shape);
  const size_t width = static_cast<size_t>(bit_width(tensor.type())) / 8;
  const std::byte* from = tensor.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  std::vector<int64_t> index(shape.size()), strides(shape.size(), 1);
  for (size_t axis = 1; axis < shape.size(); ++axis) strides[axis] = strides[axis - 1] * shape[axis - 1];
  int64_t place = 0;
  in_blocks(static_cast<size_t>(result.element_count()), kBlock / 16, [&](size_t first, size_t count) {
    for (size_t n = first; n < first + count; ++n) {
      std::memcpy(to + n * width, from + static_cast<size_t>(place) * width, width);
      for (size_t axis = shape.size(); axis-- > 0;) {
        place += strides[axis];
        if (++index[axis] < shape[axis]) break;
        place -= strides[axis] * shape[axis];
        index[axis] = 0;
      }
    }
  });
  return result;
}

/// A byte per element -> packed elements of fewer bits. The bits above must be zero or, of a signed integer, its sign.
TensorData pack(const TensorData& bytes, DType type, const std::string& where) {
  TensorData result = TensorData::zeros(type, bytes.shape());
  const unsigned width = static_cast<unsigned>(bit_width(type)), mask = (1u << width) - 1;
  const std::span<const std::byte> from = bytes.bytes();
  const std::span<std::byte> to = result.mutable_bytes();
  const bool is_signed = kind_of(type) == DTypeKind::kSigned;
  in_blocks(from.size(), kBlock, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const unsigned value = std::to_integer<unsigned>(from[i]);
      const bool negative = is_signed && (value >> (width - 1) & 1) != 0;
      GRAFT_USER_CHECK((value & ~mask) == 0 || (negative && (value | mask) == 0xFF), kInvalidArgument,
                       fmt::format("element {} is the byte {:#04x}, which is no {}; an element is the lowest {} bits "
                                   "of a byte", i, value, name_of(type), width), where);
      to[i * width / 8] |= static_cast<std::byte>((value & mask) << (i * width % 8));
    }
  });
  return result;
}

}  // namespace

TensorData read_npy_data(const NpyHeader& header, DType type, const ByteSource& source, const std::string& where) {
  TensorData tensor = TensorData::zeros(file_type(type), header.shape);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  const size_t components = kind_of(type) == DTypeKind::kComplex ? 2 : 1;
  in_blocks(bytes.size(), kBlock, [&](size_t first, size_t count) {
    const std::span<std::byte> block = bytes.subspan(first, count);
    source(block);
    if (header.swapped) swap_bytes(block, static_cast<size_t>(header.width) / components);
    if (type == DType::kBool) {
      for (std::byte& value : block) value = static_cast<std::byte>(value != std::byte{0});
    }
  });
  if (header.column_major && header.shape.size() > 1) tensor = from_column_major(tensor);
  return file_type(type) == type ? tensor : pack(tensor, type, where);
}

TensorData npy_data(const TensorData& tensor) {
  if (file_type(tensor.type()) == tensor.type()) return tensor;
  TensorData result = TensorData::zeros(DType::kUint8, tensor.shape());
  const unsigned width = static_cast<unsigned>(bit_width(tensor.type())), mask = (1u << width) - 1;
  const std::span<const std::byte> from = tensor.bytes();
  const std::span<std::byte> to = result.mutable_bytes();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i * width / 8] >> (i * width % 8) & static_cast<std::byte>(mask);
  return result;
}

PendingTensor open_npy(const std::string& path, std::optional<DType> wanted) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const NpyHeader header = parse_npy_header(file->bytes(), path);
  return pend_npy(header, element_type(header, wanted, path), file->bytes().size(), path, [file, header] {
    return [rest = file->bytes().subspan(header.length), file](std::span<std::byte> to) mutable {
      std::memcpy(to.data(), rest.data(), to.size());
      rest = rest.subspan(to.size());
    };
  });
}

PendingTensor pend_npy(const NpyHeader& header, DType type, uint64_t file_bytes, const std::string& where,
                       std::function<ByteSource()> open) {
  const auto count = static_cast<uint64_t>(checked_element_count(type, header.shape, where));
  const uint64_t expected = count * static_cast<uint64_t>(header.width);
  GRAFT_USER_CHECK(file_bytes - header.length == expected, kInvalidArgument,
                   fmt::format("the data has {} bytes, the shape [{}] of {} takes {}; numpy.save writes what can be "
                               "read here", file_bytes - header.length, fmt::join(header.shape, ", "), name_of(type),
                               expected), where);
  const int64_t packed = file_type(type) == type ? 0 : packed_bytes(type, static_cast<int64_t>(count));
  const auto peak = static_cast<int64_t>(header.column_major && header.shape.size() > 1 ? 2 * expected : expected);
  return {type, header.shape, peak + packed,
          [=] { return read_npy_data(header, type, open(), where); }};
}

void write_npy(const std::string& path, const TensorData& tensor) {
  OutputFile file(path);
  file.write(print_npy_header(tensor, path));
  file.write(npy_data(tensor).bytes());
  file.commit();
}

}  // namespace graft
