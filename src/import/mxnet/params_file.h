// SPDX-License-Identifier: Apache-2.0
// MXNet's .params: a list of named arrays, of every version of a record (0 to 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"
#include "import/mxnet/sparse_array.h"

namespace graft::mxnet {

/// An array of the file and what its record says beside.
struct ParamsEntry {
  std::string name = {};    ///< as the file has it, with its `arg:` or `aux:`; empty in a list without names
  TensorData data = {};     ///< of type kUndefined: an array without contents; of a sparse one all elements
  int record_version = 2;   ///< 0 and 1: before MXNet 0.12; 2; 3: with shapes as numpy has them, where () is a scalar
  int32_t device_type = 1;  ///< 1: a CPU
  int32_t device_id = 0;
  std::optional<SparseArray> sparse = {};  ///< what the file has of a sparse array, and gets again

  /// The name without its prefix.
  std::string_view plain_name() const;
  bool is_auxiliary() const { return name.starts_with("aux:"); }
};

struct ParamsFile {
  std::vector<ParamsEntry> entries = {};
  bool archive = false;  ///< MXNet 2's NPZ, else a list
};

/// Makes an entry a sparse array of that shape. Throws invalid_model naming `where` for indices outside of it, and for
/// a dense form of more than 1024 elements for each of the file's bytes.
void set_sparse(ParamsEntry& entry, SparseArray array, const std::vector<int64_t>& shape, size_t file_bytes,
                const std::string& where);

/// Reads a list, or MXNet 2's NPZ, from bytes that `keep_alive` owns; arrays of MXNet's types 0 to 12. Throws
/// invalid_model naming the array and `where`. Memory is bounded by the bytes, that of a sparse array's elements, once
/// somebody asks for them, by a multiple of these.
ParamsFile parse_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep_alive,
                        const std::string& where);
ParamsFile read_params(const std::string& path);

/// Writes a list as the bytes that MXNet writes for the same arrays, and an archive as one.
void write_params(const ParamsFile& params, const std::string& path);

/// Arrays by the names of their variables.
using Parameters = std::map<std::string, TensorData, std::less<>>;
/// The arrays of a file by name. Throws invalid_model for two of one name.
Parameters parameters_of(const ParamsFile& file);

/// MXNet's number of an element type, as in `__dtype__`: 0 for f32, 2 for f16, 12 for bf16. Throws invalid_argument
/// naming `where` for a type that MXNet lacks.
int type_code(DType type, const std::string& where = "");
/// kUndefined for a number that is none.
DType type_of_code(int64_t code);
/// `float16`; MXNet's and numpy's name.
std::string_view type_name(DType type);
/// kUndefined for a name that is none.
DType type_of_name(std::string_view name);

}  // namespace graft::mxnet
