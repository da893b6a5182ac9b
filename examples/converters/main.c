/* SPDX-License-Identifier: Apache-2.0 */
/* A host that takes the converters of a shared library: x -> example::swish -> y becomes an engine. */
#include <stdio.h>

#include "graft/graft_host.h"

int main(int argc, char** argv) {
  const char* library = argc > 1 ? argv[1] : "./libactivations.so";
  const graft_option options[] = {{"converters", library}};
  const int64_t sizes[] = {2, 3};
  graft_error error = {0};
  graft_host_graph* graph = NULL;
  graft_host_partition* partition = NULL;
  graft_host_value value = {0};
  graft_host_argument argument = {0};
  graft_host_node node = {0};
  int32_t x = 0, y = 0;
  int ok = graft_host_graph_create("aten", &graph, &error) == GRAFT_OK;
  value.struct_size = sizeof value, value.name = "x", value.dtype = GRAFT_FLOAT32, value.rank = 2, value.sizes = sizes;
  value.is_tensor = 1;
  ok = ok && graft_host_graph_add_value(graph, &value, &x, &error) == GRAFT_OK;
  value.name = "y";
  ok = ok && graft_host_graph_add_value(graph, &value, &y, &error) == GRAFT_OK;
  argument.kind = GRAFT_ARGUMENT_VALUE, argument.integer = x;
  node.struct_size = sizeof node, node.op = "example::swish", node.name = "activation", node.counts = 1;
  node.arguments = &argument, node.argument_count = 1, node.outputs = &y, node.output_count = 1;
  ok = ok && graft_host_graph_add_node(graph, &node, &error) == GRAFT_OK &&
       graft_host_graph_set_borders(graph, &x, 1, &y, 1, &error) == GRAFT_OK &&
       graft_host_partition_create(graph, options, 1, &partition, &error) == GRAFT_OK;
  if (ok) {
    printf("%s", graft_host_partition_report(partition));
    ok = graft_host_partition_segment_count(partition) == 1;
  } else {
    fprintf(stderr, "%s\n", error.message);
  }
  graft_host_partition_destroy(partition);
  graft_host_graph_destroy(graph);
  return ok ? 0 : 1;
}
