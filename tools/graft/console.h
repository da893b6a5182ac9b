// SPDX-License-Identifier: Apache-2.0
// The terminal: the only way to standard output and standard error, a progress line, and Ctrl-C that stops cleanly.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"

namespace graft {

/// Standard output or standard error could not be written: the disk is full, or a pipe closed.
struct PrintError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Columns padded to their widest cell, two blanks apart; the first row is the heading. Cells are printable.
class Table {
 public:
  /// `alignment`: one letter per column, `r` for numbers, `l` for text.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}
  void add(std::vector<std::string> cells);
  std::string print() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

namespace console {

template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;
template <class T>
inline constexpr bool is_list = false;
template <class Iterator, class Sentinel>
inline constexpr bool is_list<fmt::join_view<Iterator, Sentinel, char>> = true;

/// What an argument becomes before it is put into a message.
template <class T>
using Shown = std::conditional_t<is_text<T> || is_list<T> || std::is_same_v<T, Table>, std::string, const T&>;

/// Texts, which may be names from files, in one line; a table, whose cells are; anything else as it is.
template <class T>
Shown<T> shown(const T& argument) {
  if constexpr (is_text<T>) {
    return printable(argument);
  } else if constexpr (is_list<T>) {
    return printable(fmt::vformat("{}", fmt::make_format_args(argument)));
  } else if constexpr (std::is_same_v<T, Table>) {
    return argument.print();
  } else {
    return argument;
  }
}

}  // namespace console

/// Prints text of several lines whose line breaks are ours: a table, the text of a graph.
void print_text(std::FILE* stream, std::string_view text);

/// Prints a message. Line breaks and control characters come from the format alone: those of arguments are escaped.
template <class... Arguments>
void print_to(std::FILE* stream, fmt::format_string<console::Shown<Arguments>...> format,
              const Arguments&... arguments) {
  print_text(stream, fmt::vformat(format, fmt::make_format_args(console::shown(arguments)...)));
}

class Session;

/// Makes Ctrl-C (and SIGTERM) ask for a stop; a second one ends the process at once.
/// Exit statuses beside 0.
inline constexpr int kFailure = 1, kUsage = 2, kSignalled = 128;

void catch_interrupts();
bool interrupted();
/// The exit status of a process that a signal asked to stop, as shells count: 130 for Ctrl-C, 143 for SIGTERM.
int stopped_status();
/// Throws `cancelled` when a stop was asked for.
void stop_if_interrupted();

/// While it lives, Ctrl-C also ends the session's run that is going on; where that does not end by itself, and where a
/// single run goes on after its deadline (0: none), the process ends a few seconds later.
class InterruptibleSession {
 public:
  explicit InterruptibleSession(Session& session, double deadline = 0);
  ~InterruptibleSession();
  InterruptibleSession(const InterruptibleSession&) = delete;
  InterruptibleSession& operator=(const InterruptibleSession&) = delete;
};

/// Shows the current step on one line of a terminal that is rewritten; shows nothing elsewhere.
void show_progress(std::string_view stage, std::string_view step, int done, int total);
/// Wipes the line, so that other output can follow.
void clear_progress();

/// `12.3 MB`
std::string bytes_text(double bytes);

}  // namespace graft
