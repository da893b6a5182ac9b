# SPDX-License-Identifier: Apache-2.0
"""The table of networks and doors in docs/TENSORFLOW.md: what becomes of Keras' networks in fp32 and fp16, against what
TensorFlow gives in fp32.

    python bench/tensorflow_table.py NETWORK DOOR TUNE THREADS FILE      one row, as DoorTable starts it
"""

import pathlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import door_table
import keras_networks
from rows import TOLERANCE, errors, processor

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_ERROR = {"fp32": TOLERANCE, "fp16": 2e-2}
HANDS_ON = {"Const", "Identity", "IdentityN", "NoOp", "Placeholder"}  # no operators
BATCH = 2


@dataclass
class Exported:
    """A network of Keras, its SavedModel, what it is given, and what TensorFlow gives: its results by name."""

    name: str
    model: object
    folder: str
    given: object
    expected: dict

    @classmethod
    def of(cls, name, folder):
        """Makes it."""
        import numpy as np
        import tensorflow as tf
        model = keras_networks.model_of(name)
        model.export(folder, verbose=False)
        given = keras_networks.given(name, model.inputs[0], BATCH, np.random.default_rng(1))
        return cls(name, model, folder, given, results_of(tf.saved_model.load(folder), given))


def results_of(loaded, given):
    """What the signature of a SavedModel gives, which takes one input, by name."""
    import tensorflow as tf
    signature = loaded.signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]
    return {key: value.numpy() for key, value in signature(**{name: tf.constant(given)}).items()}


@dataclass
class Made:
    """A network with engines: `run` gives results by name; engines with their operators, and what stays."""

    run: Callable
    engines: list
    inside: int
    operators: int
    stays: list

    @classmethod
    def of_graph(cls, run, original, converted):
        """Of two GraphDefs."""
        operators = [node.op for node in original.node if node.op not in HANDS_ON]
        stays = [node.op for node in converted.node if node.op not in HANDS_ON | {"GraftEngine"}]
        engines = [node.attr["contents"].s.decode() for node in converted.node if node.op == "GraftEngine"]
        return cls(run, engines, len(operators) - len(stays), len(operators), stays)


