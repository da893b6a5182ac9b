# SPDX-License-Identifier: Apache-2.0
"""The benchmark of what a call costs (bench/python_call.py) measures each kind of call. How long they take, it says
itself: on a busy machine a limit would fail without a fault."""

import shutil
import sys
import types

import pytest
from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "models")]


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler for the calls from C++")
def test_each_kind_of_call_is_measured_beside_c():
    import graft_peer
    import python_call
    options = types.SimpleNamespace(build=str(BUILD), bench="test", docs=False)
    rows = python_call.measure(options, graft_peer.GraftPeer(1, str(BUILD)))
    assert len({row["case"] for row in rows}) == 4
    for row in rows:
        assert row["graft_ms"] > row["peers"]["graft_session_run"] > 0, row["case"]
