# SPDX-License-Identifier: Apache-2.0
"""Runs the proof kernels of tests/cuda on a GPU and compares them with torch.

    GRAFT_CUDA_PROOF_DIR=proof build/bin/graft_cuda_tests --gtest_filter=CodegenCuda.compiles*
    python3 tests/device/cuda_proof.py proof [sm_90a]

Needs torch with CUDA; cubins are loaded through the driver API. Prints one line per case and exits 1 when one fails.
"""

import ctypes
import json
import math
import pathlib
import sys

import numpy
import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i64": torch.int64,
         "i32": torch.int32}
FUNCTIONS = {"floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}
driver = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else code}")


class Kernels:
    """The kernels of one cubin with their manifest."""

    def __init__(self, folder, target):
        self.manifest = {k["name"]: k for k in json.loads((folder / f"{target}.json").read_text())}
        image = (folder / f"{target}.cubin").read_bytes()
        self.module = ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(self.module), image), "cuModuleLoadData")
        self.functions = {}
        for name, kernel in self.manifest.items():
            function = ctypes.c_void_p()
            check(driver.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()), name)
            # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuFuncSetAttribute(function, 8, kernel["shared"]), name)
            self.functions[name] = function

    def attribute(self, name, number):
        value = ctypes.c_int()
        check(driver.cuFuncGetAttribute(ctypes.byref(value), number, self.functions[name]), name)
        return value.value

    def launcher(self, name, tensors, sizes):
        """A function that launches the kernel, and its status word."""
        kernel = self.manifest[name]
        for tensor, buffer in zip(tensors, kernel["buffers"], strict=True):
            assert tensor.is_cuda and tensor.is_contiguous() and tensor.dtype == TYPES[buffer["type"]], buffer
        status = torch.zeros(2, dtype=torch.int64, device="cuda")
        points = math.prod(eval(extent, FUNCTIONS, dict(sizes)) for extent in kernel["grid"])
        values = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        values += [ctypes.c_longlong(sizes[size]) for size in kernel["sizes"]]
        values.append(ctypes.c_void_p(status.data_ptr()))
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])

        def launch(values=values, tensors=tensors):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(driver.cuLaunchKernel(self.functions[name], points, 1, 1, kernel["threads"], 1, 1,
                                        kernel["shared"], stream, pointers, None), name)

        return launch, status


def milliseconds(run, repeats=20):
    for _ in range(3):
        run()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeats


def random(*shape, dtype=torch.float16, scale=1.0):
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)


