# SPDX-License-Identifier: Apache-2.0
"""Mutants of C by its tokens: constants, comparisons, arithmetic, dropped statements, conditions.

What does not compile any more, or compiles to the same object, is no mutant; see compiler.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mutant import Mutant, replaced

TOKEN = re.compile(
    rb"""(?P<skip>/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*
        |"(?:\\.|[^"\\])*"|'(?:\\.|[^'])+')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d*[fF]?|\d+[uUlL]*)
    |(?P<sign>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
SIGNS = {
    **{b"<": "<=", b"<=": "<", b">": ">=", b">=": ">", b"==": "!=", b"!=": "==", b"+": "-"},
    **{b"-": "+", b"*": "/", b"/": "*", b"%": "/", b"<<": ">>", b">>": "<<", b"&": "|"},
    **{b"|": "&", b"&&": "||", b"||": "&&", b"+=": "-=", b"-=": "+=", b"++": "--", b"--": "++"},
}
# Signs that mean something else in front of their operand, and in declarations.
UNARY = (b"-", b"+", b"*", b"&")
STATEMENT = re.compile(
    rb"^[ \t]*(?!return\b|goto\b|else\b|case\b|const\b|static\b|for\b|if\b)"
    rb"(?:\*?[A-Za-z_][\w.>\[\]+-]*(?:\([^;{}]*\))?[ \t]*(?:[-+*/%&|^]|<<|>>)?"
    rb"=[^=][^;{}]*|[a-z_]\w*\([^;{}]*\)|break|continue);$",
    re.MULTILINE,
)


def mutants(file: str, data: bytes) -> list[Mutant]:
    found = [*_of_tokens(file, data), *_of_statements(file, data), *_of_conditions(file, data)]
    return sorted(found, key=lambda mutant: (mutant.begin, mutant.end))


def _tokens(data: bytes) -> list[re.Match[bytes]]:
    return [token for token in TOKEN.finditer(data) if token.lastgroup != "skip"]


def _of_tokens(file: str, data: bytes) -> Iterator[Mutant]:
    tokens = _tokens(data)
    for kind, before, token in zip([None, None, *tokens], [None, *tokens], tokens, strict=False):
        text = token[0]
        if token.lastgroup == "number" and b"." not in text:
            digits = text.rstrip(b"uUlL").decode()
            suffix = text[len(digits) :].decode()
            yield _put(file, data, token, f"{int(digits, 0) + 1}{suffix}")
        elif kind is not None and kind[0] == b"struct":
            # What follows is a pointer, not a product.
            continue
        elif text in SIGNS and before is not None and _is_binary(before, text):
            yield _put(file, data, token, SIGNS[text])


def _is_binary(before: re.Match[bytes], text: bytes) -> bool:
    if text not in UNARY:
        return True
    if before.lastgroup == "word":
        return before[0] not in (b"return", b"case") and not _is_type(before[0])
    return before.lastgroup == "number" or before[0] in (b")", b"]")


def _is_type(word: bytes) -> bool:
    return word.endswith(b"_t") or word in (b"void", b"char", b"int", b"float", b"const")


def _of_statements(file: str, data: bytes) -> Iterator[Mutant]:
    for found in STATEMENT.finditer(data):
        begin = found.end() - len(found[0].lstrip())
        text = " ".join(data[begin : found.end()].decode().split())
        yield replaced(file, data, begin, found.end(), ";", f"without {text}")


def _of_conditions(file: str, data: bytes) -> Iterator[Mutant]:
    tokens = _tokens(data)
    for number, token in enumerate(tokens):
        if token[0] != b"if" or tokens[number + 1][0] != b"(":
            continue
        depth = 0
        for end in tokens[number + 1 :]:
            depth += {b"(": 1, b")": -1}.get(end[0], 0)
            if depth == 0:
                begin = tokens[number + 1].start()
                text = data[begin : end.end()].decode()
                yield replaced(file, data, begin, end.end(), f"(!{text})")
                break


def _put(file: str, data: bytes, token: re.Match[bytes], text: str) -> Mutant:
    return replaced(file, data, token.start(), token.end(), text)
