# SPDX-License-Identifier: Apache-2.0
"""PP-OCRv4, of the package rapidocr-onnxruntime: words that are drawn here are labels by construction."""

import onnx
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from scipy import ndimage

from trained import texts
from trained.case import Case, folder_of, grouped

FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono",
         "STIXGeneral", "STIXGeneralBol")
HEIGHT, WIDTH, PAGE = 48, 320, 320
RECOGNISED, CALIBRATED, PAGES, LINES = 1000, 64, 100, 6
PER_RUN = 4
CERTAIN, UNCLIPPED, OVERLAP = 0.3, 1.5, 0.5  # of DB's text detector: its own threshold and ratio; of a found box


def font(random, size):
    """One of the fonts."""
    name = FONTS[random.integers(len(FONTS))]
    return ImageFont.truetype(str(folder_of("matplotlib") / "mpl-data/fonts/ttf" / f"{name}.ttf"), size)


def model_file(name):
    """The path of one of the package's networks."""
    return str(folder_of("rapidocr_onnxruntime") / "models" / name)


def text_of(random):
    """A word, or a number."""
    if random.random() < 0.25:
        return str(random.integers(10, 10 ** random.integers(2, 9)))
    every = texts.words()
    return every[random.integers(len(every))]


def shades(random):
    """The grey of the paper and that of the ink, apart."""
    paper, ink = int(random.integers(170, 256)), int(random.integers(0, 90))
    return (paper, ink) if random.random() < 0.8 else (ink, paper)


def as_input(picture, random):
    """A picture with blur and noise as the networks take it: (3, height, width) in [-1, 1]."""
    picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0, 1)))
    pixels = np.asarray(picture, np.float32) + random.uniform(0, 14) * random.standard_normal(picture.size[::-1])
    pixels = np.clip(pixels, 0, 255) / 127.5 - 1
    return np.repeat(pixels[None], 3, 0).astype(np.float32)


def drawn_word(random):
    """(a word, its picture): 48 pixels high, padded to the width that the network is used with."""
    text, size = text_of(random), int(random.integers(22, 37))
    paper, ink = shades(random)
    letters = font(random, size)
    left, top, right, bottom = letters.getbbox(text)
    margin = random.integers(2, 8, 4)
    picture = Image.new("L", (int(right - left + margin[0] + margin[1]), int(bottom - top + margin[2] + margin[3])),
                        paper)
    ImageDraw.Draw(picture).text((int(margin[0]) - left, int(margin[2]) - top), text, ink, letters)
    width = min(WIDTH, round(picture.width * HEIGHT / picture.height))
    pixels = as_input(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), random)
    return text, np.pad(pixels, ((0, 0), (0, 0), (0, WIDTH - width)))


def recognition(folder):
    """PP-OCRv4's text recognition."""
    del folder
    path, random = model_file("ch_PP-OCRv4_rec_infer.onnx"), np.random.default_rng(0)
    characters = {entry.key: entry.value for entry in onnx.load(path).metadata_props}["character"].splitlines()
    letters = ["", *characters, " "]  # the first is CTC's blank
    drawn = [drawn_word(random) for _ in range(RECOGNISED + CALIBRATED)]
    wanted = [text for text, _ in drawn[CALIBRATED:]]

    def read(scores):
        best = scores.argmax(-1)
        return "".join(letters[n] for place, n in enumerate(best) if place == 0 or n != best[place - 1])

    def score(results):
        found = [read(row) for arrays in results for row in arrays[0]]
        return 100 * float(np.mean([a == b for a, b in zip(found, wanted, strict=True)]))

    runs = [{"x": np.stack(group)} for group in grouped([pixels for _, pixels in drawn], PER_RUN)]
    first = CALIBRATED // PER_RUN
    return Case(path, runs[:first], runs[first:], score, "words")


def drawn_page(random):
    """(boxes of lines, from ascenders to descenders, as left, top, right, bottom; a page)."""
    paper, ink = shades(random)
    picture, boxes = Image.new("L", (PAGE, PAGE), paper), []
    draw, top = ImageDraw.Draw(picture), int(random.integers(4, 24))
    for _ in range(LINES):
        letters = font(random, int(random.integers(13, 30)))
        text = " ".join(text_of(random) for _ in range(random.integers(1, 3)))
        width, height = int(letters.getlength(text)), sum(letters.getmetrics())
        if width > PAGE - 16 or top + height > PAGE - 8:
            continue
        left = int(random.integers(6, PAGE - 8 - width))
        draw.text((left, top), text, ink, letters)
        boxes.append((left, top, left + width, top + height))
        top += height + int(random.integers(8, 26))
    return boxes, as_input(picture, random)


def found_boxes(scores):
    """Boxes of the regions that are text, grown as DB's post-processing does."""
    regions, _ = ndimage.label(scores > CERTAIN)
    boxes = []
    for rows, columns in ndimage.find_objects(regions):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if height < 3 or width < 3:
            continue
        grown = width * height * UNCLIPPED / (2 * (width + height))
        boxes.append((columns.start - grown, rows.start - grown, columns.stop + grown, rows.stop + grown))
    return boxes


def overlap(a, b):
    """The share of two boxes that they have in common."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def detection(folder):
    """PP-OCRv4's text detector: the harmonic mean of precision and recall."""
    del folder
    random = np.random.default_rng(1)
    pages = [drawn_page(random) for _ in range(PAGES + CALIBRATED // 2)]
    first = CALIBRATED // 2

    def score(results):
        right = found = 0
        maps = [row[0] for arrays in results for row in arrays[0]]
        for scores, (wanted, _) in zip(maps, pages[first:], strict=True):
            boxes = found_boxes(scores)
            found += len(boxes)
            right += sum(any(overlap(box, each) >= OVERLAP for each in boxes) for box in wanted)
        drawn = sum(len(wanted) for wanted, _ in pages[first:])
        return 200 * right / (found + drawn)

    runs = [{"x": pixels[None]} for _, pixels in pages]
    return Case(model_file("ch_PP-OCRv4_det_infer.onnx"), runs[:first], runs[first:], score, "lines (hmean)")