def frozen(exported):
    """The signature with its variables as constants."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    loaded = tf.saved_model.load(exported.folder)
    made = convert_variables_to_constants_v2(loaded.signatures["serving_default"], lower_control_flow=False)
    return made, [tensor.name for tensor in made.outputs]


def by_graph(exported, precision, folder, **settings):
    """A frozen GraphDef in a tf.Session."""
    del folder
    import graft.tensorflow
    import tensorflow as tf
    function, outputs = frozen(exported)
    original = function.graph.as_graph_def()
    made = graft.tensorflow.create_inference_graph(original, [name.removesuffix(":0") for name in outputs],
                                                   precision_mode=precision.upper(), **settings)
    with tf.compat.v1.Graph().as_default() as graph:
        tf.import_graph_def(made, name="")
    session = tf.compat.v1.Session(graph=graph)
    given = {function.inputs[0].name: exported.given}
    return Made.of_graph(lambda: dict(zip(sorted(exported.expected), session.run(outputs, given))), original, made)


def converted(exported, precision, folder, settings):
    """The SavedModel with engines, written into a folder."""
    import graft.tensorflow
    converter = graft.tensorflow.Converter(exported.folder, precision_mode=precision.upper(), **settings)
    converter.convert()
    converter.save(folder)
    return converter._original, converter._made


def by_saved_model(exported, precision, folder, **settings):
    """A SavedModel that was converted, saved, and loaded."""
    import tensorflow as tf
    graphs = converted(exported, precision, folder, settings)
    loaded = tf.saved_model.load(folder)
    return Made.of_graph(lambda: results_of(loaded, exported.given), *graphs)


def by_predict(exported, precision, folder, **settings):
    """The same as a layer of a model of Keras, by predict()."""
    import keras
    graphs = converted(exported, precision, folder, settings)
    taken = exported.model.inputs[0]
    given = keras.Input(taken.shape[1:], dtype=taken.dtype)
    model = keras.Model(given, keras.layers.TFSMLayer(folder, call_endpoint="serving_default")(given))
    return Made.of_graph(lambda: model.predict(exported.given, verbose=0), *graphs)


def by_compile(exported, precision, folder, **settings):
    """`graft compile` of the SavedModel: one engine, without TensorFlow."""
    del folder
    import graft
    engine = graft.compile(exported.folder, precision=precision, **settings)
    operators = [node.op for node in frozen(exported)[0].graph.as_graph_def().node if node.op not in HANDS_ON]
    count = len(operators)
    return Made(lambda: engine.run({engine.inputs[0].name: exported.given}), ["all"], count, count, [])


DOORS = {"GraphDef, tf.Session": by_graph, "SavedModel": by_saved_model, "Keras, predict": by_predict,
         "whole, graft compile": by_compile}


def error_of(results, expected):
    """The largest difference as a share of the range of its result; of detections as they are, corners and scores being
    of 0 to 1."""
    import numpy as np
    if "valid" in expected:
        from detections import furthest
        return furthest(*([each[name] for name in ("boxes", "scores", "classes", "valid")]
                          for each in (expected, results)),
                        keras_networks.LEAST_SCORE)
    names = sorted(expected)
    return errors([expected[name] for name in names], [np.asarray(results[name]) for name in names])[1]


def measured(name, door, tune, threads):
    """A row: what became of the network, and how far its results are off."""
    row = {"error": {}}
    with tempfile.TemporaryDirectory() as folder:
        exported = Exported.of(name, f"{folder}/model")
        for precision in MOST_ERROR:
            options = {"tune": tune, "threads": threads} if door == "whole, graft compile" else {
                "tune": tune, "threads": threads, "strict": True}
            made = DOORS[door](exported, precision, f"{folder}/{precision}", **options)
            row["error"][precision] = error_of(made.run(), exported.expected)
            row[f"segments_{precision}"] = made.engines
            row.update(engines=len(made.engines), inside=made.inside, operators=made.operators,
                       stays=sorted(set(made.stays)))
    return row


def write_row(name, door, tune, threads, path):
    """Measures a row into a file."""
    door_table.write_row(path, lambda: measured(name, door, tune, int(threads)),
                         {"processor": processor(), "threads": int(threads), "tune": tune})


def table_of(folder=None):
    """The table, whose rows are in a folder."""
    return door_table.DoorTable(
        page=ROOT / "docs" / "TENSORFLOW.md", begin="<!-- networks: ./dev bench tensorflow --table -->\n",
        end="<!-- end of networks -->\n", folder=pathlib.Path(folder or ROOT / ".cache" / "tensorflow_networks"),
        program=pathlib.Path(__file__), names=[*keras_networks.CASES, *keras_networks.MORE_CASES], doors=list(DOORS),
        cell=cell, notes=notes)


def cell(row):
    """A row as the table has it."""
    if failure := door_table.failure_of(row):
        return failure
    wrong = [name for name, most in MOST_ERROR.items() if not row["error"][name] <= most]
    if wrong:
        return f"{wrong[0]} is wrong by {row['error'][wrong[0]]:.1g}"
    return f"{door_table.share_of(row)}, {row['error']['fp32']:.0e}, {row['error']['fp16']:.0e}"


def notes(rows):
    """The segments of what is not one engine, each with its operators."""
    lines = []
    for (name, door), row in rows.items():
        if "failed" in row or (row["engines"] == 1 and not row["stays"]):
            continue
        lines.append(f"- {name}, {door}: " + "; ".join(row["segments_fp32"])
                     + (f"; TensorFlow runs {', '.join(row['stays'])}" if row["stays"] else ""))
    return ["", *lines] if lines else []


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests" / "tensorflow"))
    write_row(*sys.argv[1:])
