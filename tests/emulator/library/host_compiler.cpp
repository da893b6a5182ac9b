// SPDX-License-Identifier: Apache-2.0
#include "host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/hash.h"

extern char** environ;

namespace graft::emulator {
namespace {

// -O1 compiles about as fast as -O0 here, and runs several times faster. What a kernel leaves unset is not zero; what
// lies at a wrong address or beyond an array traps, and each access is checked (memory_check.cpp). A product and a sum
// stay two roundings.
constexpr const char* kFlags =
    "-O1 -w -std=c++17 -fPIC -shared -nostdlib -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-exceptions "
    "-fno-asynchronous-unwind-tables -ftrivial-auto-var-init=pattern -fsanitize=alignment,bounds "
    "-fsanitize-undefined-trap-on-error -fno-math-errno " GRAFT_EMULATOR_CHECKS;

std::string variable(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string& cache_folder() {
  static const std::string folder = [] {
    const std::string name = variable("GRAFT_EMULATOR_CACHE", GRAFT_EMULATOR_FOLDER "/cache");
    std::error_code ignored;
    std::filesystem::create_directories(name, ignored);
    return name;
  }();
  return folder;
}

/// The name of a file that is not there yet.
std::string temporary(const std::string& suffix) {
  static std::atomic<int> count{0};
  return cache_folder() + "/." + std::to_string(getpid()) + "." + std::to_string(count++) + suffix;
}

std::string hash_of(const std::string& text) { return hash128(text).to_string(); }

/// All of device/, which is part of each unit.
const std::string& headers() {
  static const std::string text = [] {
    std::string all;
    for (const char* name : {"interface.h", "cuda.h", "ptx.h"})
      all += read(GRAFT_EMULATOR_DEVICE "/" + std::string(name));
    return all;
  }();
  return text;
}

/// Runs a command; what it prints goes to a file.
int run(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // What is loaded in front of this process is not for the compiler.
  std::vector<char*> variables;
  for (char** entry = environ; *entry; ++entry) {
    if (std::string_view(*entry).rfind("LD_PRELOAD=", 0) != 0) variables.push_back(*entry);
  }
  variables.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  int status = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  if (status != 0) return status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

}  // namespace

std::string place(const std::string& name, const std::string& object) {
  const std::string path = cache_folder() + "/" + name;
  std::error_code ignored;
  if (std::filesystem::file_size(path, ignored) == object.size()) return path;
  const std::string draft = temporary(".so");
  std::ofstream(draft, std::ios::binary) << object;
  std::rename(draft.c_str(), path.c_str());
  return path;
}

Compiled compile_for_host(const std::string& text, const std::string& architecture) {
  const std::string more = variable("GRAFT_EMULATOR_FLAGS", "");
  const std::string define = "-D__CUDA_ARCH__=" + architecture + "0", flags = std::string(kFlags) + " " + more;
  const std::string hash = hash_of(text + headers() + define + flags + GRAFT_EMULATOR_COMPILER), name = hash + ".so";
  const std::string stem = cache_folder() + "/" + hash, kept = cache_folder() + "/" + name;
  if (std::string object = read(kept); !object.empty()) return {name, std::move(object), ""};
  const std::string source = more.empty() ? temporary(".cpp") : stem + ".cpp", object = temporary(".so");
  const std::string log = temporary(".log");
  std::ofstream(source) << text;
  std::vector<std::string> words = {GRAFT_EMULATOR_COMPILER, "-I", GRAFT_EMULATOR_DEVICE, define};
  std::istringstream parts(flags);
  words.insert(words.end(), std::istream_iterator<std::string>(parts), {});
  words.insert(words.end(), {"-o", object, source, GRAFT_EMULATOR_FOLDER "/libcuda.so.1"});
  const int status = run(words, log);
  Compiled result{name, status == 0 ? read(object) : "", read(log)};
  if (status == 0) std::rename(object.c_str(), kept.c_str());
  if (more.empty()) std::remove(source.c_str());
  for (const std::string& file : {object, log}) std::remove(file.c_str());
  if (status != 0 && result.log.empty()) result.log = GRAFT_EMULATOR_COMPILER " did not start";
  return result;
}

}  // namespace graft::emulator
