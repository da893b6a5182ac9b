# SPDX-License-Identifier: Apache-2.0
"""Writes networks that NNSmith makes up, one per seed: FOLDER/SEED.onnx, and `made SEED` on standard output.

Runs in .deps/nnsmith, where NNSmith and the torch that it exports through are; see sources.py. Seeds come on standard
input, one per line. A seed gives the same network wherever the versions in tools/deps/environment-nnsmith.txt and
environment-torch.txt are installed.
"""

import functools
import logging
import os
import pathlib
import pickle
import random
import resource
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
import torch.onnx  # noqa: E402

# NNSmith exports through the exporter that was torch's own when it was written.
torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)

from nnsmith.abstract.extension import activate_ext  # noqa: E402
from nnsmith.abstract.op import Constant, Input  # noqa: E402
from nnsmith.graph_gen import model_gen  # noqa: E402
from nnsmith.materialize import Model  # noqa: E402
from nnsmith.narrow_spec import infer_topset_from_scratch  # noqa: E402
from nnsmith.util import set_seed  # noqa: E402

SMALLEST, LARGEST = 3, 12   # nodes of a network
LARGEST_TENSOR = 16384      # elements: the interpreter runs every network several times
TIME_LIMIT_MS = 60000       # far from what a network takes, so that no seed depends on the machine's speed
PROCESSOR_SECONDS = 60      # the same for what the limit above does not end


def make(kind, operators, seed):
    """The network of the seed."""
    set_seed(seed)
    generator = model_gen(opset=operators, method="symbolic-cinit", seed=seed,
                          max_nodes=random.Random(seed).randint(SMALLEST, LARGEST),
                          max_elem_per_tensor=LARGEST_TENSOR, timeout_ms=TIME_LIMIT_MS)
    set_seed(seed)
    model = kind.from_gir(generator.make_concrete())
    return model.get_onnx_from_torch().SerializeToString()


def apart(function, *arguments):
    """What the function returns, from a process of its own, and else the error as a text: what z3 and Python remember
    of one call does not reach the next."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
        try:
            set_seed(0)
            reply = (function(*arguments), "")
        except Exception as error:
            reply = (None, f"{type(error).__name__}: {error}".replace("\n", " ")[:2000])
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(reply, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        reply = pipe.read()
    status = os.waitpid(child, 0)[1]
    return pickle.loads(reply) if reply else (None, f"ended with status {status}")


def exportable(kind, operator):
    """The types that the operator can be exported with, as NNSmith finds out by trying: (inputs, outputs) or None."""
    found = infer_topset_from_scratch(kind, None, [operator]).get(operator.name())
    return found and (sorted(found.in_dtypes, key=str), sorted(found.out_dtypes, key=str))


def operators_of(kind, cache):
    """All operators that can be exported, limited to the types that can."""
    if not cache.exists():
        cache.write_bytes(pickle.dumps({operator.name(): apart(exportable, kind, operator)[0]
                                        for operator in kind.operators() if operator not in (Input, Constant)}))
    types, operators = pickle.loads(cache.read_bytes()), []
    for operator in kind.operators():
        if types.get(operator.name()):
            operator.in_dtypes, operator.out_dtypes = types[operator.name()]
            operators.append(operator)
    return operators


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch and NNSmith print is no reply
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    operators = operators_of(kind, folder / "operators.pickle")
    activate_ext(opset=operators, factory=None)
    for line in sys.stdin:
        seed = int(line)
        network, why = apart(make, kind, operators, seed)
        if network:
            (folder / f"{seed}.part").write_bytes(network)
            (folder / f"{seed}.part").rename(folder / f"{seed}.onnx")
        print(f"failed {seed} {why}" if why else f"made {seed}", file=replies, flush=True)


if __name__ == "__main__":
    main()
