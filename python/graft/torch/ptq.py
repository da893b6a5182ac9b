# SPDX-License-Identifier: Apache-2.0
"""Calibrators with the names of TRTorch and Torch-TensorRT, which graft.torch.quantize takes as its data, and all
compile functions as `calibration`.

    calibrator = graft.torch.ptq.DataLoaderCalibrator(loader, cache_file="ranges.json", use_cache=True)
    fast = graft.torch.quantize(model, calibrator)
"""

import enum
import os

from ..errors import InvalidArgumentError


class CalibrationAlgo(enum.Enum):
    """TensorRT's algorithms, and the methods of graft.quantize that they are here."""

    ENTROPY_CALIBRATION = "entropy"
    ENTROPY_CALIBRATION_2 = "entropy_2"
    LEGACY_CALIBRATION = "percentile"
    MINMAX_CALIBRATION = "minmax"

    @property
    def method(self):
        """As `method` of graft.quantize."""
        return self.value.removesuffix("_2")


class Calibrator:
    """Samples, a calibration file and a method."""

    def __init__(self, data, cache_file, use_cache, algo_type):
        if algo_type is not None and not isinstance(algo_type, CalibrationAlgo):
            raise InvalidArgumentError(f"algo_type is {algo_type!r}: give one of graft.torch.ptq.CalibrationAlgo")
        self.data = data
        self.cache_file = None if cache_file is None else os.fspath(cache_file)
        self.use_cache = use_cache
        self.method = algo_type and algo_type.method

    def choices(self):
        """Those of graft.quantize. A file that is not to be used is made anew beside it."""
        chosen = {} if self.method is None else {"method": self.method}
        if self.cache_file is not None:
            chosen["calibration_file"] = self.cache_file if self.use_cache else f"{self.cache_file}.{os.getpid()}"
        return chosen

    def done(self, choices):
        """Puts what was made anew in its place."""
        made = choices.get("calibration_file")
        if self.cache_file is not None and not self.use_cache and made == self.choices()["calibration_file"]:
            os.replace(made, self.cache_file)


class DataLoaderCalibrator(Calibrator):
    """Samples of a DataLoader. cache_file: a file of ranges; it is read instead of running the samples if use_cache is
    set and it exists, otherwise written."""

    def __init__(self, dataloader, *, cache_file=None, use_cache=False,
                 algo_type=CalibrationAlgo.ENTROPY_CALIBRATION_2, device=None):
        super().__init__(dataloader, cache_file, use_cache, algo_type)
        self.device = device  # where others calibrate; here it is the CPU


class CacheCalibrator(Calibrator):
    """The ranges of a file: of Graft's own, or a calibration cache of TensorRT. Without algo_type of any method."""

    def __init__(self, cache_file, *, algo_type=None):
        super().__init__(None, cache_file, True, algo_type)


def samples_of(calibration):
    """What a calibrator of graft.torch.ptq has, or the caller's own."""
    return calibration.data if isinstance(calibration, Calibrator) else calibration


def calibrator_choices(options):
    """The options with those of a calibrator of graft.torch.ptq that is among them."""
    given = options.get("calibration")
    if not isinstance(given, Calibrator):
        return options
    return {**given.choices(), **options, "calibration": given if given.data is not None else None}
