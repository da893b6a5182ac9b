// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/checkpoint.h"

#include <utility>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/spelling.h"
#include "import/tensorflow/crc32c.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/saved_model.pb.h"
#include "import/tensorflow/tensor_slices.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::BundleEntryProto;
using graft_tensorflow::BundleHeaderProto;

constexpr const char* kRemedy = "copy or save the model again";
constexpr int kMostShards = 1 << 20, kHighestRank = 64;

std::vector<int64_t> extents(const BundleEntryProto& entry, const std::string& where) {
  std::vector<int64_t> extents;
  GRAFT_USER_CHECK(entry.shape().dim_size() <= kHighestRank, kInvalidModel, "its rank is too high", where);
  for (const auto& dim : entry.shape().dim()) extents.push_back(dim.size());
  for (const int64_t extent : extents) {
    GRAFT_USER_CHECK(extent >= 0, kInvalidModel, "the index states a negative size of it", where);
  }
  return extents;
}

DType type_of(const BundleEntryProto& entry, const std::string& where) {
  const auto type = element_type(entry.dtype());
  GRAFT_USER_CHECK(type && *type != DType::kString, kUnsupported,
                   fmt::format("its elements are of type {} of TensorFlow's, which Graft does not read", entry.dtype()),
                   where);
  return *type;
}

int64_t bytes_of(DType type, const std::vector<int64_t>& shape, const std::string& where) {
  try {
    return packed_bytes(type, checked_element_count(type, shape, where));
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidModel, error.message(), where);
  }
}

}  // namespace

Checkpoint::Checkpoint(std::string folder, std::string_view prefix)
    : folder_(std::move(folder)), prefix_(fmt::format("{}/{}", folder_, prefix)) {
  const std::string path = prefix_ + ".index";
  const auto file = open_part(".index");
  entries_ = read_sorted_table(file->bytes(), path);
  const auto header = entries_.find("");
  BundleHeaderProto read;
  GRAFT_USER_CHECK(header != entries_.end() && read.ParseFromString(header->second), kInvalidModel,
                   fmt::format("it has no header: it is no index of a checkpoint, or it is damaged; {}", kRemedy),
                   path);
  GRAFT_USER_CHECK(read.endianness() == 0, kUnsupported,
                   "it was written on a big-endian machine: save the model again on a little-endian one", path);
  shards_ = read.num_shards();
  GRAFT_USER_CHECK(shards_ >= 0 && shards_ <= kMostShards, kInvalidModel,
                   fmt::format("it states {} shards; {}", shards_, kRemedy), path);
}

std::vector<std::string> Checkpoint::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entries_) {
    if (!key.empty() && key[0] != '\0') keys.push_back(key);  // none of the header's, or of a part's
  }
  return keys;
}

std::shared_ptr<const MappedFile> Checkpoint::open_part(const std::string& end) const {
  return MappedFile::open_contained(folder_, prefix_.substr(folder_.size() + 1) + end);
}

const MappedFile& Checkpoint::shard(int number) {
  std::shared_ptr<const MappedFile>& file = open_[number];
  if (!file) file = open_part(fmt::format(".data-{:05}-of-{:05}", number, shards_));
  return *file;
}

TensorData Checkpoint::read(const std::string& key, const std::string& where) {
  const auto found = entries_.find(key);
  const std::string index = prefix_ + ".index";
  GRAFT_USER_CHECK(found != entries_.end() && !key.empty(), kInvalidModel,
                   fmt::format("the checkpoint {} has no tensor '{}'{}: save the model with the checkpoint that "
                               "belongs to it", index, key, did_you_mean(key, keys())),
                   where);
  const std::string place = fmt::format("{}: tensor '{}' of {}", where, key, index);
  BundleEntryProto entry;
  GRAFT_USER_CHECK(entry.ParseFromString(found->second), kInvalidModel,
                   fmt::format("its entry is damaged; {}", kRemedy), place);
  return entry.slices().empty() ? read_piece(entry, place) : read_parts(key, entry, place);
}

TensorData Checkpoint::read_parts(const std::string& key, const BundleEntryProto& entry, const std::string& place) {
  const DType type = type_of(entry, place);
  const std::vector<int64_t> shape = extents(entry, place);
  bytes_of(type, shape, place);  // which has to be a size
  std::vector<TensorPart> parts;
  for (const auto& message : entry.slices()) {
    TensorSlice slice = read_slice(message, shape, place);
    const auto found = entries_.find(slice_key(key, message));
    BundleEntryProto part;
    GRAFT_USER_CHECK(found != entries_.end() && part.ParseFromString(found->second) && part.slices().empty() &&
                         part.dtype() == entry.dtype() && extents(part, place) == slice.length,
                     kInvalidModel,
                     fmt::format("the index does not have its part number {} as stated; {}", parts.size(), kRemedy),
                     place);
    parts.push_back({std::move(slice), read_piece(part, place)});
  }
  return join_parts(type, shape, std::move(parts), place);
}

TensorData Checkpoint::read_piece(const BundleEntryProto& entry, const std::string& place) {
  const DType type = type_of(entry, place);
  const std::vector<int64_t> shape = extents(entry, place);
  const int64_t bytes = bytes_of(type, shape, place);
  GRAFT_USER_CHECK(entry.size() == bytes && entry.offset() >= 0, kInvalidModel,
                   fmt::format("its shape has {} bytes and its entry {}; {}", bytes, entry.size(), kRemedy), place);
  GRAFT_USER_CHECK(entry.shard_id() >= 0 && entry.shard_id() < shards_, kInvalidModel,
                   fmt::format("it lies in shard {} of {}; {}", entry.shard_id(), shards_, kRemedy), place);
  const MappedFile& file = shard(entry.shard_id());
  const size_t size = file.bytes().size();
  GRAFT_USER_CHECK(static_cast<uint64_t>(entry.offset()) <= size &&
                       static_cast<uint64_t>(bytes) <= size - static_cast<uint64_t>(entry.offset()),
                   kInvalidModel,
                   fmt::format("{} ends at byte {}, before its {} bytes from {} on do: the file was cut short; {}",
                               file.path(), size, bytes, entry.offset(), kRemedy),
                   place);
  const auto elements = file.bytes().subspan(static_cast<size_t>(entry.offset()), static_cast<size_t>(bytes));
  return TensorData::deferred(type, shape, [=, owner = open_[entry.shard_id()], crc = entry.crc32c()] {
    GRAFT_USER_CHECK(masked(crc32c(elements)) == crc, kInvalidModel,
                     fmt::format("the checksum of its elements in {} is wrong: the file is damaged; {}", owner->path(),
                                 kRemedy),
                     place);
    const TensorData tensor = TensorData::borrow(type, shape, elements, owner);
    return type == DType::kBool ? with_clean_bools(tensor) : tensor;
  });
}

}  // namespace graft::tensorflow
