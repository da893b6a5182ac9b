# SPDX-License-Identifier: Apache-2.0
"""Small graphs that ask for more than they should get, or name what there is not: ONNX, TensorFlow and text."""

import struct
import zlib

import numpy as np
from hostile_files import BOOL, FLOAT, INT64, save, value
from onnx import helper

# Two names of nodes with the same FNV-1a hash of 64 bits.
COLLIDING = ("n};&{^&~ ", "n[!)&:)|]")


def chain(path, count, node, inputs, constants=()):
    """`count` nodes, each of which reads the last one's result: node(number, last, result)."""
    nodes = [node(k, f"v{k - 1}" if k else "x", f"v{k}") for k in range(count)]
    save(path, nodes, inputs, [value(f"v{count - 1}", FLOAT, None)], constants)


def doublings(path, count):
    chain(path, count, lambda _, last, result: helper.make_node("Add", [last, last], [result]),
          [value("x", FLOAT, [4, 4])])


def cuts(path, count):
    chain(path, count, lambda _, last, result: helper.make_node("Slice", [last, "from", "to"], [result]),
          [value("x", FLOAT, ["a", "b"])], [("from", np.array([1, 0])), ("to", np.array([400, 400]))])


def poolings(path, count):
    def node(_, last, result):
        return helper.make_node("AveragePool", [last], [result], kernel_shape=[2, 2], strides=[2, 2])
    chain(path, count, node, [value("x", FLOAT, [1, 1, "a", "b"])])


def colliding_counts(path):
    nodes = [helper.make_node("NonZero", [each], [result], name=name)
             for each, result, name in zip("xy", "pq", COLLIDING, strict=True)]
    save(path, nodes, [value("x", FLOAT, ["N"]), value("y", FLOAT, ["M"])],
         [value("p", INT64, None), value("q", INT64, None)])


def expanded(path, op, size=None, kind=FLOAT, **attributes):
    """An operator of one element that is repeated `size` times, or as often as the input s says."""
    results = ["v", "i"] if op == "TopK" else ["v"]
    nodes = [helper.make_node("Expand", ["c", "s"], ["e"]),
             helper.make_node(op, ["e", "k"] if op == "TopK" else ["e"], results, **attributes)]
    inputs = [value("c", kind, [1])] + ([] if size else [value("s", INT64, [1])])
    constants = [("k", np.array([1]))] * (op == "TopK") + ([("s", np.array([size]))] if size else [])
    save(path, nodes, inputs, [value(each, kind if each == "v" else INT64, None) for each in results], constants)


def operator_of_booleans(path, op):
    save(path, [helper.make_node(op, ["x"], ["y"], name="n")], [value("x", BOOL, [2])], [value("y", BOOL, None)])


def missing_operand(path):
    save(path, [helper.make_node("Mul", ["x", ""], ["y"], name="n")], [value("x", FLOAT, [2])],
         [value("y", FLOAT, None)])


def of_no_type(path):
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [value("x", 0, [2, 3])], [value("y", 0, None)])


def shape_of_many_elements(path, count):
    save(path, [helper.make_node("Reshape", ["x", "s"], ["y"], name="n")],
         [value("x", FLOAT, ["n"]), value("s", INT64, [count])], [value("y", FLOAT, None)])


def same_input(path, op, count, **attributes):
    save(path, [helper.make_node(op, ["x"] * count, ["y"], **attributes)], [value("x", FLOAT, [2])],
         [value("y", FLOAT, None)])


def text_of_size(symbol, maker):
    """A graph as text, whose input has a size that is only found while running."""
    return (f'graph "g" {{\n  opset "" 28\n  input %x: f32[{symbol}]\n  {maker}\n'
            f'  %y: f32[{symbol}] = Neg "neg" (%x)\n  output %e\n  output %y\n}}\n')


def message(*fields):
    """A protobuf message of (number, bytes, text or number)."""
    def varint(number):
        return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)

    made = []
    for number, given in fields:
        given = given.encode() if isinstance(given, str) else given
        made.append(varint(number * 8) + varint(given) if isinstance(given, int)
                    else varint(number * 8 + 2) + varint(len(given)) + given)
    return b"".join(made)


def tensorflow_node(name, op, inputs, **attributes):
    return message((1, name), (2, op), *((3, each) for each in inputs),
                   *((5, message((1, key), (2, given))) for key, given in attributes.items()))


FLOATS = message((6, 1))
SHAPE = message((7, message((2, message((1, (1 << 64) - 1))), (2, message((1, 4))))))
PLACEHOLDER = (1, tensorflow_node("x", "Placeholder", [], dtype=FLOATS, shape=SHAPE))


def relu_graph():
    return message(PLACEHOLDER, (1, tensorflow_node("y", "Relu", ["x"], T=FLOATS)))


def large_function_called(count):
    """A function whose node has an attribute of one megabyte, called many times."""
    def argument(name):
        return message((1, name), (3, 1))
    inside = tensorflow_node("e", "Exp", ["a"], T=FLOATS, big=message((2, b"A" * 1_000_000)))
    signature = message((1, "f1"), (2, argument("a")), (3, argument("o")))
    function = message((1, signature), (3, inside), (4, message((1, "o"), (2, "e:y:0"))))
    types = message((1, message((6, 1))))
    calls = [(1, tensorflow_node(f"c{k}", "PartitionedCall", [f"c{k - 1}" if k else "x"], Tin=types, Tout=types,
                                 f=message((10, message((1, "f1")))))) for k in range(count)]
    return message(PLACEHOLDER, *calls, (2, message((1, function))), (4, message((1, 1000))))


def zip_bomb(entries=500, size=1 << 27):
    """An .npz of many entries that are all the same deflated zeros."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }\n" % ((size - 128) // 4)
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    crc, total, data = zlib.crc32(head), len(head), [pack.compress(head)]
    left = (size - 128) // 4 * 4
    while left:
        piece = bytes(min(left, 1 << 20))
        crc, total, left = zlib.crc32(piece, crc), total + len(piece), left - len(piece)
        data.append(pack.compress(piece))
    packed = b"".join(data) + pack.flush()
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, crc, len(packed), total, 5, 0) + b"x.npy" + packed
    names = [b"x.npy"] + [b"x%04d.npy" % entry for entry in range(1, entries)]
    directory = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, 0, 0, crc, len(packed), total,
                                     len(name), 0, 0, 0, 0, 0, 0) + name for name in names)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, entries, entries, len(directory), len(local), 0)
    return local + directory + end


# Lets an allocation of more than 1 GB share 4 MB, with a page behind its end that nothing may touch.
SHARED_MEMORY = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
static char *low, *high;
void* malloc(size_t size) {
  if (size < ((size_t)1 << 30) || size > ((size_t)1 << 36)) return __libc_malloc(size);
  const size_t piece = 4 << 20, count = (size + piece - 1) / piece;
  char* at = mmap(0, (count + 1) * piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const int file = memfd_create("shared", 0);
  if (ftruncate(file, piece)) return 0;
  for (size_t i = 0; i < count; ++i) {
    mmap(at + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  }
  low = at, high = at + count * piece;
  return at + (count * piece - size) / 64 * 64;
}
void free(void* at) { if (!((char*)at >= low && (char*)at < high)) __libc_free(at); }
"""
