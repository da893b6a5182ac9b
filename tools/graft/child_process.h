// SPDX-License-Identifier: Apache-2.0
// Other programs, run to their end.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "console.h"

namespace graft {

/// A folder that goes away with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// How a program ended, and what it said.
struct Ended {
  int status = 0;          ///< its exit status; 0 when a signal ended it
  int signal = 0;          ///< what ended it; 0 when it ended by itself
  bool timed_out = false;  ///< it was ended by us
  std::string output, errors;
};

/// Runs a program to its end and gives its exit status (1 when a signal ended it); what it prints goes where ours goes.
int run_program(std::vector<std::string> words);
/// The same of a program in a process group of its own, which is killed with all that it has started when somebody asks
/// to stop, as is looked ten times in a second; then nothing.
std::optional<int> run_program_until(std::vector<std::string> words, const std::function<bool()>& stop);
/// Runs a program for so many seconds at most, with nothing to read, and keeps what it prints. Then, and when somebody
/// asks to stop, it is killed with all that it has started; a stop throws cancelled.
Ended capture_program(std::vector<std::string> words, double seconds, const std::function<bool()>& stop = interrupted);

/// A program that runs until somebody ends it; what it prints goes where ours goes. It does not outlive this.
class ServingProgram {
 public:
  explicit ServingProgram(std::vector<std::string> words);
  ~ServingProgram();
  ServingProgram(const ServingProgram&) = delete;
  ServingProgram& operator=(const ServingProgram&) = delete;

  bool runs();
  void wait_a_moment() const;
  /// Asks it to end, if it still runs, waits for that, and gives its exit status (1 when a signal ended it).
  int end();

 private:
  std::string name_;
  pid_t child_;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace graft
