// SPDX-License-Identifier: Apache-2.0
// Files: mapped for reading, and written so that a reader sees the old or the new one, never half of it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace graft {

/// A regular file mapped read-only. The bytes live as long as the object; hand the shared pointer to
/// TensorData::borrow as keep-alive. Throws device errors naming the path and the remedy. Nobody may truncate the
/// file meanwhile (the system then ends the process on the next access).
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// Opens `relative` below `directory` for a path that came from a model: no absolute path, no `..`, and no
  /// symbolic link in any of its parts. Throws invalid_model for a path that breaks these rules.
  static std::shared_ptr<const MappedFile> open_contained(const std::string& directory, std::string_view relative);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(int descriptor, std::string path);
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

/// A file under construction beside its final place. Until commit() nothing is visible under `path`, and without it
/// nothing stays behind, even when the process is killed (where the file system has unnamed files).
///
///   AtomicFile file("model.graft");
///   file.write(header);
///   file.commit();
class AtomicFile {
 public:
  /// `mode` is reduced by the process's umask. Throws a device error naming path and remedy.
  explicit AtomicFile(std::string path, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrites bytes at `offset`, for headers known last.
  void write_at(size_t offset, std::span<const std::byte> bytes);
  size_t size() const { return size_; }
  /// Makes the contents durable and gives them their name, replacing what was there.
  void commit();

 private:
  std::string path_;
  std::string directory_;
  std::string temporary_;  ///< empty while the file has no name
  int descriptor_ = -1;
  size_t size_ = 0;
};

/// Writes a whole file atomically.
void write_file(const std::string& path, std::span<const std::byte> bytes, unsigned mode = 0666);
void write_file(const std::string& path, std::string_view text, unsigned mode = 0666);
/// The whole file as text.
std::string read_text_file(const std::string& path);
/// The part before the last slash; "." when there is none.
std::string directory_of(const std::string& path);

}  // namespace graft
