// SPDX-License-Identifier: Apache-2.0
// The terminal: a progress line, and Ctrl-C that stops cleanly.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft {

/// Makes Ctrl-C (and SIGTERM) ask for a stop; a second one ends the process at once.
void catch_interrupts();
bool interrupted();
/// Throws `cancelled` when a stop was asked for.
void stop_if_interrupted();

/// Shows the current step on one line of a terminal that is rewritten; shows nothing elsewhere.
void show_progress(std::string_view stage, std::string_view step, int done, int total);
/// Wipes the line, so that other output can follow.
void clear_progress();

/// Columns padded to their widest cell, two blanks apart; the first row is the heading.
class Table {
 public:
  /// `alignment`: one letter per column, `r` for numbers, `l` for text.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string print() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

/// `12.3 MB`
std::string bytes_text(double bytes);

}  // namespace graft
