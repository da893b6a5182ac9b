// SPDX-License-Identifier: Apache-2.0
#include "child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "console.h"

extern char** environ;

namespace graft {
namespace {

constexpr int kLookMilliseconds = 100;  // between two looks at whether to stop

pid_t spawn(std::vector<std::string>& words, const posix_spawn_file_actions_t* actions,
            const posix_spawnattr_t* attributes = nullptr) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int fault = posix_spawnp(&child, arguments[0], actions, attributes, arguments.data(), environ);
  GRAFT_USER_CHECK(fault == 0, kDevice, std::strerror(fault), words[0]);
  return child;
}

/// The same in a process group of its own.
pid_t spawn_group(std::vector<std::string>& words, const posix_spawn_file_actions_t* actions) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  try {
    child = spawn(words, actions, &attributes);
  } catch (...) {
    posix_spawnattr_destroy(&attributes);
    throw;
  }
  posix_spawnattr_destroy(&attributes);
  return child;
}

int wait_for(pid_t child, const std::string& what) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    GRAFT_USER_CHECK(errno == EINTR, kDevice, std::strerror(errno), what);
  }
  return status;
}

/// Waits until a child has ended; false when it has not before somebody asks to stop.
bool ends_before(pid_t child, const std::function<bool()>& stop) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (descriptor < 0) return true;  // a system without it: waited for without a limit
  pollfd watched{descriptor, POLLIN, 0};
  bool ended = false;
  while (!ended && !stop()) {
    ended = ::poll(&watched, 1, kLookMilliseconds) > 0;
  }
  ::close(descriptor);
  return ended;
}

/// The same, also false after so many seconds.
bool ends_within(pid_t child, double seconds, const std::function<bool()>& stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  return ends_before(child, [&] { return stop() || std::chrono::steady_clock::now() >= end; });
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "graft-XXXXXX";
  GRAFT_USER_CHECK(mkdtemp(pattern.data()), kDevice, std::strerror(errno), pattern);
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

int run_program(std::vector<std::string> words) {
  const int status = wait_for(spawn(words, nullptr), words[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::optional<int> run_program_until(std::vector<std::string> words, const std::function<bool()>& stop) {
  const pid_t child = spawn_group(words, nullptr);
  const bool has_ended = ends_before(child, stop);
  if (!has_ended) ::kill(-child, SIGKILL);
  const int status = wait_for(child, words[0]);
  if (!has_ended) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

Ended capture_program(std::vector<std::string> words, double seconds, const std::function<bool()>& stop) {
  const ScratchFolder scratch;
  const std::string output = scratch / "output", errors = scratch / "errors";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  try {
    child = spawn_group(words, &actions);
  } catch (...) {
    posix_spawn_file_actions_destroy(&actions);
    throw;
  }
  posix_spawn_file_actions_destroy(&actions);
  Ended ended;
  ended.timed_out = !ends_within(child, seconds, stop);
  if (ended.timed_out) ::kill(-child, SIGKILL);
  const int status = wait_for(child, words[0]);
  if (stop()) throw Error(ErrorKind::kCancelled, "stopped");
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status) && !ended.timed_out) ended.signal = WTERMSIG(status);
  ended.output = read_text_file(output);
  ended.errors = read_text_file(errors);
  return ended;
}

ServingProgram::ServingProgram(std::vector<std::string> words) : name_(words.at(0)), child_(spawn(words, nullptr)) {}

ServingProgram::~ServingProgram() {
  if (ended_) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, &status_, 0);
}

bool ServingProgram::runs() {
  if (!ended_) ended_ = ::waitpid(child_, &status_, WNOHANG) == child_;
  return !ended_;
}

void ServingProgram::wait_a_moment() const {
  std::this_thread::sleep_for(std::chrono::milliseconds(kLookMilliseconds));
}

int ServingProgram::end() {
  if (runs()) {
    ::kill(child_, SIGTERM);
    status_ = wait_for(child_, name_);
    ended_ = true;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 1;
}

}  // namespace graft
