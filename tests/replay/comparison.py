# SPDX-License-Identifier: Apache-2.0
"""Two sets of kernels side by side: which are the same, changed, new or gone."""

import collections
import dataclasses
import difflib
import re


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel by the step that first uses it; names that are hashes of its contents are taken out of the texts."""

    step: str
    texts: tuple  # of (form, text): ("tile program", ...), ("LLVM IR", ...)


@dataclasses.dataclass
class Outcome:
    """How the kernels of one case compare."""

    same: int = 0
    changed: list = dataclasses.field(default_factory=list)  # of (old, new)
    new: list = dataclasses.field(default_factory=list)
    gone: list = dataclasses.field(default_factory=list)

    def differs(self):
        """Whether anything is not the same."""
        return bool(self.changed or self.new or self.gone)


def without_name(text, name):
    """The text with the kernel's own name, a hash of its program, as `kernel`."""
    return re.sub(rf"\b{re.escape(name)}\b", "kernel", text)


def compare(old, new):
    """Pairs equal kernels wherever they are, then those of the same step; the rest came or went."""
    outcome = Outcome()
    known = collections.Counter(kernel.texts for kernel in old)
    remaining = []
    for kernel in new:
        if known[kernel.texts]:
            known[kernel.texts] -= 1
            outcome.same += 1
        else:
            remaining.append(kernel)
    by_step = {}
    for kernel in old:
        if known[kernel.texts]:
            known[kernel.texts] -= 1
            by_step.setdefault(kernel.step, []).append(kernel)
    for kernel in remaining:
        if by_step.get(kernel.step):
            outcome.changed.append((by_step[kernel.step].pop(0), kernel))
        else:
            outcome.new.append(kernel)
    outcome.gone = [kernel for kernels in by_step.values() for kernel in kernels]
    return outcome


def first_difference(outcome, old_name, new_name):
    """A title and a unified diff of the first changed kernel, in the first form in which it differs; else what came
    or went."""
    if not outcome.changed:
        lists = ((outcome.new, "new"), (outcome.gone, "gone"))
        lines = [f"{word}: the kernel of step {kernel.step}" for kernels, word in lists for kernel in kernels]
        return "no kernel of the same step to compare with", "\n".join(lines)
    old, new = outcome.changed[0]
    old_texts, new_texts = dict(old.texts), dict(new.texts)
    for form, text in new_texts.items():
        before = old_texts.get(form, "")
        if text != before:
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), old_name, new_name, lineterm="")
            return f"step {new.step}, {form}", "\n".join(lines)
    return f"step {new.step}: forms that are not there any more", ""
