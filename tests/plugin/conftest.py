# SPDX-License-Identifier: Apache-2.0
"""Models in a test's folder, and what compiles and runs plugins: each says in one line why it is missing."""

import os

import onnx
import pytest
import workshop
from models import normal_rows, three_one_hots, two_layer_norms


def skip(reason):
    """Skips, but not in CI beside a checkout that has what is needed: there it is a fault."""
    if os.environ.get("CI") and workshop.SHARED.exists():
        pytest.fail(f"{reason}, although {workshop.SHARED} is there")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def headers():
    """TensorRT's headers by version."""
    found = workshop.header_folders()
    if not found:
        skip("no TensorRT headers: set GRAFT_TENSORRT_HEADERS to a folder with tensorrt-VERSION/include")
    if not workshop.toolkit():
        pytest.skip("no CUDA toolkit, whose headers TensorRT's include: set CUDA_HOME")
    return found


@pytest.fixture(scope="session")
def harness(headers, tmp_path_factory):
    """Builds the program that plays TensorRT's part, once for each version."""
    if not workshop.emulator():
        pytest.skip("this build has no emulated GPU")
    folder, built = tmp_path_factory.mktemp("harness"), {}

    def build(version):
        if version not in built:
            built[version] = workshop.build_harness(headers[version], folder / version)
        return built[version]
    return build


def saved(make, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(make(), path)
    return path


@pytest.fixture
def layer_norms(tmp_path):
    return saved(two_layer_norms, tmp_path)


@pytest.fixture
def one_hots(tmp_path):
    return saved(three_one_hots, tmp_path)


@pytest.fixture
def rows(tmp_path):
    return saved(normal_rows, tmp_path)
