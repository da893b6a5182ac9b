# SPDX-License-Identifier: Apache-2.0
"""The graphs of TF-TRT's tests: no more engines than TF-TRT made, and TensorFlow's results."""

import pytest
from conftest import FAST, close, engines_of, graph_of, run_graph
from trt_graphs import GRAPHS

import graft.tensorflow


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_has_no_more_engines_than_tf_trt_made(name):
    each = GRAPHS[name]
    graph = graph_of(each.add)
    made = graft.tensorflow.create_inference_graph(graph, each.outputs, minimum_segment_size=2, strict=True, **FAST)
    for node in engines_of(made):
        print(f"{node.name}: {node.attr['contents'].s.decode()}")
    assert 1 <= len(engines_of(made)) <= each.engines
    feeds = each.feeds()
    for result, expected in zip(run_graph(made, each.outputs, feeds), run_graph(graph, each.outputs, feeds)):
        close(result, expected)


def nodes_of_engines(graph):
    return [sorted(name.decode() for name in node.attr["nodes"].list.s) for node in engines_of(graph)]


def test_where_the_algorithm_has_no_choice_the_nodes_are_theirs():
    each = GRAPHS["SimpleMultiEngines"]
    made = graft.tensorflow.create_inference_graph(graph_of(each.add), each.outputs, minimum_segment_size=2, **FAST)
    first, second = nodes_of_engines(made)
    assert {"Conv2D", "mul", "truediv"} <= set(first) and {"sub", "mul_2", "Squeeze"} <= set(second)
    assert not set(first) & set(second) and "Digamma" not in first + second
