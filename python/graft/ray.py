# SPDX-License-Identifier: Apache-2.0
"""Engines on Ray: tables through `ray.data`, and deployments of Ray Serve.

    import graft.ray

    plan = graft.ray.Plan("model.graft")              # in the object store: once on each node that asks for it
    table.map_batches(graft.ray.Predictor, fn_constructor_args=(plan,), batch_size=64, concurrency=4)

    ray.serve.run(graft.ray.deployment(plan, max_batch_size=32, num_replicas=2))

A worker's engine is loaded once in its process. Kernels come from the kernel cache of its node, and are compiled where
that lacks them; a plan for several targets serves nodes of several kinds.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import rows
from .engine import Engine
from .errors import Error, InvalidArgumentError

# Element types of the Open Inference Protocol.
TYPES = {"BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
         "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
         "BYTES": "object"}
NAMES = {numpy: protocol for protocol, numpy in TYPES.items()}


class Plan:
    """A plan in Ray's object store. Made of an engine, of a file, or of bytes; travels to workers as a reference."""

    def __init__(self, source: Engine | str | os.PathLike[str] | bytes) -> None:
        if isinstance(source, Engine):
            source = source.to_bytes()
        elif not isinstance(source, bytes):
            source = pathlib.Path(source).read_bytes()
        self.digest = rows.digest_of(source)
        self._stored = ray.put(np.frombuffer(source, np.uint8))

    def engine(self, device: str = "auto", threads: int = 1) -> Engine:
        """The engine of this process: `auto` is the GPU that Ray has given to the worker, or else the CPU."""
        if device == "auto":
            device = "cuda" if ray.get_runtime_context().get_accelerator_ids().get("GPU") else "cpu"
        return rows.engine_of(self.digest, lambda: memoryview(ray.get(self._stored)), device, threads)


def plan_of(source: Plan | Engine | str | os.PathLike[str] | bytes) -> Plan:
    """A plan, or what one is made of."""
    return source if isinstance(source, Plan) else Plan(source)


class Predictor:
    """For `Dataset.map_batches`: adds a column for each output. `columns`: {input: column} for those that are called
    otherwise; `keep`: whether the columns of the table stay."""

    def __init__(self, plan: Plan | str, device: str = "auto", threads: int = 1,
                 columns: Mapping[str, str] | None = None, keep: bool = True) -> None:
        self.engine = plan_of(plan).engine(device, threads)
        self.columns = dict(columns or {})
        self.keep = keep

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        named = {value.name: self.columns.get(value.name, value.name) for value in self.engine.inputs}
        given = {name: batch[column] for name, column in named.items() if column in batch}
        results = rows.run_rows(self.engine, given)
        return {**batch, **results} if self.keep else results


class Batched:
    """What a deployment does: requests of the same shapes, but for their rows, are one run."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def infer_all(self, requests: list[Mapping[str, Any]]) -> list[Any]:
        """{output: array} for each request, or the error that is its own."""
        groups: dict[Any, list[int]] = {}
        for index, request in enumerate(requests):
            key = tuple(sorted((name, np.asarray(array).shape[1:]) for name, array in request.items()))
            groups.setdefault(key, []).append(index)
        results: list[Any] = [None] * len(requests)
        for members in groups.values():
            for index, result in zip(members, self.infer_together([requests[index] for index in members])):
                results[index] = result
        return results

    def infer_together(self, requests: list[Mapping[str, Any]]) -> list[Any]:
        """The same where all can be joined. When that fails each runs alone, so that a fault stays its own."""
        try:
            counts = [len(next(iter(request.values()))) for request in requests]
            joined = {name: np.concatenate([np.asarray(request[name]) for request in requests])
                      for name in requests[0]}
            results = rows.run_rows(self.engine, joined)
        except (Error, ValueError, TypeError, StopIteration) as error:
            if len(requests) == 1:
                return [error]
            return [self.infer_together([request])[0] for request in requests]
        ends = np.cumsum(counts)
        return [{name: array[end - count:end] for name, array in results.items()}
                for count, end in zip(counts, ends)]


def read_request(body: Any) -> dict[str, Any]:
    """The arrays of a request of the Open Inference Protocol in JSON. Raises InvalidArgumentError."""
    try:
        return {given["name"]: np.array(given["data"], TYPES[given["datatype"]]).reshape(given["shape"])
                for given in body["inputs"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"no request of the Open Inference Protocol: {error!r}") from None


def write_answer(name: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in JSON."""
    return {"model_name": name, "outputs": [
        {"name": key, "shape": list(array.shape), "datatype": NAMES[array.dtype.name], "data": array.ravel().tolist()}
        for key, array in results.items()]}


def deployment(plan: Plan | Engine | str | os.PathLike[str] | bytes, *, name: str = "graft", max_batch_size: int = 32,
               batch_wait_timeout_s: float = 0.002, device: str = "auto", threads: int = 1, **options: Any) -> Any:
    """An application for `ray.serve.run`: a deployment with batching, whose handle has `infer.remote({input: array})`,
    and which answers JSON of the Open Inference Protocol over HTTP. `options`: of `ray.serve.deployment`
    (num_replicas, ray_actor_options={"num_gpus": 1}, autoscaling_config)."""
    from ray import serve
    from starlette.requests import Request  # type: ignore[import-not-found, unused-ignore]
    from starlette.responses import JSONResponse  # type: ignore[import-not-found, unused-ignore]

    @serve.deployment(name=name, **options)
    class Deployment:
        """See above."""

        def __init__(self, stored: Plan) -> None:
            self.batched = Batched(stored.engine(device, threads))

        @serve.batch(max_batch_size=max_batch_size,  # type: ignore[untyped-decorator, unused-ignore]
                     batch_wait_timeout_s=batch_wait_timeout_s)
        async def infer_batch(self, requests: list[Mapping[str, Any]]) -> list[Any]:
            """What `infer` gives, or the error, for each of the requests that wait."""
            return await asyncio.to_thread(self.batched.infer_all, requests)

        async def infer(self, request: Mapping[str, Any]) -> Any:
            """{output: array} for {input: array}."""
            result = await self.infer_batch(request)
            if isinstance(result, Exception):
                raise result
            return result

        async def __call__(self, request: Request) -> Any:
            try:
                result = await self.infer(read_request(await request.json()))
            except (Error, ValueError, TypeError) as error:
                return JSONResponse({"error": str(error)}, 400)
            return JSONResponse(write_answer(name, result))

    made: Any = Deployment
    return made.bind(plan_of(plan))
