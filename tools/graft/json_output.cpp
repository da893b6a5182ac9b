// SPDX-License-Identifier: Apache-2.0
#include "json_output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model_options.h"
#include "output.h"

namespace graft {

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
  write_output(path_, results.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace graft
