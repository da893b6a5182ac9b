// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/sorted_table.h"

#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "import/tensorflow/byte_reader.h"
#include "import/tensorflow/crc32c.h"
#include "import/tensorflow/snappy.h"
#include "import/tensorflow/wire.h"

namespace graft::tensorflow {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kFooter = 48, kMagic = 8, kTrailer = 5, kRestart = 4;
constexpr uint32_t kMagicLow = 0x8b80fb57, kMagicHigh = 0xdb477524;
constexpr uint32_t kRaw = 0, kSnappy = 1;       // how a block is compressed
constexpr size_t kMostExpanded = 64;            // of a block, bytes per byte that Snappy can make
constexpr size_t kLeastKeys = size_t{1} << 24;  // bytes of keys, which share their beginnings in the file

/// Where a block lies.
struct Place {
  uint64_t offset = 0, size = 0;
};

std::optional<Place> read_place(ByteReader& reader) {
  const auto offset = reader.varint();
  const auto size = offset ? reader.varint() : std::nullopt;
  if (!size) return std::nullopt;
  return Place{*offset, *size};
}

/// The work of one call of read_sorted_table().
class Reader {
 public:
  Reader(Bytes file, const std::string& where)
      : file_(file), where_(where), keys_left_(kLeastKeys + kMostExpanded * file.size()) {}

  SortedTable run() {
    read_block(index_place(), [&](const std::string&, Bytes handle) {
      ByteReader reader(handle);
      const auto place = read_place(reader);
      if (!place) damaged();
      read_block(*place, [&](const std::string& key, Bytes value) {
        const bool ascends = table_.empty() || table_.rbegin()->first < key;
        if (!ascends || key.size() > keys_left_) damaged();
        keys_left_ -= key.size();
        table_.emplace_hint(table_.end(), key, text_of(value));
      });
    });
    return std::move(table_);
  }

 private:
  [[noreturn]] void damaged() const {
    throw Error(ErrorKind::kInvalidModel,
                "it is no index of a checkpoint, or it is damaged or was cut short: copy or save the model again",
                where_);
  }

  /// The block that says where blocks are.
  Place index_place() const {
    if (file_.size() < kFooter) damaged();
    ByteReader magic(file_.last(kMagic));
    if (magic.number(4) != kMagicLow || magic.number(4) != kMagicHigh) damaged();
    ByteReader footer(file_.last(kFooter));
    const auto meta = read_place(footer);
    const auto index = meta ? read_place(footer) : std::nullopt;
    if (!index) damaged();
    read_block(*meta, [](const std::string&, Bytes) {});  // of no interest, but it has to be whole
    return *index;
  }

  template <class Visit>
  void read_block(Place place, const Visit& visit) const {
    if (place.offset > file_.size() || place.size > file_.size() - place.offset ||
        kTrailer > file_.size() - place.offset - place.size) {
      damaged();
    }
    const Bytes stored = file_.subspan(place.offset, place.size + 1);
    ByteReader trailer(file_.subspan(place.offset + place.size, kTrailer));
    const auto kind = trailer.number(1);
    GRAFT_USER_CHECK(masked(crc32c(stored)) == trailer.number(4), kInvalidModel,
                     fmt::format("the checksum of its bytes from {} on is wrong: it is damaged; copy or save the model "
                                 "again", place.offset),
                     where_);
    const Bytes contents = stored.first(place.size);
    if (kind == kRaw) return read_entries(contents, visit);
    if (kind != kSnappy) damaged();
    const auto expanded = expand_snappy(contents, kMostExpanded * contents.size());
    if (!expanded) damaged();
    read_entries(std::as_bytes(std::span(*expanded)), visit);
  }

  /// Keys share their beginning with the one before; behind the entries stands where keys are whole.
  template <class Visit>
  void read_entries(Bytes block, const Visit& visit) const {
    if (block.size() < kRestart) damaged();
    const uint64_t restarts = *ByteReader(block.last(kRestart)).number(4);
    if (restarts > block.size() / kRestart - 1) damaged();
    ByteReader entries(block.first(block.size() - kRestart * (restarts + 1)));
    std::string key;
    while (entries.left() > 0) {
      const auto shared = entries.varint();
      const auto fresh = shared ? entries.varint() : std::nullopt;
      const auto length = fresh ? entries.varint() : std::nullopt;
      if (!length || *shared > key.size()) damaged();
      const auto ending = entries.take(*fresh);
      const auto value = ending ? entries.take(*length) : std::nullopt;
      if (!value) damaged();
      key.resize(*shared);
      key += text_of(*ending);
      visit(key, *value);
    }
  }

  Bytes file_;
  const std::string& where_;
  size_t keys_left_;
  SortedTable table_;
};

}  // namespace

SortedTable read_sorted_table(std::span<const std::byte> file, const std::string& where) {
  return Reader(file, where).run();
}

}  // namespace graft::tensorflow
