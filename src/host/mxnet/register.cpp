// SPDX-License-Identifier: Apache-2.0
// What MXNet sees of Graft: the backend `graft` of optimize_for. It is a pass over the graph rather than a partitioner,
// so that segments are exactly those of graft_host.h and plans can be parameters.
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "failure.h"
#include "framework.h"
#include "graft/mxnet.h"
#include "reader.h"
#include "spec.h"
#include "writer.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::MXReturnValue;
using mxnet::ext::Node;
using EngineHandle = std::unique_ptr<graft_engine, void (*)(graft_engine*)>;
using PartitionHandle = std::unique_ptr<graft_host_partition, void (*)(graft_host_partition*)>;

constexpr int kOldestMxnet = 10900, kNextMxnet = 20000;  // major * 10000 + minor * 100 + patch

thread_local std::string last_report;

PartitionHandle split(const HostGraph& host, const Spec& spec) {
  const std::vector<graft_option> options = as_options(spec.partition);
  graft_host_partition* partition = nullptr;
  graft_error error;
  check(graft_host_partition_create(host.handle.get(), options.data(), options.size(), &partition, &error), error);
  return {partition, graft_host_partition_destroy};
}

/// An engine of that name, of int8 if it has learned to be.
EngineHandle learned(const Spec& spec, size_t segment) {
  const bool is_there = segment < spec.engines.size();
  const EngineHandle named(is_there ? graft_host_find_engine(spec.engines[segment].c_str()) : nullptr,
                           graft_engine_release);
  if (!named) throw Failure("engines: the symbol is not the one that was calibrated");
  graft_engine* engine = nullptr;
  graft_error error;
  check(graft_engine_finish_calibration(named.get(), nullptr, nullptr, &engine, &error), error);
  return {engine, graft_engine_release};
}

/// The engine of a segment, or nothing when it cannot be built.
EngineHandle build(const graft_host_partition& partition, size_t segment, const Spec& spec) {
  if (!spec.engines.empty()) return learned(spec, segment);
  const std::vector<graft_option> options = as_options(spec.compiling);
  graft_engine* engine = nullptr;
  graft_error error;
  const graft_status status = graft_host_partition_compile(&partition, segment, options.data(), options.size(), nullptr,
                                                           nullptr, &engine, &error);
  // A wrong choice is the caller's fault, whatever else could run.
  const bool is_fault = spec.strict || spec.is_int8 || status == GRAFT_INVALID_ARGUMENT;
  if (status != GRAFT_OK && is_fault) throw Failure(error.message);
  if (status != GRAFT_OK) graft_host_count_fallback(("segment " + std::to_string(segment)).c_str(), error.message);
  return {engine, graft_engine_release};
}

/// The layers and the error of an engine that was quantised here.
std::string quantization_of(const graft_engine& engine, size_t segment) {
  const std::string text = graft_engine_quantization_text(&engine);
  return text.empty() ? text : "segment " + std::to_string(segment) + " is of int8:\n" + text + "\n";
}

/// `segment0.onnx` and so on, by the numbers of the report.
void write_onnx(const graft_host_partition& partition, const std::string& folder) {
  if (folder.empty()) return;
  graft_error error;
  for (size_t i = 0; i < graft_host_partition_segment_count(&partition); ++i) {
    const std::string path = folder + "/segment" + std::to_string(i) + ".onnx";
    check(graft_host_partition_write_onnx(&partition, i, path.c_str(), &error), error);
  }
}

/// The nodes outside of all segments behind which MXNet knows shapes only while running.
std::set<const Node*> running_outside(const HostGraph& host, const graft_host_partition& partition) {
  std::set<size_t> inside;
  for (size_t i = 0; i < graft_host_partition_segment_count(&partition); ++i) {
    const graft_host_segment& segment = *graft_host_partition_segment(&partition, i);
    inside.insert(segment.nodes, segment.nodes + segment.node_count);
  }
  std::set<const Node*> outside;
  for (const size_t node : host.unknown) {
    if (inside.count(node) == 0) outside.insert(host.nodes[node]);
  }
  return outside;
}

/// A graph, and how it is divided.
std::pair<HostGraph, PartitionHandle> read_and_split(Graph& graph, const Spec& spec) {
  HostGraph host = read_graph(graph, spec);
  PartitionHandle partition = split(host, spec);
  const std::set<const Node*> running = running_outside(host, *partition);
  if (running.empty()) return {std::move(host), std::move(partition)};
  host = read_graph(graph, spec, running);
  partition = split(host, spec);
  return {std::move(host), std::move(partition)};
}

MXReturnValue optimize(Graph* graph, const std::unordered_map<std::string, std::string>& keywords) {
  return guarded([&] {
    last_report.clear();
    const Spec spec = parse_spec(keywords);
    wait_for_arrays();
    const auto [host, partition] = read_and_split(*graph, spec);
    last_report = host.note + graft_host_partition_report(partition.get());
    write_onnx(*partition, spec.onnx_folder);
    std::vector<EngineHandle> engines;
    std::vector<Part> parts;
    for (size_t i = 0; i < graft_host_partition_segment_count(partition.get()); ++i) {
      EngineHandle engine = build(*partition, i, spec);
      if (!engine) continue;
      last_report += quantization_of(*engine, i);
      parts.push_back({graft_host_partition_segment(partition.get(), i), engine.get()});
      engines.push_back(std::move(engine));
    }
    write_engines(*graph, host, parts, spec);
  });
}

REGISTER_PASS(graft).setBody(optimize);

}  // namespace
}  // namespace graft::extension

extern "C" GRAFT_API const char* graft_mxnet_report(void) { return graft::extension::last_report.c_str(); }

/// What MXNet calls when it has loaded the library.
GRAFT_API mxnet::ext::MXReturnValue initialize(int version) {
  using namespace graft::extension;
  find_framework(__builtin_return_address(0), version);
  return guarded([&] {
    if (version < kOldestMxnet || version >= kNextMxnet) {
      throw Failure("libgraft_mxnet.so is for MXNet 1.9, and this is version " + std::to_string(version));
    }
  });
}
