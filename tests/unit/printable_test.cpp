// SPDX-License-Identifier: Apache-2.0
// Texts from files as they are shown, in messages, in JSON and in the graph's text form.
#include <gtest/gtest.h>

#include "api/describe.h"
#include "base/log.h"
#include "base/printable.h"
#include "graph/text_form.h"

namespace graft {
namespace {

TEST(Printable, keeps_what_shows) {
  for (const char* text : {"", "encoder.0/query", "größe", "尺寸", "a\\nb", "🙂"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, escapes_what_does_not) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("a\nb\tc\r"), "a\\nb\\tc\\x0d");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("\u202eevil\u2066"), "\\u202eevil\\u2066");
  EXPECT_EQ(printable("\u200b\ufeff"), "\\u200b\\ufeff");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
}

TEST(Printable, escapes_bytes_that_are_no_utf8) {
  EXPECT_EQ(printable("\x9b"), "\\x9b");                    // C1 in Latin-1
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");            // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");    // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("ab\xe2\x80"), "ab\\xe2\\x80");         // cut off
}

TEST(Printable, a_text_may_pass_twice) {
  const std::string once = printable("a\n\x1b\u202e\xff");
  EXPECT_EQ(printable(once), once);
}

TEST(Printable, line_breaks_of_our_own_stay) { EXPECT_EQ(printable_lines("a\nb\x1b\n"), "a\nb\\x1b\n"); }

TEST(Printable, messages_of_the_log_are_one_line) {
  std::string seen;
  set_log_callback([&](LogLevel, std::string_view message) { seen = message; });
  log(LogLevel::kError, "node '{}'", "a\nb\x1b");
  set_log_callback({});
  EXPECT_EQ(seen, "node 'a\\nb\\x1b'");
}

TEST(Printable, json_escapes_what_does_not_show) {
  EXPECT_EQ(json_text("a\"\\\n\u009b\u202e"), R"("a\"\\\u000a\u009b\u202e")");
  EXPECT_EQ(json_text("\U000e0041"), R"("\udb40\udc41")");
  EXPECT_EQ(json_text("\xff"), R"("\ufffd")");
  EXPECT_EQ(json_text("größe"), R"("größe")");
}

TEST(Printable, quoted_names_of_graph_texts_show) {
  EXPECT_EQ(quote("a\u202e\u009b\xff\nb"), R"("a\xe2\x80\xae\xc2\x9b\xff\nb")");
  EXPECT_EQ(quote("größe"), R"("größe")");
}

}  // namespace
}  // namespace graft
