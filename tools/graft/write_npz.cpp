// SPDX-License-Identifier: Apache-2.0
// Writing .npz: stored entries, in the order given.
#include <fmt/format.h>

#include "base/zip_writer.h"
#include "entry_name.h"
#include "npy.h"

namespace graft {
namespace {

/// The element type, where the header of the entry cannot say it.
std::string type_comment(const TensorData& tensor, std::string_view header) {
  return header.find("'|V1'") != header.npos || header.find("'<V2'") != header.npos
             ? std::string(name_of(tensor.type())) : std::string();
}

}  // namespace

void write_npz(const std::string& path, const NamedTensors& tensors) {
  ZipWriter archive(path);
  for (const auto& [name, tensor] : tensors) {
    const std::string header = print_npy_header(tensor, fmt::format("{}: {}", path, name));
    const TensorData data = npy_data(tensor);
    archive.add(entry_name(name) + ".npy", {std::as_bytes(std::span(header)), data.bytes()},
                type_comment(tensor, header));
  }
  archive.commit();
}

}  // namespace graft
