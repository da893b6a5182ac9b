// SPDX-License-Identifier: Apache-2.0
// Segments of abstract graphs: cases that other partitioners are judged by, and random graphs.
#include "partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "partition/contraction.h"

namespace graft::partition {
namespace {

/// A graph in which each node gives one value; written as rows of `name: inputs`.
struct Drawn {
  AbstractGraph graph;
  std::vector<bool> taken;

  /// `of`: nodes whose results it takes; -1 is an input of the graph.
  int add(const std::string& name, const std::vector<int>& of, bool supported = true) {
    const auto node = static_cast<int>(graph.nodes.size());
    Node added{.name = name, .op = name};
    for (const int from : of) added.inputs.push_back(from < 0 ? input() : graph.nodes[from].outputs[0]);
    added.outputs = {static_cast<int>(graph.values.size())};
    graph.values.push_back({.producer = node, .bytes = 8});
    graph.nodes.push_back(added);
    taken.push_back(supported);
    return node;
  }
  int input() {
    graph.values.push_back({.bytes = 8});
    graph.inputs.push_back(static_cast<int>(graph.values.size()) - 1);
    return graph.inputs.back();
  }
  void output(int node) { graph.outputs.push_back(graph.nodes[node].outputs[0]); }
  Options options(int minimum = 1) const {
    return {.why_not = [this](int n) { return taken[n] ? "" : "no engine does it"; }, .minimum_size = minimum};
  }
  std::vector<std::vector<int>> segments(const Options& options) const {
    std::vector<std::vector<int>> sets;
    for (Segment& segment : partition(graph, options).segments) {
      std::sort(segment.nodes.begin(), segment.nodes.end());
      sets.push_back(segment.nodes);
    }
    std::sort(sets.begin(), sets.end());
    return sets;
  }
};

using Sets = std::vector<std::vector<int>>;

TEST(Partition, an_empty_graph_has_no_segments) { EXPECT_TRUE(partition({}, {}).segments.empty()); }

/// Convolution, ReLU, convolution, log-sigmoid (not supported), convolution.
Drawn sequence() {
  Drawn drawn;
  int last = -1;
  for (int i = 0; i < 5; ++i) last = drawn.add("n" + std::to_string(i), {last}, i != 3);
  drawn.output(last);
  return drawn;
}

TEST(Partition, is_cut_around_an_unsupported_operator) {
  EXPECT_EQ(sequence().segments(sequence().options()), (Sets{{0, 1, 2}, {4}}));
}

TEST(Partition, drops_segments_below_the_minimum_and_says_so) {
  const Drawn drawn = sequence();
  EXPECT_EQ(drawn.segments(drawn.options(3)), (Sets{{0, 1, 2}}));
  const Result result = partition(drawn.graph, drawn.options(3));
  EXPECT_EQ(result.reasons[3], "no engine does it");
  EXPECT_NE(result.reasons[4].find("only 1 operator stands together here, and the minimum is 3"), std::string::npos);
}

TEST(Partition, nodes_that_are_no_operators_do_not_count) {
  Drawn drawn = sequence();
  drawn.graph.nodes[1].counts = false;
  EXPECT_EQ(drawn.segments(drawn.options(3)), Sets{});
}

TEST(Partition, keeps_the_largest_segments_and_reports_what_it_dropped) {
  const Drawn drawn = sequence();
  Options options = drawn.options();
  options.most_segments = 1;
  EXPECT_EQ(drawn.segments(options), (Sets{{0, 1, 2}}));
  EXPECT_NE(partition(drawn.graph, options).reasons[4].find("of 2 segments only the largest 1"), std::string::npos);
}

TEST(Partition, a_segment_that_does_not_pay_is_refused_with_the_reason) {
  const Drawn drawn = sequence();
  Options options = drawn.options();
  options.why_no_gain = [](const Segment& segment) { return segment.size < 2 ? "copies cost more" : ""; };
  EXPECT_EQ(drawn.segments(options), (Sets{{0, 1, 2}}));
  EXPECT_EQ(partition(drawn.graph, options).reasons[4], "copies cost more");
}

TEST(Partition, a_segment_that_saves_less_than_the_minimum_is_refused_with_its_estimate) {
  Drawn drawn = sequence();
  const Result all = partition(drawn.graph, drawn.options());
  ASSERT_EQ(all.segments.size(), 2U);
  // Three calls of operators become one of an engine; 8 bytes are neither here nor there.
  EXPECT_NEAR(all.segments[0].gain_us, 0, 0.1);
  EXPECT_LT(all.segments[1].gain_us, all.segments[0].gain_us);
  Options options = drawn.options();
  options.minimum_gain_us = -1;
  EXPECT_EQ(drawn.segments(options), (Sets{{0, 1, 2}}));
  EXPECT_EQ(partition(drawn.graph, options).reasons[4],
            "an engine would lose about 8 us a run here, and the minimum is a gain of -1");
  options.minimum_gain_us = 100;
  EXPECT_EQ(drawn.segments(options), Sets{});
  for (Value& value : drawn.graph.values) value.bytes = 1'000'000;  // two of them are no longer written and read
  EXPECT_EQ(drawn.segments(options), (Sets{{0, 1, 2}}));
}

// The graph that TensorFlow's segment test calls Simple: two inputs, four sums around each other.
Drawn diamond() {
  Drawn drawn;
  const int a = drawn.add("add0", {-1, -1}), b = drawn.add("add1", {-1, a}), c = drawn.add("add2", {a, b});
  drawn.add("add3", {a, c});
  const int e = drawn.add("add4", {c, 3});
  drawn.output(e);
  return drawn;
}

TEST(Partition, takes_a_graph_whole) { EXPECT_EQ(diamond().segments(diamond().options()), (Sets{{0, 1, 2, 3, 4}})); }

TEST(Partition, leaves_out_what_would_close_a_cycle) {
  // add2 stays: add0 and add1 before it, add3 and add4 behind it, and add0 -> add3 cannot bring them together.
  Drawn drawn = diamond();
  drawn.taken[2] = false;
  EXPECT_EQ(drawn.segments(drawn.options()), (Sets{{0, 1}, {3, 4}}));
}

TEST(Partition, avoids_a_cycle_through_a_refused_node) {
  Drawn drawn;
  const int a = drawn.add("a", {-1}), b = drawn.add("b", {a}, false);
  drawn.output(drawn.add("c", {a, b}));
  EXPECT_EQ(drawn.segments(drawn.options(2)), Sets{});
  EXPECT_EQ(drawn.segments(drawn.options(1)), (Sets{{0}, {2}}));
}

TEST(Partition, merges_neighbours_of_which_one_waits_for_the_host) {
  // a -> c, and u, which has nothing to do with a, -> c: a and c may run together, behind u.
  Drawn drawn;
  const int a = drawn.add("a", {-1}), x = drawn.add("x", {-1}), u = drawn.add("u", {x}, false);
  drawn.output(drawn.add("c", {a, u}));
  EXPECT_EQ(drawn.segments(drawn.options()), (Sets{{0, 3}, {1}}));
}

TEST(Partition, independent_branches_are_joined_on_demand) {
  Drawn drawn;
  const int a = drawn.add("a", {-1}), b = drawn.add("b", {-1});
  drawn.output(drawn.add("u", {a, b}, false));
  Options options = drawn.options();
  EXPECT_EQ(drawn.segments(options), (Sets{{0}, {1}}));
  options.join_independent = true;
  EXPECT_EQ(drawn.segments(options), (Sets{{0, 1}}));
}

TEST(Partition, order_edges_are_kept) {
  // b writes in place what a reads: u stands between them by order alone.
  Drawn drawn;
  const int a = drawn.add("a", {-1}), u = drawn.add("u", {-1}, false), b = drawn.add("b", {a});
  drawn.graph.nodes[u].after = {a};
  drawn.graph.nodes[b].after = {u};
  EXPECT_EQ(drawn.segments(drawn.options()), (Sets{{0}, {2}}));
}

TEST(Partition, values_that_cannot_cross_keep_their_ends_together) {
  Drawn drawn;  // a list of tensors between `pack` and `unpack`; `use` of one is not supported
  const int pack = drawn.add("pack", {-1}), unpack = drawn.add("unpack", {pack});
  const int other = drawn.add("other", {pack}, false);
  drawn.graph.values[drawn.graph.nodes[pack].outputs[0]].crosses = false;
  drawn.output(unpack), drawn.output(other);
  const Result result = partition(drawn.graph, drawn.options());
  EXPECT_TRUE(result.segments.empty());
  EXPECT_NE(result.reasons[pack].find("shares with 'other'"), std::string::npos);
  EXPECT_NE(result.reasons[unpack].find("shares with 'pack'"), std::string::npos);
}

TEST(Partition, cheap_nodes_are_copied_to_where_their_values_cannot_go) {
  Drawn drawn;  // size(x) as a number of the host's, for a view inside and a print outside
  const int conv = drawn.add("conv", {-1}), size = drawn.add("size", {conv}), view = drawn.add("view", {conv, size});
  const int print = drawn.add("print", {size}, false), later = drawn.add("later", {view, print});
  drawn.graph.values[drawn.graph.nodes[size].outputs[0]].crosses = false;
  drawn.graph.nodes[size].replicable = true;
  drawn.output(later);
  const Result result = partition(drawn.graph, drawn.options());
  ASSERT_EQ(result.segments.size(), 2U);
  EXPECT_EQ(result.segments[0].nodes, (std::vector<int>{conv, size, view}));
  EXPECT_EQ(result.kept, (std::vector<int>{size}));
  // What the host's copy of `size` reads has to come out.
  const std::vector<int>& outputs = result.segments[0].outputs;
  EXPECT_NE(std::find(outputs.begin(), outputs.end(), drawn.graph.nodes[conv].outputs[0]), outputs.end());
}

TEST(Partition, a_cheap_node_that_nobody_uses_asks_for_nothing) {
  Drawn drawn;  // the size of what `conv` gives, which was asked for in vain
  const int conv = drawn.add("conv", {-1}), size = drawn.add("size", {conv}), relu = drawn.add("relu", {conv});
  drawn.graph.values[drawn.graph.nodes[size].outputs[0]].crosses = false;
  drawn.graph.nodes[size].replicable = true;
  drawn.output(drawn.add("odd", {relu}, false));
  const Result result = partition(drawn.graph, drawn.options());
  ASSERT_EQ(result.segments.size(), 1U);
  EXPECT_EQ(result.segments[0].outputs, drawn.graph.nodes[relu].outputs);
  EXPECT_TRUE(result.kept.empty());
}

TEST(Partition, refuses_cycles_and_foreign_indices_by_name) {
  AbstractGraph graph;
  graph.nodes = {{.name = "a", .outputs = {0}, .after = {1}}, {.name = "b", .inputs = {0}}};
  graph.values = {{.producer = 0}};
  EXPECT_THROW(
      {
        try {
          partition(graph, {});
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("'a'"), std::string::npos) << error.what();
          throw;
        }
      },
      Error);
  graph.nodes[0].after = {7};
  EXPECT_THROW(partition(graph, {}), Error);
  graph.nodes[0].after = {};
  graph.nodes[1].inputs = {3};
  EXPECT_THROW(partition(graph, {}), Error);
}

/// A random graph of so many nodes; each takes up to three results of those before it.
Drawn random_graph(std::mt19937& random, int count, double supported, int reach) {
  Drawn drawn;
  std::uniform_real_distribution<double> share(0, 1);
  for (int n = 0; n < count; ++n) {
    std::vector<int> of;
    for (int i = 0; i < 3; ++i) {
      if (n > 0 && share(random) < 0.6) {
        of.push_back(std::uniform_int_distribution<int>(std::max(0, n - reach), n - 1)(random));
      }
    }
    if (of.empty()) of.push_back(-1);
    drawn.add("n" + std::to_string(n), of, share(random) < supported);
  }
  drawn.output(count - 1);
  return drawn;
}

/// Cluster of each node when segments are one: successors by data.
bool has_cycle(const AbstractGraph& graph, const std::vector<int>& cluster) {
  std::vector<std::set<int>> next(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const int value : graph.nodes[n].inputs) {
      const int producer = graph.values[value].producer;
      if (producer >= 0 && cluster[producer] != cluster[n]) next[cluster[producer]].insert(cluster[n]);
    }
  }
  std::vector<int> state(graph.nodes.size(), 0);
  const std::function<bool(int)> visit = [&](int c) {
    if (state[c] == 1) return true;
    if (state[c] == 2) return false;
    state[c] = 1;
    for (const int other : next[c]) {
      if (visit(other)) return true;
    }
    state[c] = 2;
    return false;
  };
  for (size_t c = 0; c < next.size(); ++c) {
    if (visit(static_cast<int>(c))) return true;
  }
  return false;
}

