// SPDX-License-Identifier: Apache-2.0
#include "plugin/tensorrt_parser.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "plugin/tensorrt_interfaces.h"

namespace graft::plugin {
namespace {

/// The libraries of a release, in the order in which they are looked for.
struct Release {
  const char *name, *runtime, *parser;
  const TensorRTSlots& slots;
  bool has_old_logger;
  int least_parser;  ///< the version of the parser from which on its interfaces are these
};
constexpr Release kReleases[] = {
    {"TensorRT", "libnvinfer.so.11", "libnvonnxparser.so.11", kTensorRT11Slots, false, 0},
    {"TensorRT", "libnvinfer.so.10", "libnvonnxparser.so.10", kTensorRT10Slots, true, 0},
    {"TensorRT-RTX", "libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1", kTensorRT11Slots, false, 200},
};

[[noreturn]] void fail(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kDevice, message, where);
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// A parser and the network that it fills, of libraries that stay open.
class Parser {
 public:
  /// False: the release is not there.
  bool open(const Release& release, const std::string& folder) {
    const auto path = [&](const char* file) { return folder.empty() ? std::string(file) : folder + "/" + file; };
    runtime_ = dlopen(path(release.runtime).c_str(), RTLD_NOW | RTLD_GLOBAL);  // the parser's library needs it by name
    parser_ = runtime_ ? dlopen(path(release.parser).c_str(), RTLD_NOW) : nullptr;
    if (!parser_) return false;
    release_ = &release;
    if (parser_version() >= release.least_parser) return true;
    fail(fmt::format("its parser is of a version before {}: install a newer one, or say --parser none",
                     version_text(release.least_parser)), release.parser);
  }

  std::string name() const {
    const int version = function<int()>(runtime_, "getInferLibVersion")();
    return fmt::format("{} {}", release_->name, version_text(version));
  }

  /// Whether a model is taken; `then` is given the parser while it knows of it.
  bool ask(const std::string& model, bool whole, const std::function<void(void* parser)>& then) {
    QuietLogger10 old_logger;
    QuietLogger11 new_logger;
    void* const logger = release_->has_old_logger ? static_cast<void*>(&old_logger) : &new_logger;
    const int runtime_version = function<int()>(runtime_, "getInferLibVersion")();
    void* const builder = function<void*(void*, int32_t)>(runtime_, "createInferBuilder_INTERNAL")(logger,
                                                                                               runtime_version);
    if (!builder) fail("it makes no builder", release_->runtime);
    void* const network = call_slot<void*>(builder_body(builder), release_->slots.create_network, uint32_t{0});
    if (!network) fail("it makes no network", release_->runtime);
    void* const parser = function<void*(void*, void*, int32_t)>(parser_, "createNvOnnxParser_INTERNAL")(
        network, logger, parser_version());
    if (!parser) fail("it makes no parser", release_->parser);
    const std::string bytes = read_text_file(model);
    const bool taken = call_slot<bool>(parser, whole ? release_->slots.supports_model : release_->slots.parse,
                                       static_cast<const void*>(bytes.data()), bytes.size(), model.c_str());
    then(parser);
    return taken;  // what was made goes with the process
  }

  /// What is wrong, by node; -1: no node in particular.
  std::map<int, std::string> errors(void* parser) const {
    std::map<int, std::string> found;
    const int count = call_slot<int>(parser, release_->slots.error_count);
    for (int i = 0; i < count; ++i) {
      void* const error = call_slot<void*>(parser, release_->slots.error, i);
      const char* text = call_slot<const char*>(error, kErrorDescription);
      found.emplace(call_slot<int>(error, kErrorNode), text ? text : "");
    }
    return found;
  }

 private:
  template <class Function>
  static Function* function(void* library, const char* name) {
    auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
    if (!found) fail(fmt::format("it has no function {}", name), "TensorRT");
    return found;
  }
  int parser_version() const { return function<int()>(parser_, "getNvOnnxParserVersion")(); }

  void *runtime_ = nullptr, *parser_ = nullptr;
  const Release* release_ = nullptr;
};

/// The parser's own words, without the place in its sources that they may begin with.
std::string reason_of(const std::string& text) {
  std::string reason = printable(text);
  const std::string_view assertion = "Assertion failed: ";
  if (reason.starts_with(assertion)) {
    const size_t colon = reason.find(": ", assertion.size());
    reason = colon == reason.npos ? reason.substr(assertion.size()) : reason.substr(colon + 2);
  }
  return reason.empty() || reason == "false" ? "it has no such operator" : reason;
}

/// The answer as lines: `parser NAME`, `refused NODE REASON`, `parsed NODE 0|1`, `failed MESSAGE`.
std::string answer_lines(const std::string& folder, const std::string& model,
                         const std::map<size_t, std::string>& parts) {
  Parser parser;
  const auto opens = [&](const Release& release) { return parser.open(release, folder); };
  if (std::none_of(std::begin(kReleases), std::end(kReleases), opens)) return "";
  std::string lines = fmt::format("parser {}\n", parser.name());
  const auto refuse = [&](size_t node, const std::string& why) {
    lines += fmt::format("refused {} {}\n", node, reason_of(why));
  };
  parser.ask(model, /*whole=*/true, [&](void* asked) {
    for (const auto& [node, why] : parser.errors(asked)) {
      if (node >= 0) refuse(static_cast<size_t>(node), why);
    }
  });
  for (const auto& [node, path] : parts) {
    const bool taken = parser.ask(path, /*whole=*/false, [&, number = node](void* asked) {
      const auto errors = parser.errors(asked);
      if (!errors.empty()) refuse(number, errors.begin()->second);
    });
    lines += fmt::format("parsed {} {}\n", node, taken ? 1 : 0);
  }
  return lines;
}

/// What `work` gives in a process of its own; throws where that ends otherwise.
std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) fail(std::strerror(errno), "pipe");
  const pid_t child = fork();
  if (child < 0) fail(std::strerror(errno), "fork");
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = fmt::format("failed {}\n", printable(error.what()));
    }
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = write(ends[1], text.data() + at, text.size() - at);
      if (written <= 0) _exit(1);
      at += static_cast<size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    fail(fmt::format("it was ended by signal {} ({}): say --parser none, to go by what is documented", WTERMSIG(status),
                     strsignal(WTERMSIG(status))), "the parser of TensorRT");
  }
  return text;
}

}  // namespace

ParserAnswer ask_tensorrt_parser(const std::string& folder, const std::string& model,
                                 const std::map<size_t, std::string>& parts) {
  ParserAnswer answer;
  std::istringstream lines(in_child([&] { return answer_lines(folder, model, parts); }));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, rest;
    size_t node = 0;
    words >> kind;
    if (kind == "refused" || kind == "parsed") words >> node;
    std::getline(words >> std::ws, rest);
    if (kind == "failed") fail(rest, "the parser of TensorRT");
    if (kind == "parser") answer.parser = rest;
    if (kind == "refused") answer.refused.emplace(node, rest);
    if (kind == "parsed") answer.parsed[node] = rest == "1";
  }
  if (answer.parser.empty() && !folder.empty()) {
    fail("the folder has no libnvonnxparser.so.11 or .10 and no libtensorrt_onnxparser_rtx.so.1, or they do not open: "
         "name the one with TensorRT's libraries, or none", fmt::format("--parser {}", folder));
  }
  return answer;
}

}  // namespace graft::plugin
