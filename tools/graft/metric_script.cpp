// SPDX-License-Identifier: Apache-2.0
#include "metric_script.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "child_process.h"
#include "console.h"
#include "driver/plan.h"
#include "model_options.h"
#include "python_program.h"

namespace graft {
namespace {

constexpr const char* kScript = R"python(
import importlib.util, os, sys
sys.stdout = sys.stderr
script, function, plan, score, package = sys.argv[1:]
sys.argv = [script]
try:
    import graft
except ImportError as error:
    if not package:
        sys.exit(f"{sys.executable}: {error}: activate an environment that has Graft's Python package")
    sys.path.append(package)
    import graft
sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
spec = importlib.util.spec_from_file_location(os.path.basename(script).removesuffix(".py"), script)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
if not callable(getattr(module, function, None)):
    sys.exit(f"{script} has no function '{function}'")
found = getattr(module, function)(graft.load(plan))
try:
    number = float(found) if not isinstance(found, (str, bytes)) else None
except (TypeError, ValueError):
    number = None
if number is None:
    sys.exit(f"{function} gave {found!r}: it has to give a number")
with open(score, "w") as file:
    file.write(repr(number))
)python";

double number_in(const std::string& text) {
  if (text == "nan") return std::nan("");
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  GRAFT_CHECK(fault == std::errc() && end == text.data() + text.size(), "the script above writes a number");
  return number;
}

}  // namespace

MetricScript::MetricScript(const std::string& text, std::function<bool()> stop)
    : text_(text), stop_(std::move(stop)) {
  const size_t colon = text.rfind(':');
  file_ = text.substr(0, colon);
  if (colon != text.npos) function_ = text.substr(colon + 1);
  if (function_.empty() || !file_.ends_with(".py")) {
    throw UsageError(fmt::format("--metric is SCRIPT.py:FUNCTION, a function of Python that takes a network and gives "
                                 "a number; '{}' is not", text));
  }
  if (!std::filesystem::exists(file_)) throw UsageError(fmt::format("--metric: there is no file '{}'", file_));
}

double MetricScript::operator()(const MeasuredNetwork& network) const {
  const ScratchFolder scratch;
  const std::string plan = scratch / "network.graft", score = scratch / "score.txt";
  save(network.plan(), plan);
  static const std::string python = find_python("'numpy', 'graft'");  // for all networks
  clear_progress();
  const auto stop = [this] { return interrupted() || (stop_ && stop_()); };
  const std::optional<int> status = run_program_until(
      {python, "-c", kScript, file_, function_, plan, score, python_package_folder()}, stop);
  if (!status || stop()) throw Error(ErrorKind::kCancelled, "stopped as the caller asked", "metric");
  GRAFT_USER_CHECK(*status == 0 && std::filesystem::exists(score), kInvalidArgument,
                   fmt::format("the metric failed in '{}'; its message is above", python), text_);
  return number_in(read_text_file(score));
}

}  // namespace graft
