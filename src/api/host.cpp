// SPDX-License-Identifier: Apache-2.0
// The C interface for plug-ins of frameworks.
#include "graft/graft_host.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "api/handles.h"
#include "api/host_handles.h"
#include "driver/device_memory.h"
#include "driver/embed.h"
#include "driver/fallbacks.h"
#include "driver/host_graph.h"
#include "driver/load.h"
#include "export/onnx/export.h"
#include "graph/bodies.h"
#include "graph/symbols.h"

using graft::api_detail::guarded;
using graft::frontend::Argument;
using graft::frontend::Arguments;

struct graft_host_partition {
  std::shared_ptr<const graft::HostPartition> partition;
  std::string report;
  std::vector<graft_host_segment> segments;
  std::map<std::pair<int, std::string>, std::unique_ptr<graft_host_partition>> bodies;
};

struct graft_embedding {
  graft::Embedded embedded;
};

namespace graft::api_detail {
namespace {

constexpr int kDeepestList = 16;

void check_value(const graft_host_graph& graph, int64_t value, const std::string& where) {
  GRAFT_USER_CHECK(value >= 0 && value < static_cast<int64_t>(graph.graph.foreign.values.size()), kInvalidArgument,
                   fmt::format("value {} does not exist", value), where);
}

/// `size`, or the name of a symbolic one.
Shape shape_of(const graft_host_value& value, const std::string& where) {
  Shape shape;
  for (int32_t axis = 0; axis < value.rank; ++axis) {
    const int64_t size = value.sizes ? value.sizes[axis] : -1;
    const char* symbol = value.symbols ? value.symbols[axis] : nullptr;
    GRAFT_USER_CHECK(size >= 0 || (symbol && *symbol), kInvalidArgument,
                     fmt::format("axis {} has neither a size nor a symbol", axis), where);
    shape.push_back(size >= 0 ? Size(size) : Size::symbol(dimension_symbol(symbol)));
  }
  return shape;
}

/// A constant of the caller's, told when the last copy goes.
using Source = std::shared_ptr<const graft_host_constant>;

Source source_of(const graft_host_constant& constant) {
  return {new graft_host_constant(constant), [](const graft_host_constant* last) {
            if (last->destroy) last->destroy(last->context);
            delete last;
          }};
}

/// The bytes of a constant, fetched when somebody asks for them.
TensorData constant_of(const Source& source, DType type, const Shape& shape, const std::string& where) {
  std::vector<int64_t> sizes;
  for (const Size& size : shape) {
    GRAFT_USER_CHECK(size.is_constant(), kInvalidArgument, "a constant has a symbolic size", where);
    sizes.push_back(size.constant());
  }
  GRAFT_USER_CHECK(source->fetch, kInvalidArgument, "a constant has no function to fetch its bytes", where);
  const int64_t bytes = packed_bytes(type, checked_element_count(type, sizes, where));
  return TensorData::deferred(type, sizes, [source, type, sizes, bytes, where] {
    void* held = nullptr;
    const void* data = source->fetch(source->context, &held);
    GRAFT_USER_CHECK(data || bytes == 0, kInvalidArgument, "the framework gave no bytes for the constant", where);
    const std::shared_ptr<const void> keep(data, [source, held](const void*) {
      if (source->release) source->release(source->context, held);
    });
    return TensorData::borrow(type, sizes, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)}, keep);
  });
}

/// A structure of the caller's version as this version has it; `first` is the size of the first version.
template <class Struct>
Struct taken(const Struct& given, size_t first, const char* where) {
  GRAFT_USER_CHECK(given.struct_size >= first, kInvalidArgument, "its struct_size is not set", where);
  Struct whole = {};
  std::memcpy(&whole, &given, std::min(given.struct_size, sizeof whole));
  return whole;
}

