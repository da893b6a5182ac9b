// SPDX-License-Identifier: Apache-2.0
#include "python_program.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "child_process.h"

namespace graft {
namespace {

constexpr int kLevels = 4;  // above this program: of a build tree, and of an installed package

/// The folders around this program, from its own on.
std::vector<std::filesystem::path> folders() {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::filesystem::path> found;
  for (int level = 0; level < kLevels && !folder.empty(); ++level, folder = folder.parent_path()) {
    found.push_back(folder);
  }
  return found;
}

std::vector<std::string> pythons() {
  std::vector<std::string> found;
  std::error_code ignored;
  const char* active = std::getenv("VIRTUAL_ENV");
  if (active && *active) found.push_back(std::filesystem::path(active) / "bin/python");
  found.emplace_back("python3");
  for (const std::filesystem::path& folder : folders()) {
    const std::filesystem::path candidate = folder / ".deps/venv/bin/python";
    if (std::filesystem::exists(candidate, ignored)) found.push_back(candidate);
  }
  return found;
}

}  // namespace

std::string find_python(std::string_view packages) {
  const std::string look =
      fmt::format("import importlib.util as u, sys; sys.exit(not all(u.find_spec(p) for p in ({},)))", packages);
  constexpr double kSeconds = 30;
  const std::vector<std::string> all = pythons();
  for (const std::string& python : all) {
    try {
      const Ended ended = capture_program({python, "-c", look}, kSeconds);
      if (ended.status == 0 && ended.signal == 0 && !ended.timed_out) return python;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;  // else there is no such program
    }
  }
  return all.front();
}

std::string python_package_folder() {
  std::error_code ignored;
  for (const std::filesystem::path& folder : folders()) {
    for (const std::filesystem::path& place : {folder, folder / "python"}) {
      if (std::filesystem::exists(place / "graft/__init__.py", ignored)) return place;
    }
  }
  return "";
}

}  // namespace graft
