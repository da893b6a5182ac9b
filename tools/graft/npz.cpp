// SPDX-License-Identifier: Apache-2.0
// Reading .npz: the part of the zip format (PKWARE's APPNOTE 6.3) that numpy writes.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "entry_name.h"
#include "npy.h"
#include "zip_format.h"

namespace graft {
namespace {

/// An entry of the directory; all numbers are checked.
struct Entry {
  std::string name;     ///< without the ending .npy
  std::string comment;  ///< the element type, in files that Graft wrote
  bool deflated = false;
  uint32_t checksum = 0;
  uint64_t size = 0;  ///< unpacked
  std::string_view data;
};

/// Unpacks one entry from its start, piece by piece.
class EntryStream {
 public:
  EntryStream(const Entry& entry, std::string where) : entry_(entry), where_(std::move(where)) {
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
    GRAFT_USER_CHECK(good, kInvalidArgument, what + "; numpy.savez writes what can be read here", where_);
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

  Entry entry_;
  std::string where_;
  std::unique_ptr<z_stream, void (*)(z_stream*)> stream_{nullptr, nullptr};
  uint64_t done_ = 0;
  uLong checksum_ = 0;
};

}  // namespace

/// A zip archive that is mapped; every read is checked.
class NpzFile::Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)), file_(MappedFile::open(path_)), bytes_(file_->bytes()) {
    read_directory();
  }

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::string where(const Entry& entry) const { return fmt::format("{}: {}", path_, entry.name); }

 private:
  void check(bool good, const std::string& what) const {
    GRAFT_USER_CHECK(good, kInvalidArgument, what + "; numpy.savez writes what can be read here", path_);
  }
  std::string_view text(uint64_t at, uint64_t length) const {
    check(at <= bytes_.size() && length <= bytes_.size() - at, "the archive is cut off");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }
  uint32_t number(uint64_t at, int width) const {
    uint32_t value = 0;
    const std::string_view digits = text(at, width);
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }

  /// The end record is followed by a comment of at most 65535 bytes.
  uint64_t find_end_record() const {
    check(bytes_.size() >= kEndBytes, "this is no .npz file");
    const uint64_t last = bytes_.size() - kEndBytes;
    for (uint64_t back = 0; back <= last && back <= 65535; ++back) {
      if (number(last - back, 4) == kEndRecord) return last - back;
    }
    check(false, "this is no .npz file, or it is cut off");
    return 0;
  }

  void read_directory() {
    const uint64_t end = find_end_record();
    const uint32_t count = number(end + 10, 2);
    uint64_t at = number(end + 16, 4);
    std::vector<std::pair<uint64_t, uint64_t>> places = {{at, end}};  // from and to where something lies
    std::set<std::string, std::less<>> names;
    for (uint32_t i = 0; i < count; ++i) {
      check(number(at, 4) == kCentralHeader, "the directory is damaged");
      places.push_back(add_entry(at));
      check(names.insert(entries_.back().name).second,
            fmt::format("the name '{}' stands twice in the directory", entries_.back().name));
      at += kCentralBytes + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
    }
    check(at <= end, "the directory is damaged");
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
      check(places[i - 1].second <= places[i].first, "entries of the archive share bytes");
    }
  }

  /// The entry at `central` of the directory is noted; gives where its local header and its data lie.
  std::pair<uint64_t, uint64_t> add_entry(uint64_t central) {
    Entry entry;
    const uint32_t flags = number(central + 8, 2), method = number(central + 10, 2);
    const uint32_t packed = number(central + 20, 4), local = number(central + 42, 4);
    const uint32_t name_length = number(central + 28, 2), extra_length = number(central + 30, 2);
    entry.name = text(central + kCentralBytes, name_length);
    entry.comment = text(central + kCentralBytes + name_length + extra_length, number(central + 32, 2));
    entry.checksum = number(central + 16, 4);
    entry.size = number(central + 24, 4);
    check(packed != UINT32_MAX && entry.size != UINT32_MAX && local != UINT32_MAX,
          fmt::format("the entry '{}' has 4 GiB or more: save it as .npy", entry.name));
    check(method == 0 || method == 8, fmt::format("compression method {} is unknown", method));
    check((flags & 1) == 0, "an entry is encrypted");
    entry.deflated = method == 8;
    check(entry.deflated ? entry.size <= packed * kMaxGrowth + 64 : packed == entry.size, "the directory is damaged");
    check(number(local, 4) == kLocalHeader, "the directory is damaged");
    const uint64_t begin = uint64_t{local} + kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
    entry.data = text(begin, packed);
    if (entry.name.ends_with(".npy")) entry.name.resize(entry.name.size() - 4);
    entry.name = name_of_entry(entry.name);
    entries_.push_back(std::move(entry));
    return {local, begin + packed};
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
  std::vector<Entry> entries_;
};

NpzFile::NpzFile(const std::string& path) : archive_(std::make_shared<Archive>(path)) {}

const std::string& NpzFile::path() const { return archive_->path(); }

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : archive_->entries()) names.push_back(entry.name);
  return names;
}

PendingTensor NpzFile::find(const std::string& name, std::optional<DType> wanted) const {
  for (const Entry& entry : archive_->entries()) {
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
