// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/read_model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "graph/bodies.h"
#include "import/onnx/nested_node.h"
#include "import/onnx/node_order.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

constexpr int kDeepestMessage = 100;
constexpr int kChunk = 4 << 20;

/// Feeds bytes to protobuf in chunks and tells the system that those behind are not needed any more: protobuf copies
/// what it reads, and a file should not be in memory twice.
class ChunkStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  ChunkStream(std::span<const std::byte> bytes, bool mapped) : bytes_(bytes), mapped_(mapped) {}

  bool Next(const void** data, int* size) override {
    release();
    if (at_ == bytes_.size()) return false;
    const size_t length = std::min<size_t>(kChunk, bytes_.size() - at_);
    *data = bytes_.data() + at_;
    *size = static_cast<int>(length);
    at_ += length;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<size_t>(count); }
  bool Skip(int count) override {
    const size_t length = std::min(static_cast<size_t>(count), bytes_.size() - at_);
    at_ += length;
    return length == static_cast<size_t>(count);
  }
  int64_t ByteCount() const override { return static_cast<int64_t>(at_); }

 private:
  /// Gives whole pages before the current position back.
  void release() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t whole = at_ / page * page;
    if (!mapped_ || whole <= released_) return;
    ::madvise(const_cast<std::byte*>(bytes_.data()) + released_, whole - released_, MADV_DONTNEED);
    released_ = whole;
  }

  std::span<const std::byte> bytes_;
  bool mapped_;
  size_t at_ = 0;
  size_t released_ = 0;
};

/// Why bytes that are no model may be there, from their first characters.
std::string guess_format(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (head.empty()) return "the file is empty";
  if (head.starts_with("PK")) return "this is a zip archive (a PyTorch or Keras file?), not an ONNX model";
  if (head.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer; fetch the file with `git lfs pull`";
  return "this is not an ONNX model, or the file is damaged or was cut short";
}

void put_in_order(graft_onnx::ModelProto& model) {
  if (sort_nodes(model) == 0) return;
  log(LogLevel::kWarning, "the nodes of the model are not in topological order, as ONNX asks for; they were sorted");
}

}  // namespace

void read_model(graft_onnx::ModelProto& model, std::span<const std::byte> bytes, bool mapped) {
  GRAFT_USER_CHECK(bytes.size() <= INT_MAX, kInvalidModel,
                   "the file is larger than the 2 GiB that its format allows; store the weights as external data",
                   "model");
  ChunkStream stream(bytes, mapped);
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetRecursionLimit(kDeepestMessage);
  const bool read = model.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
  if (read && !bytes.empty()) return put_in_order(model);
  const std::string deep = node_inside_of_graphs(bytes, kDeepestGraph + 2);  // the model's own graph is one of them
  GRAFT_USER_CHECK(deep.empty(), kUnsupported, too_deep_graphs(), deep);
  throw Error(ErrorKind::kInvalidModel, guess_format(bytes) + "; export or download it again", "model");
}

void read_functions(graft_onnx::ModelProto& library, const MappedFile& file) {
  try {
    read_model(library, file.bytes(), /*mapped=*/true);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidArgument, error.message(), file.path());
  }
  GRAFT_USER_CHECK(library.functions_size() > 0, kInvalidArgument,
                   "this ONNX file has no functions, which are the operators that it could define", file.path());
}

}  // namespace graft
