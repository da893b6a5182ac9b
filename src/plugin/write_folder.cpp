// SPDX-License-Identifier: Apache-2.0
#include "plugin/write_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace graft::plugin {
namespace {

namespace files = std::filesystem;

[[noreturn]] void fail(const std::string& message, const std::string& path) {
  throw Error(ErrorKind::kInvalidArgument, message, path);
}

/// The path without slashes at its end, which would be another name's.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

OutputFolder::OutputFolder(std::string path, std::string mark)
    : path_(without_slash(std::move(path))), mark_(std::move(mark)) {
  if (path_.empty()) fail("the name of the folder to write is empty", "--output");
  std::error_code error;
  const bool there = files::exists(files::symlink_status(path_, error));
  if (there && !files::is_directory(path_, error)) fail("a file is there: name a folder that is new", path_);
  if (there && !files::is_empty(path_, error) && !files::exists(path_ + "/" + mark_, error)) {
    fail("the folder holds files that are not of this command, which would go: name one that is new or empty", path_);
  }
  temporary_ = path_ + ".part-XXXXXX";
  if (!mkdtemp(temporary_.data())) {
    const int reason = errno;
    temporary_.clear();
    fail(fmt::format("no folder can be made there ({}): name one where you may write", std::strerror(reason)), path_);
  }
  ::chmod(temporary_.c_str(), 0755);
}

OutputFolder::~OutputFolder() {
  std::error_code error;
  if (!temporary_.empty()) files::remove_all(temporary_, error);
}

std::string OutputFolder::place(const std::string& name) const {
  const std::string at = temporary_ + "/" + name;
  std::error_code error;
  files::create_directories(directory_of(at), error);
  return at;
}

void OutputFolder::write(const std::string& name, std::string_view text) const { write_file(place(name), text); }

void OutputFolder::commit() {
  std::error_code error;
  std::string old;
  if (files::exists(path_, error)) {
    old = temporary_ + ".old";
    files::rename(path_, old, error);
    if (error) fail(fmt::format("the folder that is there cannot be replaced: {}", error.message()), path_);
  }
  files::rename(temporary_, path_, error);
  if (error) {
    const std::string reason = error.message();
    if (!old.empty()) files::rename(old, path_, error);
    fail(fmt::format("the folder cannot get its name: {}", reason), path_);
  }
  temporary_.clear();
  if (!old.empty()) files::remove_all(old, error);
}

}  // namespace graft::plugin
