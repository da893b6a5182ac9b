# SPDX-License-Identifier: Apache-2.0
"""The rules that make faults from a source file. A fault replaces one expression or statement by

    (graft_fault(N) ? (faulty) : (as it was))        or        { if (!graft_fault(N)) statement; }

What is no fault of correctness is left out by rule, here:
- what only reports: texts of errors, throw statements, GRAFT_CHECK (true in every correct program);
- what only makes room: reserve();
- what no expression can guard: constexpr, templates, enumerations, case labels, tables of names;
- what is data of tests: functions that give samples; `since` of an operator, which only pages print;
- hints to a compiler: `#pragma` lines of generated text.
equivalent.txt lists the single places that were looked at and found to change no result.
"""

import hashlib
import re
from dataclasses import dataclass

from cpp_tokens import LEVELS, Source

ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=",
              "&=": "|=", "|=": "&="}
COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}


def both_ways(*pairs):
    """A table from each name to its partner."""
    table = {}
    for a, b in pairs:
        table.setdefault(a, b)
        table.setdefault(b, a)
    return table


# A function, method or enumerator and the one that is taken for it by mistake.
CALLEES = both_ways(
    ("floor", "ceil"), ("round", "trunc"), ("min", "max"), ("lt", "le"), ("gt", "ge"), ("eq", "ne"),
    ("floor_div", "ceil_div"), ("mod", "rem"), ("front", "back"), ("all_of", "any_of"), ("sin", "cos"),
    ("exp", "expm1"), ("log", "log1p"), ("tanh", "tan"), ("sqrt", "abs"), ("lowest", "max"),
    ("infinity", "max"), ("CreateAdd", "CreateSub"), ("CreateMul", "CreateAdd"),
    ("CreateAnd", "CreateOr"), ("CreateXor", "CreateOr"), ("CreateShl", "CreateLShr"), ("CreateAShr", "CreateLShr"),
    ("CreateZExt", "CreateSExt"), ("CreateFAdd", "CreateFSub"), ("CreateFMul", "CreateFAdd"),
    ("CreateSDiv", "CreateUDiv"), ("CreateSRem", "CreateURem"), ("CreateICmpSLT", "CreateICmpSLE"),
    ("CreateICmpSGT", "CreateICmpSGE"), ("CreateICmpULT", "CreateICmpSLT"), ("CreateICmpEQ", "CreateICmpNE"),
    ("CreateFCmpOLT", "CreateFCmpOLE"), ("CreateFCmpOGT", "CreateFCmpOGE"), ("CreateFCmpUNO", "CreateFCmpORD"),
    ("CreateFPToSI", "CreateFPToUI"), ("CreateSIToFP", "CreateUIToFP"), ("is_signed", "is_unsigned"),
    ("is_float", "is_integer"), ("sub", "add"))
ENUMERATORS = both_ways(
    ("kMin", "kMax"), ("kLt", "kLe"), ("kGt", "kGe"), ("kEq", "kNe"), ("kAnd", "kOr"), ("kAdd", "kSub"),
    ("kMul", "kAdd"), ("kSet", "kAdd"), ("kFloor", "kCeil"), ("kRound", "kTrunc"), ("kFloorDiv", "kDiv"),
    ("kMod", "kRem"), ("kShl", "kShr"), ("kFloat32", "kFloat64"), ("kFloat16", "kBFloat16"), ("kInt32", "kInt64"),
    ("kUint32", "kInt32"), ("kUint8", "kInt8"), ("kUint64", "kInt64"), ("kInt16", "kInt32"), ("kCompute", "kLoad"),
    ("kShared", "kGlobal"), ("kFragment", "kShared"), ("kConstant", "kSize"), ("kVariable", "kSize"),
    ("kIsNan", "kIsInf"), ("kExp", "kExpm1"), ("kLog", "kLog1p"), ("kSin", "kCos"))
COMMUTATIVE = {"min", "max", "add", "mul", "eq", "ne", "equal", "same_value", "CreateAdd", "CreateMul", "CreateAnd",
               "CreateOr", "CreateXor", "CreateICmpEQ", "CreateICmpNE", "CreateFAdd", "CreateFMul", "require_equal"}
# Faults in texts of generated code.
TEXT = (("<", "<="), ("<=", "<"), ("+", "-"), ("-", "+"), ("*", "+"), ("/", "%"), ("%", "/"), ("&&", "||"),
        ("==", "!="), ("+=", "-="))
