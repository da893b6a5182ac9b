// SPDX-License-Identifier: Apache-2.0
#include "json_output.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model_options.h"
#include "output.h"

namespace graft {
namespace {

/// Where the error of this process's one command goes: what JsonOutput::check was called for, until there are results.
std::string& place_of_errors() {
  static std::string* place = new std::string;
  return *place;
}

}  // namespace

void JsonOutput::check(const std::vector<std::string>& inputs) const {
  if (message_stream(path_) == stderr) place_of_errors() = path_;  // nothing is replaced there
  check_output("--json", path_, inputs);
  place_of_errors() = path_;
}

void write_json_error(int status, std::string_view kind, std::string_view where, std::string_view message) noexcept {
  try {
    const std::string path = std::exchange(place_of_errors(), "");
    if (path.empty() || was_read(output_path(path))) return;
    const nlohmann::json error = {{"status", status}, {"kind", kind}, {"where", where}, {"message", message}};
    write_output(path, nlohmann::json({{"error", error}})
                           .dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {
    // The text on standard error says the same.
  }
}

void JsonOutput::add_to(Command command) {
  command.add_option("--json", path_,
                     "write the results as JSON (docs/schemas); - is standard output, in place of the text")
      .type_name("FILE");
}

bool JsonOutput::leaves_text() const { return path_.empty() || message_stream(path_) == stdout; }

void JsonOutput::check_apart(const std::string& option, const std::string& other) const {
  if (path_.empty() || other.empty()) return;
  const bool same = output_path(path_) == output_path(other) || is_same_file(output_path(path_), output_path(other));
  if (same) throw UsageError(fmt::format("--json and {} both write '{}'; give one another name", option, other));
}

void JsonOutput::write(const nlohmann::json& results) const {
  if (!wanted()) return;
  place_of_errors().clear();
  write_output(path_, results.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace graft
