// SPDX-License-Identifier: Apache-2.0
#include "api/describe.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "runtime/bind.h"

namespace graft {
namespace {

/// `\u202e`; characters beyond the first 65536 are two of those.
std::string utf16_escape(char32_t character) {
  if (character <= 0xFFFF) return fmt::format("\\u{:04x}", static_cast<unsigned>(character));
  const auto offset = static_cast<unsigned>(character - 0x10000);
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
}

/// `[a,b]` from anything that can be walked.
template <class Items, class Print>
std::string array(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + print(item);
  return "[" + text + "]";
}

/// `{"a":1}` from a map by name.
template <class Map, class Print>
std::string object(const Map& map, Print print) {
  std::string text;
  for (const auto& [key, value] : map) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", json_text(key), print(value));
  }
  return "{" + text + "}";
}

std::string ways_json(const Engine& engine) {
  return object(count_ways(engine), [](int count) { return std::to_string(count); });
}

std::string texts(const std::vector<std::string>& items) {
  return array(items, [](const std::string& item) { return json_text(item); });
}

std::string value_json(const EngineTensor& tensor) {
  return fmt::format(R"({{"name":{},"dtype":{},"shape":{}}})", json_text(tensor.name),
                     json_text(tensor.handles.empty() ? name_of(tensor.type) : std::string_view(tensor.handles)),
                     array(tensor.shape, [](const Size& size) { return json_text(size.to_string()); }));
}

std::string step_json(const Engine& engine, const EngineStep& step) {
  const auto candidate = [](const Candidate& lost) {
    return fmt::format(R"({{"name":{},"milliseconds":{},"reason":{}}})", json_text(lost.name),
                       lost.milliseconds > 0 ? fmt::format("{}", lost.milliseconds) : "null", json_text(lost.reason));
  };
  const auto body = [](const auto& inner) {
    return array(inner->steps, [&](const EngineStep& item) { return step_json(*inner, item); });
  };
  return fmt::format(
      R"({{"name":{},"nodes":{},"operators":{},"way":{},"library":{},"kernel":{},"schedule":{},"candidates":{},)"
      R"("bodies":{}}})",
      json_text(step.name), texts(step.nodes), texts(step.operators), json_text(name_of(step.kind)),
      json_text(step.library), json_text(step.kernel >= 0 ? engine.kernels[step.kernel].name : ""),
      json_text(step.schedule), array(step.candidates, candidate), array(step.bodies, body));
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const CodePoint character = first_character(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
    if (!character.valid) {
      out += "\\ufffd";
    } else if (bytes == "\"" || bytes == "\\") {
      out += '\\';
      out += bytes;
    } else if (is_shown(character.value)) {
      out += bytes;
    } else {
      out += utf16_escape(character.value);
    }
  }
  return out + '"';
}

namespace {

void add_ways(const Engine& engine, std::map<std::string, int>& ways) {
  for (const EngineStep& step : engine.steps) {
    ++ways[std::string(name_of(step.kind))];
    for (const auto& body : step.bodies) add_ways(*body, ways);
  }
}

/// One that does what an earlier one does names that, and has no steps of its own.
std::string variant_json(const Engine& engine, const EngineVariant& variant) {
  const auto first = std::find_if(engine.variants.begin(), engine.variants.end(),
                                  [&](const EngineVariant& other) { return other.engine == variant.engine; });
  const auto same = first - engine.variants.begin();
  const bool own = &*first == &variant && variant.engine;
  const auto step = [&](const EngineStep& item) { return step_json(*variant.engine, item); };
  return fmt::format(R"({{"sizes":{},"same_as":{},"steps":{}}})",
                     object(variant.optima, [](int64_t size) { return std::to_string(size); }),
                     &*first == &variant ? "null" : std::to_string(same),
                     own ? array(variant.engine->steps, step) : "[]");
}

}  // namespace

std::map<std::string, int> count_ways(const Engine& engine) {
  std::map<std::string, int> ways = {{"generated", 0}, {"library", 0}, {"host", 0},
                                     {"control", 0},   {"interpreter", 0}, {"folded", 0}, {"none", 0}};
  add_ways(engine, ways);
  for (const int output : engine.outputs) {
    ways["folded"] += engine.tensors[root_of(engine, output)].storage == Storage::kConstant;
  }
  return ways;
}

std::string describe(const ModelCheck& check) {
  const auto obstacle = [](const Obstacle& each) {
    return fmt::format(R"({{"node":{},"operator":{},"reason":{}}})", json_text(each.node), json_text(each.op),
                       json_text(each.reason));
  };
  const auto step = [&](const EngineStep& item) { return step_json(*check.engine, item); };
  return fmt::format(R"({{"nodes":{},"nodes_after_passes":{},"obstacles":{},"ways":{},"steps":{},"reasons":{}}})",
                     check.nodes, check.nodes_after_passes, array(check.obstacles, obstacle),
                     ways_json(check.engine ? *check.engine : Engine{}),
                     check.engine ? array(check.engine->steps, step) : "[]", texts(check.notes.reasons));
}

std::string describe(const Engine& engine) {
  const std::string symbols = object(engine.symbols, [](const auto& range) {
    return fmt::format(R"({{"min":{},"opt":{},"max":{}}})", range.min, range.opt, range.max);
  });
  int64_t constant_bytes = 0;
  for (const TensorData& constant : engine.constants) constant_bytes += constant.byte_count();
  const auto option = [](const auto& row) {
    return fmt::format(R"({{"key":{},"value":{}}})", json_text(row.first), json_text(row.second));
  };
  const auto tensor = [&](int id) { return value_json(engine.tensors[id]); };
  const auto step = [&](const EngineStep& item) { return step_json(engine, item); };
  const auto variant = [&](const EngineVariant& each) { return variant_json(engine, each); };
  return fmt::format(
      R"({{"name":{},"target":{},"threads":{},"options":{},"symbols":{},"constant_bytes":{},)"
      R"("computed_sizes":{},"inputs":{},"outputs":{},"ways":{},"steps":{},"optima":{}}})",
      json_text(engine.name), json_text(engine.target), engine.threads, array(engine.options, option), symbols,
      constant_bytes, engine.has_computed_symbols, array(engine.inputs, tensor), array(engine.outputs, tensor),
      ways_json(engine), array(engine.steps, step), array(engine.variants, variant));
}

std::string describe_metadata(const Metadata& metadata) {
  std::map<std::string, std::string> once;
  for (const auto& [key, value] : metadata) once.emplace(key, value);  // a false plan may have one twice
  return object(once, [](const std::string& value) { return json_text(value); });
}

}  // namespace graft
