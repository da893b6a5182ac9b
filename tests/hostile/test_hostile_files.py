# SPDX-License-Identifier: Apache-2.0
"""What SECURITY.md promises of strangers' files: an answer or an error that blames the file, within the processor time
and memory that the file is worth. Times are of the processor, so that a busy machine changes nothing."""

import hostile_files as files
import numpy as np
import pytest
from conftest import compiled, python_says
from onnx import helper

@pytest.mark.parametrize("field", ["identity", "combine"])
def test_folds_read_no_tensors_in(tmp_path, bounded, field):
    files.fold_that_reads(tmp_path / "m.onnx", field)
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    np.save(tmp_path / "at.npy", np.arange(4, 60))
    status, said = bounded("run", "m.onnx", "--input", "x=x.npy", "--input", "at=at.npy")
    assert status == 1 and f"'{field}' reads a tensor; only 'lift' may" in said


def test_folds_of_numbers_compute_them(tmp_path, bounded):
    files.fold_of_a_number(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.float32))
    np.save(tmp_path / "at.npy", np.zeros(1, np.int64))
    inputs = ["--input", "x=x.npy", "--input", "at=at.npy"]
    status, said = bounded("run", "m.onnx", "--tune", "off", *inputs, "-o", "y.npz")
    assert status == 0, said
    assert np.load(tmp_path / "y.npz")["y"] == 4950


def test_compacts_that_nothing_depends_on_are_refused(tmp_path, bounded):
    files.unread_compact(tmp_path / "m.onnx")
    status, said = compiled(bounded, "m.onnx")
    assert status == 1 and "no output depends on what the compact keeps" in said


@pytest.mark.parametrize("captured", [False, True])
def test_branches_need_a_condition(tmp_path, bounded, captured):
    files.if_without_condition(tmp_path / "m.onnx", captured)
    status, said = bounded("check", "m.onnx")
    assert status == 1 and "the condition" in said


@pytest.mark.parametrize(("op", "attributes"), [
    ("squeeze", {}), ("SwapAxis", {"dim1": "0", "dim2": "0"}), ("LayerNorm", {}), ("softmax", {"axis": "0"}),
    ("reverse", {"axis": "0"}), ("expand_dims", {"axis": "0"}), ("SliceChannel", {"axis": "0", "num_outputs": "2"})])
def test_scalars_where_an_axis_is_asked_for_by_mxnet(tmp_path, bounded, op, attributes):
    files.operator_of_a_scalar(tmp_path / "m-symbol.json", op, attributes)
    bounded("check", "m-symbol.json")


@pytest.mark.parametrize("dim", [0, -1, 5])
@pytest.mark.parametrize("target", ["repeat_interleave.self_int", "softmax.int", "select.int", "unbind.int"])
def test_scalars_where_an_axis_is_asked_for_by_torch(tmp_path, bounded, target, dim):
    more = {"repeats": 2} if target.startswith("repeat") else {"index": 0} if target.startswith("select") else {}
    files.program(tmp_path / "m.pt2", {"w": (7, (), (), 0)}, [files.call(target, "y", self="w", dim=dim, **more)], "y",
                  np.float32(1).tobytes())
    bounded("check", "m.pt2")


def test_outputs_that_a_program_and_its_signature_disagree_on(tmp_path, bounded):
    result = {"user_output": {"arg": {"as_tensor": {"name": "y"}}}}
    files.program(tmp_path / "m.pt2", {}, [files.call("relu.default", "y", self="x")], "y", specs=[result] * 300)
    for words in (["check", "m.pt2"], ["convert", "m.pt2", "-o", "c.pt2", "--precision", "fp16"]):
        status, said = bounded(*words)
        assert status == 1 and "1 outputs, its signature names 300" in said


def test_weights_of_no_whole_elements(tmp_path, bounded):
    add = files.call("add.Tensor", "y", self="x", other="w")
    files.program(tmp_path / "m.pt2", {"w": (7, (2, 3), (3, 1), 0)}, [add], "y", bytes(25))
    bounded("convert", "m.pt2", "-o", "c.pt2", "--precision", "fp16")


