// SPDX-License-Identifier: Apache-2.0
#include "kernels/collect.h"

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/compile.h"
#include "graph/infer.h"
#include "plan/build_engine.h"
#include "support/sample_case.h"
#include "support/test_root.h"
#include "target/target.h"
#include "tile/program.h"

namespace graft::kernels {
namespace {

/// A code generator that keeps what it is asked for and makes no code.
CompileKernels keeper(const std::string& origin, Programs& programs) {
  const auto mutex = std::make_shared<std::mutex>();  // units come from several threads
  return [=, &programs](const std::string& texts, const Target&) {
    const std::lock_guard lock(*mutex);
    for (const tile::Program& program : tile::parse_programs(texts)) {
      ++programs.asked;
      programs.by_name.try_emplace(program.name, Programs::Program{tile::print(program), origin});
    }
    return std::vector<std::byte>(1);
  };
}

void build(FusedProgram program, const std::string& target, const std::string& origin, Programs& programs) {
  BuildOptions options{.target = find_target(target)};
  options.compile_kernels = keeper(origin, programs);
  build_engine(std::move(program), options);
}

void collect_sample(const SampleCase& c, Openness openness, const std::string& target, Programs& programs) {
  try {
    Graph graph = make_graph(c, openness);
    infer_types(graph);
    build(fuse(std::move(graph)), target, c.name(), programs);
  } catch (const Error& error) {
    // Some operators need some size when compiling; generated_test.cpp checks that they say so.
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
}

}  // namespace

std::vector<Network> test_networks() {
  const std::string command = fmt::format("{} {}/tests/kernels/networks.py", test_python(), test_root());
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe.get())) text.append(buffer.data(), count);
  std::vector<Network> networks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Network network;
    words >> network.name >> network.path;
    for (std::string dim; words >> dim;) network.dims.push_back(dim);
    networks.push_back(std::move(network));
  }
  if (networks.empty()) throw std::runtime_error(command + " printed no networks");
  return networks;
}

void collect_network(const Network& network, int batch, const std::string& precision, const std::string& target,
                     Programs& programs) {
  CompileOptions options;
  if (precision != "fp32") set_option(options, {"precision", precision});
  set_option(options, {"dim", fmt::format("batch={}", batch)});
  for (const std::string& dim : network.dims) set_option(options, {"dim", dim});
  Graph graph = import_model({.path = network.path}, options);
  rewrite(graph, options);
  build(fuse(std::move(graph), options), target, fmt::format("{}/b{}/{}", network.name, batch, precision), programs);
}

void collect_samples(const std::string& target, int most, Programs& programs) {
  std::map<const OpDef*, int> taken;
  for (const SampleCase& c : all_sample_cases()) {
    if (taken[c.op]++ >= most) continue;
    for (const Openness openness : {Openness::kContents, Openness::kSizes}) {
      collect_sample(c, openness, target, programs);
    }
  }
}

}  // namespace graft::kernels
