// SPDX-License-Identifier: Apache-2.0
// The graphs that TF-TRT's and Torch-TensorRT's own partitioning tests draw, as data: ours has to be acyclic, to cover
// at least as many nodes, and to need no more segments than theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "partition/partition.h"

namespace graft::partition {
namespace {

// `a = b c`: node a takes what b and c give; a name that is no node is an input of the graph. `refused`: nodes that
// no engine can do. `apart`: nodes whose results cannot cross a border (lists, numbers of the host). `cheap`: may be
// copied to both sides. `uncounted`: no real operators. `results`: what the graph gives; otherwise what nobody takes.
// `theirs`: segments and nodes in them, of the predecessor's test. `ours`: the segments, exactly.
constexpr const char* kCases = R"(
case tf/Simple, all
add0 = feed feed
add1 = feed feed
add2 = add0 add1
add3 = add0 add2
add4 = add2 add2
minimum 2
theirs 1 5
ours add0 add1 add2 add3 add4

case tf/Simple, without add1
add0 = feed feed
add1 = feed feed
add2 = add0 add1
add3 = add0 add2
add4 = add2 add2
refused add1
minimum 2
theirs 1 4
ours add0 add2 add3 add4

case tf/Simple, what add1 gives cannot come in
add0 = feed feed
add1 = feed feed
add2 = add0 add1
add3 = add0 add2
add4 = add2 add2
refused add1
apart add1
minimum 2
join
theirs 1 2
ours add3 add4

case tf/Simple, what add4 takes stays inside
add0 = feed feed
add1 = feed feed
add2 = add0 add1
add3 = add0 add2
add4 = add2 add2
apart add2
minimum 2
theirs 1 5
ours add0 add1 add2 add3 add4

case tf/AvoidCycle
add0 = feed feed
add1 = feed feed
add2 = add0 add1
add3 = add0 add2
add4 = add2 add2
refused add2
minimum 2
theirs 0 0
ours

case tf/Multiple, without add5
add0 = feed feed
add1 = feed feed
add7 = feed feed
add2 = add0 add1
add5 = add2 add7
add8 = add7 add7
add3 = add0 add2
add4 = add2 add5
add6 = add5 add8
refused add5
minimum 2
theirs 2 6
ours add0 add1 add2 add3 | add7 add8

case tf/Multiple, what add8 gives cannot come in
add0 = feed feed
add1 = feed feed
add7 = feed feed
add2 = add0 add1
add5 = add2 add7
add8 = add7 add7
add3 = add0 add2
add4 = add2 add5
add6 = add5 add8
refused add8
apart add8
minimum 2
theirs 1 2
ours add0 add1 add7 add2 add5 add3 add4

case tf/Multiple, without add3, and what add0 gives cannot go out
add0 = feed feed
add1 = feed feed
add7 = feed feed
add2 = add0 add1
add5 = add2 add7
add8 = add7 add7
add3 = add0 add2
add4 = add2 add5
add6 = add5 add8
refused add3
apart add0
minimum 2
join
theirs 1 3
ours add1 add7 add8 | add5 add4 add6

case tf/BigIfElse, without add2
add0 = feed feed
add1 = add0 add0
add2 = add1 add1
add3 = add2 add2
add4 = add0 add0
add5 = add4 add4
add6 = add5 add5
add7 = add3 add6
refused add2
minimum 2
theirs 2 7
ours add0 add1 add4 add5 add6 | add3 add7

case torch/SegmentSequentialModel
conv0 = x
relu = conv0
conv1 = relu
log_sigmoid = conv1
conv2 = log_sigmoid
refused log_sigmoid
theirs 2 4
ours conv0 relu conv1 | conv2

case torch/SegmentSequentialModelWithMinBlockSize
conv0 = x
relu = conv0
conv1 = relu
log_sigmoid = conv1
conv2 = log_sigmoid
refused log_sigmoid
minimum 3
theirs 1 3
ours conv0 relu conv1

case torch/SegmentModelWithMinBlockSizeCausedFallback
indices = y
values = z
table = y
wide = indices
size = y
sizes = size
index_add = table wide values
reshape = index_add sizes
refused index_add
apart size sizes
cheap size sizes
uncounted sizes
minimum 3
join
theirs 1 4
ours indices values table wide

case torch/SegmentSequentialModelWithForcedOP
conv0 = x
relu = conv0
conv1 = relu
log_sigmoid = conv1
conv2 = log_sigmoid
refused relu log_sigmoid
theirs 3 3
ours conv0 | conv1 | conv2

case torch/SegmentBranchModel
conv0 = x
conv1 = conv0
log_sigmoid = conv0
conv2 = log_sigmoid
relu = conv1
add = conv2 relu
pool = add
refused log_sigmoid
theirs 2 6
ours conv0 conv1 relu | conv2 add pool

case torch/SegmentBranchModelWithMinBlockSize
conv0 = x
conv1 = conv0
log_sigmoid = conv0
conv2 = log_sigmoid
relu = conv1
add = conv2 relu
pool = add
refused log_sigmoid
minimum 3
theirs 1 4
ours conv0 conv1 relu | conv2 add pool

case torch/SegmentBranchModelWithForcedFallbackOP
conv0 = x
conv1 = conv0
log_sigmoid = conv0
conv2 = log_sigmoid
relu = conv1
add = conv2 relu
pool = add
refused log_sigmoid relu
theirs 2 5
ours conv0 conv1 | conv2 add pool

case torch/SegmentModelWithDependencyAwareness
add = x y
x_lgamma = x
mul = x y
y_lgamma = y
div = x y
div_lgamma = div
list = x_lgamma y_lgamma div_lgamma add mul
cat = list
refused x_lgamma y_lgamma div_lgamma
apart list
uncounted list
join
theirs 2 5
ours add mul div | list cat

case torch/ResolveNonTensorInputs
size = x
log_sigmoid = x
conv = log_sigmoid size
relu = conv
refused log_sigmoid
apart size
cheap size
theirs 1 2
ours size conv relu

case torch/ResolveTensorListInputsInTrt
list = x x
cat0 = list
log_sigmoid = cat0
cat1 = list
conv = cat1
relu = conv
tuple = log_sigmoid relu
refused log_sigmoid tuple
apart list
cheap list
uncounted list
join
theirs 2 4
ours list cat0 cat1 conv relu

case torch/ConvertForTensorListInputsInFallback
list = x x
log_sigmoid = x
cat = list
conv = cat
relu = conv
tuple = log_sigmoid relu
refused log_sigmoid tuple
apart list
cheap list
uncounted list
theirs 1 3
ours list cat conv relu

case torch/ResolveNonTensorInputsForIFBlock
a = x y
size = a
number = size
floating = number
if0 = floating a y
if1 = floating a y
add = if0 if1
refused if0 if1
apart size floating
cheap size
ours a number size | add

case torch/ResolveOnlyNecessaryNonTensorInputs, fetched before
dict = x
get = dict
lt = get y
mask = lt
tensor = get
put = get mask tensor
out = put dict
refused dict get tensor put out
apart dict mask
uncounted mask
theirs 1 1
ours lt
)";

/// A drawn case.
struct Case {
  std::string name;
  AbstractGraph graph;
  std::vector<bool> refused;
  Options options;
  int segments = -1, nodes = 0;  ///< theirs; -1: they assert nothing of that kind
  std::set<std::set<std::string>> ours;
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// What a line says of a case; `values`: of the names so far.
void read_line(Case& drawn, std::map<std::string, int>& values, const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  AbstractGraph& graph = drawn.graph;
  const auto node = [&](const std::string& name) -> int { return graph.values.at(values.at(name)).producer; };
  const auto each = [&](const auto& set) { std::for_each(words.begin() + 1, words.end(), set); };
  const std::string& what = words[0];
  if (words.size() > 1 && words[1] == "=") {
    Node added{.name = what, .op = what};
    for (size_t i = 2; i < words.size(); ++i) {
      const auto [at, is_new] = values.try_emplace(words[i], static_cast<int>(graph.values.size()));
      if (is_new) graph.inputs.push_back(at->second), graph.values.push_back({.bytes = 4});
      added.inputs.push_back(at->second);
    }
    added.outputs = {static_cast<int>(graph.values.size())};
    values[what] = added.outputs[0];
    graph.values.push_back({.producer = static_cast<int>(graph.nodes.size()), .bytes = 4});
    graph.nodes.push_back(added);
    drawn.refused.push_back(false);
  } else if (what == "refused") {
    each([&](const std::string& name) { drawn.refused[node(name)] = true; });
  } else if (what == "apart") {
    each([&](const std::string& name) { graph.values[values.at(name)].crosses = false; });
  } else if (what == "cheap") {
    each([&](const std::string& name) { graph.nodes[node(name)].replicable = true; });
  } else if (what == "uncounted") {
    each([&](const std::string& name) { graph.nodes[node(name)].counts = false; });
  } else if (what == "minimum") {
    drawn.options.minimum_size = std::stoi(words.at(1));
  } else if (what == "join") {
    drawn.options.join_independent = true;
  } else if (what == "theirs") {
    drawn.segments = std::stoi(words.at(1)), drawn.nodes = std::stoi(words.at(2));
  } else if (what == "ours") {
    std::set<std::string> segment;
    each([&](const std::string& name) {
      if (name == "|") {
        drawn.ours.insert(std::exchange(segment, {}));
      } else {
        segment.insert(name);
      }
    });
    if (!segment.empty()) drawn.ours.insert(segment);
  } else {
    FAIL() << "a line of another kind: " << line;
  }
}

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  std::map<std::string, int> values;
  std::istringstream stream(kCases);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    if (line.starts_with("case ")) {
      cases.push_back({.name = line.substr(5)});
      values.clear();
    } else {
      read_line(cases.back(), values, line);
    }
  }
  for (Case& drawn : cases) {
    std::set<int> used;
    for (const Node& node : drawn.graph.nodes) used.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : drawn.graph.nodes) {
      if (!used.contains(node.outputs[0])) drawn.graph.outputs.push_back(node.outputs[0]);
    }
  }
  return cases;
}