TEST(Partition, random_graphs_stay_without_cycles_and_leave_no_merge_undone) {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const int count = std::uniform_int_distribution<int>(2, 10)(random);
    const Drawn drawn = random_graph(random, count, 0.7, count);
    Options options = drawn.options();
    options.join_independent = seed % 2 == 0;
    const Result result = partition(drawn.graph, options);
    std::vector<int> cluster(drawn.graph.nodes.size());
    for (int n = 0; n < count; ++n) cluster[n] = n;
    for (const Segment& segment : result.segments) {
      for (const int n : segment.nodes) cluster[n] = segment.nodes[0];
    }
    ASSERT_FALSE(has_cycle(drawn.graph, cluster)) << "seed " << seed;
    for (int n = 0; n < count; ++n) ASSERT_EQ(result.segment_of[n] >= 0, drawn.taken[n]) << "seed " << seed;
    for (int n = 0; n < count; ++n) {
      for (const int value : drawn.graph.nodes[n].inputs) {
        const int from = drawn.graph.values[value].producer;
        if (from < 0 || !drawn.taken[from] || !drawn.taken[n] || cluster[from] == cluster[n]) continue;
        std::vector<int> merged = cluster;
        for (int& each : merged) each = each == cluster[from] ? cluster[n] : each;
        ASSERT_TRUE(has_cycle(drawn.graph, merged)) << "seed " << seed << ": " << from << " and " << n;
      }
    }
    for (size_t s = 0; s < result.segments.size(); ++s) {  // in an order in which they can run
      for (const int value : result.segments[s].inputs) {
        const int producer = drawn.graph.values[value].producer;
        if (producer < 0) continue;
        ASSERT_LT(result.segment_of[producer], static_cast<int>(s)) << "seed " << seed;
      }
    }
  }
}

