// SPDX-License-Identifier: Apache-2.0
// Tensors in numpy's files: .npy (one tensor) and .npz (a zip archive of them).
//
// Element types that numpy lacks are stored as the package ml_dtypes has them saved, with their shape: bf16 as `<V2`,
// the 8-bit floats and everything narrower as `|V1`, one element per byte in its lowest bits. `numpy.load(file)
// .view(ml_dtypes.bfloat16)` gives the array. What is read back takes its type from who asks for it, or, in an .npz
// that Graft wrote, from the comment of its entry.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/tensor_data.h"

namespace graft {

/// Tensors with their names, in the order of a file.
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;

/// What the header of an .npy file says about the data behind it.
struct NpyHeader {
  DType type = DType::kUndefined;  ///< as numpy means it; of raw bits, an unsigned integer
  int width = 0;                   ///< bytes of an element
  bool raw = false;                ///< the elements are bits without a meaning (numpy's void)
  bool swapped = false;            ///< big-endian
  bool column_major = false;
  std::vector<int64_t> shape;
  size_t length = 0;  ///< bytes before the data
};

/// Reads the header at the start of an .npy file (versions 1 to 3). `bytes` may end behind it. Throws invalid_argument
/// naming `where` for anything malformed.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& where);
/// No header is longer, so this much of a file has all of it.
constexpr size_t kMaxNpyHeader = 12 + 65535;

/// The element type that the data becomes when `wanted` is expected: bits become that type when their width is its
/// own, anything else stays what it is.
DType element_type(const NpyHeader& header, std::optional<DType> wanted, const std::string& where);

/// Gives the next bytes of the data behind a header, as many as there is room for.
using ByteSource = std::function<void(std::span<std::byte>)>;
/// The tensor behind a header, row-major and packed. Throws cancelled when a stop was asked for.
TensorData read_npy_data(const NpyHeader& header, DType type, const ByteSource& source, const std::string& where);

/// The header for a tensor, and its data as it stands in a file: a type narrower than a byte has a byte per element.
/// Throws unsupported for strings.
std::string print_npy_header(const TensorData& tensor, const std::string& where);
TensorData npy_data(const TensorData& tensor);

/// A tensor that a file holds or that can be made up: what it is, before memory is taken for it.
struct PendingTensor {
  DType type = DType::kUndefined;
  std::vector<int64_t> shape;
  int64_t bytes = 0;  ///< of memory that making it takes
  std::function<TensorData()> load;

  explicit operator bool() const { return type != DType::kUndefined; }
};

/// The tensor behind a header in `file_bytes` bytes in all, which must be as many as its shape takes; `open` gives what
/// is behind the header from its start.
PendingTensor pend_npy(const NpyHeader& header, DType type, uint64_t file_bytes, const std::string& where,
                       std::function<ByteSource()> open);
/// Reads the header of an .npy file and checks that the file has as much data as that says.
PendingTensor open_npy(const std::string& path, std::optional<DType> wanted);
/// Writes an .npy file, whole or not at all.
void write_npy(const std::string& path, const TensorData& tensor);

/// An .npz file with stored or deflated entries. Opening it checks the directory: entries lie one behind the other, so
/// that what they unpack to is bounded by what the file has, and have names of their own.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path);
  const std::string& path() const;
  std::vector<std::string> names() const;
  /// The tensor of this name, of which only the header is unpacked; undefined when there is none.
  PendingTensor find(const std::string& name, std::optional<DType> wanted) const;

 private:
  class Archive;
  std::shared_ptr<const Archive> archive_;
};

/// All tensors of an .npz file in the types that are on record there.
NamedTensors read_npz(const std::string& path);
/// Writes an .npz file, whole or not at all; entries have the names of the tensors as far as these are safe
/// (entry_name.h).
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace graft
