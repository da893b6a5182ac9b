// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/params_file.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/import_budget.h"
#include "import/mxnet/npz_params.h"

namespace graft::mxnet {
namespace {

constexpr uint64_t kListMagic = 0x112;
/// The magic of a record of version 1; those after it count up. A record of version 0 begins with its rank.
constexpr uint32_t kFirstMagic = 0xF993FAC8;
constexpr uint64_t kMostGrowth = 1024;  // of a sparse array that becomes dense, over the file

struct TypeRow {
  DType type;
  std::string_view name;
};
/// By MXNet's number.
constexpr std::array<TypeRow, 13> kTypes = {{{DType::kFloat32, "float32"},
                                             {DType::kFloat64, "float64"},
                                             {DType::kFloat16, "float16"},
                                             {DType::kUint8, "uint8"},
                                             {DType::kInt32, "int32"},
                                             {DType::kInt8, "int8"},
                                             {DType::kInt64, "int64"},
                                             {DType::kBool, "bool"},
                                             {DType::kInt16, "int16"},
                                             {DType::kUint16, "uint16"},
                                             {DType::kUint32, "uint32"},
                                             {DType::kUint64, "uint64"},
                                             {DType::kBFloat16, "bfloat16"}}};

class ParamsReader {
 public:
  ParamsReader(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive, std::string where)
      : bytes_(bytes), keep_alive_(std::move(keep_alive)), where_(std::move(where)) {}

  ParamsFile read() {
    part_ = "header";
    check(take<uint64_t>() == kListMagic, "is no list of MXNet's arrays, which begins with 0x112");
    take<uint64_t>();
    const auto count = take<uint64_t>();
    ParamsFile result;
    for (uint64_t i = 0; i < count; ++i) {
      part_ = fmt::format("array {} of {}", i, count);
      result.entries.push_back(read_array());
    }
    part_ = "names";
    const auto names = take<uint64_t>();
    check(names == 0 || names == count, fmt::format("there are {} for {} arrays", names, count));
    for (uint64_t i = 0; i < names; ++i) {
      part_ = fmt::format("name {} of {}", i, names);
      const std::span<const std::byte> name = take_bytes(take<uint64_t>());
      result.entries[i].name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    }
    part_.clear();
    check(at_ == bytes_.size(), fmt::format("{} bytes follow the last name", bytes_.size() - at_));
    return result;
  }

 private:
  void check(bool holds, const std::string& message) const {
    GRAFT_USER_CHECK(holds, kInvalidModel, message, part_.empty() ? where_ : where_ + ": " + part_);
  }

  std::span<const std::byte> take_bytes(uint64_t size) {
    check(size <= bytes_.size() - at_,
          fmt::format("the file ends: {} more bytes are stated, and {} are there", size, bytes_.size() - at_));
    const std::span<const std::byte> result = bytes_.subspan(at_, size);
    at_ += size;
    return result;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }

  ParamsEntry read_array() {
    ParamsEntry entry;
    const auto first = take<uint32_t>();
    const bool has_magic = first >= kFirstMagic && first <= kFirstMagic + 2;
    entry.record_version = has_magic ? static_cast<int>(first - kFirstMagic) + 1 : 0;
    if (entry.record_version >= 2) {
      const auto storage = take<int32_t>();
      check(storage >= -1 && storage <= 2, fmt::format("there is no kind of storage {}", storage));
      if (storage > 0) return read_sparse(entry, storage);
    }
    const auto rank = entry.record_version == 0 ? static_cast<int32_t>(first) : take<int32_t>();
    const bool empty = entry.record_version == 3 ? rank == -1 : rank == 0;
    if (empty) return entry;
    const std::vector<int64_t> shape = read_shape(rank, entry.record_version == 0);
    entry.device_type = take<int32_t>();
    entry.device_id = take<int32_t>();
    const DType type = read_type();
    entry.data = read_data(type, shape);
    return entry;
  }

  DType read_type() {
    const auto code = take<int32_t>();
    const DType type = type_of_code(code);
    check(type != DType::kUndefined, fmt::format("there is no element type {}", code));
    return type;
  }

