# SPDX-License-Identifier: Apache-2.0
"""No region that matters is planned below a tenth of what its target could do: by the cost model, so on any machine."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "models")]

import losses  # noqa: E402
from architectures import ARCHITECTURES  # noqa: E402

GRAFT = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")) / "bin" / "graft"


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "sm_90a", "sm_80"])
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_no_region_is_badly_planned(name, target):
    report = losses.report_of(GRAFT, name, losses.settings_for(target))
    assert report["regions"]
    bad = losses.badly_planned(report)
    assert not bad, "\n".join(losses.text_of(name, region) for region in bad)


def test_a_slow_region_is_noticed_where_it_matters():
    fine = {"ratio": 0.5, "share": 0.9, "lost_ms": 0.5}
    small = {"ratio": 0.05, "share": 0.01, "lost_ms": 0.01}
    large = {"ratio": 0.05, "share": 0.04, "lost_ms": 0.01}
    slow = {"ratio": 0.05, "share": 0.01, "lost_ms": 0.2}
    assert losses.badly_planned({"ms": 1, "regions": [fine, small, large, slow]}) == [large, slow]
