// SPDX-License-Identifier: Apache-2.0
// Reading .npz: entries of a zip archive, unpacked piece by piece.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/zip_directory.h"
#include "entry_name.h"
#include "npy.h"

namespace graft {
namespace {

constexpr const char* kRemedy = "numpy.savez writes what can be read here";

/// Unpacks one entry from its start, piece by piece.
class EntryStream {
 public:
  EntryStream(const ZipEntry& entry, std::string where) : entry_(entry), where_(std::move(where)) {
    if (!entry.deflated) return;
    stream_ = std::unique_ptr<z_stream, void (*)(z_stream*)>(new z_stream{}, [](z_stream* stream) {
      inflateEnd(stream);
      delete stream;
    });
    GRAFT_CHECK(inflateInit2(stream_.get(), -MAX_WBITS) == Z_OK, "zlib cannot start");
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(entry.data.data()));
    stream_->avail_in = static_cast<uInt>(entry.data.size());
  }

  /// Fills `to`; with the last byte of the entry its checksum is compared.
  void read(std::span<std::byte> to) {
    check(to.size() <= entry_.size - done_, "the data of an entry is cut off");
    if (to.empty()) return;
    if (entry_.deflated) {
      inflate_into(to);
    } else {
      std::memcpy(to.data(), entry_.data.data() + done_, to.size());
    }
    done_ += to.size();
    checksum_ = crc32_z(checksum_, reinterpret_cast<const Bytef*>(to.data()), to.size());
    if (done_ == entry_.size) finish();
  }

 private:
  void check(bool good, const std::string& what) const {
    GRAFT_USER_CHECK(good, kInvalidArgument, fmt::format("{}; {}", what, kRemedy), where_);
  }
  void inflate_into(std::span<std::byte> to) {
    stream_->next_out = reinterpret_cast<Bytef*>(to.data());
    stream_->avail_out = static_cast<uInt>(to.size());
    while (stream_->avail_out > 0) {
      const int result = inflate(stream_.get(), Z_NO_FLUSH);
      check(result == Z_OK || (result == Z_STREAM_END && stream_->avail_out == 0),
            "the compressed data of an entry is damaged");
    }
  }
  /// Nothing may follow what the directory announces.
  void finish() {
    check(checksum_ == entry_.checksum, "the checksum of an entry is wrong");
    if (!entry_.deflated) return;
    Bytef more = 0;
    stream_->next_out = &more;
    stream_->avail_out = 1;
    check(inflate(stream_.get(), Z_FINISH) == Z_STREAM_END && stream_->avail_out == 1 && stream_->avail_in == 0,
          "an entry unpacks to another size than the directory says");
  }

  ZipEntry entry_;
  std::string where_;
  std::unique_ptr<z_stream, void (*)(z_stream*)> stream_{nullptr, nullptr};
  uint64_t done_ = 0;
  uLong checksum_ = 0;
};

}  // namespace

/// A zip archive that is mapped; every read is checked.
class NpzFile::Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)), file_(MappedFile::open(path_)) {
    read_directory();
  }

  const std::string& path() const { return path_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  std::string where(const ZipEntry& entry) const { return fmt::format("{}: {}", path_, entry.name); }

 private:
  void read_directory() {
    std::set<std::string, std::less<>> names;
    for (ZipEntry& entry : read_zip_directory(file_->bytes(), path_, kRemedy)) {
      if (entry.name.ends_with(".npy")) entry.name.resize(entry.name.size() - 4);
      entry.name = name_of_entry(entry.name);
      GRAFT_USER_CHECK(names.insert(entry.name).second, kInvalidArgument,
                       fmt::format("the name '{}' stands twice in the directory; {}", entry.name, kRemedy), path_);
      entries_.push_back(std::move(entry));
    }
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipEntry> entries_;
};

NpzFile::NpzFile(const std::string& path) : archive_(std::make_shared<Archive>(path)) {}

const std::string& NpzFile::path() const { return archive_->path(); }

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const ZipEntry& entry : archive_->entries()) names.push_back(entry.name);
  return names;
}

PendingTensor NpzFile::find(const std::string& name, std::optional<DType> wanted) const {
  for (const ZipEntry& entry : archive_->entries()) {
    if (entry.name != name) continue;
    const std::string where = archive_->where(entry);
    std::vector<std::byte> start(std::min<uint64_t>(entry.size, kMaxNpyHeader));
    EntryStream(entry, where).read(start);
    const NpyHeader header = parse_npy_header(start, where);
    if (const auto recorded = parse_dtype(entry.comment)) wanted = recorded;
    return pend_npy(header, element_type(header, wanted, where), entry.size, where,
                    [archive = archive_, &entry, where, length = header.length] {
                      const auto stream = std::make_shared<EntryStream>(entry, where);
                      std::vector<std::byte> skipped(length);
                      stream->read(skipped);
                      return [archive, stream](std::span<std::byte> to) { stream->read(to); };
                    });
  }
  return {};
}

NamedTensors read_npz(const std::string& path) {
  const NpzFile file(path);
  NamedTensors tensors;
  for (const std::string& name : file.names()) tensors.emplace_back(name, file.find(name, std::nullopt).load());
  return tensors;
}

}  // namespace graft