TEST(Partition, joined_levels_are_as_few_as_the_longest_path_needs) {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    std::mt19937 random(seed);
    const Drawn drawn = random_graph(random, 60, 0.6, 12);
    Options options = drawn.options();
    options.join_independent = true;
    // Alternations between supported and not on the longest path: each supported run of it needs a segment of its own.
    std::vector<int> runs(drawn.graph.nodes.size(), 0);
    int most = 0;
    for (size_t n = 0; n < drawn.graph.nodes.size(); ++n) {
      runs[n] = drawn.taken[n];
      for (const int value : drawn.graph.nodes[n].inputs) {
        const int from = drawn.graph.values[value].producer;
        if (from >= 0) runs[n] = std::max(runs[n], runs[from] + (drawn.taken[n] && !drawn.taken[from]));
      }
      most = std::max(most, runs[n]);
    }
    EXPECT_EQ(partition(drawn.graph, options).segments.size(), static_cast<size_t>(most)) << "seed " << seed;
  }
}

TEST(Partition, gives_the_same_for_the_same_graph) {
  std::mt19937 random(5);
  const Drawn drawn = random_graph(random, 500, 0.8, 40);
  const Result first = partition(drawn.graph, drawn.options(2)), second = partition(drawn.graph, drawn.options(2));
  EXPECT_EQ(first.segment_of, second.segment_of);
  EXPECT_EQ(first.reasons, second.reasons);
}

