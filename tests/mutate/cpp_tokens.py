# SPDX-License-Identifier: Apache-2.0
"""C++ text as tokens with matched brackets: as much of the language as placing a fault needs.

It leans on the layout that .clang-format gives: a binary operator stands between blanks, `<` of a
template does not. What it gets wrong does not compile, and such a fault is left out.
"""

import bisect
import re
from dataclasses import dataclass

PATTERN = re.compile(
    r"""(?P<raw>R"(?P<mark>[^(\s"]*)\((?:.|\n)*?\)(?P=mark)")
      | (?P<comment>//[^\n]*|/\*(?:.|\n)*?\*/)
      | (?P<preprocessor>^[ \t]*\#(?:[^\n\\]|\\(?:.|\n))*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<character>'(?:[^'\\\n]|\\.)+')
      | (?P<number>\.?\d(?:[\w.']|[eEpP][+-])*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign><<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])
    """, re.VERBOSE | re.MULTILINE)

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {")", "]", "}"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}

# How tightly binary operators bind; a smaller number binds tighter.
LEVELS = {"*": 5, "/": 5, "%": 5, "+": 6, "-": 6, "<<": 7, ">>": 7, "<": 9, "<=": 9, ">": 9, ">=": 9,
          "==": 10, "!=": 10, "&": 11, "^": 12, "|": 13, "&&": 14, "||": 15, "?": 16, ":": 16}
LEVELS.update(dict.fromkeys(ASSIGNMENTS, 16))
STOPS = {",", ";", "return", "case", "else", "throw", "do", "co_return"}


@dataclass(frozen=True)
class Token:
    """A piece of text: kind is a group name of PATTERN."""

    kind: str
    text: str
    begin: int
    end: int


class Source:
    """A file's text, its tokens without comments and preprocessor lines, and its matching brackets."""

    def __init__(self, text):
        self.text = text
        self.tokens = []
        self.hidden = []  # spans of comments and preprocessor lines
        for match in PATTERN.finditer(text):
            kind = match.lastgroup if match.lastgroup != "mark" else "raw"
            if kind in ("comment", "preprocessor"):
                self.hidden.append(match.span())
            else:
                self.tokens.append(Token(kind, match.group(), *match.span()))
        self.match = self._match_brackets()
        self._lines = [0] + [m.end() for m in re.finditer("\n", text)]

    def _match_brackets(self):
        match, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in OPEN:
                stack.append(i)
            elif token.text in CLOSE and stack:
                match[i] = stack.pop()
                match[match[i]] = i
        return match

    def word(self, i):
        """The text of token i, empty outside the file."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def kind(self, i):
        """The kind of token i, empty outside the file."""
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else ""

    def line_of(self, offset):
        """The line number of an offset, from 1."""
        return bisect.bisect_right(self._lines, offset)

    def line_text(self, line):
        """The text of a line, without the blanks around it."""
        end = self._lines[line] if line < len(self._lines) else len(self.text)
        return self.text[self._lines[line - 1]:end].strip()

    def is_spaced(self, i):
        """Whether token i stands between blanks or line ends."""
        token = self.tokens[i]
        before, after = self.text[token.begin - 1:token.begin], self.text[token.end:token.end + 1]
        return before.isspace() and after.isspace()

    def is_binary(self, i):
        """Whether token i is an operator between two operands."""
        return (self.word(i) in LEVELS and self.is_spaced(i)
                and (self.kind(i - 1) in ("name", "number", "string", "character", "raw")
                     or self.word(i - 1) in (")", "]", "}", ">"))
                and self.word(i - 1) not in STOPS)

    def ends_operand(self, i, level):
        """Whether token i cannot be inside an operand of an operator of this level."""
        word = self.word(i)
        if word in STOPS or word in ("?", ":") or word in ASSIGNMENTS:
            return True
        return self.is_binary(i) and LEVELS[word] > level

    def operand_begin(self, i, level):
        """The first token of the chain of operands of `level` that ends before token i."""
        at = i - 1
        while at >= 0:
            if self.word(at) in CLOSE and at in self.match:
                at = self.match[at] - 1
            elif self.word(at) in OPEN or self.ends_operand(at, level):
                break
            else:
                at -= 1
        return at + 1

    def operand_end(self, i, level):
        """One past the last token of the chain of operands of `level` that starts at token i."""
        at = i
        while at < len(self.tokens):
            if self.word(at) in OPEN and at in self.match:
                at = self.match[at] + 1
            elif self.word(at) in CLOSE or self.ends_operand(at, level):
                break
            else:
                at += 1
        return at

    def callee_begin(self, i):
        """The first token of the postfix expression whose last name is token i: `a.b(c)->d` from `a`."""
        at = i
        while True:
            before = self.word(at - 1)
            if before == "::" and self.kind(at - 2) == "name":
                at -= 2
            elif before == "::":
                at -= 1
            elif before in (".", "->"):
                at -= 2
                while self.word(at) in CLOSE and at in self.match:
                    at = self.match[at] - 1
                if self.kind(at) != "name":
                    return at + 1
            else:
                return at

    def arguments(self, opening):
        """The token ranges [begin, end) of a bracket's parts, divided at its own commas."""
        parts, begin, at = [], opening + 1, opening + 1
        closing = self.match[opening]
        while at < closing:
            if self.word(at) in OPEN and at in self.match:
                at = self.match[at] + 1
            elif self.word(at) == ",":
                parts.append((begin, at))
                at += 1
                begin = at
            else:
                at += 1
        if begin < closing:
            parts.append((begin, closing))
        return parts

    def span(self, begin, end):
        """The offsets of the tokens [begin, end)."""
        return self.tokens[begin].begin, self.tokens[end - 1].end

    def slice(self, begin, end):
        """The text of the tokens [begin, end)."""
        first, last = self.span(begin, end)
        return self.text[first:last]
