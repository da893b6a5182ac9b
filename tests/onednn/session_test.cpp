// SPDX-License-Identifier: Apache-2.0
// Steps of libraries in a session: when the library is missing, and what it must not do to the process.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "support/library_case.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

constexpr const char* kSchedule = "onednn cut=rows pieces=2 panel=0";

Region product_region() { return region_of(product_graph("64", 96, 32, {}, {}), "product"); }

size_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(LibrarySession, a_missing_library_is_named_with_the_node) {
  const LibraryCase c(product_region(), kSchedule, {});
  Status status;
  c.run(2, status, {});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("no library was given"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(c.engine().steps[0].name), std::string::npos) << status.message();
}

TEST(LibrarySession, a_library_that_nobody_knows_gives_the_reason) {
  EXPECT_EQ(why_no_library("onednn"), "");
  EXPECT_NE(why_no_library("onedmn").find("there is no library 'onedmn'"), std::string::npos);
  EXPECT_EQ(library_version("onedmn"), "");
  EXPECT_NE(library_version("onednn").find("oneDNN 3."), std::string::npos);
}

TEST(LibrarySession, a_call_that_reaches_beyond_its_tensor_is_refused) {
  const LibraryCase c(product_region(), kSchedule, {});
  Engine engine = c.engine();
  engine.tensors[1].bytes = Size(32 * 96 * 4 - 4);
  EXPECT_THROW(library_source()(engine, engine.steps[0], {}, {.threads = 2}), Error);
}

TEST(LibrarySession, a_region_that_is_no_call_is_refused) {
  const LibraryCase c(product_region(), kSchedule, {});
  Engine engine = c.engine();
  engine.steps[0].schedule = "onednn cut=rows pieces=2 panel=12";
  EXPECT_THROW(library_source()(engine, engine.steps[0], {}, {.threads = 2}), Error);
}

TEST(LibrarySession, the_library_starts_no_threads) {
  const LibraryCase c(product_region(), kSchedule, {});
  Status status;
  c.run(2, status, library_source());  // starts Graft's own team
  ASSERT_TRUE(status.ok()) << status.message();
  const size_t before = count_threads();
  for (const char* schedule : {"onednn cut=columns pieces=4 panel=32", kSchedule}) {
    LibraryCase(product_region(), schedule, {}).run(2, status, library_source());
  }
  EXPECT_EQ(count_threads(), before);
}

}  // namespace
}  // namespace graft