NO_STATEMENT = {"if", "for", "while", "switch", "case", "default", "return", "const", "auto", "static", "using",
                "typedef", "struct", "class", "template", "namespace", "throw", "goto", "public", "private", "else",
                "do", "try", "catch", "constexpr", "extern", "friend", "enum", "union", "inline", "virtual",
                "explicit", "operator", "mutable", "thread_local", "new", "delete"}
KEYWORDS = NO_STATEMENT | {"sizeof", "decltype", "noexcept", "alignas", "alignof", "static_assert", "void", "int"}
REPORTS = {"reject", "unsupported", "Unsupported", "reserve", "GRAFT_CHECK", "static_assert", "fail"}
SAMPLES = {"with"}  # what makes samples inside the tables of operators


@dataclass
class Fault:
    """One place and what stands there instead."""

    path: str
    line: int
    last_line: int
    rule: str
    begin: int  # offsets of what is replaced
    end: int
    faulty: str  # the faulty expression; empty: the statement is dropped
    change: str  # what a person reads
    form: str = "expression"
    key: str = ""
    number: int = 0
    line_text: str = ""

    def guarded(self, original):
        """The text that stands there in the instrumented file, with as many lines."""
        switch = f"graft_fault({self.number})"
        if self.form == "statement":
            return f"{{ if (!{switch}) {original} }}"
        if self.form == "condition":
            return f"{switch} != static_cast<bool>({original})"
        return f"({switch} ? ({self.faulty}) : ({original}))"

    def title(self):
        """`src/ops/softmax.cpp:31: arithmetic: + becomes -`"""
        return f"{self.path}:{self.line}: {self.rule}: {self.change}"


