// SPDX-License-Identifier: Apache-2.0
#include "frontend/user_rows.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace graft::frontend {
namespace {

constexpr std::string_view kFrontEnds[] = {"aten"};  // whose tables take rows of users

struct UserRow {
  uint64_t id;
  std::string frontend, origin;
  int priority;
  Row row;
};

/// Those of the process. The snapshot is made anew when one comes or goes, and shared by all that compile.
struct Registry {
  std::mutex mutex;
  uint64_t last = 0;
  std::vector<UserRow> rows;
  std::map<std::string, std::shared_ptr<const Converters>, std::less<>> tables;
};

Registry& registry() {
  static Registry& one = *new Registry;  // rows may call what has gone by the time that a process ends
  return one;
}

/// The array as this version has its elements, each told when nobody has it any more.
std::vector<std::shared_ptr<const graft_converter>> taken(const graft_converter* converters, size_t count,
                                                          const std::string& origin) {
  std::vector<std::shared_ptr<const graft_converter>> all;
  const size_t size = count > 0 ? converters->struct_size : 0;
  GRAFT_USER_CHECK(count == 0 || size >= sizeof(graft_converter), kInvalidArgument,
                   "the struct_size of a converter is not set", origin);
  for (size_t i = 0; i < count; ++i) {
    auto copy = std::make_unique<graft_converter>();
    std::memcpy(copy.get(), reinterpret_cast<const std::byte*>(converters) + i * size, sizeof *copy);
    all.emplace_back(copy.release(), [](const graft_converter* last) {
      if (last->destroy) last->destroy(last->context);
      delete last;
    });
  }
  return all;
}

std::vector<UserRow> rows_of(const graft_converter* converters, size_t count, const std::string& origin) {
  const auto all = taken(converters, count, origin);
  std::vector<UserRow> rows;
  for (const auto& each : all) {
    const std::string frontend = each->frontend ? each->frontend : "";
    GRAFT_USER_CHECK(std::ranges::find(kFrontEnds, frontend) != std::end(kFrontEnds), kInvalidArgument,
                     fmt::format("a converter is for '{}', which is none of: {}", frontend,
                                 fmt::join(kFrontEnds, ", ")), origin);
    rows.push_back({.id = 0, .frontend = frontend, .origin = origin, .priority = each->priority,
                    .row = row_of(each, origin)});
  }
  return rows;
}

/// What a shared library lists.
std::vector<UserRow> rows_of_library(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;  // the loader itself looks for a bare name in its own folders alone
  const std::string file = fs::exists(path, unknown) ? fs::absolute(path, unknown).string() : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(ErrorKind::kInvalidArgument, fmt::format("it cannot be loaded: {}", why ? why : "no reason given"),
                path);
  }
  const auto list_of = reinterpret_cast<graft_converters_function>(dlsym(library, "graft_converters"));
  GRAFT_USER_CHECK(list_of, kInvalidArgument,
                   "it has no function graft_converters: graft/graft_converter.h says what it gives", path);
  const graft_converter_list* list = list_of();
  GRAFT_USER_CHECK(list && list->struct_size >= sizeof *list && (list->converters || list->count == 0),
                   kInvalidArgument, "its function graft_converters gives no list", path);
  GRAFT_USER_CHECK(list->version == GRAFT_CONVERTER_VERSION, kInvalidArgument,
                   fmt::format("it was built for version {} of the interface, and this is version {}: build it with "
                               "the graft_converter.h of this Graft", list->version, GRAFT_CONVERTER_VERSION), path);
  return rows_of(list->converters, list->count, fs::path(path).filename().string());
}

uint64_t add(std::vector<UserRow> rows) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  ++all.last;
  for (UserRow& row : rows) {
    row.id = all.last;
    all.tables.erase(row.frontend);
    all.rows.push_back(std::move(row));
  }
  return all.last;
}

/// With the rows of the process alone.
std::shared_ptr<const Converters> process_table(std::string_view frontend, const Converters& own) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto known = all.tables.find(frontend);
  if (known != all.tables.end()) return known->second;
  const bool any = std::ranges::any_of(all.rows, [&](const UserRow& each) { return each.frontend == frontend; });
  if (!any) return {&own, [](const Converters*) {}};
  auto made = std::make_shared<Converters>(own);
  for (const UserRow& each : all.rows) {
    if (each.frontend == frontend) made->add(each.row, each.origin, each.priority);
  }
  return all.tables[std::string(frontend)] = made;
}

}  // namespace

uint64_t add_user_rows(std::span<const graft_converter> converters, const std::string& origin) {
  return add(rows_of(converters.data(), converters.size(), origin));
}

uint64_t load_user_rows(const std::string& path) { return add(rows_of_library(path)); }

void remove_user_rows(uint64_t id) {
  Registry& all = registry();
  std::vector<UserRow> gone;  // their `destroy` is called behind the lock
  std::map<std::string, std::shared_ptr<const Converters>, std::less<>> tables;
  const std::lock_guard lock(all.mutex);
  const auto first = std::stable_partition(all.rows.begin(), all.rows.end(),
                                           [&](const UserRow& row) { return row.id != id; });
  gone.assign(std::make_move_iterator(first), std::make_move_iterator(all.rows.end()));
  all.rows.erase(first, all.rows.end());
  if (!gone.empty()) tables.swap(all.tables);
}

std::shared_ptr<const Converters> with_user_rows(std::string_view frontend, const Converters& own,
                                                 const std::vector<std::string>& libraries) {
  std::shared_ptr<const Converters> table = process_table(frontend, own);
  if (libraries.empty()) return table;
  auto made = std::make_shared<Converters>(*table);
  for (const std::string& path : libraries) {
    for (const UserRow& each : rows_of_library(path)) {
      if (each.frontend == frontend) made->add(each.row, each.origin, each.priority);
    }
  }
  return made;
}

}  // namespace graft::frontend
