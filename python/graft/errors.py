# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by what can be done about it. Every message says where, what, and the remedy."""


class Error(RuntimeError):
    """Any failure of Graft."""


class InvalidModelError(Error, ValueError):
    """The model or plan is malformed."""


class InvalidArgumentError(Error, ValueError):
    """An option, name, shape, type or array that the caller gave is wrong."""


class MissingFileError(InvalidArgumentError, FileNotFoundError):
    """A file that the caller named is not there."""


class UnsupportedError(Error, NotImplementedError):
    """Well-formed, but outside what Graft can do."""


class DeviceError(Error, OSError):
    """The machine, the file system or a driver failed."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, or a ceiling (the session's memory limit) was reached."""


class CancelledError(Error):
    """The caller asked to stop: a progress function gave False, or a deadline has passed."""


class InternalError(Error):
    """A bug of Graft's own: please report it with the model."""


# graft_status of graft_c.h -> class
BY_STATUS: dict[int, type[Error]] = {
    1: InvalidModelError,
    2: InvalidArgumentError,
    3: UnsupportedError,
    4: DeviceError,
    5: OutOfMemoryError,
    6: CancelledError,
    7: InternalError,
}
