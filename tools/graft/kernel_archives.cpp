// SPDX-License-Identifier: Apache-2.0
// graft cache export, import: the kernels of a plan, for machines without a code generator.

#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "json_output.h"
#include "modules/kernel_source.h"
#include "model_options.h"
#include "output.h"
#include "runtime/kernel_archive.h"
#include "runtime/kernel_cache.h"

namespace graft {
namespace {

/// The kernels that the plan's records ask for, generated for their machines as loading would; those that are in the
/// cache are taken from there.
KernelArchive kernels_of(const Plan& plan, std::vector<std::string>& machines) {
  KernelArchive archive{.generator = generator_identity(), .kernels = {}};
  std::mutex mutex;
  CompileOptions options = options_of(plan);
  options.cancelled = interrupted;
  options.kernel_use = [&](const std::string& key, std::span<const std::byte> code) {
    const std::lock_guard lock(mutex);
    archive.kernels.emplace(key, std::vector<std::byte>(code.begin(), code.end()));
  };
  for (const Record& record : plan.records) {
    const Target target = parse_target(record.target);
    const std::string missing = why_no_generator(target);
    GRAFT_USER_CHECK(missing.empty(), kDevice, missing, target.name);
    build(plan, target, options);
    machines.push_back(target.name);
  }
  return archive;
}

int export_kernels(const std::string& path, const std::string& output, const JsonOutput& json) {
  check_output("-o", output, {path});
  json.check({path});
  json.check_apart("-o", output);
  check_no_terminal("-o", output, "code");
  std::vector<std::string> machines;
  const KernelArchive archive = kernels_of(open_plan(path), machines);
  const std::vector<std::byte> bytes = write_kernel_archive(archive);
  write_output(output, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (json.leaves_text()) {
    print_to(message_stream(output), "{}: {} units of kernels, {}, for {}\n", output, archive.kernels.size(),
             bytes_text(static_cast<double>(bytes.size())), fmt::join(machines, " and "));
  }
  json.write({{"file", output}, {"units", archive.kernels.size()}, {"bytes", bytes.size()}, {"targets", machines}});
  return 0;
}

int import_kernels(const std::string& path, bool trust, const JsonOutput& json) {
  if (!trust) {
    throw UsageError(fmt::format("{} holds code that will run with your rights; give --trust if you trust whoever "
                                 "made it and whoever could have changed it on the way", path));
  }
  json.check({path});
  const auto file = MappedFile::open(path);
  const KernelArchive archive = read_kernel_archive(file->bytes(), path);
  GRAFT_USER_CHECK(archive.generator == generator_identity(), kInvalidArgument,
                   fmt::format("its kernels were made by graft {}, this is {}: export them with this version",
                               archive.generator, generator_identity()), path);
  KernelCache cache;
  if (!cache.problem().empty()) throw Error(ErrorKind::kDevice, cache.problem(), cache.directory());
  for (const auto& [key, code] : archive.kernels) {
    cache.store(key, code);
    GRAFT_USER_CHECK(cache.find(key), kDevice, "the cache keeps nothing new: set GRAFT_CACHE to a folder that you can "
                     "write to and that has room", cache.directory());
  }
  if (json.leaves_text()) {
    print_to(stdout, "{} units of kernels are in {}\n", archive.kernels.size(), cache.directory());
  }
  json.write({{"folder", cache.directory()}, {"units", archive.kernels.size()}});
  return 0;
}

}  // namespace

void add_kernel_archives(Command cache, Action& action) {
  const auto plan = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  Command to =
      cache.add_command("export", "write the kernels of a plan to a file, for machines without code generators");
  to.add_option("PLAN", *plan, "a plan").required().type_name("FILE");
  to.add_option("-o,--output", *output, "the file to write").required().type_name("FILE");
  const auto json = std::make_shared<JsonOutput>();
  json->add_to(to);
  to.footer("\nExample: graft cache export model.graft -o model.kernels");
  to.on_chosen([=, &action] { action = [=] { return export_kernels(*plan, *output, *json); }; });

  const auto trust = std::make_shared<bool>(false);
  Command from = cache.add_command("import", "add exported kernels to the cache; they are code");
  from.add_option("FILE", *plan, "a file of `graft cache export`").required().type_name("FILE");
  from.add_flag("--trust", *trust, "trust the file: its code will run");
  json->add_to(from);
  from.footer("\nExample: GRAFT_CACHE=/opt/model/kernels graft cache import model.kernels --trust");
  from.on_chosen([=, &action] { action = [=] { return import_kernels(*plan, *trust, *json); }; });
}

}  // namespace graft
