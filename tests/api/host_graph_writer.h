// SPDX-License-Identifier: Apache-2.0
// Graphs of a framework as a plug-in writes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "graft/graft_host.h"

namespace graft_tests {

/// Writes a graph of ATen operators through the C interface.
struct Host {
  Host() { EXPECT_EQ(graft_host_graph_create("aten", &graph, &error), GRAFT_OK) << error.message; }
  ~Host() {
    graft_host_partition_destroy(partition);
    graft_host_graph_destroy(graph);
  }

  int32_t value(const char* name, std::vector<int64_t> sizes = {}, int32_t dtype = 0,
                const graft_host_constant* constant = nullptr) {
    std::vector<const char*> symbols(sizes.size(), nullptr);
    for (size_t i = 0; i < sizes.size(); ++i) symbols[i] = sizes[i] < 0 ? "batch" : nullptr;
    const graft_host_value added{.struct_size = sizeof added,
                                 .name = name,
                                 .dtype = dtype,
                                 .rank = dtype ? static_cast<int32_t>(sizes.size()) : -1,
                                 .sizes = sizes.data(),
                                 .symbols = symbols.data(),
                                 .is_tensor = 1,
                                 .constant = constant};
    int32_t index = -1;
    EXPECT_EQ(graft_host_graph_add_value(graph, &added, &index, &error), GRAFT_OK) << error.message;
    return index;
  }
  int32_t add(const char* op, const char* name, std::vector<graft_host_argument> arguments, int32_t result) {
    const graft_host_node node{.struct_size = sizeof node,
                               .op = op,
                               .name = name,
                               .scope = "net",
                               .source = "model.py:7",
                               .arguments = arguments.data(),
                               .argument_count = arguments.size(),
                               .attribute_names = nullptr,
                               .attributes = nullptr,
                               .attribute_count = 0,
                               .outputs = &result,
                               .output_count = 1,
                               .after = nullptr,
                               .after_count = 0,
                               .counts = 1,
                               .replicable = 0};
    EXPECT_EQ(graft_host_graph_add_node(graph, &node, &error), GRAFT_OK) << error.message;
    return result;
  }
  graft_status split(std::vector<graft_option> options = {}) {
    graft_host_partition_destroy(std::exchange(partition, nullptr));
    return graft_host_partition_create(graph, options.data(), options.size(), &partition, &error);
  }

  graft_host_graph* graph = nullptr;
  graft_host_partition* partition = nullptr;
  graft_error error = {};
};

inline graft_host_argument of(int32_t value) { return {GRAFT_ARGUMENT_VALUE, value, 0, nullptr, nullptr, 0}; }
inline graft_host_argument none() { return {}; }

}  // namespace graft_tests
