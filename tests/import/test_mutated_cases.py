# SPDX-License-Identifier: Apache-2.0
"""Models with mistakes give an engine or a clear error: a seeded share of what mutate_cases.py draws."""

import random

import case_files
import mutate_cases


def test_mistakes_in_models_give_clear_errors():
    bases = [(case.name, case.model.SerializeToString()) for case in case_files.collect()]
    bases = [base for base in bases if len(base[1]) <= mutate_cases.LARGEST_MODEL]
    draw = random.Random(20)
    models = [mutate_cases.mutated(bases, draw) for _ in range(1500)]
    failed = [f"{number} {models[number][0]}: {message}" for number, message in mutate_cases.run(models)]
    assert not failed, "\n".join(failed)