class Rules:
    """All faults of one file."""

    def __init__(self, path, text):
        self.path = path
        self.source = Source(text)
        self.skipped = self._skipped_spans()
        self.faults = []

    def collect(self):
        """The faults, by place."""
        source = self.source
        for i, token in enumerate(source.tokens):
            if self._is_skipped(token.begin):
                continue
            if token.kind == "sign":
                self._operator(i)
            elif token.kind == "number":
                self._constant(i)
            elif token.kind == "name":
                self._name(i)
            elif token.kind == "string" and self.path.startswith("src/codegen/cuda/"):
                self._text(i)
            self._statement(i)
        self._give_keys()
        return self.faults

    # --- what is left out ---

    def _skipped_spans(self):
        source, spans = self.source, []
        for i, token in enumerate(source.tokens):
            if token.kind != "name":
                continue
            if token.text in ("throw", "constexpr", "using", "typedef", "case", "enum", "template"):
                spans.append((token.begin, self._end_of(i, token.text)))
            elif token.text in REPORTS | SAMPLES and source.word(i + 1) in ("(", "{") and i + 1 in source.match:
                spans.append((token.begin, source.tokens[source.match[i + 1]].end))
            elif token.text == "GRAFT_USER_CHECK" and source.word(i + 1) == "(":
                condition_end = source.arguments(i + 1)[0][1]
                spans.append((source.tokens[condition_end].begin, source.tokens[source.match[i + 1]].end))
            elif token.text == "Sample" and source.word(i + 1) == ">":
                spans.append(self._function_body(i))
            elif token.text == "since" and source.word(i + 1) == "=":
                spans.append((token.begin, source.tokens[i + 2].end))
            elif token.text in ("row", "running") and source.word(i + 1) == "(" and source.kind(i + 4) == "number":
                spans.append((source.tokens[i + 4].begin, source.tokens[i + 4].end))  # `since` again
        return [span for span in spans if span]

    def _end_of(self, i, keyword):
        """Where a declaration or label that starts at token i ends."""
        source = self.source
        stop = ":" if keyword == "case" else ";"
        if keyword == "template":
            depth = 0
            for at in range(i + 1, len(source.tokens)):
                depth += source.word(at).count("<") - source.word(at).count(">")
                if depth <= 0:
                    return source.tokens[at].end
        at = i
        while at < len(source.tokens) and source.word(at) != stop:
            if source.word(at) == "{" and keyword == "constexpr" and source.word(at - 1) in (")", "const"):
                return source.tokens[source.match[at]].end  # a constexpr function
            at = source.match[at] + 1 if source.word(at) in ("(", "[", "{") and at in source.match else at + 1
        return source.tokens[min(at, len(source.tokens) - 1)].end

    def _function_body(self, i):
        """The body of the function whose result type holds token i."""
        source = self.source
        for at in range(i, min(i + 40, len(source.tokens))):
            if source.word(at) == ";":
                return None
            if source.word(at) == "{" and at in source.match:
                return source.tokens[at].begin, source.tokens[source.match[at]].end
        return None

    def _is_skipped(self, offset):
        return any(begin <= offset < end for begin, end in self.skipped)

    # --- adding ---

    def _add(self, rule, begin, end, faulty, change, form="expression"):
        """Adds a fault over the tokens [begin, end)."""
        if end <= begin:
            return
        first, last = self.source.span(begin, end)
        if self._is_skipped(first) or any(first < b < last for b, _ in self.source.hidden):
            return
        line = self.source.line_of(first)
        faulty = " ".join(faulty.split("\n"))
        self.faults.append(Fault(self.path, line, self.source.line_of(last), rule, first, last, faulty, change, form,
                                 line_text=self.source.line_text(line)))

    def _replaced(self, begin, end, at, text, at_end=None):
        """The text of the tokens [begin, end) with the tokens [at, at_end) replaced."""
        first, last = self.source.span(begin, end)
        a, b = self.source.span(at, at_end or at + 1)
        return self.source.text[first:a] + text + self.source.text[b:last]

    def _give_keys(self):
        """A key that stays when other lines of the file change."""
        seen = {}
        for fault in self.faults:
            stem = "|".join((fault.path, fault.rule, fault.change, fault.line_text))
            seen[stem] = seen.get(stem, 0) + 1
            fault.key = hashlib.sha256(f"{stem}|{seen[stem]}".encode()).hexdigest()[:16]

    # --- the rules ---

    def _operator(self, i):
        """+ becomes -, < becomes <=, && becomes ||, and one side of && is forgotten."""
        source, word = self.source, self.source.word(i)
        if word == "?" and source.is_spaced(i):
            begin = source.operand_begin(i, LEVELS["||"])
            self._add("condition", begin, i, "", f"{short(source.slice(begin, i))} is negated", "condition")
            return
        for rule, table in (("arithmetic", ARITHMETIC), ("comparison", COMPARISON), ("logic", LOGIC)):
            if word in table and source.is_binary(i):
                level = LEVELS[word]
                begin, end = source.operand_begin(i, level), source.operand_end(i + 1, level)
                self._add(rule, begin, end, self._replaced(begin, end, i, table[word]),
                          f"{word} becomes {table[word]} in {short(source.slice(begin, end))}")
        if word == "&&" and source.is_binary(i):
            begin, end = source.operand_begin(i, LEVELS["&&"]), source.operand_end(i + 1, LEVELS["&&"])
            right = source.operand_end(i + 1, LEVELS["|"])
            self._add("clause", begin, end, f"graft_truth({self._replaced(begin, end, i, '', right)})",
                      f"{short(source.slice(i, right))} is forgotten")

    def _constant(self, i):
        """A number is off by one; a fraction is half as large again."""
        source, text = self.source, self.source.word(i)
        if source.word(i - 1) == "." or source.word(i - 1) == "<" or not re.fullmatch(r"\d+|\d*\.\d+(e-?\d+)?", text):
            return
        if "." in text:
            faulty = [repr(float(text) * 1.5 or 1.0)]
        else:
            faulty = [str(int(text) + 1)] + ([str(int(text) - 1)] if int(text) > 0 else [])
        for other in faulty:
            line = source.line_of(source.tokens[i].begin)
            self._add("constant", i, i + 1, other, f"{text} becomes {other} in {short(source.line_text(line))}")

    def _name(self, i):
        source, word = self.source, self.source.word(i)
        if word in ENUMERATORS and source.word(i - 1) == "::" and source.word(i - 2) != "ErrorKind":
            begin = source.callee_begin(i)
            self._add("enumerator", begin, i + 1, self._replaced(begin, i + 1, i, ENUMERATORS[word]),
                      f"{word} becomes {ENUMERATORS[word]}")
        if word in ("if", "while") and source.word(i + 1) == "(":
            self._condition(i + 1)
        if source.word(i + 1) != "(" or word in KEYWORDS or word.isupper() or i + 1 not in source.match:
            return
        begin, end = source.callee_begin(i), source.match[i + 1] + 1
        before = source.kind(begin - 1)
        if before == "name" and source.word(begin - 1) not in ("return", "else", "co_return"):
            return  # a declaration
        if word in CALLEES:
            self._add("callee", begin, end, self._replaced(begin, end, i, CALLEES[word]),
                      f"{word} becomes {CALLEES[word]} in {short(source.slice(begin, end))}")
        if word not in COMMUTATIVE:
            self._swaps(begin, end, i + 1)
            for first, last in source.arguments(i + 1):
                if source.word(first) == "{" and source.match[first] == last - 1:
                    self._swaps(begin, end, first)

    def _swaps(self, begin, end, opening):
        """Two neighbouring arguments, or indices in a list, change places."""
        source = self.source
        parts = source.arguments(opening)
        if source.word(opening - 1) == "fma":
            parts = parts[1:]  # the factors commute
        for (a, b), (c, d) in zip(parts, parts[1:]):
            left, right = source.slice(a, b), source.slice(c, d)
            if left == right or any(side.startswith(('"', "[", ".")) or side.endswith(("begin()", "end()"))
                                    for side in (left, right)):
                continue
            first, last = source.span(begin, end)
            text = source.text
            (a0, a1), (c0, c1) = source.span(a, b), source.span(c, d)
            swapped = text[first:a0] + right + text[a1:c0] + left + text[c1:last]
            self._add("arguments", begin, end, swapped, f"{short(left)} and {short(right)} change places")

    def _condition(self, opening):
        """The condition of an if or a loop is negated."""
        source = self.source
        closing = source.match[opening]
        begin = opening + 1
        for at in range(begin, closing):
            if source.word(at) == ";":
                begin = at + 1
        if source.word(opening - 1) == "constexpr" or any(source.word(at) == "=" for at in range(begin, closing)):
            return
        self._add("condition", begin, closing, "", f"{short(source.slice(begin, closing))} is negated", "condition")

    def _statement(self, i):
        """A statement for its effect is dropped."""
        source = self.source
        if source.word(i - 1) not in (";", "{", "}", ")", "else") or source.kind(i) != "name":
            return
        if source.word(i - 1) == ")" and source.word(source.match.get(i - 1, 0) - 1) not in ("if", "for", "while"):
            return
        word = source.word(i)
        if word in NO_STATEMENT or word in REPORTS or self._is_declaration(i):
            return
        end = source.operand_end(i, 17)
        while source.word(end) in ("?", ":") or source.word(end) in LEVELS:
            end = source.operand_end(end + 1, 17)
        if source.word(end) != ";" or '"#pragma' in source.slice(i, end):
            return
        self._add("dropped", i, end + 1, "", f"{short(source.slice(i, end))} is dropped", "statement")

    def _is_declaration(self, i):
        """Whether a type and a name start at token i: `Type x`, `a::Type<b>& x`."""
        source, at = self.source, i
        while source.word(at + 1) == "::" and source.kind(at + 2) == "name":
            at += 2
        at += 1
        if source.word(at) == "<" and not source.is_spaced(at):
            depth = 0
            while at < len(source.tokens):
                depth += source.word(at).count("<") - source.word(at).count(">")
                at += 1
                if depth <= 0:
                    break
        while source.word(at) in ("&", "*", "const", "&&"):
            at += 1
        return source.kind(at) == "name"

    def _text(self, i):
        """An operator of generated code is another one."""
        source, token = self.source, self.source.tokens[i]
        if token.text.startswith('"#'):
            return
        begin, end = self._call_around(i)
        for old, new in TEXT:
            for place in re.finditer(rf"(?<= ){re.escape(old)}(?= )", token.text):
                changed = token.text[:place.start()] + new + token.text[place.end():]
                self._add("text", begin, end, self._replaced(begin, end, i, changed),
                          f"{old} becomes {new} in {short(token.text)}")

    def _call_around(self, i):
        """The call that token i is an argument of; the token alone when there is none."""
        source, at = self.source, i - 1
        while at >= 0 and source.word(at) not in (";", "{", "}", "(", "[", "return", "?", ":"):
            at = source.match[at] - 1 if source.word(at) in (")", "]") and at in source.match else at - 1
        if source.word(at) == "(" and source.kind(at - 1) == "name" and source.word(at - 1) not in KEYWORDS:
            return source.callee_begin(at - 1), source.match[at] + 1
        return i, i + 1


def short(text):
    """At most 60 characters of a piece of source, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