/// Whether segments, each as one node, and the host's nodes can run in an order.
bool can_run(const AbstractGraph& graph, const Result& result) {
  std::vector<std::set<int>> makers(graph.values.size());  // a replicable node may stand in several places
  const auto nodes = static_cast<int>(graph.nodes.size());
  std::vector<std::vector<int>> units(result.segments.size());
  for (size_t s = 0; s < units.size(); ++s) units[s] = result.segments[s].nodes;
  for (int n = 0; n < nodes; ++n) {
    const bool kept = std::find(result.kept.begin(), result.kept.end(), n) != result.kept.end();
    if (result.segment_of[n] < 0 || kept) units.push_back({n});
  }
  std::set<int> there(graph.inputs.begin(), graph.inputs.end());
  std::vector<bool> ran(units.size(), false);
  for (size_t round = 0; round < units.size(); ++round) {
    for (size_t u = 0; u < units.size(); ++u) {
      if (ran[u]) continue;
      std::set<int> known = there;
      ran[u] = true;
      for (const int n : units[u]) {
        for (const int value : graph.nodes[n].inputs) ran[u] = ran[u] && known.contains(value);
        known.insert(graph.nodes[n].outputs.begin(), graph.nodes[n].outputs.end());
      }
      if (!ran[u]) continue;
      const std::vector<int>& given = u < result.segments.size() ? result.segments[u].outputs
                                                                 : graph.nodes[units[u][0]].outputs;
      there.insert(given.begin(), given.end());
    }
  }
  return std::find(ran.begin(), ran.end(), false) == ran.end();
}

