# SPDX-License-Identifier: Apache-2.0
"""flex_attention with functions that change scores and hide them: one engine, and torch's own results."""

import warnings

import pytest
import torch
from conftest import close
from doors import by_compile, by_export
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

LENGTH = 40
DOCUMENTS = torch.arange(LENGTH) // 7
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])


def causal(_batch, _head, query, key):
    """Keys up to the query."""
    return query >= key


def alibi(score, _batch, head, query, key):
    """Distances count, by a factor for each head."""
    return score + SLOPES[head] * (key - query)


class Flex(torch.nn.Module):
    """A projection, and attention of its rows."""

    def __init__(self, score=None, mask=None, key_heads=4, **more):
        super().__init__()
        self.project = torch.nn.Linear(8, 8)
        self.score, self.more, self.key_heads = score, {**more, "enable_gqa": key_heads < 4}, key_heads
        self.hidden = create_block_mask(mask, None, None, LENGTH, LENGTH, device="cpu") if mask else None

    def forward(self, query, key, value):
        """Attention of all heads."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in eager mode torch warns that it is slow
            return flex_attention(self.project(query), key, value, score_mod=self.score, block_mask=self.hidden,
                                  **self.more)


CASES = {
    "plain": lambda: Flex(),
    "scale": lambda: Flex(scale=0.3),
    "alibi": lambda: Flex(alibi),
    "softcap": lambda: Flex(lambda score, b, h, q, k: 2 * torch.tanh(score / 2)),
    "relative_by_batch": lambda: Flex(lambda score, b, h, q, k: score + 0.1 * b - torch.abs(q - k) * 0.01),
    "causal": lambda: Flex(mask=causal),
    "causal_alibi": lambda: Flex(alibi, causal),
    "window": lambda: Flex(mask=lambda b, h, q, k: (q - k).abs() <= 4),
    "documents": lambda: Flex(mask=lambda b, h, q, k: (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k)),
    "rows_without_keys": lambda: Flex(mask=lambda b, h, q, k: q >= k + 3),
    "changed_rows_without_keys": lambda: Flex(alibi, lambda b, h, q, k: q >= k + 3),
    "heads_share_keys": lambda: Flex(alibi, causal, key_heads=2),
    "one_head_of_keys": lambda: Flex(key_heads=1),
}


def inputs_of(model, batch=2, dtype=torch.float32):
    """Queries, keys and values."""
    torch.manual_seed(5)
    return tuple(torch.randn(batch, heads, LENGTH, 8, dtype=dtype) for heads in (4, model.key_heads, model.key_heads))


@pytest.mark.parametrize("door", [by_compile, by_export])
@pytest.mark.parametrize("case", CASES)
def test_functions_of_scores_are_part_of_one_engine(case, door):
    """All of it, the product of queries and keys to that with values."""
    torch._dynamo.reset()
    model = CASES[case]().eval()
    inputs = inputs_of(model)
    with torch.no_grad():
        expected = model(*inputs)
        assert not expected.isnan().any()
        grafted = door(model, inputs)
        assert grafted.whole
        close(grafted.run(*inputs), expected)


def test_lengths_may_vary():
    """The numbers of queries and keys are those of the call."""
    model = Flex(alibi).eval()
    compiled = torch.compile(model, backend="graft", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for length in (24, 40, 17):
            inputs = tuple(each[:, :, :length].contiguous() for each in inputs_of(model))
            close(compiled(*inputs), model(*inputs))


def test_what_is_no_function_of_single_numbers_stays_in_torch():
    """A function that adds up a row of a table."""
    table = torch.randn(LENGTH, 3)

    def changed(score, _batch, _head, query, _key):
        return score + table[query].sum()

    model = Flex(changed).eval()
    inputs = inputs_of(model)
    with torch.no_grad():
        compiled = torch.compile(model, backend="graft")
        close(compiled(*inputs), model(*inputs))


def test_sums_of_exponentials_are_torchs():
    """What torch returns beside the attention."""
    model = Flex(alibi, return_lse=True).eval()
    inputs = inputs_of(model)
    with torch.no_grad():
        expected = model(*inputs)
        results = torch.compile(model, backend="graft", options={"strict": True})(*inputs)
    for result, wanted in zip(results, expected):
        close(result, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_have_scores_of_f32_or_more(dtype):
    """As in torch: of narrow floats the scores and the softmax are f32."""
    model = Flex(alibi, causal).eval().to(dtype)
    inputs = inputs_of(model, dtype=dtype)
    with torch.no_grad():
        expected = model(*inputs)
        result = torch.compile(model, backend="graft", options={"strict": True})(*inputs)
    assert result.dtype == dtype
    rounding = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-5}[dtype]
    torch.testing.assert_close(result, expected, rtol=rounding, atol=rounding)
