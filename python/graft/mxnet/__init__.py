# SPDX-License-Identifier: Apache-2.0
"""Engines inside MXNet 1.9: importing this makes MXNet know the backend `graft`.

    import graft.mxnet
    fast = symbol.optimize_for("graft", args, aux)      # a Symbol with engines, whose plans are now in args
    net.optimize_for(x, backend="graft")                # a Gluon block
    print(graft.mxnet.report())                         # what became an engine, and why the rest did not

Raises graft.DeviceError where this is another MXNet, or libgraft_mxnet.so is missing or does not fit.
"""

from . import library

__all__ = ["fallback_count", "report"]

_library = library.load()


def report():
    """What became of the last symbol that this thread had optimised, as a text: each engine with its operators and
    what crosses its border, each other operator with the reason why it stays with MXNet."""
    return library.text(_library.graft_mxnet_report)


def fallback_count():
    """How often something was meant to be an engine and runs in MXNet, in this process: each is said in the log."""
    from .. import _graft
    return _graft.fallback_count()
