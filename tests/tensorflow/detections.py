# SPDX-License-Identifier: Apache-2.0
"""What detectors give: lists in an order that a rounding may change."""

import numpy as np


def of_image(boxes, scores, classes, valid, image):
    """The detections of an image, each as corners, score and class."""
    count = int(valid[image])
    return np.concatenate([boxes[image, :count], scores[image, :count, None], classes[image, :count, None]], axis=1)


def distance(one, other, least):
    """How far each detection of one list is from the nearest of the same class in another, the largest difference in a
    corner or in the score, or by its score from the least one that is a detection at all."""
    apart = np.abs(one[:, None, :5] - other[None, :, :5]).max(axis=2, initial=0)
    like = np.where(one[:, None, 5] == other[None, :, 5], apart, np.inf).min(axis=1, initial=np.inf)
    return np.minimum(like, one[:, 4] - least)


def furthest(expected, results, least):
    """The largest distance of a detection to its like in the other list, both ways, over all images. Both are boxes,
    scores, classes and how many are valid; `least` is the score that detections have."""
    worst = 0.0
    for image in range(len(expected[3])):
        one, other = (of_image(*each, image) for each in (expected, results))
        worst = max([worst, *distance(one, other, least), *distance(other, one, least)])
    return float(worst)
