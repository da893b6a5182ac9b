// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a checkpoint: tensors that can be read from a shard, or an error. The checksums of what is
// changed are made right again, so that what lies behind them is looked at.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "import/tensorflow/checkpoint.h"
#include "import/tensorflow/crc32c.h"
#include "import/tensorflow/saved_model.pb.h"
#include "support/saved_model_files.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace graft;

/// A folder that the shard of all checkpoints lies in.
const std::string& prefix() {
  static const std::string* const made = [] {
    std::string folder = (std::filesystem::temp_directory_path() / "read_checkpointXXXXXX").string();
    if (!::mkdtemp(folder.data())) std::abort();
    write_file(folder + "/c.data-00000-of-00001", std::string(64, '\1'));
    std::atexit([] { std::filesystem::remove_all(std::filesystem::path(prefix()).parent_path()); });
    return new std::string(folder + "/c");
  }();
  return *made;
}

}  // namespace

/// Entries of a table whose blocks are what they should be.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  if (size > 0 && random.chance(0.3)) return LLVMFuzzerMutate(data, size, max_size);
  graft_tensorflow::BundleHeaderProto header;
  header.set_num_shards(static_cast<int>(random.integer(0, 2)));
  std::map<std::string, std::string> entries = {{"", header.SerializeAsString()}};
  for (int64_t count = random.integer(0, 4); count > 0; --count) {
    graft_tensorflow::BundleEntryProto entry;
    entry.set_dtype(static_cast<int>(random.integer(0, 24)));
    for (int64_t rank = random.integer(0, 3); rank > 0; --rank) {
      entry.mutable_shape()->add_dim()->set_size(random.chance(0.9) ? random.integer(0, 4) : INT64_MAX / 3);
    }
    entry.set_shard_id(static_cast<int>(random.integer(-1, 1)));
    entry.set_offset(random.chance(0.8) ? random.integer(0, 64) : INT64_MAX - 2);
    entry.set_size(random.integer(0, 64));
    const std::string elements(static_cast<size_t>(entry.size()), '\1');
    entry.set_crc32c(tensorflow::masked(tensorflow::crc32c(std::as_bytes(std::span(elements)))));
    std::string bytes = entry.SerializeAsString();
    if (!bytes.empty() && random.chance(0.3)) {
      bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size(), bytes.size()));
    }
    entries[std::string(static_cast<size_t>(random.integer(1, 40)), static_cast<char>('a' + count))] = bytes;
  }
  const auto blocks = random.chance(0.5) ? test::Blocks::kRaw : test::Blocks::kSnappy;
  const std::string table = test::write_table(entries, blocks);
  if (table.size() > max_size) return size;
  std::memcpy(data, table.data(), table.size());
  return table.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  write_file(prefix() + ".index", {reinterpret_cast<const char*>(data), size}, {.durable = false});
  try {
    tensorflow::Checkpoint checkpoint(std::filesystem::path(prefix()).parent_path().string(), "c");
    for (const std::string& key : checkpoint.keys()) {
      try {
        const TensorData tensor = checkpoint.read(key, "fuzz");
        if (!tensor.bytes().empty() && tensor.bytes().back() != std::byte{1}) __builtin_trap();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInternal) __builtin_trap();
      }
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) __builtin_trap();
  }
  return 0;
}
