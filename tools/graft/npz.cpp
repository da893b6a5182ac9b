// SPDX-License-Identifier: Apache-2.0
// .npz: the part of the zip format (PKWARE's APPNOTE 6.3) that numpy writes.
#include <zlib.h>

#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "npy.h"

namespace graft {
namespace {

constexpr uint32_t kLocalHeader = 0x04034B50, kCentralHeader = 0x02014B50, kEndRecord = 0x06054B50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
/// A deflated entry may grow to this much: deflate itself cannot do better than 1032 to 1.
constexpr uint64_t kMaxGrowth = 1032;

/// A zip archive in memory; every read is checked.
class Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)), file_(MappedFile::open(path_)), bytes_(file_->bytes()) {}

  NamedTensors read() {
    const size_t end = find_end_record();
    const uint32_t count = number(end + 10, 2);
    size_t at = number(end + 16, 4);
    NamedTensors tensors;
    for (uint32_t entry = 0; entry < count; ++entry) {
      check(number(at, 4) == kCentralHeader, "the directory is damaged");
      const uint32_t name_length = number(at + 28, 2);
      std::string name(text(at + kCentralBytes, name_length));
      const std::string where = fmt::format("{}: {}", path_, name);
      const std::vector<std::byte> contents = inflate_entry(at);
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
      tensors.emplace_back(std::move(name), parse_npy(contents, where));
      at += kCentralBytes + name_length + number(at + 30, 2) + number(at + 32, 2);
    }
    return tensors;
  }

 private:
  void check(bool good, const std::string& what) const {
    GRAFT_USER_CHECK(good, kInvalidArgument, what + "; numpy.savez writes what can be read here", path_);
  }
  std::string_view text(size_t at, size_t length) const {
    check(at <= bytes_.size() && length <= bytes_.size() - at, "the archive is cut off");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }
  uint32_t number(size_t at, int width) const {
    uint32_t value = 0;
    const std::string_view digits = text(at, width);
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }

  /// The end record is followed by a comment of at most 65535 bytes.
  size_t find_end_record() const {
    check(bytes_.size() >= kEndBytes, "this is no .npz file");
    const size_t last = bytes_.size() - kEndBytes;
    for (size_t back = 0; back <= last && back <= 65535; ++back) {
      if (number(last - back, 4) == kEndRecord) return last - back;
    }
    check(false, "this is no .npz file, or it is cut off");
    return 0;
  }

  std::vector<std::byte> inflate_entry(size_t central) const {
    const uint32_t method = number(central + 10, 2), checksum = number(central + 16, 4);
    const uint32_t packed = number(central + 20, 4), size = number(central + 24, 4);
    const size_t local = number(central + 42, 4);
    check(packed != UINT32_MAX && size != UINT32_MAX && local != UINT32_MAX, "an entry is 4 GiB or larger");
    check(number(local, 4) == kLocalHeader, "the directory is damaged");
    const size_t begin = local + kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
    const std::string_view data = text(begin, packed);
    std::vector<std::byte> contents;
    if (method == 0) {
      check(packed == size, "the directory is damaged");
      contents.resize(size);
      std::memcpy(contents.data(), data.data(), size);
    } else {
      check(method == 8, fmt::format("compression method {} is unknown", method));
      check(size <= packed * kMaxGrowth + 64, "the directory is damaged");
      contents.resize(size);
      inflate_into(data, contents);
    }
    const uLong found = crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
    check(found == checksum, "the checksum of an entry is wrong");
    return contents;
  }

  void inflate_into(std::string_view data, std::vector<std::byte>& contents) const {
    z_stream stream{};
    GRAFT_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib cannot start");
    Bytef nothing = 0;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = contents.empty() ? &nothing : reinterpret_cast<Bytef*>(contents.data());
    stream.avail_out = static_cast<uInt>(contents.size());
    const int result = inflate(&stream, Z_FINISH);
    const bool whole = result == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    check(whole, "the compressed data of an entry is damaged");
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
};

/// Whether .npy has a spelling for the type.
bool is_native(DType type) {
  return kind_of(type) != DTypeKind::kOpaque && type != DType::kBFloat16 && bit_width(type) >= 8 &&
         !(is_float(type) && bit_width(type) == 8);
}

/// `weights@bf16[2,3]` and bytes -> `weights` and the tensor; anything else stays as it is.
void restore_type(std::string& name, TensorData& tensor) {
  const size_t mark = name.rfind('@'), bracket = name.find('[', mark == name.npos ? 0 : mark);
  if (mark == name.npos || bracket == name.npos || !name.ends_with(']') || tensor.type() != DType::kUint8) return;
  const auto type = parse_dtype(std::string_view(name).substr(mark + 1, bracket - mark - 1));
  if (!type) return;
  std::vector<int64_t> shape;
  for (size_t at = bracket + 1; at + 1 < name.size();) {
    int64_t size = 0;
    const auto [end, fault] = std::from_chars(name.data() + at, name.data() + name.size() - 1, size);
    if (fault != std::errc()) return;
    shape.push_back(size);
    at = end - name.data() + 1;
  }
  tensor = TensorData::from_bytes(*type, shape, tensor.bytes());
  name.resize(mark);
}

std::string little_endian(std::initializer_list<std::pair<uint64_t, int>> fields) {
  std::string text;
  for (auto [value, width] : fields) {
    for (; width-- > 0; value >>= 8) text += static_cast<char>(value & 0xFF);
  }
  return text;
}

}  // namespace

NamedTensors read_npz(const std::string& path) {
  NamedTensors tensors = Archive(path).read();
  for (auto& [name, tensor] : tensors) restore_type(name, tensor);
  return tensors;
}

void write_npz(const std::string& path, const NamedTensors& tensors) {
  // Neither the time nor the system is recorded: the same tensors give the same file.
  constexpr uint64_t kVersion = 20, kUtf8 = 1 << 11, kFirstOfJanuary1980 = 0x21;
  AtomicFile file(path);
  std::string directory;
  for (const auto& [name, tensor] : tensors) {
    std::string title = name;
    if (!is_native(tensor.type())) {
      title += fmt::format("@{}[{}]", name_of(tensor.type()), fmt::join(tensor.shape(), ","));
    }
    title += ".npy";
    const std::string contents = print_npy(tensor);
    const size_t offset = file.size();
    GRAFT_USER_CHECK(contents.size() < UINT32_MAX && offset < UINT32_MAX && tensors.size() < 65535, kUnsupported,
                     "an .npz file holds at most 4 GiB", path);
    const uint64_t checksum = crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
    const std::string common =
        little_endian({{kVersion, 2}, {kUtf8, 2}, {0, 2}, {0, 2}, {kFirstOfJanuary1980, 2}, {checksum, 4},
                       {contents.size(), 4}, {contents.size(), 4}, {title.size(), 2}, {0, 2}});
    file.write(little_endian({{kLocalHeader, 4}}) + common + title);
    file.write(contents);
    directory += little_endian({{kCentralHeader, 4}, {kVersion, 2}}) + common +
                 little_endian({{0, 2}, {0, 2}, {0, 2}, {0, 4}, {offset, 4}}) + title;
  }
  const size_t start = file.size();
  GRAFT_USER_CHECK(start < UINT32_MAX, kUnsupported, "an .npz file holds at most 4 GiB", path);
  file.write(directory);
  file.write(little_endian({{kEndRecord, 4}, {0, 2}, {0, 2}, {tensors.size(), 2}, {tensors.size(), 2},
                            {directory.size(), 4}, {start, 4}, {0, 2}}));
  file.commit();
}

}  // namespace graft
