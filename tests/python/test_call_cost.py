# SPDX-License-Identifier: Apache-2.0
"""What a call costs: at most so much processor time over one of the C interface (bench/python_call.py)."""

import shutil
import sys
import types

import pytest
from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "models")]


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler for the calls from C++")
def test_a_call_costs_at_most_10_us_over_c():
    import graft_peer
    import python_call
    options = types.SimpleNamespace(build=str(BUILD), bench="test", docs=False)
    rows = python_call.measure(options, graft_peer.GraftPeer(1, str(BUILD)))
    assert len(rows) == 4
    for row in rows:
        over = (row["graft_ms"] - row["peers"]["graft_session_run"]) * 1e3
        assert 0 < over <= python_call.MOST_US, f"{row['case']}: {over:.2f} us"
