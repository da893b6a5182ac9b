# SPDX-License-Identifier: Apache-2.0
"""graft.amp without mxnet: symbols as JSON and as files, parameters as numpy arrays."""

import json

import numpy as np
import pytest

import graft

SYMBOL = json.dumps({
    "nodes": [{"op": "null", "name": "data", "inputs": []},
              {"op": "null", "name": "w", "inputs": []},
              {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "2", "no_bias": "True"},
               "inputs": [[0, 0, 0], [1, 0, 0]]},
              {"op": "softmax", "name": "sm", "inputs": [[2, 0, 0]]}],
    "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3, 4], "heads": [[3, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]}})
WEIGHTS = np.array([[1.0001, 2], [3, 4]], np.float32)


def casts(symbol):
    """(name, type) of each."""
    return [(node["name"], node["attrs"]["dtype"]) for node in json.loads(symbol)["nodes"] if node["op"] == "amp_cast"]


def test_a_model_is_converted_with_its_parameters():
    symbol, arguments, auxiliary = graft.amp.convert_model(SYMBOL, {"w": WEIGHTS}, {})
    assert casts(symbol) == [("data_amp_cast_float16", "float16"), ("fc_output_amp_cast_float32", "float32")]
    assert arguments["w"].dtype == np.float16 and auxiliary == {}
    np.testing.assert_array_equal(arguments["w"], WEIGHTS.astype(np.float16))
    assert WEIGHTS.dtype == np.float32
    again, same, _ = graft.amp.convert_model(symbol, arguments, auxiliary)
    assert again == symbol and same["w"] is arguments["w"]


def test_bfloat16_gives_the_type_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    symbol, arguments, _ = graft.amp.convert_model(SYMBOL, {"w": WEIGHTS}, {}, "bfloat16")
    assert casts(symbol)[0] == ("data_amp_cast_bfloat16", "bfloat16")
    assert arguments["w"].dtype == ml_dtypes.bfloat16
    assert graft.amp.convert_model(symbol, arguments, {}, ml_dtypes.bfloat16)[0] == symbol


def test_a_parameter_that_does_not_fit_stays(tmp_path):
    _, arguments, _ = graft.amp.convert_model(SYMBOL, {"w": WEIGHTS * 1e6}, {})
    assert arguments["w"].dtype == np.float32
    _, arguments, _ = graft.amp.convert_model(SYMBOL, {"w": WEIGHTS[:, ::-1]}, {}, cast_optional_params=False)
    assert arguments["w"].dtype == np.float32


def test_a_path_and_the_names_of_the_proposal(tmp_path):
    path = tmp_path / "net-symbol.json"
    path.write_text(SYMBOL)
    symbol = graft.amp.convert_symbol(path, np.float16, target_precision_ops=["softmax"], fp32_ops=("FullyConnected",))
    if not isinstance(symbol, str):  # mxnet is there
        symbol = symbol.tojson(remove_amp_cast=False)
    assert casts(symbol) == [("fc_output_amp_cast_float16", "float16"), ("sm_output_amp_cast_float32", "float32")]
    assert graft.amp._convert_symbol is graft.amp.convert_symbol


@pytest.mark.parametrize("choices, part", [
    ({"target_dtype": "int8"}, "float16 or bfloat16, not 'int8'"),
    ({"fp32_ops": ["softmax"], "target_dtype_ops": ["softmax"]}, "'softmax' is in target_dtype_ops and in fp32_ops"),
    ({"fp32_ops": ["sofmax"]}, "did you mean 'softmax'"),
    ({"fp32_ops": [1]}, "give names"),
    ({"widest_dtype_ops": [], "widest_precision_ops": []}, "given twice"),
    ({"excluded_sym_names": ["fd"]}, "no node 'fd'"),
    ({"input_dtypes": {"x": "float32"}}, "no variable 'x'"),
])
def test_choices_that_do_not_fit(choices, part):
    with pytest.raises(graft.InvalidArgumentError, match=part):
        graft.amp.convert_symbol(SYMBOL, **choices)


def test_models_that_do_not_fit():
    with pytest.raises(graft.InvalidModelError, match="w: the parameters have no array of this name"):
        graft.amp.convert_model(SYMBOL, {}, {})
    with pytest.raises(graft.InvalidModelError, match="it is no JSON"):
        graft.amp.convert_symbol("{")
    with pytest.raises(graft.InvalidArgumentError, match="sym is a int"):
        graft.amp.convert_symbol(3)
    with pytest.raises(graft.InvalidArgumentError, match="w: MXNet has no arrays of c64"):
        graft.amp.convert_model(SYMBOL, {"w": WEIGHTS.astype(np.complex64)}, {})