// What time grows with is counted; a slow machine takes longer for the same.
TEST(Partition, large_graphs_take_little_work) {
  for (const auto& [supported, reach] : {std::pair{0.98, 20}, {0.9, 1000}, {0.5, 5}, {1.0, 3}, {0.9, 100'000}}) {
    int64_t steps[2] = {};
    for (const int count : {25'000, 100'000}) {
      std::mt19937 random(3);
      const Drawn drawn = random_graph(random, count, supported, std::min(reach, count));
      const std::clock_t start = std::clock();
      const Result result = partition(drawn.graph, drawn.options(3));
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      steps[count == 100'000] = result.steps;
      std::printf("%.2f supported, reach %d, %d nodes: %.2f s, %.1f steps a node\n", supported, reach, count, seconds,
                  static_cast<double>(result.steps) / count);
    }
    EXPECT_LE(steps[1], 8 * steps[0] + 100'000) << supported << " supported, reach " << reach;
  }
}

TEST(ContractedGraph, refuses_a_merge_around_a_third) {
  ContractedGraph graph({0, 1, 2}, {{1, 2}, {2}, {}});
  EXPECT_FALSE(graph.merge(0, 2));
  EXPECT_TRUE(graph.merge(0, 1));
  EXPECT_TRUE(graph.merge(graph.find(0), 2));
  EXPECT_EQ(graph.order().size(), 1U);
}

}  // namespace
}  // namespace graft::partition
