// SPDX-License-Identifier: Apache-2.0
#include "api/describe.h"

#include <fmt/format.h>

#include "runtime/bind.h"

namespace graft {
namespace {

/// Length of the valid UTF-8 sequence at the start of `text`, or 0.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : (first & 0xF0) == 0xE0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return overlong || outside ? 0 : length;
}

/// `[a,b]` from anything that can be walked.
template <class Items, class Print>
std::string array(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + print(item);
  return "[" + text + "]";
}

std::string texts(const std::vector<std::string>& items) {
  return array(items, [](const std::string& item) { return json_text(item); });
}

std::string value_json(const EngineTensor& tensor) {
  return fmt::format(R"({{"name":{},"dtype":{},"shape":{}}})", json_text(tensor.name), json_text(name_of(tensor.type)),
                     array(tensor.shape, [](const Size& size) { return json_text(size.to_string()); }));
}

std::string step_json(const Engine& engine, const EngineStep& step) {
  const auto candidate = [](const Candidate& lost) {
    return fmt::format(R"({{"name":{},"milliseconds":{},"reason":{}}})", json_text(lost.name), lost.milliseconds,
                       json_text(lost.reason));
  };
  return fmt::format(
      R"({{"name":{},"nodes":{},"operators":{},"way":{},"library":{},"kernel":{},"schedule":{},"candidates":{}}})",
      json_text(step.name), texts(step.nodes), texts(step.operators), json_text(name_of(step.kind)),
      json_text(step.library), json_text(step.kernel >= 0 ? engine.kernels[step.kernel].name : ""),
      json_text(step.schedule), array(step.candidates, candidate));
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + '"';
}

std::map<std::string, int> count_ways(const Engine& engine) {
  std::map<std::string, int> ways = {{"generated", 0}, {"library", 0}, {"host", 0},
                                     {"interpreter", 0}, {"folded", 0}, {"none", 0}};
  for (const EngineStep& step : engine.steps) ++ways[std::string(name_of(step.kind))];
  for (const int output : engine.outputs) {
    ways["folded"] += engine.tensors[root_of(engine, output)].storage == Storage::kConstant;
  }
  return ways;
}

std::string describe(const Engine& engine) {
  std::string options, symbols, ways;
  const auto append = [](std::string& to, std::string_view key, const std::string& value) {
    to += fmt::format("{}{}:{}", to.empty() ? "" : ",", json_text(key), value);
  };
  for (const auto& [key, value] : engine.options) append(options, key, json_text(value));
  for (const auto& [name, range] : engine.symbols) {
    append(symbols, name, fmt::format(R"({{"min":{},"opt":{},"max":{}}})", range.min, range.opt, range.max));
  }
  for (const auto& [way, count] : count_ways(engine)) append(ways, way, std::to_string(count));
  int64_t constant_bytes = 0;
  for (const TensorData& constant : engine.constants) constant_bytes += constant.byte_count();
  const auto tensor = [&](int id) { return value_json(engine.tensors[id]); };
  const auto step = [&](const EngineStep& item) { return step_json(engine, item); };
  return fmt::format(
      R"({{"name":{},"target":{},"threads":{},"options":{{{}}},"symbols":{{{}}},"constant_bytes":{},)"
      R"("computed_sizes":{},"inputs":{},"outputs":{},"ways":{{{}}},"steps":{}}})",
      json_text(engine.name), json_text(engine.target), engine.threads, options, symbols, constant_bytes,
      engine.has_computed_symbols, array(engine.inputs, tensor), array(engine.outputs, tensor), ways,
      array(engine.steps, step));
}

}  // namespace graft
