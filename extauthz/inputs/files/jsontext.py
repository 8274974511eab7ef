"""Reads JSON documents piece by piece: the items of a List each on their own, by the standard library's C scanner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson

from .content import Piece, Span, TextError

_SPACE = re.compile(r"[ \t\n\r]*")
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{])|([\]}])')
_TOO_DEEP = f"nested more than {gojson.MAX_DEPTH} deep"


def pieces(text: str) -> Iterator[Piece]:
    """Yield the items of Lists as they come, and each document after its items. Documents may follow each other.

    Raises:
        TextError: where the text is not JSON, or gives a key twice.
    """
    return _Reader(text).documents()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = 0, 0

    def documents(self) -> Iterator[Piece]:
        self._skip_space()
        while self._at < len(self._text):
            yield from self._document()
            self._skip_space()

    def _document(self) -> Iterator[Piece]:
        begin = self._at
        line = self._line(begin)
        head: dict[str, Tree] = {}
        self._take("{")
        more = not self._took("}")
        while more:
            key = self._key(head)
            if key == "items" and self._text.startswith("[", self._at):
                head[key] = None
                yield from self._items()
            else:
                head[key] = self._value()
            more = self._goes_on("}")
        yield Piece(head, Span(line, 0, begin, self._at), is_item=False)

    def _key(self, head: dict[str, Tree]) -> str:
        begin = self._at
        key = self._value()
        if not isinstance(key, str):
            raise self._fault(begin, "a key is not a string")
        if key in head:
            raise TextError(self._line(begin), "duplicate-key", f"{key[:40]!a} is given more than once")
        self._take(":")
        return key

    def _items(self) -> Iterator[Piece]:
        self._take("[")
        more = not self._took("]")
        while more:
            begin = self._at
            line = self._line(begin)
            tree = self._value()
            yield Piece(tree, Span(line, 0, begin, self._at), is_item=True)
            more = self._goes_on("]")

    def _value(self) -> Tree:
        begin = self._at
        try:
            tree, self._at = gojson.DECODER.raw_decode(self._text, begin)
        except JSONDecodeError as error:
            self._check_depth(begin, error.pos)  # of what goes on for ever the end is not what is wrong
            raise self._fault(error.pos, error.msg) from None
        except BodyError as error:
            raise TextError(self._line(begin), error.code, error.detail) from None
        except RecursionError:
            raise TextError(self._line(begin), "too-deep", _TOO_DEEP) from None
        except ValueError:  # int() itself stops at 4,300 digits
            raise TextError(self._line(begin), "number-too-long", "a number is too long") from None
        self._check_depth(begin, self._at)
        return tree

    def _check_depth(self, begin: int, end: int) -> None:
        """Each Python has a bound of its own, from some 1,000 to more than 50,000: ours is that of YAML."""
        if self._text.count("[", begin, end) + self._text.count("{", begin, end) <= gojson.MAX_DEPTH:
            return
        depth = 0
        for found in _NESTING.finditer(self._text, begin, end):
            depth += (found[1] is not None) - (found[2] is not None)
            if depth > gojson.MAX_DEPTH:
                raise TextError(self._line(begin), "too-deep", _TOO_DEEP)

    def _goes_on(self, end: str) -> bool:
        """Step over what follows a member: a comma, or the end."""
        self._skip_space()
        if self._took(end):
            return False
        self._take(",")
        return True

    def _take(self, token: str) -> None:
        self._skip_space()
        if not self._took(token):
            raise self._fault(self._at, f"Expecting '{token}'")

    def _took(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        if found:
            self._at += len(token)
            self._skip_space()
        return found

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _line(self, at: int) -> int:
        """Lines before ``at``, counted on from the last call."""
        line, since = self._counted
        assert at >= since
        line += self._text.count("\n", since, at)
        self._counted = line, at
        return line

    def _fault(self, at: int, message: str) -> TextError:
        return TextError(self._line(at), "json-syntax", f"not JSON: {message}")
