// SPDX-License-Identifier: Apache-2.0
// Writing .npz: stored entries, in the order given.
#include <zlib.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/zip_format.h"
#include "entry_name.h"
#include "npy.h"

namespace graft {
namespace {

std::string little_endian(std::initializer_list<std::pair<uint64_t, int>> fields) {
  std::string text;
  for (auto [value, width] : fields) {
    for (; width-- > 0; value >>= 8) text += static_cast<char>(value & 0xFF);
  }
  return text;
}

uint64_t checksum_of(std::string_view header, std::span<const std::byte> data) {
  const uLong first = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  return data.empty() ? first : crc32_z(first, reinterpret_cast<const Bytef*>(data.data()), data.size());
}

/// The element type, where the header of the entry cannot say it.
std::string type_comment(const TensorData& tensor, std::string_view header) {
  return header.find("'|V1'") != header.npos || header.find("'<V2'") != header.npos
             ? std::string(name_of(tensor.type())) : std::string();
}

}  // namespace

void write_npz(const std::string& path, const NamedTensors& tensors) {
  // Neither the time nor the system is recorded: the same tensors give the same file.
  constexpr uint64_t kVersion = 20, kUtf8 = 1 << 11, kFirstOfJanuary1980 = 0x21;
  OutputFile file(path);
  std::string directory;
  for (const auto& [name, tensor] : tensors) {
    const std::string title = entry_name(name) + ".npy";
    const std::string header = print_npy_header(tensor, fmt::format("{}: {}", path, name));
    GRAFT_USER_CHECK(title.size() <= UINT16_MAX, kUnsupported, "the name of a tensor is too long for an .npz file",
                     path);
    const std::string comment = type_comment(tensor, header);
    const TensorData data = npy_data(tensor);
    const uint64_t size = header.size() + data.bytes().size(), offset = file.size();
    GRAFT_USER_CHECK(size < UINT32_MAX && offset < UINT32_MAX && tensors.size() < 65535, kUnsupported,
                     "an .npz file holds at most 4 GiB; choose results with --outputs, or write one as .npy", path);
    const std::string common =
        little_endian({{kVersion, 2}, {kUtf8, 2}, {0, 2}, {0, 2}, {kFirstOfJanuary1980, 2},
                       {checksum_of(header, data.bytes()), 4}, {size, 4}, {size, 4}, {title.size(), 2}, {0, 2}});
    file.write(little_endian({{kLocalHeader, 4}}) + common + title);
    file.write(header);
    file.write(data.bytes());
    directory += little_endian({{kCentralHeader, 4}, {kVersion, 2}}) + common +
                 little_endian({{comment.size(), 2}, {0, 2}, {0, 2}, {0, 4}, {offset, 4}}) + title + comment;
  }
  const size_t start = file.size();
  GRAFT_USER_CHECK(start < UINT32_MAX, kUnsupported, "an .npz file holds at most 4 GiB", path);
  file.write(directory);
  file.write(little_endian({{kEndRecord, 4}, {0, 2}, {0, 2}, {tensors.size(), 2}, {tensors.size(), 2},
                            {directory.size(), 4}, {start, 4}, {0, 2}}));
  file.commit();
}

}  // namespace graft
