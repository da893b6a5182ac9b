# SPDX-License-Identifier: Apache-2.0
"""Arrays in a GPU's memory that need the CUDA driver alone, and hand themselves out as DLPack: what the package does
with them is what it does with any library's."""

import ctypes

import numpy as np

_KINDS = {"i": 0, "u": 1, "f": 2}
_lent = {}  # what is handed out, until its taker is done with it


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _done(managed):
    del _lent[managed]


def open_driver():
    """The CUDA driver with a context of the first GPU, or None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, context = ctypes.c_int(0), ctypes.c_void_p()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxPushCurrent_v2(context))
    return driver


def check(status):
    """Raises what a call of the driver says."""
    if status:
        raise RuntimeError(f"the CUDA driver says {status}")


class Stream:
    """A stream of the driver; `cuda_stream` is its handle, as torch calls it."""

    def __init__(self, driver):
        self.driver, handle = driver, ctypes.c_void_p()
        check(driver.cuStreamCreate(ctypes.byref(handle), 1))  # 1: apart from the default stream
        self.cuda_stream = handle.value

    def wait(self):
        """Returns when its work is done."""
        check(self.driver.cuStreamSynchronize(ctypes.c_void_p(self.cuda_stream)))

    def begin_capture(self):
        """What is queued from now on goes into a graph; no thread may do what waits meanwhile."""
        check(self.driver.cuStreamBeginCapture_v2(ctypes.c_void_p(self.cuda_stream), 0))

    def end_capture(self):
        """Gives a function that queues the graph here. The graph stays until the process ends."""
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.driver.cuStreamEndCapture(ctypes.c_void_p(self.cuda_stream), ctypes.byref(graph)))
        check(self.driver.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))
        return lambda: check(self.driver.cuGraphLaunch(ready, ctypes.c_void_p(self.cuda_stream)))


class DeviceArray:
    """An array on the first GPU, from a numpy array; `strides` in elements, row-major unless they are given. `asked`
    keeps the streams that takers named."""

    def __init__(self, driver, values, strides=None):
        self.driver, self.strides, self.asked = driver, strides, []
        self.values = np.ascontiguousarray(values)
        self.address = ctypes.c_uint64()
        check(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(max(self.values.nbytes, 1))))
        self.write(self.values)

    def write(self, values):
        """Other elements, of the same type and number."""
        values = np.ascontiguousarray(values)
        check(self.driver.cuMemcpyHtoD_v2(self.address, values.ctypes.data_as(ctypes.c_void_p),
                                          ctypes.c_size_t(values.nbytes)))

    def __del__(self):
        self.driver.cuMemFree_v2(self.address)

    def __dlpack_device__(self):
        return 2, 0  # kDLCUDA

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        shape = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        strides = (ctypes.c_int64 * self.values.ndim)(*self.strides) if self.strides else None
        managed = _Managed()
        managed.tensor = _Tensor(self.address.value, 2, 0, self.values.ndim, _KINDS[self.values.dtype.kind],
                                 8 * self.values.itemsize, 1, shape, strides, 0)
        managed.deleter = ctypes.cast(_done, ctypes.c_void_p)
        address = ctypes.addressof(managed)
        _lent[address] = (managed, shape, strides, self)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(address, b"dltensor", None)

    def numpy(self):
        """What it holds now, in the order of the default stream."""
        target = np.empty_like(self.values)
        check(self.driver.cuMemcpyDtoHAsync_v2(target.ctypes.data_as(ctypes.c_void_p), self.address,
                                               ctypes.c_size_t(target.nbytes), None))
        check(self.driver.cuStreamSynchronize(None))
        return target


def lent():
    """How many arrays are handed out."""
    return len(_lent)
