// SPDX-License-Identifier: Apache-2.0
#include "support/saved_model_files.h"

#include <cstring>

#include "import/tensorflow/crc32c.h"
#include "import/tensorflow/wire.h"
#include "support/graph_def_text.h"

namespace graft::test {
namespace {

using tensorflow::append_field;

constexpr size_t kFooter = 48, kMagic = 8;

void append_varint(std::string& target, uint64_t value) {
  for (; value >= 0x80; value >>= 7) target += static_cast<char>(0x80 | (value & 0x7f));
  target += static_cast<char>(value);
}

void append_number(std::string& target, uint32_t value) {
  for (int i = 0; i < 4; ++i) target += static_cast<char>(value >> (8 * i));
}

uint32_t checksum(std::string_view bytes) {
  return tensorflow::masked(tensorflow::crc32c(std::as_bytes(std::span(bytes))));
}

/// As Snappy has it, without finding anything that repeats.
std::string with_literals(const std::string& bytes) {
  std::string made;
  append_varint(made, bytes.size());
  for (size_t at = 0; at < bytes.size(); at += 60) {
    const std::string part = bytes.substr(at, 60);
    made += static_cast<char>((part.size() - 1) << 2);
    made += part;
  }
  return made;
}

using Entries = std::vector<std::pair<std::string, std::string>>;

/// Appends a block, and gives its place.
std::string append_block(std::string& file, const Entries& entries, Blocks blocks) {
  std::string block, before;
  for (const auto& [key, value] : entries) {
    const auto ends = std::mismatch(before.begin(), before.end(), key.begin(), key.end());
    const auto shared = static_cast<size_t>(ends.first - before.begin());
    append_varint(block, shared), append_varint(block, key.size() - shared), append_varint(block, value.size());
    block += key.substr(shared) + value;
    before = key;
  }
  append_number(block, 0), append_number(block, 1);  // keys are whole at the beginning alone
  if (blocks == Blocks::kSnappy) block = with_literals(block);
  std::string place;
  append_varint(place, file.size()), append_varint(place, block.size());
  block += static_cast<char>(blocks);
  append_number(block, checksum(block));
  file += block.substr(0, block.size());
  return place;
}

}  // namespace

std::string write_table(const std::map<std::string, std::string>& entries, Blocks blocks) {
  std::string file;
  const Entries all(entries.begin(), entries.end());
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  Entries index;
  for (const Entries& part : {Entries(all.begin(), middle), Entries(middle, all.end())}) {
    if (!part.empty()) index.emplace_back(part.back().first, append_block(file, part, blocks));
  }
  std::string footer = append_block(file, {}, Blocks::kRaw);
  footer += append_block(file, index, blocks);
  footer.resize(kFooter - kMagic);
  append_number(footer, 0x8b80fb57), append_number(footer, 0xdb477524);
  return file + footer;
}

std::string PlacedTensor::bytes() const {
  std::string bytes(elements.size() * sizeof(float), 0);
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

graft_tensorflow::BundleEntryProto entry_of(const PlacedTensor& tensor) {
  graft_tensorflow::BundleEntryProto entry;
  entry.set_dtype(1);
  entry.mutable_shape()->add_dim()->set_size(static_cast<int64_t>(tensor.elements.size()));
  entry.set_shard_id(tensor.shard);
  entry.set_offset(tensor.offset);
  const std::string bytes = tensor.bytes();
  entry.set_size(static_cast<int64_t>(bytes.size()));
  entry.set_crc32c(checksum(bytes));
  return entry;
}

std::string write_index(const std::map<std::string, graft_tensorflow::BundleEntryProto>& entries, int shards,
                        Blocks blocks) {
  graft_tensorflow::BundleHeaderProto header;
  header.set_num_shards(shards);
  std::map<std::string, std::string> written = {{"", header.SerializeAsString()}};
  for (const auto& [key, entry] : entries) written[key] = entry.SerializeAsString();
  return write_table(written, blocks);
}

CheckpointBytes write_checkpoint(const std::map<std::string, std::vector<float>>& tensors, Blocks blocks) {
  CheckpointBytes made;
  std::map<std::string, graft_tensorflow::BundleEntryProto> entries;
  for (const auto& [key, elements] : tensors) {
    const PlacedTensor tensor = {elements, 0, static_cast<int64_t>(made.data.size())};
    entries[key] = entry_of(tensor);
    made.data += tensor.bytes();
  }
  made.index = write_index(entries, 1, blocks);
  return made;
}

std::string write_saved_model(const SavedModelText& model) {
  graft_tensorflow::MetaInfoDef info;
  info.add_tags("serve");
  for (const auto& each : model.operators) *info.mutable_stripped_op_list()->add_op() = each;
  graft_tensorflow::SaverDef saver;
  saver.set_restore_op_name(model.restore_op);
  std::string meta, made;
  append_field(meta, 1, info.SerializeAsString());
  append_field(meta, 2, model.graph.SerializeAsString());
  append_field(meta, 3, saver.SerializeAsString());
  for (const auto& [name, signature] : model.signatures) {
    graft_tensorflow::SignatureEntry entry;
    entry.set_key(name);
    const auto add = [](auto& tensor, const auto& named) {
      tensor.set_key(named.first);
      tensor.mutable_value()->set_name(named.second);
      tensor.mutable_value()->set_dtype(1);
      tensor.mutable_value()->mutable_tensor_shape()->add_dim()->set_size(-1);
      tensor.mutable_value()->mutable_tensor_shape()->add_dim()->set_size(3);
    };
    for (const auto& each : signature.inputs) add(*entry.mutable_value()->add_inputs(), each);
    for (const auto& each : signature.outputs) add(*entry.mutable_value()->add_outputs(), each);
    append_field(meta, 5, entry.SerializeAsString());
  }
  append_field(made, 2, meta);
  return made;
}

void add_function(graft_tensorflow::GraphDef& graph, const std::string& name, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& results, const std::string& nodes) {
  auto& function = *graph.mutable_library()->add_function();
  function.mutable_signature()->set_name(name);
  for (const std::string& argument : arguments) {
    auto& input = *function.mutable_signature()->add_input_arg();
    input.set_name(argument), input.set_type(1);
  }
  for (const std::string& result : results) {
    const size_t equals = result.find('=');
    auto& output = *function.mutable_signature()->add_output_arg();
    output.set_name(result.substr(0, equals)), output.set_type(1);
    auto& returned = *function.add_ret();
    returned.set_key(result.substr(0, equals)), returned.set_value(result.substr(equals + 1));
  }
  const graft_tensorflow::GraphDef body = graph_of(nodes);
  for (const auto& node : body.node()) *function.add_node_def() = node;
}

}  // namespace graft::test