frontend::ForeignValue value_of(const graft_host_value& from_caller) {
  const Source source = from_caller.constant ? source_of(*from_caller.constant) : nullptr;
  const graft_host_value given = taken(from_caller, sizeof from_caller, "value");
  frontend::ForeignValue value{.name = given.name ? given.name : ""};
  const std::string where = fmt::format("value '{}'", value.name);
  if (given.dtype != 0) {
    const auto type = dtype_from_onnx(given.dtype);
    GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("there is no element type {}", given.dtype), where);
    value.type = *type;
  }
  if (given.rank >= 0) value.shape = shape_of(given, where);
  value.tensor = given.is_tensor != 0;
  if (given.constant) {
    GRAFT_USER_CHECK(value.shape && value.type != DType::kUndefined, kInvalidArgument,
                     "a constant needs its type and its sizes", where);
    value.constant = constant_of(source, value.type, *value.shape, where);
  }
  return value;
}

Argument argument_of(const graft_host_graph& graph, const graft_host_argument& given, const std::string& where,
                     int depth = 0) {
  GRAFT_USER_CHECK(depth < kDeepestList, kInvalidArgument, "lists are nested too deep", where);
  switch (given.kind) {
    case GRAFT_ARGUMENT_NONE: return {};
    case GRAFT_ARGUMENT_VALUE:
      check_value(graph, given.integer, where);
      return frontend::Reference{static_cast<int>(given.integer)};
    case GRAFT_ARGUMENT_INTEGER: return given.integer;
    case GRAFT_ARGUMENT_REAL: return given.real;
    case GRAFT_ARGUMENT_BOOL: return given.integer != 0;
    case GRAFT_ARGUMENT_TEXT: return std::string(given.text ? given.text : "");
    case GRAFT_ARGUMENT_TYPE: {
      const auto type = dtype_from_onnx(static_cast<int>(given.integer));
      GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("there is no element type {}", given.integer), where);
      return *type;
    }
    case GRAFT_ARGUMENT_LIST: {
      GRAFT_USER_CHECK(given.list || given.count == 0, kInvalidArgument, "a list is NULL", where);
      Arguments list;
      for (size_t i = 0; i < given.count; ++i) list.push_back(argument_of(graph, given.list[i], where, depth + 1));
      return list;
    }
    default:
      throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no kind of argument {}", given.kind), where);
  }
}

frontend::ForeignNode node_of(const graft_host_graph& graph, const graft_host_node& given) {
  GRAFT_USER_CHECK(given.op && given.name, kInvalidArgument, "a node has no operator or no name", "node");
  const std::string where = fmt::format("node '{}'", given.name);
  const auto text = [](const char* words) { return std::string(words ? words : ""); };
  frontend::ForeignNode node{
      .op = given.op, .name = given.name, .scope = text(given.scope), .source = text(given.source)};
  node.kept = text(given.kept);
  for (size_t i = 0; i < given.argument_count; ++i) {
    node.arguments.push_back(argument_of(graph, given.arguments[i], where));
  }
  for (size_t i = 0; i < given.attribute_count; ++i) {
    node.attributes.insert_or_assign(text(given.attribute_names[i]), argument_of(graph, given.attributes[i], where));
  }
  for (size_t i = 0; i < given.output_count; ++i) {
    check_value(graph, given.outputs[i], where);
    node.outputs.push_back(given.outputs[i]);
  }
  for (size_t i = 0; i < given.after_count; ++i) {
    const int32_t before = given.after[i];
    GRAFT_USER_CHECK(before >= 0 && before < static_cast<int64_t>(graph.graph.foreign.nodes.size()), kInvalidArgument,
                     fmt::format("node {} does not exist", before), where);
    node.after.push_back(before);
  }
  return node;
}

