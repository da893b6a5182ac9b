# SPDX-License-Identifier: Apache-2.0
"""Several optima of a dimension."""

import graft
import numpy as np
import pytest
from conftest import expected, layer_model


def test_runs_of_all_sizes_agree_and_the_engine_says_its_optima(tmp_path):
    engine = graft.compile(layer_model(), dims={"batch": (1, (8, 1, 32), 64)}, tune="off")
    assert engine.inputs[0].axes[0][2:] == (1, 8, 64)
    optima = engine.describe()["optima"]
    assert [each["sizes"]["batch"] for each in optima] == [8, 1, 32]
    assert optima[0]["same_as"] is None and optima[0]["steps"] == []
    engine.save(tmp_path / "layer.graft")
    for each in (engine, graft.load(tmp_path / "layer.graft"), graft.Engine.from_bytes(engine.to_bytes())):
        with graft.Session(each) as session:
            session.profiling = True
            for batch in (1, 5, 8, 30, 64, 1):
                x = np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)
                np.testing.assert_allclose(session.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)
                assert all(step.name for step in session.step_times())
    assert graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, tune="off").describe()["optima"] == []


@pytest.mark.parametrize("wrong", [(1, (), 64), (1, (8, "a"), 64), (1, (8, 8), 64), ((1, 2), 8, 64), (1, (8, 65), 64)])
def test_wrong_optima_are_refused(wrong):
    with pytest.raises(graft.InvalidArgumentError, match="batch"):
        graft.compile(layer_model(), dims={"batch": wrong}, tune="off")
