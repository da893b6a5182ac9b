// SPDX-License-Identifier: Apache-2.0
// Ranges of time with names, for profilers that other programs bring along (GRAFT_RANGES).
#pragma once

namespace graft {

/// The functions of a profiler: ranges of one thread nest. Both from any thread.
struct RangeTool {
  int (*push)(const char* name);
  int (*pop)();
};

/// The profiler that GRAFT_RANGES asks for, opened at the first call; null where there is none, which the log says when
/// it was asked for. It is loaded into the process, and so trusted like the program itself.
const RangeTool* range_tool();

/// A range while it lives; nothing for a null tool.
class Range {
 public:
  Range(const RangeTool* tool, const char* name) : tool_(tool) {
    if (tool_) tool_->push(name);
  }
  ~Range() {
    if (tool_) tool_->pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const RangeTool* tool_;
};

}  // namespace graft