  /// The shape of the elements that are there, the array's, where it was, types and shapes of the indices, the data.
  ParamsEntry read_sparse(ParamsEntry entry, int32_t storage) {
    check(entry.record_version == 2, "an array with numpy's shapes is dense");
    const std::vector<int64_t> stated = read_shape(take<int32_t>(), false);
    const std::vector<int64_t> shape = read_shape(take<int32_t>(), false);
    check(!shape.empty() && !stated.empty(), "a sparse array has no axes");
    entry.device_type = take<int32_t>();
    entry.device_id = take<int32_t>();
    const DType type = read_type();
    std::vector<std::pair<DType, std::vector<int64_t>>> indices;
    for (int32_t i = 0; i < storage; ++i) {  // row_sparse has one row of indices, csr two
      const DType index = read_type();
      indices.emplace_back(index, read_shape(take<int32_t>(), false));
    }
    std::vector<int64_t> stored = stated;
    if (indices.back().second.size() == 1) stored[0] = indices.back().second[0];
    SparseArray array{.storage = storage, .data = read_data(type, stored), .indices = {}, .stated_shape = stated};
    for (const auto& [index, sizes] : indices) array.indices.push_back(read_data(index, sizes));
    set_sparse(entry, std::move(array), shape, bytes_.size(), where_ + ": " + part_);
    return entry;
  }

  std::vector<int64_t> read_shape(int32_t rank, bool narrow) {
    const size_t width = narrow ? sizeof(uint32_t) : sizeof(int64_t);
    check(rank >= 0 && static_cast<uint64_t>(rank) <= (bytes_.size() - at_) / width,
          fmt::format("a rank of {} does not fit into the file", static_cast<uint32_t>(rank)));
    std::vector<int64_t> shape(static_cast<size_t>(rank));
    for (int64_t& size : shape) {
      size = narrow ? static_cast<int64_t>(take<uint32_t>()) : take<int64_t>();
      check(size >= 0, fmt::format("it has the size {}", size));
    }
    return shape;
  }

