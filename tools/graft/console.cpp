// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "runtime/session.h"

namespace graft {
namespace {

std::atomic<int> stop_signal{0};  ///< that asked to stop
bool line_shown = false;
std::chrono::steady_clock::time_point last_shown;

std::atomic<Session*> running{nullptr};
std::atomic<int> in_handler{0};

/// How long a run may go on after it was asked to end. Kernels whose loops have sizes of the run look at nothing on the
/// way, and such a run has written nothing yet.
constexpr double kGrace = 3;

void start_timer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

extern "C" void request_stop(int signal) {
  in_handler.fetch_add(1);
  stop_signal.store(signal);
  if (Session* session = running.load()) {
    session->cancel();
    start_timer(kGrace);
  }
  in_handler.fetch_sub(1);
}

/// Ends the process in place of a run that does not end.
extern "C" void end_process(int) {
  if (!running.load()) return;
  const bool stopped = stop_signal.load() != 0;
  const std::string_view message = stopped ? "graft: stopped; nothing was left behind\n"
                                           : "graft: cancelled: run: it took longer than its deadline, and did not end "
                                             "by itself; set a later one, or use smaller sizes\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  _exit(stopped ? stopped_status() : kFailure);
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Number of characters, taking each UTF-8 sequence for one column.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// The last place at or before `at` where a character starts.
size_t start_of_character(std::string_view text, size_t at) {
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

/// A sequence of our own for the terminal behind standard error.
void control_terminal(const char* sequence) { std::fputs(sequence, stderr); }

}  // namespace

void print_text(std::FILE* stream, std::string_view text) {
  const std::string shown = printable_lines(text);
  if (std::fwrite(shown.data(), 1, shown.size(), stream) != shown.size()) {
    throw PrintError(fmt::format("the output could not be written: {}", std::generic_category().message(errno)));
  }
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = end_process;
  sigaction(SIGALRM, &action, nullptr);
}

bool interrupted() { return stop_signal.load(std::memory_order_relaxed) != 0; }

int stopped_status() { return kSignalled + stop_signal.load(); }

InterruptibleSession::InterruptibleSession(Session& session, double deadline) {
  if (interrupted()) throw Error(ErrorKind::kCancelled, "stopped");
  running.store(&session);
  if (deadline > 0) start_timer(deadline + kGrace);
}

InterruptibleSession::~InterruptibleSession() {
  running.store(nullptr);
  start_timer(0);
  while (in_handler.load() > 0) std::this_thread::yield();
}

void stop_if_interrupted() {
  if (interrupted()) throw Error(ErrorKind::kCancelled, "stopped");
}

void show_progress(std::string_view stage, std::string_view step, int done, int total) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!terminal) return;
  const auto now = std::chrono::steady_clock::now();
  if (line_shown && total > 0 && done > 0 && now - last_shown < std::chrono::milliseconds(50)) return;
  last_shown = now;
  std::string line = total > 0 ? fmt::format("{} {}/{}: {}", stage, done + 1, total, step)
                               : fmt::format("{}: {}", stage, step);
  const size_t width = terminal_width() - 1;
  line = printable(line);
  if (line.size() > width) line.resize(start_of_character(line, width));
  control_terminal("\r\033[K");
  print_text(stderr, line);
  line_shown = true;
}

void clear_progress() {
  if (line_shown) control_terminal("\r\033[K");
  line_shown = false;
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::print() const {
  std::vector<size_t> widths(alignment_.size());
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width_of(row[c]), ' ');
      line += (c > 0 ? "  " : "") + (alignment_[c] == 'r' ? padding + row[c] : row[c] + padding);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace graft
