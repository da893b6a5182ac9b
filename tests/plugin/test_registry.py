# SPDX-License-Identifier: Apache-2.0
"""Libraries of plugins in the registry of a TensorRT that is installed: TensorRT-RTX comes as a package of PyPI.

    pip install --no-deps --target FOLDER tensorrt-rtx-cu13-libs==1.7.1.116

and GRAFT_TENSORRT_RTX=FOLDER, or the package in the environment of the tests."""

import importlib.util
import os
import pathlib

import pytest
import workshop


def runtime():
    """libtensorrt_rtx.so.1, or None."""
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    folders = [pathlib.Path(os.environ["GRAFT_TENSORRT_RTX"]) / "tensorrt_rtx_libs"] if os.environ.get(
        "GRAFT_TENSORRT_RTX") else []
    folders += list(map(pathlib.Path, spec.submodule_search_locations)) if spec else []
    return next((folder / "libtensorrt_rtx.so.1" for folder in folders
                 if (folder / "libtensorrt_rtx.so.1").exists()), None)


@pytest.fixture(scope="module", name="registry")
def fixture_registry(headers, tmp_path_factory):
    """Runs the program that takes plugins through the runtime's registry."""
    if runtime() is None:
        pytest.skip("no TensorRT-RTX: pip install tensorrt-rtx-cu13-libs==1.7.1.116, or GRAFT_TENSORRT_RTX=FOLDER")
    if not workshop.emulator():
        pytest.skip("this build has no emulated GPU, whose driver plugins are linked with")
    program = tmp_path_factory.mktemp("registry") / "registry"
    workshop.checked([os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem",
                      headers["11.1"], "-isystem", workshop.toolkit() / "include",
                      pathlib.Path(__file__).with_name("registry") / "main.cpp", "-o", program, "-ldl"])
    return lambda library, *names: workshop.checked([program, runtime(), library, *names],
                                                    env=workshop.preloaded("libcuda.so.1"))


@pytest.mark.parametrize("version", ["10.16", "11.1"])
def test_the_registry_takes_plugins_through_their_life(headers, registry, layer_norms, tmp_path, version):
    workshop.generate(layer_norms, tmp_path / "made", "--nodes", "clamp", "--nodes", "turn,b_Mean,b_Sub",
                      "--target", "sm_90a", emulated=True)
    library = workshop.build_library(tmp_path / "made", headers[version])
    said = registry(library, "graft_clamp", "graft_b_Sub")
    assert said.count("found, made, cloned, written and read") == 2 and "2 plugins: all good" in said, said


def test_the_registry_has_no_plugin_of_another_name(headers, registry, layer_norms, tmp_path):
    workshop.generate(layer_norms, tmp_path / "made", "--nodes", "clamp", "--target", "sm_90a", emulated=True)
    library = workshop.build_library(tmp_path / "made", headers["11.1"])
    with pytest.raises(AssertionError, match="the registry has no creator of graft_turn"):
        registry(library, "graft_turn")
