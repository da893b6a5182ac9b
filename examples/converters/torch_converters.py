# SPDX-License-Identifier: Apache-2.0
"""An operator of one's own in torch, and how Graft converts it: in torch.compile, in TorchScript and from a .pt2 file.

    python torch_converters.py
"""

import pathlib
import tempfile

import torch

import graft
import graft.torch


@torch.library.custom_op("example::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    """What torch runs."""
    return x * torch.sigmoid(beta * x)


@swish.register_fake
def _(x, beta=1.0):
    return torch.empty_like(x)


@graft.torch.converter("example::swish")
def convert_swish(graph, x, beta):
    """What Graft makes of it."""
    if x.dtype not in ("float32", "float16", "bfloat16"):
        graph.refuse(f"it is of {x.dtype}")
    return graph.add("Mul", x, graph.add("Sigmoid", graph.add("Mul", x, beta)))


class Net(torch.nn.Module):
    """The operator between others."""

    def forward(self, x):
        """relu, then swish."""
        return torch.ops.example.swish(torch.relu(x) - 0.5, 1.5)


def main():
    """Each door, with an error where something stays with torch."""
    net, x = Net().eval(), torch.randn(4, 5)
    expected = net(x)
    with torch.inference_mode():
        compiled = torch.compile(net, backend="graft", options={"strict": True, "tune": "off"})
        torch.testing.assert_close(compiled(x), expected)
    try:
        scripted = graft.torch.script.compile(torch.jit.trace(net, x), [x], require_full=True, tune="off")
        torch.testing.assert_close(scripted(x), expected)
    except graft.DeviceError as error:  # libgraft_torch.so is not installed here
        print(error)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.pt2"
        torch.export.save(torch.export.export(net, (x,)), path)
        engine = graft.compile(path, tune="off")
        torch.testing.assert_close(torch.as_tensor(engine(x)), expected)
    print("converted by all doors:", engine)


if __name__ == "__main__":
    main()