/// Adds the functions that a node runs.
void add_bodies(graft_host_graph& graph, const graft_host_node& given, frontend::ForeignNode& node) {
  const auto number = static_cast<int>(graph.graph.foreign.nodes.size());
  for (size_t i = 0; i < given.body_count; ++i) {
    GRAFT_USER_CHECK(given.body_names && given.bodies && given.body_names[i] && given.bodies[i], kInvalidArgument,
                     "a function has no name or no graph", fmt::format("node '{}'", node.name));
    GRAFT_USER_CHECK(given.bodies[i]->depth < kDeepestGraph - 1, kUnsupported,
                     fmt::format("functions are nested more than {} deep", kDeepestGraph - 1),
                     fmt::format("node '{}'", node.name));
    graph.depth = std::max(graph.depth, given.bodies[i]->depth + 1);
    auto body = std::make_shared<const HostGraph>(given.bodies[i]->graph);
    node.bodies[given.body_names[i]] = std::shared_ptr<const frontend::ForeignGraph>(body, &body->foreign);
    graph.graph.bodies[{number, given.body_names[i]}] = std::move(body);
  }
}

/// Engines that nodes of a graph name; withdrawn where there is no graph after all.
class PublishedNames {
 public:
  PublishedNames() = default;
  PublishedNames(const PublishedNames&) = delete;
  PublishedNames& operator=(const PublishedNames&) = delete;
  ~PublishedNames() {
    for (const std::string& name : names_) graft_host_withdraw_engine(name.c_str());
  }
  /// Takes the handle over.
  std::string add(graft_engine& engine) {
    const std::unique_ptr<graft_engine, void (*)(graft_engine*)> owner(&engine, graft_engine_release);
    std::string name;
    graft_error error;
    const auto take = [](void* context, const char* given) { *static_cast<std::string*>(context) = given; };
    GRAFT_USER_CHECK(graft_host_publish_engine(&engine, &name, take, &error) == GRAFT_OK, kOutOfMemory, error.message,
                     "graft_embed");
    return names_.emplace_back(std::move(name));
  }
  void keep() { names_.clear(); }

 private:
  std::vector<std::string> names_;
};

std::vector<graft_host_segment> segments_of(const partition::Result& result) {
  std::vector<graft_host_segment> segments;
  for (const partition::Segment& segment : result.segments) {
    segments.push_back({segment.nodes.data(), segment.nodes.size(), segment.inputs.data(), segment.inputs.size(),
                        segment.outputs.data(), segment.outputs.size(), segment.size, segment.border_bytes});
  }
  return segments;
}

std::unique_ptr<graft_host_partition> as_handle(std::shared_ptr<const HostPartition> partition) {
  auto made = std::make_unique<graft_host_partition>();
  made->report = report(*partition);
  made->segments = segments_of(partition->result);
  for (const auto& [place, body] : partition->bodies) made->bodies[place] = as_handle(body);
  made->partition = std::move(partition);
  return made;
}

}  // namespace
}  // namespace graft::api_detail

using namespace graft;
using namespace graft::api_detail;

graft_status graft_host_graph_create(const char* frontend, graft_host_graph** graph, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(frontend && graph, kInvalidArgument, "an argument is NULL", "graft_host_graph_create");
    auto made = std::make_unique<graft_host_graph>();
    find_converters(frontend);  // or the name is none
    made->graph.frontend = frontend;
    *graph = made.release();
  });
}

void graft_host_graph_destroy(graft_host_graph* graph) { delete graph; }

graft_status graft_host_graph_add_value(graft_host_graph* graph, const graft_host_value* value, int32_t* index,
                                        graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(graph && value && index, kInvalidArgument, "an argument is NULL", "graft_host_graph_add_value");
    graph->graph.foreign.values.push_back(value_of(*value));
    *index = static_cast<int32_t>(graph->graph.foreign.values.size()) - 1;
  });
}

