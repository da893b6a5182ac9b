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
/// TensorData::borrow as keep-alive. Throws Error naming the path and the remedy: invalid_argument where the path
/// cannot be read, device where the file system fails. Nobody may truncate the file meanwhile (the system then ends the
/// process on the next access).
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
  /// Whether somebody has written to the file since it was mapped, so that the bytes may be others now. A new file that
  /// was given the path is no change: the mapping keeps the old one.
  bool was_changed() const;
  /// The file whose mapping holds this byte, when it is one of those that are mapped; else null.
  static std::shared_ptr<const MappedFile> find(const void* byte);

 private:
  MappedFile(int descriptor, std::string path);
  static std::shared_ptr<const MappedFile> share(int descriptor, std::string path);
  /// What a write changes.
  struct Stamp {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp stamp_of(int descriptor, const std::string& path);

  int descriptor_ = -1;
  Stamp stamp_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

/// How a file is written.
struct WriteOptions {
  bool follow_links = true;  ///< through symbolic links to what they name; false refuses them
  bool durable = true;       ///< on the disk when commit() returns, even if the machine stops
};

/// A file that is being written. A regular file, or one that is not there yet, is made beside its final place: until
/// commit() nothing is visible under its name, without commit() nothing stays behind, and of a process that is killed
/// while it replaces a file a hidden name may stay, which the next writer of that file removes. A symbolic link stays
/// and its target is written so. Devices, FIFOs and the open files of this process (/dev/stdout, /dev/fd/3) are written
/// as they are, from the first write on.
///
///   OutputFile file("model.graft");
///   file.write(header);
///   file.commit();
class OutputFile {
 public:
  /// Throws Error naming the path and the remedy: invalid_argument where the path cannot be written, device where the
  /// file system fails.
  explicit OutputFile(std::string path, WriteOptions options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Bytes written so far.
  size_t size() const { return size_; }
  /// Makes the contents durable and gives them their name, replacing what was there.
  void commit();

 private:
  void open_beside();
  void give_name();

  std::string path_;       ///< as it was given
  std::string target_;     ///< where its links lead
  std::string temporary_;  ///< empty while the file has no name
  WriteOptions options_;
  bool direct_ = false;
  int descriptor_ = -1;
  size_t size_ = 0;
};

/// Writes a whole file, as OutputFile does.
void write_file(const std::string& path, std::string_view text, WriteOptions options = {});
/// Throws what writing there would throw, as far as it can be known; changes nothing.
void check_writable(const std::string& path);

/// Whether both paths lead to one file: by links, symbolic or hard, or by spelling.
bool is_same_file(const std::string& path, const std::string& other);
/// Whether this process has read the file of that path, as it is now, as a MappedFile.
bool was_read(const std::string& path);

/// The whole file as text.
std::string read_text_file(const std::string& path);
/// The part before the last slash; "." when there is none.
std::string directory_of(const std::string& path);

}  // namespace graft