def tf32(x):
    """Finite numbers rounded to 11 significant bits, ties away from zero, as cvt.rna.tf32 does."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1fff).view(torch.float32)


class Report:
    def __init__(self, kernels):
        self.kernels, self.failures = kernels, 0

    def run(self, name, case, tensors, sizes, expected, tolerance, flops=0, peer=None):
        """Launches, compares each (result, reference) pair, and times when there is a peer."""
        launch, status = self.kernels.launcher(name, tensors, sizes)
        launch()
        torch.cuda.synchronize()
        worst = 0.0
        for result, reference in expected():
            difference = (result.double() - reference.double()).abs()
            difference = torch.where(result == reference, torch.zeros_like(difference), difference)
            relative = difference / (1 + reference.double().abs())
            error = relative.max().item() if relative.numel() else 0.0
            worst = max(worst, math.inf if math.isnan(error) else error)
        good = worst <= tolerance and status[0].item() == 0
        self.failures += not good
        line = f"{'ok  ' if good else 'FAIL'} {name} {case}: error {worst:.2e} (at most {tolerance:.0e})"
        if status[0].item():
            line += f", status {status.tolist()}"
        if peer:
            mine, theirs = milliseconds(launch), milliseconds(peer)
            line += f", {mine:.4f} ms, torch {theirs:.4f} ms"
            if flops:
                line += f", {flops / mine / 1e9:.1f} TFLOP/s, torch {flops / theirs / 1e9:.1f}"
        print(line, flush=True)


def matmuls(report):
    for m, k, n in [(1, 1, 1), (37, 53, 29), (128, 32, 128), (130, 96, 136), (300, 257, 511), (512, 1024, 768),
                    (4096, 4096, 4096)]:
        timed, sizes = m >= 512, {"m": m, "k": k, "n": n}
        a, b, bias = random(m, k), random(k, n, scale=k ** -0.5), random(n)
        y = torch.full((m, n), math.nan, dtype=torch.float16, device="cuda")
        report.run("matmul_f16", f"{m}x{k}x{n}", [a, b, bias, y], sizes,
                   lambda: [(y, a.float() @ b.float() + bias.float())], 4e-3, 2 * m * k * n,
                   (lambda: torch.addmm(bias, a, b)) if timed else None)
        a, b = random(m, k, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16, scale=k ** -0.5)
        y = torch.full((m, n), math.nan, device="cuda")
        report.run("matmul_transposed_bf16", f"{m}x{k}x{n}", [a, b, y], sizes,
                   lambda: [(y, (a.double() @ b.double().T).relu())], 1e-4, 2 * m * k * n,
                   (lambda: a @ b.T) if timed else None)
        a, b = random(m, k, dtype=torch.float32), random(k, n, dtype=torch.float32, scale=k ** -0.5)
        y = torch.full((m, n), math.nan, device="cuda")
        report.run("matmul_f32", f"{m}x{k}x{n}", [a, b, y], sizes,
                   lambda: [(y, a.double() @ b.double())], 2e-5, 2 * m * k * n, (lambda: a @ b) if timed else None)
        z = torch.full((m, n), math.nan, device="cuda")
        torch.backends.cuda.matmul.allow_tf32 = True
        report.run("matmul_tf32", f"{m}x{k}x{n}", [a, b, z], sizes,
                   lambda: [(z, tf32(a).double() @ tf32(b).double())], 2e-5, 2 * m * k * n,
                   (lambda: a @ b) if timed else None)
        torch.backends.cuda.matmul.allow_tf32 = False


def convolutions(report):
    for height, width, channels, filters in [(5, 7, 3, 10), (14, 14, 64, 64), (56, 56, 64, 64), (28, 28, 129, 70)]:
        x = random(height + 2, width + 2, channels)
        w = random(3, 3, channels, filters, scale=(9 * channels) ** -0.5)
        y = torch.full((height, width, filters), math.nan, dtype=torch.float16, device="cuda")
        image, weight = x.permute(2, 0, 1)[None], w.permute(3, 2, 0, 1)
        peer = lambda: torch.nn.functional.conv2d(image, weight)
        reference = torch.nn.functional.conv2d(image.double(), weight.double())[0].permute(1, 2, 0)
        report.run("convolution_f16", f"{height}x{width}x{channels}->{filters}", [x, w, y],
                   {"height": height, "width": width, "channels": channels, "filters": filters},
                   lambda: [(y, reference)], 4e-3, 18 * height * width * channels * filters,
                   peer if height == 56 else None)


def attentions(report):
    for heads, queries, keys in [(1, 1, 1), (2, 33, 65), (12, 128, 128), (12, 200, 77), (12, 4096, 4096)]:
        q, k, v = random(heads, queries, 64), random(heads, keys, 64), random(heads, keys, 64)
        o = torch.full((heads, queries, 64), math.nan, dtype=torch.float16, device="cuda")
        reference = torch.nn.functional.scaled_dot_product_attention
        report.run("attention_f16", f"{heads} heads, {queries} x {keys}", [q, k, v, o],
                   {"heads": heads, "queries": queries, "keys": keys},
                   lambda: [(o, torch.cat([reference(q[i:i + 1].float(), k[i:i + 1].float(), v[i:i + 1].float())
                                           for i in range(heads)]))],
                   4e-3, 4 * heads * queries * keys * 64,
                   (lambda: reference(q[None], k[None], v[None])) if queries >= 128 else None)


def chained_products(report):
    for count in (1, 31, 100, 4096):
        a, b, c = (random(*shape, dtype=torch.float32) for shape in ((count, 48), (80, 48), (80, 40)))
        y = torch.full((count, 40), math.nan, device="cuda")
        first = a.double() @ b.double().T
        first = first - first.max(1, keepdim=True).values
        report.run("chain_f32", f"{count} rows", [a, b, c, y], {"rows": count},
                   lambda: [(y, first[:, :77] @ c.double()[:77])], 1e-4)


def rows(report):
    for count, length in [(1, 1), (7, 33), (128, 1000), (4096, 4096)]:
        x = random(count, length, dtype=torch.float32, scale=3.0)
        y = torch.full_like(x, math.nan)
        report.run("softmax_f32", f"{count}x{length}", [x, y], {"rows": count, "length": length},
                   lambda: [(y, x.double().softmax(-1))], 1e-6, 0,
                   (lambda: x.softmax(-1)) if length >= 1000 else None)
    for count, length in [(3, 1), (5, 100), (9, 1027)]:
        x = random(count, length, dtype=torch.float32, scale=2.0).round(decimals=1)
        new = lambda dtype, *shape: torch.zeros(*shape, dtype=dtype, device="cuda")
        best, where, ordered = new(torch.float32, count), new(torch.int64, count), new(torch.float32, count, length)
        rank, histogram, largest = new(torch.int64, count, length), new(torch.int32, 4), new(torch.float32, 1)
        prefix = new(torch.float32, count, length)

        def expected():
            sorted_, order = torch.sort(x, dim=1, descending=True, stable=True)
            bins = x.floor().clamp(0, 3).long().flatten()
            running = numpy.cumsum(x.cpu().numpy(), axis=1, dtype=numpy.float32)  # in order, as the kernel adds
            first = (x == x.max(1, keepdim=True).values).long().argmax(1)
            return [(best, x.max(1).values), (where, first), (ordered, sorted_), (rank, order),
                    (histogram, torch.bincount(bins, minlength=4)), (largest, x.max().clamp(min=0)[None]),
                    (prefix, torch.from_numpy(running).cuda())]

        report.run("mixed", f"{count}x{length}", [x, best, where, ordered, rank, histogram, largest, prefix],
                   {"rows": count, "length": length}, expected, 1e-5)


def chains(report):
    for count, offset in [(1, 0), (4095, 0), (100003, 1), (1 << 26, 0)]:
        x, w = random(count + offset)[offset:], random(count, dtype=torch.float32)
        table = random(16, dtype=torch.float32)
        index = torch.randint(-3, 16, (count,), device="cuda")
        y = torch.full((count,), math.nan, dtype=torch.float16, device="cuda")
        chosen = torch.where(index < 0, torch.tensor(0.5, device="cuda"), table[index.clamp(min=0)])
        report.run("elementwise_f16", f"{count} elements", [x, w, table, index, y], {"count": count},
                   lambda: [(y, x.float().tanh() * w + chosen)], 2e-3, 0,
                   (lambda: torch.tanh(x)) if count > 1 << 20 else None)


def main():
    folder = pathlib.Path(sys.argv[1])
    target = sys.argv[2] if len(sys.argv) > 2 else "sm_90a"
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    kernels = Kernels(folder, target)
    for name in kernels.manifest:
        print(f"{name}: {kernels.attribute(name, 4)} registers, {kernels.attribute(name, 3)} bytes of local memory, "
              f"{kernels.manifest[name]['shared']} of shared")
    report = Report(kernels)
    for part in (matmuls, convolutions, attentions, chained_products, rows, chains):
        part(report)
    print(f"{report.failures} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