graft_status graft_host_graph_add_node(graft_host_graph* graph, const graft_host_node* node, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(graph && node, kInvalidArgument, "an argument is NULL", "graft_host_graph_add_node");
    const graft_host_node given = taken(*node, offsetof(graft_host_node, kept), "node");
    frontend::ForeignNode added = node_of(*graph, given);
    add_bodies(*graph, given, added);
    graph->graph.foreign.nodes.push_back(std::move(added));
    graph->graph.counts.push_back(given.counts != 0);
    graph->graph.replicable.push_back(given.replicable != 0);
  });
}

graft_status graft_host_graph_set_borders(graft_host_graph* graph, const int32_t* inputs, size_t input_count,
                                          const int32_t* outputs, size_t output_count, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(graph && (inputs || !input_count) && (outputs || !output_count), kInvalidArgument,
                     "an argument is NULL", "graft_host_graph_set_borders");
    for (size_t i = 0; i < input_count; ++i) check_value(*graph, inputs[i], "inputs");
    for (size_t i = 0; i < output_count; ++i) check_value(*graph, outputs[i], "outputs");
    graph->graph.foreign.inputs.assign(inputs, inputs + input_count);
    graph->graph.foreign.outputs.assign(outputs, outputs + output_count);
  });
}

graft_status graft_host_graph_set_range(graft_host_graph* graph, const char* symbol, int64_t min, int64_t opt,
                                        int64_t max, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(graph && symbol, kInvalidArgument, "an argument is NULL", "graft_host_graph_set_range");
    GRAFT_USER_CHECK(0 <= min && min <= opt && (max == 0 || opt <= max), kInvalidArgument,
                     fmt::format("{}:{}:{} is no range: smallest, usual and largest size", min, opt, max), symbol);
    graph->graph.ranges[dimension_symbol(symbol)] = {.min = min, .opt = opt, .max = max};
  });
}

graft_status graft_host_partition_create(const graft_host_graph* graph, const graft_option* options,
                                         size_t option_count, graft_host_partition** partition, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(graph && partition && (options || !option_count), kInvalidArgument, "an argument is NULL",
                     "graft_host_partition_create");
    PartitionChoices choices;
    for (size_t i = 0; i < option_count; ++i) {
      GRAFT_USER_CHECK(options[i].key && options[i].value, kInvalidArgument, fmt::format("number {} has a NULL", i),
                       "options");
      set_choice(choices, {options[i].key, options[i].value});
    }
    auto made = std::make_shared<const HostPartition>(partition_host_graph(graph->graph, choices));
    *partition = as_handle(std::move(made)).release();
  });
}

void graft_host_partition_destroy(graft_host_partition* partition) { delete partition; }

size_t graft_host_partition_segment_count(const graft_host_partition* partition) { return partition->segments.size(); }

const graft_host_segment* graft_host_partition_segment(const graft_host_partition* partition, size_t index) {
  return index < partition->segments.size() ? &partition->segments[index] : nullptr;
}

const char* graft_host_partition_reason(const graft_host_partition* partition, size_t node) {
  const std::vector<std::string>& reasons = partition->partition->result.reasons;
  return node < reasons.size() ? reasons[node].c_str() : nullptr;
}

const graft_host_partition* graft_host_partition_body(const graft_host_partition* partition, size_t node,
                                                      const char* body) {
  const auto found = partition->bodies.find({static_cast<int>(node), body ? body : ""});
  return found == partition->bodies.end() ? nullptr : found->second.get();
}

const char* graft_host_partition_report(const graft_host_partition* partition) { return partition->report.c_str(); }

