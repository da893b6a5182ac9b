# SPDX-License-Identifier: Apache-2.0
"""Engines on Spark: a function for `pyspark.ml.functions.predict_batch_udf`.

    import graft.spark
    from pyspark.ml.functions import predict_batch_udf

    embed = predict_batch_udf(graft.spark.predictor("model.graft"), return_type=ArrayType(FloatType()), batch_size=64,
                              input_tensor_shapes=[[384]])
    table.withColumn("y", embed("x"))

The plan travels in the function; each worker loads it once.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from . import rows
from .engine import Engine


def predictor(plan: Engine | str | os.PathLike[str], device: str = "cpu", threads: int = 1) -> Callable[[], Any]:
    """What `predict_batch_udf` takes: a function that gives the function of batches. Its arrays are the inputs in
    order; one output is an array, several are a dictionary by name."""
    data = plan.to_bytes() if isinstance(plan, Engine) else pathlib.Path(plan).read_bytes()
    digest = rows.digest_of(data)

    def make() -> Callable[..., Any]:
        from graft import rows as here  # in the worker

        engine = here.engine_of(digest, lambda: data, device, threads)
        names = [value.name for value in engine.inputs]

        def predict(*arrays: Any) -> Any:
            results = here.run_rows(engine, dict(zip(names, arrays, strict=True)))
            return next(iter(results.values())) if len(results) == 1 else results

        return predict

    return make
