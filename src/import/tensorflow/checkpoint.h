// SPDX-License-Identifier: Apache-2.0
// Checkpoints in TensorFlow's V2 format: an index (PREFIX.index) of tensors in shards (PREFIX.data-00000-of-00001).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/tensor_data.h"
#include "import/tensorflow/sorted_table.h"

namespace graft_tensorflow {
class BundleEntryProto;
}

namespace graft::tensorflow {

/// A checkpoint whose tensors stay in its shards until somebody asks for their elements; these are then confirmed by
/// their checksum. For one thread.
class Checkpoint {
 public:
  /// `prefix`: the path below the model's folder, up to `.index`. Throws invalid_model naming the file for an index
  /// that is damaged, or for a symbolic link, which could lead out of the folder; device errors and invalid_argument
  /// where a file cannot be read.
  Checkpoint(std::string folder, std::string_view prefix);

  /// The tensor of that key. Throws invalid_model naming `where` and the key for one that there is not, with the
  /// nearest key, for one that its shard is too short for, and unsupported for texts. One that is saved in parts is
  /// put together in memory.
  TensorData read(const std::string& key, const std::string& where);
  std::vector<std::string> keys() const;

 private:
  std::shared_ptr<const MappedFile> open_part(const std::string& end) const;
  const MappedFile& shard(int number);
  /// What lies in one piece: the bytes of an entry of the index. `place` names the tensor in errors.
  TensorData read_piece(const graft_tensorflow::BundleEntryProto& entry, const std::string& place);
  TensorData read_parts(const std::string& key, const graft_tensorflow::BundleEntryProto& entry,
                        const std::string& place);

  std::string folder_, prefix_;
  SortedTable entries_;
  int shards_ = 0;
  std::map<int, std::shared_ptr<const MappedFile>> open_;
};

}  // namespace graft::tensorflow
