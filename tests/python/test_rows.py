# SPDX-License-Identifier: Apache-2.0
"""Tables through engines, and what Spark is handed, without Spark."""

import pickle

import graft
import graft.spark
import numpy as np
import pytest
from conftest import expected, model_of
from graft import rows
from onnx import TensorProto, helper


@pytest.fixture(name="many")
def fixture_many():
    """More rows than a run takes."""
    return np.random.default_rng(2).standard_normal((150, 4)).astype(np.float32)


def test_rows_above_the_range_are_several_runs(engine, many):
    assert rows.most_rows(engine) == 64
    np.testing.assert_allclose(rows.run_rows(engine, {"x": many, "other": many})["y"], expected(many), atol=1e-5)


def test_columns_become_inputs(engine, x):
    listed = np.empty(len(x), object)
    listed[:] = [row.tolist() for row in x]  # as pandas has them
    for column in (x.astype(np.float64), list(x), listed):
        np.testing.assert_allclose(rows.run_rows(engine, {"x": column})["y"], expected(x), atol=1e-5)


def test_columns_that_do_not_fit_are_named(engine, x):
    with pytest.raises(graft.InvalidArgumentError, match="no column 'x'.*'z'"):
        rows.run_rows(engine, {"z": x})
    ragged = np.empty(2, object)
    ragged[:] = [np.zeros(4), np.zeros(3)]
    with pytest.raises(graft.InvalidArgumentError, match="'x': its rows have different shapes"):
        rows.run_rows(engine, {"x": ragged})
    with pytest.raises(graft.InvalidArgumentError, match="x"):
        rows.run_rows(engine, {"x": np.array([["a"] * 4])})


def test_columns_of_different_lengths_are_refused():
    add = graft.compile(model_of([helper.make_node("Add", ["a", "b"], ["y"])],
                                 [(name, TensorProto.FLOAT, ["batch", 2]) for name in "ab"],
                                 [("y", TensorProto.FLOAT, ["batch", 2])]), tune="off")
    with pytest.raises(graft.InvalidArgumentError, match="different numbers of rows"):
        rows.run_rows(add, {"a": np.zeros((3, 2)), "b": np.zeros((2, 2))})
    assert rows.run_rows(add, {"a": np.ones((3, 2)), "b": np.ones((3, 2))})["y"].tolist() == [[2, 2]] * 3


def test_table_without_rows_gives_none_without_a_run(engine):
    result = rows.run_rows(engine, {"x": np.zeros((0, 4), np.float32)})["y"]  # the plan's range begins at 1
    assert result.shape == (0, 3) and result.dtype == np.float32


def test_engine_of_a_plan_is_loaded_once(engine):
    plan = engine.to_bytes()
    loaded = []

    def read():
        loaded.append(1)
        return plan

    first = rows.engine_of(rows.digest_of(plan), read, "cpu", 1)
    assert rows.engine_of(rows.digest_of(plan), read, "cpu", 1) is first and len(loaded) == 1


def test_spark_gets_a_function_that_runs_batches(engine, many, tmp_path):
    engine.save(tmp_path / "plan.graft")
    for plan in (engine, tmp_path / "plan.graft"):
        predict = graft.spark.predictor(plan)()
        np.testing.assert_allclose(predict(many), expected(many), atol=1e-5)
    with pytest.raises(ValueError):
        predict(many, many)


def test_plans_travel_by_pickle(engine, x):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(engine))(x), engine(x))