  TensorData read_data(DType type, const std::vector<int64_t>& shape) {
    // Sizes beside a 0 may be anything; a product that overflows is no more than the file has.
    uint64_t count = 1;
    for (const int64_t size : shape) {
      check(count == 0 || size == 0 || static_cast<uint64_t>(size) <= bytes_.size() / count,
            fmt::format("its sizes ({}) are more than the file has", fmt::join(shape, ", ")));
      count *= static_cast<uint64_t>(size);
    }
    const int64_t size = packed_bytes(type, static_cast<int64_t>(count));
    const std::span<const std::byte> data = take_bytes(static_cast<uint64_t>(size));
    try {
      return TensorData::borrow(type, shape, data, keep_alive_);
    } catch (const Error& fault) {
      throw Error(ErrorKind::kInvalidModel, fault.message(), where_ + ": " + part_);
    }
  }

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> keep_alive_;
  std::string where_, part_;
  size_t at_ = 0;
};

template <class T>
void put(OutputFile& file, T value) {
  file.write(std::as_bytes(std::span(&value, 1)));
}

void write_shape(OutputFile& file, const std::vector<int64_t>& shape) {
  put(file, static_cast<int32_t>(shape.size()));
  for (const int64_t size : shape) put(file, size);
}

void write_sparse(OutputFile& file, const ParamsEntry& entry) {
  const SparseArray& array = *entry.sparse;
  put(file, kFirstMagic + 1);
  put(file, array.storage);
  write_shape(file, array.stated_shape);
  write_shape(file, entry.data.shape());
  put(file, entry.device_type);
  put(file, entry.device_id);
  put(file, int32_t{type_code(array.data.type())});
  for (const TensorData& indices : array.indices) {
    put(file, int32_t{type_code(indices.type())});
    write_shape(file, indices.shape());
  }
  file.write(array.data.bytes());
  for (const TensorData& indices : array.indices) file.write(indices.bytes());
}

void write_array(OutputFile& file, const ParamsEntry& entry) {
  if (entry.sparse) return write_sparse(file, entry);
  const bool empty = !entry.data;
  const std::vector<int64_t> shape = entry.data.shape();
  // A scalar is an array of version 3: before, a rank of 0 says that there is nothing.
  const int version = !empty && shape.empty() ? 3 : entry.record_version;
  if (version > 0) put(file, kFirstMagic + static_cast<uint32_t>(version) - 1);
  if (version >= 2) put(file, int32_t{empty ? -1 : 0});
  put(file, empty ? int32_t{version == 3 ? -1 : 0} : static_cast<int32_t>(shape.size()));
  if (empty) return;
  for (const int64_t size : shape) {
    if (version == 0) {
      put(file, static_cast<uint32_t>(size));
    } else {
      put(file, size);
    }
  }
  put(file, entry.device_type);
  put(file, entry.device_id);
  put(file, int32_t{type_code(entry.data.type())});
  file.write(entry.data.bytes());
}

}  // namespace

std::string_view ParamsEntry::plain_name() const {
  const bool prefixed = name.starts_with("arg:") || name.starts_with("aux:");
  return std::string_view(name).substr(prefixed ? 4 : 0);
}

void set_sparse(ParamsEntry& entry, SparseArray array, const std::vector<int64_t>& shape, size_t file_bytes,
                const std::string& where) {
  check_sparse(array, shape, where);
  uint64_t count = 1;
  for (const int64_t size : shape) {
    const bool small = size == 0 || count <= kMostGrowth * file_bytes / static_cast<uint64_t>(size);
    GRAFT_USER_CHECK(small, kInvalidModel,
                     fmt::format("its sizes ({}) are more than {} times the file", fmt::join(shape, ", "), kMostGrowth),
                     where);
    count *= static_cast<uint64_t>(size);
  }
  take_import(count * static_cast<uint64_t>(bit_width(array.data.type()) / 8), "sparse arrays that become dense");
  entry.data = dense(array, shape);
  entry.sparse = std::move(array);
}

ParamsFile parse_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep_alive,
                        const std::string& where) {
  if (is_npz(bytes)) return parse_npz_params(bytes, keep_alive, where);
  return ParamsReader(bytes, keep_alive, where).read();
}

ParamsFile read_params(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return parse_params(file->bytes(), file, path);
}

void write_params(const ParamsFile& params, const std::string& path) {
  if (params.archive) return write_npz_params(params, path);
  OutputFile file(path);
  put(file, kListMagic);
  put(file, uint64_t{0});
  put(file, uint64_t{params.entries.size()});
  bool named = false;
  for (const ParamsEntry& entry : params.entries) {
    write_array(file, entry);
    named |= !entry.name.empty();
  }
  put(file, uint64_t{named ? params.entries.size() : 0});
  for (const ParamsEntry& entry : params.entries) {
    if (!named) break;
    put(file, uint64_t{entry.name.size()});
    file.write(entry.name);
  }
  file.commit();
}

Parameters parameters_of(const ParamsFile& file) {
  Parameters result;
  for (const ParamsEntry& entry : file.entries) {
    const bool fresh = result.try_emplace(std::string(entry.plain_name()), entry.data).second;
    GRAFT_USER_CHECK(fresh || entry.name.empty(), kInvalidModel,
                     fmt::format("there are two arrays of the name '{}'", entry.plain_name()), "parameters");
  }
  return result;
}

int type_code(DType type, const std::string& where) {
  for (size_t code = 0; code < kTypes.size(); ++code) {
    if (kTypes[code].type == type) return static_cast<int>(code);
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("MXNet has no arrays of {}", name_of(type)), where);
}

DType type_of_code(int64_t code) {
  return code >= 0 && code < static_cast<int64_t>(kTypes.size()) ? kTypes[static_cast<size_t>(code)].type
                                                                  : DType::kUndefined;
}

std::string_view type_name(DType type) { return kTypes[static_cast<size_t>(type_code(type))].name; }

DType type_of_name(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return DType::kUndefined;
}

}  // namespace graft::mxnet
