# SPDX-License-Identifier: Apache-2.0
"""Engines inside MXNet 1.9: importing this makes MXNet know the backend `graft`.

    import graft.mxnet
    fast = symbol.optimize_for("graft", args, aux)      # a Symbol with engines, whose plans are now in args
    net.optimize_for(x, backend="graft")                # a Gluon block
    print(graft.mxnet.report())                         # the engines, and the reason for each other part

With MXNET_USE_GRAFT=1 in the environment, simple_bind, bind and Module put engines into symbols bound for inference.

Raises graft.DeviceError for another MXNet, and if libgraft_mxnet.so is missing or does not fit.
"""

from ..frameworks import need

need("MXNet", "mxnet", "graft.mxnet")

from . import binding, library, module, weights  # noqa: E402
from .binding import get_optimized_symbol, get_use_graft, graft_bind, set_use_graft  # noqa: E402

__all__ = ["fallback_count", "get_optimized_symbol", "get_use_graft", "graft_bind", "report", "set_use_graft"]

_library = library.load()
weights.wrap()
binding.wrap()
module.wrap()


def report():
    """A report of the last symbol that this thread optimised, as text: each engine with its operators and the tensors
    that cross its border, and each other operator with the reason why it stays with MXNet."""
    return library.text(_library.graft_mxnet_report)


def fallback_count():
    """How often something was meant to be an engine and runs in MXNet, in this process: each is said in the log."""
    from .. import _graft
    return _graft.fallback_count()
