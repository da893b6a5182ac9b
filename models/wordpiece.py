# SPDX-License-Identifier: Apache-2.0
"""BERT's uncased WordPiece tokenizer, from the vocabulary alone.

The rules are those of tokenizer.json's BertNormalizer, BertPreTokenizer and WordPiece.

    tokenizer = WordPiece.from_file("vocab.txt")
    input_ids, attention_mask, token_type_ids = tokenizer.batch(["Hello, world!"], max_length=256)
"""

import unicodedata

import numpy as np

# Blocks of CJK ideographs, each of which is a word of its own.
CJK_RANGES = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
MAX_WORD_CHARACTERS = 100
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class WordPiece:
    """Turns text into token ids; immutable once made."""

    def __init__(self, tokens):
        self.tokens_ = list(tokens)
        self.ids_ = {token: index for index, token in enumerate(self.tokens_)}
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids_]
        if missing:
            raise ValueError(f"the vocabulary lacks {', '.join(missing)}")

    @classmethod
    def from_file(cls, path):
        """Reads vocab.txt: one token a line, its id the line's number."""
        with open(path, encoding="utf-8") as file:
            return cls(file.read().rstrip("\n").split("\n"))

    def encode(self, text, max_length=None):
        """Gives the ids of one text with [CLS] and [SEP], cut to `max_length` in all."""
        ids = [self.ids_[token] for word in split_words(text) for token in self.pieces(word)]
        if max_length is not None:
            ids = ids[:max_length - 2]
        return [self.ids_["[CLS]"], *ids, self.ids_["[SEP]"]]

    def batch(self, texts, max_length=None):
        """Encodes texts to three int64 arrays, padded to the longest: ids, mask, token types."""
        rows = [self.encode(text, max_length) for text in texts]
        shape = (len(rows), max(map(len, rows), default=0))
        ids = np.full(shape, self.ids_["[PAD]"], np.int64)
        mask = np.zeros(shape, np.int64)
        for index, row in enumerate(rows):
            ids[index, :len(row)] = row
            mask[index, :len(row)] = 1
        return ids, mask, np.zeros(shape, np.int64)

    def tokens(self, ids):
        """Names the tokens of a row of ids."""
        return [self.tokens_[index] for index in ids]

    def pieces(self, word):
        """Splits a word greedily into the longest pieces known, or gives [UNK] for all of it."""
        if len(word) > MAX_WORD_CHARACTERS:
            return ["[UNK]"]
        if word in SPECIAL_TOKENS:
            return [word]
        pieces, start = [], 0
        while start < len(word):
            piece, start = self._longest_piece(word, start)
            if piece is None:
                return ["[UNK]"]
            pieces.append(piece)
        return pieces

    def _longest_piece(self, word, start):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = prefix + word[start:end]
            if piece in self.ids_:
                return piece, end
        return None, start


def split_words(text):
    """Normalises a text and splits it at white space and punctuation; special tokens stay whole."""
    words = []
    for part in _split_special(text):
        if part in SPECIAL_TOKENS:
            words.append(part)
        else:
            words.extend(_split_punctuation(normalize(part)))
    return words


def normalize(text):
    """Drops control characters, sets ideographs apart, strips accents and lowers case."""
    text = "".join(_clean(character) for character in text)
    decomposed = unicodedata.normalize("NFD", text)
    # Each character by itself: str.lower() of a whole word would turn a last sigma into another.
    return "".join(c.lower() for c in decomposed if unicodedata.category(c) != "Mn")


def _split_special(text):
    """Cuts a text at the special tokens written in it."""
    parts = [text]
    for token in SPECIAL_TOKENS:
        pieces = []
        for part in parts:
            between = [part] if part in SPECIAL_TOKENS else part.split(token)
            for index, piece in enumerate(between):
                pieces += [token, piece] if index else [piece]
        parts = pieces
    return parts


def _clean(character):
    """Maps a character to itself, to white space around it, or to nothing."""
    if character in "\t\n\r":
        return " "
    code = ord(character)
    if code in (0, 0xFFFD) or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    if character.isspace():
        return " "
    if any(first <= code <= last for first, last in CJK_RANGES):
        return f" {character} "
    return character


def _split_punctuation(text):
    """Yields the words of a normalised text, and each punctuation sign as a word of its own."""
    word = ""
    for character in text:
        if not character.isspace() and not _is_punctuation(character):
            word += character
            continue
        if word:
            yield word
        if not character.isspace():
            yield character
        word = ""
    if word:
        yield word


def _is_punctuation(character):
    """Unicode's punctuation, and all of ASCII's signs, which Unicode counts as symbols in part."""
    ascii_sign = character.isascii() and character.isprintable() and not character.isalnum()
    return (ascii_sign and character != " ") or unicodedata.category(character).startswith("P")
