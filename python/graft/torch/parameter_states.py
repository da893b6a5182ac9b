# SPDX-License-Identifier: Apache-2.0
"""Whether parameters are what an engine was built of. torch counts writes to a tensor, but not those through `.data`,
numpy or other views of its memory, nor those of running statistics: so contents count, too."""

import collections
import operator
import zlib

import torch

from .. import _graft

ALL = -1                  # of a tensor's elements
WHOLE_BYTES = 16 << 10    # a larger parameter is sampled
BUDGET_BYTES = 64 << 10   # read in full in a call, of all parameters of a graph together
BYTES_A_SAMPLE = 4 << 10  # of a larger parameter: a block of 64 bytes of it is read
MOST_SAMPLES = 1024       # blocks read in a call, of all larger parameters of a graph together
MOST_CHANGES = 8          # of a parameter, each of which builds engines; then it is an input of the engines
MOST_CHANGES_OF_A_BUFFER = 2  # statistics and caches go on changing
MOST_SETS = 64            # of parameters that live at the same time and have engines; then all are inputs
address_of = torch.Tensor.data_ptr

Parameter = collections.namedtuple("Parameter", "place is_buffer bytes")  # of a graph: `place` among its arguments


def samples_of(parameters):
    """How much of each is read in a call: ALL, or a number of blocks of 64 bytes. Buffers come first: of them it is
    statistics and caches that change without a write that torch counts. Small ones follow."""
    left, chosen = BUDGET_BYTES, {}
    for each in sorted(parameters, key=lambda each: (not each.is_buffer, each.bytes)):
        if each.bytes <= min(WHOLE_BYTES, left):
            chosen[each.place] = ALL
            left -= each.bytes
    large = [each for each in parameters if each.place not in chosen]
    wanted = {each.place: min(max(each.bytes // BYTES_A_SAMPLE, 16), 256) for each in large}
    total = sum(wanted.values())
    for place, count in wanted.items():
        chosen[place] = count if total <= MOST_SAMPLES else max(count * MOST_SAMPLES // total, 2)
    return [chosen[each.place] for each in parameters]


class StateReader:
    """Reads the state of the parameters among the arguments of a call: where each lies, how often torch counted a write
    to it, and a fingerprint of its contents unless the counter is trusted. States are equal where nothing changed."""

    def __init__(self, parameters, trusts_counter):
        self.places = [each.place for each in parameters]
        self.samples = [0] * len(parameters) if trusts_counter else samples_of(parameters)
        self.counts_inference = trusts_counter
        self.read = self.in_one_call() or self.one_by_one

    def in_one_call(self):
        """The extension's reader; None where torch is another, or parameters may be those of inference mode."""
        exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if exchange is None or self.counts_inference:
            return None
        try:
            return _graft.TensorStates(exchange, torch._C.TensorBase._version, self.places, self.samples)
        except ValueError:  # another table of functions
            return None

    def one_by_one(self, arguments):
        """The same by torch's own means."""
        return tuple([(address_of(arguments[place]), written_version(arguments[place]),
                       contents_of(arguments[place], count)) for place, count in zip(self.places, self.samples)])

    def changed(self, state, other):
        """The places of parameters that differ between two states."""
        if isinstance(state, bytes):
            size = len(state) // max(len(self.places), 1)
            state, other = ([each[at:at + size] for at in range(0, len(each), size)] for each in (state, other))
        return [place for place, one, two in zip(self.places, state, other) if one != two]


def most_changes(parameter):
    """After how many changes a parameter becomes an input."""
    return MOST_CHANGES_OF_A_BUFFER if parameter.is_buffer else MOST_CHANGES


def written_version(tensor):
    """How often a parameter was written to, as far as torch counts it."""
    return 0 if tensor.is_inference() else tensor._version


def contents_of(tensor, samples):
    """A fingerprint of a tensor on the CPU."""
    if samples == 0 or not tensor.is_cpu or tensor.numel() == 0 or tensor.layout != torch.strided:
        return 0
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    if samples > 0:
        flat = flat[::max(flat.numel() // samples, 1)]
    return zlib.crc32(flat.contiguous().view(torch.uint8).numpy())


def picker(indices):
    """A function that gives the elements of a tuple at these places, as a tuple."""
    if not indices:
        return lambda arguments: ()
    if len(indices) == 1:
        return lambda arguments, index=indices[0]: (arguments[index],)
    return operator.itemgetter(*indices)
