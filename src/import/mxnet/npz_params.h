// SPDX-License-Identifier: Apache-2.0
// Arrays as MXNet 2 saves them under numpy's shapes: an NPZ archive whose entries are not compressed.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "import/mxnet/params_file.h"

namespace graft::mxnet {

/// Whether bytes begin as an archive does.
bool is_npz(std::span<const std::byte> bytes);

/// Arrays in the order of the archive: `NAME.npy` is a dense one; behind them, by name, the sparse ones: a folder
/// `NAME/` with data, indices, shape and, of csr, indptr. Elements stay where `keep_alive` has them. Throws
/// invalid_model naming `where` and the entry.
ParamsFile parse_npz_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep_alive,
                            const std::string& where);

/// Writes what parse_npz_params reads: dense and sparse arrays in their order. No time is recorded, so that the same
/// arrays give the same bytes. Throws unsupported for arrays without a name or contents, which a list alone can hold.
void write_npz_params(const ParamsFile& params, const std::string& path);

}  // namespace graft::mxnet
