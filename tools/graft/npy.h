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
#include "base/npy_header.h"
#include "base/tensor_data.h"

namespace graft {

/// Tensors with their names, in the order of a file.
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;

/// Gives the next bytes of the data behind a header, as many as there is room for.
using ByteSource = std::function<void(std::span<std::byte>)>;
/// The tensor behind a header, row-major and packed. Throws cancelled when a stop was asked for.
TensorData read_npy_data(const NpyHeader& header, DType type, const ByteSource& source, const std::string& where);

/// The data of a tensor as it stands in a file behind the header: a type narrower than a byte has a byte per element.
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
