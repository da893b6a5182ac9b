# SPDX-License-Identifier: Apache-2.0
"""Where a plan comes from, and what its maker says of it."""

import hashlib
import json
import os
import re

import onnx
import pytest

QUICK = ["--tune", "off"]


def metadata_of(graft, *words):
    done = graft("inspect", *words, "--metadata", "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_plan_keeps_its_origin_and_the_maker_s_pairs(graft, model, tmp_path):
    with_props = onnx.load(tmp_path / "model.onnx")
    with_props.metadata_props.add(key="author", value="somebody")
    onnx.save(with_props, tmp_path / "model.onnx")
    done = graft("compile", "model.onnx", "-o", "plan.graft", *QUICK, "--metadata", "owner=vision", "--metadata",
                 "note=a=b, c", "--metadata", "empty=")
    assert done.returncode == 0, done.stderr
    found = metadata_of(graft, "plan.graft")
    data = (tmp_path / "model.onnx").read_bytes()
    assert found["graft.source"] == "model.onnx"
    assert found["graft.source_sha256"] == hashlib.sha256(data).hexdigest()
    assert found["graft.source_bytes"] == str(len(data))
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["graft.made"])
    assert found["graft.version"] and found["model.author"] == "somebody"
    assert (found["owner"], found["note"], found["empty"]) == ("vision", "a=b, c", "")
    text = graft("inspect", "plan.graft", "--metadata")
    assert "owner = vision\n" in text.stdout and "graft.source = model.onnx\n" in text.stdout
    assert metadata_of(graft, "model.onnx")["graft.source_sha256"] == found["graft.source_sha256"]


def test_the_time_is_that_of_the_file_and_not_in_it(graft, model, tmp_path):
    for name in ("first.graft", "second.graft"):
        assert graft("compile", "model.onnx", "-o", name, *QUICK).returncode == 0
    assert (tmp_path / "first.graft").read_bytes() == (tmp_path / "second.graft").read_bytes()
    os.utime(tmp_path / "second.graft", (86400, 86400))
    assert metadata_of(graft, "second.graft")["graft.made"] == "1970-01-02T00:00:00Z"


def test_the_time_is_that_of_source_date_epoch(graft, model, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert graft("compile", "model.onnx", "-o", "plan.graft", *QUICK).returncode == 0
    assert metadata_of(graft, "plan.graft")["graft.made"] == "1970-01-02T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    done = graft("compile", "model.onnx", "-o", "plan.graft", *QUICK)
    assert done.returncode != 0 and "SOURCE_DATE_EPOCH" in done.stderr, done.stderr


@pytest.mark.parametrize("pairs, told", [
    (["owner"], "KEY=VALUE"), (["=x"], "KEY=VALUE"), (["graft.made=now"], "Graft's own"), (["a=1", "a=2"], "twice"),
    (["k" * 300 + "=v"], "256 bytes"),
])
def test_wrong_pairs_are_refused(graft, model, pairs, told):
    words = [word for pair in pairs for word in ("--metadata", pair)]
    done = graft("compile", "model.onnx", "-o", "plan.graft", *QUICK, *words)
    assert done.returncode == 2 and told in done.stderr, (done.returncode, done.stderr)


def test_names_that_are_no_text_do_no_harm(graft, model, tmp_path):
    done = graft("compile", "model.onnx", "-o", "plan.graft", *QUICK, "--metadata", "k=\x1b[31mred\nline")
    assert done.returncode == 0, done.stderr
    shown = graft("inspect", "plan.graft", "--metadata").stdout
    assert "\x1b" not in shown and len(shown.splitlines()) == len(metadata_of(graft, "plan.graft"))