graft_status graft_host_partition_compile(const graft_host_partition* partition, size_t segment,
                                          const graft_option* options, size_t option_count,
                                          graft_progress_function progress, void* context, graft_engine** engine,
                                          graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(partition && engine, kInvalidArgument, "an argument is NULL", "graft_host_partition_compile");
    GRAFT_USER_CHECK(segment < partition->segments.size(), kInvalidArgument,
                     fmt::format("there is no segment {}", segment), "graft_host_partition_compile");
    std::atomic<bool> stopped = false;
    std::vector<graft_option> others;
    const Int8Choices int8 = take_int8(options, option_count, others);
    const CompileOptions made = make_options(others.data(), others.size(), progress, context, stopped);
    if (int8.asked) {
      const HostPartition& parts = *partition->partition;
      const SegmentGraphs segments{parts.result.segments.size(),
                                   [&](size_t number) { return segment_graph(parts, number, made); }};
      *engine = engine_of(compile_int8(segments, segment, int8, made), int8, made).release();
      return;
    }
    Graph graph = segment_graph(*partition->partition, segment, made);
    Compiled compiled = compile_from(std::move(graph), Stage::kImport, made);
    auto loaded = load(std::move(compiled.engine), made.device, made.threads);
    auto handle = std::make_unique<graft_engine>(std::move(compiled.plan), std::move(loaded));
    handle->device = made.device;
    *engine = handle.release();
  });
}

graft_status graft_host_partition_write_onnx(const graft_host_partition* partition, size_t segment, const char* path,
                                             graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(partition && path, kInvalidArgument, "an argument is NULL", "graft_host_partition_write_onnx");
    GRAFT_USER_CHECK(segment < partition->segments.size(), kInvalidArgument,
                     fmt::format("there is no segment {}", segment), "graft_host_partition_write_onnx");
    export_onnx(segment_graph(*partition->partition, segment, {}), path);
  });
}

graft_status graft_embed(const char* format, const void* bytes, size_t byte_count, const char* const* outputs,
                         size_t output_count, const graft_option* options, size_t option_count,
                         graft_progress_function progress, void* context, graft_embedding** embedding,
                         graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(format && (bytes || !byte_count) && (outputs || !output_count) && (options || !option_count) &&
                         embedding,
                     kInvalidArgument, "an argument is NULL", "graft_embed");
    std::atomic<bool> stopped = false;
    EmbedChoices choices;
    choices.compile = make_options(nullptr, 0, progress, context, stopped);
    std::vector<graft_option> others;
    choices.int8 = take_int8(options, option_count, others);
    for (size_t i = 0; i < others.size(); ++i) {
      GRAFT_USER_CHECK(others[i].key && others[i].value, kInvalidArgument, fmt::format("number {} has a NULL", i),
                       "options");
      set_choice(choices, {others[i].key, others[i].value});
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < output_count; ++i) names.emplace_back(outputs[i] ? outputs[i] : "");
    auto made = std::make_unique<graft_embedding>();
    const std::shared_ptr<const void> callers(bytes, [](const void*) {});
    PublishedNames published;
    choices.publish = [&](Int8Engine engine, const CompileOptions& options) {
      return published.add(*engine_of(std::move(engine), choices.int8, options).release());
    };
    made->embedded = embed(format, {static_cast<const std::byte*>(bytes), byte_count}, callers, names, choices);
    published.keep();
    *embedding = made.release();
  });
}

void graft_embedding_destroy(graft_embedding* embedding) { delete embedding; }

const void* graft_embedding_bytes(const graft_embedding* embedding, size_t* byte_count) {
  if (byte_count) *byte_count = embedding->embedded.bytes.size();
  return embedding->embedded.bytes.data();
}

size_t graft_embedding_engine_count(const graft_embedding* embedding) { return embedding->embedded.engines; }

const char* graft_embedding_report(const graft_embedding* embedding) { return embedding->embedded.report.c_str(); }

graft_status graft_host_device_memory(const char* device, uint64_t* bytes, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(device && bytes, kInvalidArgument, "device or result is NULL", "graft_host_device_memory");
    *bytes = graft::device_memory(device);
  });
}

void graft_host_count_fallback(const char* what, const char* reason) {
  guarded(nullptr, [&] { count_fallback(what ? what : "a part", reason ? reason : "no reason was given"); });
}

uint64_t graft_host_fallback_count(void) { return fallback_count(); }
