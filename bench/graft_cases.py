# SPDX-License-Identifier: Apache-2.0
"""Graft as a runner of small cases (op_cases.OpCase) on an NVIDIA GPU."""

import os
import tempfile

import graft_peer
import numpy as np
import torch


class GraftCases:
    """One way of choosing kernels: a plan for each case, inputs and outputs on the device, replayed."""

    def __init__(self, options, tune, arguments=()):
        self.peer = graft_peer.GraftPeer(0, options.build, tune=tune, arguments=["--device", "cuda", *arguments])
        self.folder = tempfile.TemporaryDirectory(prefix="graft-bench-")

    def prepare(self, case, inputs):
        """Gives a function that queues one run, and the tensors that it fills."""
        model, plan = (os.path.join(self.folder.name, case.label.replace("/", "-") + end) for end in (".onnx", ""))
        case.save(model)
        self.peer.compile(model, (), plan)
        library = self.peer.open_library()
        session = library.create_session(library.load(plan, "cuda"))
        library.set_stream(session, torch.cuda.current_stream().cuda_stream)
        results = {name: torch.full(shape, 7, device="cuda", dtype=getattr(torch, np.dtype(kind).name))
                   for name, (shape, kind) in case.outputs.items()}
        run = library.device_runner(session, inputs, results)
        for _ in range(3):  # the second run records, later ones replay
            run()
        library.wait(session)
        return run, list(results.values())
