// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/npz_params.h"

#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/npy_header.h"
#include "base/zip_directory.h"
#include "base/zip_format.h"
#include "base/zip_writer.h"

namespace graft::mxnet {
namespace {

constexpr const char* kRemedy = "save the arrays with mx.npx.savez or mx.nd.save";

class NpzReader {
 public:
  NpzReader(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep_alive, const std::string& where)
      : bytes_(bytes), keep_alive_(keep_alive), where_(where) {}

  ParamsFile read() {
    ParamsFile result{.archive = true};
    std::map<std::string, std::map<std::string, ZipEntry>> folders;  // of sparse arrays, by name
    for (const ZipEntry& entry : read_zip_directory(bytes_, where_, kRemedy)) {
      part_ = entry.name;
      check(entry.name.ends_with(".npy"), "is no array: its name does not end with .npy");
      const std::string name = entry.name.substr(0, entry.name.size() - 4);
      const size_t slash = name.rfind('/');
      if (slash == name.npos) {
        result.entries.push_back({.name = name, .data = array_of(entry), .record_version = 3});
      } else {
        folders[name.substr(0, slash)].insert_or_assign(name.substr(slash + 1), entry);
      }
    }
    for (const auto& [name, parts] : folders) result.entries.push_back(sparse_of(name, parts));
    return result;
  }

 private:
  void check(bool holds, const std::string& message) const {
    GRAFT_USER_CHECK(holds, kInvalidModel, message, fmt::format("{}: {}", where_, part_));
  }

  TensorData array_of(const ZipEntry& entry) {
    part_ = entry.name;
    check(!entry.deflated, "is compressed, which MXNet does not do");
    const std::span data(reinterpret_cast<const std::byte*>(entry.data.data()), entry.data.size());
    const std::string where = fmt::format("{}: {}", where_, part_);
    const NpyHeader header = parse_npy_header(data, where);
    const bool brain = header.raw && header.width == 2;  // [('bfloat16', '<u2')], as MXNet 2 writes it: bits to numpy
    check((!header.raw || brain) && !header.swapped, "its elements are none of MXNet's");
    check(!header.column_major || header.shape.size() < 2, "its elements stand column by column");
    const DType type = brain ? DType::kBFloat16 : header.type;
    check(has_type(type), fmt::format("MXNet has no arrays of {}", name_of(type)));
    return TensorData::borrow(type, header.shape, data.subspan(header.length), keep_alive_);
  }

  static bool has_type(DType type) {
    for (int code = 0; type_of_code(code) != DType::kUndefined; ++code) {
      if (type_of_code(code) == type) return true;
    }
    return false;
  }

  ParamsEntry sparse_of(const std::string& name, const std::map<std::string, ZipEntry>& parts) {
    const auto part = [&](const char* title) {
      const auto found = parts.find(title);
      part_ = name;
      check(found != parts.end(), fmt::format("a sparse array without {}.npy", title));
      return array_of(found->second);
    };
    const TensorData sizes = part("shape");
    check(sizes.type() == DType::kInt64 && sizes.rank() == 1, "its shape is no row of integers");
    const std::span<const int64_t> shape = sizes.as<int64_t>();
    for (const int64_t size : shape) check(size >= 0, fmt::format("it has the size {}", size));
    const bool is_csr = parts.contains("indptr");
    SparseArray array{.storage = is_csr ? 2 : 1, .data = part("data")};
    if (is_csr) array.indices.push_back(part("indptr"));
    array.indices.push_back(part("indices"));
    array.stated_shape = array.data.shape();
    ParamsEntry entry{.name = name};
    part_ = name;
    const std::string where = fmt::format("{}: {}", where_, part_);
    set_sparse(entry, std::move(array), {shape.begin(), shape.end()}, bytes_.size(), where);
    return entry;
  }

  std::span<const std::byte> bytes_;
  const std::shared_ptr<const void>& keep_alive_;
  const std::string& where_;
  std::string part_;
};

/// The header of an array; of bf16 the structure that MXNet knows it by.
std::string header_of(const TensorData& array, const std::string& where) {
  if (array.type() != DType::kBFloat16) return print_npy_header(array, where);
  std::string shape;
  for (const int64_t size : array.shape()) shape += fmt::format("{}, ", size);
  std::string words = fmt::format("{{'descr': [('bfloat16', '<u2')], 'fortran_order': False, 'shape': ({}), }}", shape);
  words.append(63 - (10 + words.size()) % 64, ' ');
  words += '\n';
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(words.size() & 0xFF) +
         static_cast<char>(words.size() >> 8) + words;
}

void add_array(ZipWriter& archive, const std::string& name, const TensorData& array, const std::string& where) {
  const std::string header = header_of(array, where);
  archive.add(name + ".npy", {std::as_bytes(std::span(header)), array.bytes()});
}

/// A text as an array without axes, which MXNet reads behind whatever header stands there.
void add_text(ZipWriter& archive, const std::string& name, const std::string& text) {
  std::string words = fmt::format("{{'descr': '|S{}', 'fortran_order': False, 'shape': (), }}", text.size());
  words.append(63 - (10 + words.size()) % 64, ' ');
  words += '\n';
  const std::string all = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(words.size()) + '\0' + words + text;
  archive.add(name + ".npy", {std::as_bytes(std::span(all))});
}

void add_sparse(ZipWriter& archive, const ParamsEntry& entry, const std::string& where) {
  const SparseArray& array = *entry.sparse;
  const bool is_csr = array.indices.size() == 2;
  add_array(archive, entry.name + "/data", array.data, where);
  if (is_csr) add_array(archive, entry.name + "/indptr", array.indices[0], where);
  add_array(archive, entry.name + "/indices", array.indices.back(), where);
  const std::vector<int64_t> sizes = entry.data.shape();
  add_array(archive, entry.name + "/shape",
            TensorData::from_values<int64_t>(DType::kInt64, {static_cast<int64_t>(sizes.size())}, sizes), where);
  add_text(archive, entry.name + "/format", is_csr ? "csr" : "row_sparse");
}

}  // namespace

void write_npz_params(const ParamsFile& params, const std::string& path) {
  ZipWriter archive(path);
  for (const ParamsEntry& entry : params.entries) {
    const std::string where = fmt::format("{}: {}", path, entry.name);
    GRAFT_USER_CHECK(!entry.name.empty() && entry.data, kUnsupported,
                     "an archive holds arrays with names and contents: write a list (.params)", where);
    if (entry.sparse) {
      add_sparse(archive, entry, where);
    } else {
      add_array(archive, entry.name, entry.data, where);
    }
  }
  archive.commit();
}

bool is_npz(std::span<const std::byte> bytes) {
  uint32_t start = 0;
  if (bytes.size() >= sizeof start) std::memcpy(&start, bytes.data(), sizeof start);
  return start == kLocalHeader || start == kEndRecord;
}

ParamsFile parse_npz_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep_alive,
                            const std::string& where) {
  try {
    return NpzReader(bytes, keep_alive, where).read();
  } catch (const Error& fault) {
    if (fault.kind() != ErrorKind::kInvalidArgument) throw;
    throw Error(ErrorKind::kInvalidModel, fault.message(), fault.where());
  }
}

}  // namespace graft::mxnet