TEST(PartitionCases, are_cut_at_least_as_well_as_the_predecessors_did) {
  const std::vector<Case> cases = read_cases();
  EXPECT_EQ(cases.size(), 22U);
  for (const Case& drawn : cases) {
    SCOPED_TRACE(drawn.name);
    Options options = drawn.options;
    options.why_not = [&](int node) { return drawn.refused[node] ? "no engine does it" : ""; };
    const Result result = partition(drawn.graph, options);
    std::set<std::set<std::string>> segments;
    int covered = 0;
    for (const Segment& segment : result.segments) {
      std::set<std::string> names;
      for (const int node : segment.nodes) names.insert(drawn.graph.nodes[node].name);
      covered += static_cast<int>(names.size());
      segments.insert(names);
      EXPECT_GE(segment.size, options.minimum_size);
      for (const int node : segment.nodes) EXPECT_FALSE(drawn.refused[node]);
    }
    EXPECT_EQ(segments, drawn.ours);
    EXPECT_TRUE(can_run(drawn.graph, result));
    if (drawn.segments < 0) continue;
    EXPECT_GE(covered, drawn.nodes);
    // More segments are only those that cover more.
    EXPECT_TRUE(static_cast<int>(segments.size()) <= drawn.segments || covered > drawn.nodes);
  }
}

}  // namespace
}  // namespace graft::partition