def test_json_is_not_nested_without_end(tmp_path, bounded):
    files.program(tmp_path / "m.pt2", {}, [files.call("relu.default", "y", self="x")], "y",
                  more=', "x": ' + files.nested(200_000))
    for words in (["check", "m.pt2"], ["convert", "m.pt2", "-o", "c.pt2", "--precision", "fp16"]):
        assert "nested more than" in bounded(*words)[1]
    files.save(tmp_path / "m.onnx", [helper.make_node("StringConcat", ["x", "x"], ["y"])],
               [files.value("x", files.STRING, ["n"])], [files.value("y", files.STRING, None)])
    (tmp_path / "x.json").write_text('["a", ' + files.nested(200_000) + "]")
    assert "nested more than" in bounded("run", "m.onnx", "--tune", "off", "--input", "x=x.json")[1]


@pytest.mark.parametrize(("text", "fits"), [("[[255, 0]]", True), ("[[300]]", False), ("[[-1]]", False),
                                            ("[[4294967297]]", False), ("[[18446744073709551615]]", False)])
def test_numbers_in_json_are_of_their_type(tmp_path, bounded, text, fits):
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    files.save(tmp_path / "m.onnx", [node], [helper.make_tensor_sequence_value_info("s", 2, [None]),
                                             files.value("i", files.INT64, [])], [files.value("y", 2, [None])])
    (tmp_path / "s.json").write_text(text)
    np.save(tmp_path / "i.npy", np.array(0))
    status, said = bounded("run", "m.onnx", "--tune", "off", "--input", "s=s.json", "--input", "i=i.npy")
    assert status == (0 if fits else 1) and (fits or "is no u8" in said), said


@pytest.mark.parametrize("depth", [2, 4, 8])
def test_loops_in_loops_are_not_unrolled_without_end(tmp_path, bounded, depth):
    files.nested_loops(tmp_path / "m.onnx", depth, 16)
    assert bounded("check", "m.onnx", seconds=10)[0] == 0


@pytest.mark.parametrize("count", [200, 5000])
def test_label_encoders_cost_what_their_keys_do(tmp_path, bounded, count):
    files.labels(tmp_path / "m.onnx", count)
    np.save(tmp_path / "x.npy", np.array([0, count - 1, count, -5, 7]))
    status, said = bounded("run", "m.onnx", "--tune", "off", "--input", "x=x.npy", "-o", "y.npz", seconds=10)
    assert status == 0, said
    assert np.load(tmp_path / "y.npz")["y"].tolist() == [0, count - 1, -1, -1, 7]


def test_constants_are_limited_in_sum(tmp_path, bounded):
    files.many_ranges(tmp_path / "m-symbol.json", 200)
    status, said = compiled(bounded, "m-symbol.json", "--deadline", "3", seconds=12)
    assert status == 1, said
    files.sparse_parameters(tmp_path, 300)
    status, said = bounded("check", "sparse-symbol.json", "--params", "sparse.params", seconds=12)
    assert status == 1 and "beside its files of" in said
    files.many_views(tmp_path / "m.pt2", 300)
    status, said = bounded("check", "m.pt2")
    assert status == 1 and "beside its files of" in said
    files.tree_of_many_targets(tmp_path / "m.onnx")
    assert bounded("check", "m.onnx")[0] == 1


def test_names_are_not_copied_without_end(tmp_path, bounded):
    files.many_subgraphs(tmp_path / "m-symbol.json", 60_000)
    compiled(bounded, "m-symbol.json", "--deadline", "3", seconds=12)


@pytest.mark.parametrize(("count", "seconds"), [(5000, 4), (20_000, 12)])
def test_thousands_of_inputs_are_joined(tmp_path, bounded, count, seconds):
    files.concat(tmp_path / "m.onnx", count)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    status, said = bounded("run", "m.onnx", "--tune", "off", "-i", "x.npy", "-o", "y.npy", seconds=seconds)
    assert status == 0, said
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.tile(x, (count, 1)))


STRINGS = {"concat": ([helper.make_node("StringConcat", ["x", "y"], ["z"])], ["x", "y"]),
           "expand": ([helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("Equal", ["e", "y"], ["z"])],
                      ["x", "y", "s"])}


