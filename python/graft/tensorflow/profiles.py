# SPDX-License-Identifier: Apache-2.0
"""Ranges of sizes that engines are made for, from the shapes of examples: TF-TRT's four strategies."""

from ..errors import InvalidArgumentError

RANGE, OPTIMAL, BOTH = "Range", "Optimal", "Range+Optimal"
FROM_ONE = "ImplicitBatchModeCompatible"
STRATEGIES = (RANGE, OPTIMAL, BOTH, FROM_ONE)


def strategy_of(name):
    """The strategy of that name in any case; Range where none is given."""
    for each in STRATEGIES:
        if str(name or RANGE).upper() == each.upper():
            return each
    raise InvalidArgumentError(f"dynamic_shape_profile_strategy {name!r} is none of {', '.join(STRATEGIES)}")


def profiles_of(strategy, open_sizes, observed):
    """Profiles as `dims` of graft.embed(): {"image_0": (minimum, optimum, maximum)}.

    open_sizes  names of dynamic dimensions, by input and axis: {("image", 0): "image_0"}
    observed    shapes of the inputs of each example: [{"image": (8, 224, 224, 3)}, ...]
    """
    seen = []
    for shapes in observed:
        sizes = {name: int(shapes[tensor][axis]) for (tensor, axis), name in open_sizes.items()}
        if sizes not in seen:
            seen.append(sizes)
    if not seen:
        raise InvalidArgumentError("input_fn gives no example: give at least one")
    exact = [{name: (size, size, size) for name, size in sizes.items()} for sizes in seen]
    if strategy == OPTIMAL:
        return exact
    if strategy == FROM_ONE:
        first = {name for (_, axis), name in open_sizes.items() if axis == 0}
        return [{name: (1 if name in first else low, usual, high) for name, (low, usual, high) in each.items()}
                for each in exact]
    whole = {}
    for name in open_sizes.values():
        largest = max(sizes[name] for sizes in seen)
        whole[name] = (min(sizes[name] for sizes in seen), largest, largest)
    return [whole] if strategy == RANGE else [whole] + [each for each in exact if each != whole]
