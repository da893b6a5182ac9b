# SPDX-License-Identifier: Apache-2.0
"""A SavedModel larger than the 2 GiB that a GraphDef holds: weights stay in the checkpoint's shards, and in the plan's
file. It writes 5 GB and takes minutes: GRAFT_TEST_LARGE=1 runs it. tests/unit/saved_model_test.cpp holds shards beyond
4 GiB in any run."""

import os
import pathlib
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

import graft

COMMAND = pathlib.Path(os.environ["GRAFT_BUILD"]) / "bin" / "graft"
ROWS, WIDTH, SHARD = 1_200_000, 256, 1 << 30  # 1.2 GB for each of two tables
OWN_MEMORY = 4 << 30  # bytes that a process may have beside the files that it maps: tables in parts are put together

# Zeros but for the rows that are asked for, which takes no time to make. TensorFlow divides what passes the end of a
# shard.
WRITER = f"""
import sys
import tensorflow as tf

class Tables(tf.Module):
    def __init__(self):
        super().__init__()
        self.tables = [tf.Variable(tf.zeros([{ROWS}, {WIDTH}])) for _ in range(2)]
        for number, table in enumerate(self.tables):
            table.scatter_update(tf.IndexedSlices(tf.random.stateless_uniform([2, {WIDTH}], [number, 1], -1, 1),
                                                  [1, {ROWS - 1}]))
        self.kernel = tf.Variable(tf.random.stateless_uniform([{WIDTH}, 8], [7, 7], -1, 1))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="ids")])
    def __call__(self, ids):
        first, second = (tf.nn.embedding_lookup(table, ids) for table in self.tables)
        return {{"y": tf.nn.relu((first - 0.5 * second) @ self.kernel)}}

module = Tables()
shards = tf.train.experimental.MaxShardSizePolicy({SHARD})
tf.saved_model.save(module, sys.argv[1], signatures=module.__call__,
                    options=tf.saved_model.SaveOptions(experimental_sharding_callback=shards))
print(module(tf.constant([0, 1, {ROWS - 1}]))["y"].numpy().tobytes().hex())
"""

pytestmark = pytest.mark.skipif(not os.environ.get("GRAFT_TEST_LARGE"),
                                reason="it writes 5 GB and takes minutes: GRAFT_TEST_LARGE=1 runs it")


def limited(*words):
    """Runs a process that may have little memory beside mapped files."""
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (OWN_MEMORY, OWN_MEMORY)))


@pytest.fixture(name="written", scope="module")
def fixture_written(tmp_path_factory):
    """The model's folder, and what it gives for three rows."""
    folder = tmp_path_factory.mktemp("large") / "model"
    done = subprocess.run([sys.executable, "-c", WRITER, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    yield folder, np.frombuffer(bytes.fromhex(done.stdout.split()[-1]), np.float32).reshape(3, 8)
    shutil.rmtree(folder)


def test_it_is_too_large_for_a_graph_that_tensorflow_runs(written):
    import graft.tensorflow
    with pytest.raises(graft.UnsupportedError, match="2 GiB.*graft compile"):
        graft.tensorflow.Converter(str(written[0]), tune="off").convert()


def test_a_model_of_more_than_two_gigabytes_compiles_and_runs_where_its_weights_lie(written, tmp_path):
    folder, expected = written
    plan, ids, results = (tmp_path / name for name in ("model.graft", "ids.npy", "results.npz"))
    shards = sorted((folder / "variables").glob("variables.data-*"))
    assert len(shards) > 1 and sum(shard.stat().st_size for shard in shards) > 1 << 31
    made = limited(COMMAND, "compile", folder, "-o", plan, "--tune", "off")
    assert made.returncode == 0, made.stderr
    assert plan.stat().st_size > 1 << 31
    for path in folder.rglob("variables.data-*"):
        path.unlink()  # the plan has them
    np.save(ids, np.array([0, 1, ROWS - 1], np.int32))
    ran = limited(COMMAND, "run", plan, "--input", f"ids={ids}", "--output", results)
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_allclose(np.load(results)["y"], expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    plan.unlink()