@pytest.mark.parametrize("name", STRINGS)
def test_the_limit_of_a_session_holds_for_strings(tmp_path, name):
    nodes, inputs = STRINGS[name]
    kinds = {"x": (files.STRING, [1]), "y": (files.STRING, ["n"]), "s": (files.INT64, [1])}
    result = files.STRING if name == "concat" else files.BOOL
    files.save(tmp_path / "m.onnx", nodes, [files.value(each, *kinds[each]) for each in inputs],
               [files.value("z", result, None)])
    script = ("import resource, sys; import numpy as np, graft\n"
              "s = graft.Session(graft.compile('m.onnx', tune='off')); s.set_memory_limit(100 << 20)\n"
              "feeds = {'x': np.array(['a' * 1000000], object), 'y': np.array([''] * 2000, object)}\n"
              "if sys.argv[1] == 'expand': feeds |= {'s': np.array([2000]), 'y': np.array(['b'], object)}\n"
              "try: s.run(feeds)\n"
              "except graft.OutOfMemoryError:\n"
              "  print('refused', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)")
    said = python_says(tmp_path, script, name)
    assert said[0] == "refused" and int(said[1]) < 600, said


@pytest.mark.parametrize("op", ["Gather", "Identity"])
def test_equal_strings_are_kept_once(tmp_path, op):
    """A million of one kilobyte, given to a run or made by it."""
    gathers = op == "Gather"
    files.save(tmp_path / "m.onnx", [helper.make_node(op, ["x", "i"] if gathers else ["x"], ["z"])],
               [files.value("x", files.STRING, ["m"])] + [files.value("i", files.INT64, ["n"])] * gathers,
               [files.value("z", files.STRING, None)])
    script = ("import resource, sys; import numpy as np, graft\n"
              "s = graft.Session(graft.compile('m.onnx', tune='off')); s.set_memory_limit(100 << 20)\n"
              "text, many = 'a' * 1000, sys.argv[1] == 'Gather'\n"
              "feeds = {'x': np.array([text] * (1 if many else 1000000), object)}\n"
              "if many: feeds['i'] = np.zeros(1000000, np.int64)\n"
              "z = s.run(feeds)['z']\n"
              "print(z.shape == (1000000,) and set(z) == {text},\n"
              "      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)")
    said = python_says(tmp_path, script, op)
    assert said[0] == "True" and int(said[1]) < 300, said


def test_the_limit_of_a_session_holds_for_the_padding_of_tokens(tmp_path):
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", mark=1, mincharnum=1, separators=[""],
                            pad_value="p" * 1000)
    files.save(tmp_path / "m.onnx", [node], [files.value("x", files.STRING, ["n"])],
               [files.value("y", files.STRING, None)])
    script = ("import resource; import numpy as np, graft; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
              "s = graft.Session(graft.compile('m.onnx', tune='off')); s.set_memory_limit(100 << 20)\n"
              "try: s.run({'x': np.array(['a' * 20000] + [''] * 50, object)})\n"
              "except graft.OutOfMemoryError as error:\n"
              "  print('limit' in str(error), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)")
    said = python_says(tmp_path, script)
    assert said[0] == "True" and int(said[1]) < 600, said


def assert_ends_by_its_deadline(folder, given):
    """A run of m.onnx, for which x is an expression of Python."""
    script = ("import resource; import numpy as np, graft; resource.setrlimit(resource.RLIMIT_CPU, (15, 15))\n"
              "s = graft.Session(graft.compile('m.onnx', tune='off')); s.set_deadline(1.0)\n"
              f"try: s.run({{'x': {given}}})\n"
              "except graft.CancelledError as error: print('cancelled')")
    assert python_says(folder, script) == ["cancelled"]


@pytest.mark.parametrize("expression", ["separators", "tokenexp"])
def test_expressions_that_look_ahead_end_by_their_deadline(tmp_path, expression):
    """To find one token takes the whole text, as what is sought behind it is not there."""
    given = {"mark": 0, "mincharnum": 1, "pad_value": "",
             expression: "a(.*b)?" if expression == "tokenexp" else ["a(.*b)?"]}
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)
    files.save(tmp_path / "m.onnx", [node], [files.value("x", files.STRING, ["n"])],
               [files.value("y", files.STRING, None)])
    assert_ends_by_its_deadline(tmp_path, "np.array(['a' * 1000000], object)")


def test_n_grams_end_by_their_deadline(tmp_path):
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1, max_gram_length=65536,
                            max_skip_count=2_000_000_000, ngram_counts=[0, 1], ngram_indexes=[0, 1],
                            pool_int64s=[1, 1, 1])
    files.save(tmp_path / "m.onnx", [node], [files.value("x", files.INT64, ["n"])],
               [files.value("y", files.FLOAT, None)])
    assert_ends_by_its_deadline(tmp_path, "np.ones(200000, np.int64)")
