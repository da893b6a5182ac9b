# SPDX-License-Identifier: Apache-2.0
"""Complex numbers in engines, where they are pairs of reals, and at their borders: networks that rotate embeddings,
mix by Fourier transforms and read spectrograms, by every door."""

import pytest
import torch
from conftest import FAST, close
from doors import DOORS, Refused, by_compile
from torch import nn

import graft
import graft.torch


class Rotary(nn.Module):
    """Attention whose positions turn complex numbers, as Llama's reference code has it."""

    def __init__(self, head=16, longest=32):
        super().__init__()
        frequencies = 1.0 / (10000 ** (torch.arange(0, head, 2).float() / head))
        angles = torch.outer(torch.arange(longest), frequencies)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))
        self.query, self.key, self.head = nn.Linear(64, 64), nn.Linear(64, 64), head

    def forward(self, x):
        length = x.shape[1]
        q = self.query(x).view(x.shape[0], length, -1, self.head)
        k = self.key(x).view(x.shape[0], length, -1, self.head)
        freqs_cis = self.freqs_cis[:length].view(1, length, 1, -1)
        xq_ = torch.view_as_complex(q.float().reshape(q.shape[0], length, -1, self.head // 2, 2))
        xk_ = torch.view_as_complex(k.float().reshape(k.shape[0], length, -1, self.head // 2, 2))
        q = torch.view_as_real(xq_ * freqs_cis).flatten(3).type_as(x)
        k = torch.view_as_real(xk_ * freqs_cis).flatten(3).type_as(x)
        return torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)).softmax(-1)


class Mixing(nn.Module):
    """FNet's layer."""

    def __init__(self, width=48):
        super().__init__()
        self.norm, self.outer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        mixed = torch.real(torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2))
        return x + self.outer(self.norm(x + mixed))


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self, channels=4, modes=5):
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) * 0.1)
        self.high = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) * 0.1)
        self.beside = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        m, turned = self.modes, torch.fft.rfft2(x)
        made = torch.zeros(x.shape[0], x.shape[1], x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat)
        made[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", turned[:, :, :m, :m], self.low)
        made[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", turned[:, :, -m:, :m], self.high)
        return torch.relu(torch.fft.irfft2(made, s=(x.size(-2), x.size(-1))) + self.beside(x))


class Spectrogram(nn.Module):
    """What Whisper hears."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))

    def forward(self, x):
        heard = torch.stft(x, 400, 160, window=self.window, return_complex=True)
        return (heard[..., :-1].abs() ** 2).clamp(min=1.0).log10()


class Bags(nn.Module):
    def __init__(self, **choices):
        super().__init__()
        self.bags, self.outer = nn.EmbeddingBag(50, 8, **choices), nn.Linear(8, 3)

    def forward(self, x, offsets):
        return self.outer(self.bags(x, offsets))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 8, mode="max", padding_idx=3)

    def forward(self, x):
        return self.bags(x) * 2


class Antialiased(nn.Module):
    def forward(self, x):
        smaller = nn.functional.interpolate(x, size=(9, 7), mode="bicubic", antialias=True)
        return smaller + nn.functional.interpolate(x, size=(9, 7), mode="bilinear", antialias=True)


torch.manual_seed(0)
INDICES, OFFSETS = torch.randint(0, 50, (12,)), torch.tensor([0, 3, 3, 9])
NETWORKS = {
    "rotary": (Rotary(), (torch.randn(2, 7, 64),), (torch.randn(3, 11, 64),)),
    "mixing": (Mixing(), (torch.randn(2, 30, 48),), (torch.randn(3, 31, 48),)),
    "spectral": (Spectral(), (torch.randn(2, 4, 16, 15),), (torch.randn(3, 4, 14, 18),)),
    "spectrogram": (Spectrogram(), (torch.randn(2, 4000),), (torch.randn(3, 3777),)),
    "bags": (Bags(mode="mean", padding_idx=7), (INDICES, OFFSETS), (INDICES[:9], torch.tensor([0, 4, 9]))),
    "rows": (Rows(), (torch.randint(0, 50, (6, 5)),), (torch.randint(0, 50, (9, 5)),)),
    "antialiased": (Antialiased(), (torch.randn(1, 3, 20, 16),), (torch.randn(2, 3, 8, 30),)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_whole_by_every_door(name, door):
    model, inputs, _ = NETWORKS[name]
    model.eval()
    try:
        made = DOORS[door](model, inputs, **FAST)
    except Refused as reason:
        pytest.skip(f"torch itself: {reason}")
    assert made.engines == 1
    assert made.whole or door == "script"  # what Python checks of arguments stays there
    with torch.no_grad():
        results = made.run(*inputs)
        close(results[0] if isinstance(results, (list, tuple)) else results, model(*inputs))


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_may_vary(name):
    model, inputs, others = NETWORKS[name]
    model.eval()
    torch._dynamo.reset()
    fast = torch.compile(model, backend="graft", options={**FAST, "strict": True}, dynamic=True)
    with torch.no_grad():
        for given in (inputs, others, inputs):
            close(fast(*given), model(*given))


def rotated(x, freqs_cis):
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * freqs_cis
    return torch.view_as_real(z).flatten(2) + 1, z


def conjugate_power(x):
    f = torch.fft.rfft(x)
    return torch.fft.irfft(f * f.conj(), n=x.shape[-1]), f.conj(), torch.fft.fft(x * 2)


def with_sinh_between(x):
    f = torch.sinh(torch.fft.fft(x) * 0.05)  # that of complex numbers stays with torch
    return (f * f).real + x, torch.fft.ifft(f)


X, TURNS = torch.randn(2, 7, 8), torch.randn(7, 4, dtype=torch.cfloat)
BORDERS = {
    "argument": (rotated, (X, TURNS)),
    "conjugate_argument": (rotated, (X, TURNS.conj())),
    "strided_argument": (rotated, (X, torch.randn(4, 7, dtype=torch.cfloat).T)),
    "double_argument": (rotated, (X, TURNS.to(torch.complex128))),
    "results": (conjugate_power, (X,)),
    "between": (with_sinh_between, (X,)),
}


@pytest.mark.parametrize("function, inputs", BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize("dynamic", (False, True))
def test_complex_numbers_cross_borders(function, inputs, dynamic):
    torch._dynamo.reset()
    fast = torch.compile(function, backend="graft", options={**FAST, "strict": True}, dynamic=dynamic)
    with torch.inference_mode():
        for result, expected in zip(fast(*inputs), function(*inputs), strict=True):
            assert result.stride() == expected.stride()
            close(result.resolve_conj(), expected.resolve_conj())
    assert '"segments": []' not in graft.torch.dry_run(function, inputs, format="json")


def test_written_complex_buffers_are_seen():
    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x):
            return torch.view_as_real(torch.view_as_complex(x) * self.turns) + 1

    model = Turning().eval()
    fast = torch.compile(model, backend="graft", options={**FAST, "strict": True})
    x = torch.randn(3, 4, 2)
    with torch.no_grad():
        close(fast(x), model(x))
        model.turns.mul_(1j)
        close(fast(x), model(x))


def test_a_file_whose_callers_have_complex_numbers_is_refused(tmp_path):
    class Given(nn.Module):
        def forward(self, x):
            return torch.view_as_real(x * 2)

    class Gives(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x)

    for model, x, what in ((Given(), TURNS, "takes"), (Gives(), X, "gives")):
        torch.export.save(torch.export.export(model, (x,), strict=False), tmp_path / "net.pt2")
        with pytest.raises(graft.UnsupportedError, match=f"the model {what} complex numbers"):
            graft.compile(str(tmp_path / "net.pt2"), **FAST)


def test_what_has_no_row_for_complex_numbers_stays():
    made = by_compile(lambda x: torch.view_as_real(torch.cumprod(torch.fft.fft(x), 0)) + 1, (X,), **FAST)
    assert not made.whole
    with torch.no_grad():
        close(made.run(X), torch.view_as_real(torch.cumprod(torch.fft.fft(X), 0)) + 1)


class Turned(nn.Module):
    def forward(self, x, turns):
        z = torch.view_as_complex(x.reshape(x.shape[0], x.shape[1], -1, 2)) * turns
        return torch.relu(torch.view_as_real(z).flatten(2) * 2 + x), z * 2


@pytest.mark.parametrize("door", ("trace", "script"))
def test_complex_numbers_of_a_script_s_callers_stay_with_torch(door):
    model = Turned().eval()
    made = DOORS[door](model, (X, TURNS), strict=False, **FAST)
    assert not made.whole
    with torch.no_grad():
        for result, expected in zip(made.run(X, TURNS), model(X, TURNS), strict=True):
            close(result, expected)
