"""Rules by name, and the small language that writes a rule in one line: `memix(ttt3r)`, `recal3r(beta_base=0.05)`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from recal3r.errors import RuleError
from recal3r.rules.base import UpdateRule, is_rule
from recal3r.rules.constant import Constant
from recal3r.rules.cut3r import Cut3rRule
from recal3r.rules.memix import Memix
from recal3r.rules.recal3r import Recal3r
from recal3r.rules.recal3r_release import Recal3rRelease
from recal3r.rules.ttsa3r import Ttsa3r
from recal3r.rules.ttt3r import Ttt3r

_RULES: dict[str, type[Any]] = {
    "cut3r": Cut3rRule,
    "constant": Constant,
    "ttt3r": Ttt3r,
    "memix": Memix,
    "ttsa3r": Ttsa3r,
    "recal3r": Recal3r,
    "recal3r-release": Recal3rRelease,
}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<word>[A-Za-z_][\w-]*)|(?P<mark>[(),=]))\s*"
)
_MAX_DEPTH = 8


def available() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(_RULES)


def register(name: str, rule: type[Any]) -> None:
    """Gives a rule class (a frozen dataclass) a name, so that strings, sessions and the command line know it."""
    if not re.fullmatch(r"[a-z_][\w-]*", name):
        raise RuleError(f"{name!r} is no rule name; use lower-case letters, digits and hyphens.")
    if _RULES.get(name, rule) is not rule:
        raise RuleError(f"There is a rule named {name!r} already; choose another name.")
    if not dataclasses.is_dataclass(rule) or not rule.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise RuleError(f"{rule.__name__} is no frozen dataclass; decorate it with @dataclass(frozen=True).")
    _RULES[name] = rule


def get_rule(rule: str | UpdateRule[Any]) -> UpdateRule[Any]:
    """The rule itself, or the one that a string such as `memix(recal3r(beta_base=0.05), keep=0.9)` describes."""
    if isinstance(rule, str):
        return _Parser(rule).parse()
    if not is_rule(rule):
        raise RuleError(
            f"{rule!r} is no update rule; use one of {', '.join(_RULES)}, or an object with start and step."
        )
    return rule


def describe(rule: UpdateRule[Any]) -> str:
    """The string that `get_rule` turns into an equal rule, with every parameter in it."""
    name = next((name for name, kind in _RULES.items() if kind is type(rule)), None)
    if name is None:
        raise RuleError(f"{type(rule).__name__} has no name; give it one with recal3r.rules.register.")
    fields = dataclasses.fields(rule)  # type: ignore[arg-type]
    return f"{name}({', '.join(f'{field.name}={_written(getattr(rule, field.name))}' for field in fields)})"


def _written(value: Any) -> str:
    if is_rule(value):
        return describe(value)
    return repr(value).lower() if isinstance(value, bool) else repr(value)


class _Parser:
    """rule := name [ "(" argument { "," argument } ")" ]

    argument := [ name "=" ] ( number | true | false | rule )
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0

    def parse(self) -> UpdateRule[Any]:
        rule = self._rule(depth=0)
        if self.at < len(self.tokens):
            raise self._error(f"{self.tokens[self.at][1]!r} comes after its end")
        return rule

    def _tokens(self) -> Iterator[tuple[str, str]]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None or match.lastgroup is None:
                raise self._error(f"{self.text[position:].strip()[:20]!r} is no part of one")
            yield match.lastgroup, match[match.lastgroup]
            position = match.end()

    def _error(self, why: str) -> RuleError:
        return RuleError(f"{self.text[:80]!r} is no rule: {why}; write one like recal3r(beta_base=0.05).")

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _take(self, *kinds: str) -> str:
        if self.at >= len(self.tokens):
            raise self._error("it ends too early")
        kind, text = self.tokens[self.at]
        if kind not in kinds and text not in kinds:
            raise self._error(f"{text!r} stands where {' or '.join(map(repr, kinds))} should")
        self.at += 1
        return text

    def _rule(self, depth: int) -> UpdateRule[Any]:
        if depth > _MAX_DEPTH:
            raise self._error(f"rules are nested more than {_MAX_DEPTH} deep")
        name = self._take("word")
        if name not in _RULES:
            raise RuleError(f"There is no rule named {name!r}; there are {', '.join(_RULES)}.")
        kind = _RULES[name]
        fields = {field.name: field for field in dataclasses.fields(kind)}
        arguments: dict[str, Any] = {}
        if self._peek() == "(":
            self._take("(")
            while self._peek() != ")":
                field = self._field_name(name, fields, arguments)
                arguments[field] = self._value(depth)
                if self._peek() != ")":
                    self._take(",")
            self._take(")")
        return kind(**arguments)

    def _field_name(self, rule: str, fields: dict[str, Any], given: dict[str, Any]) -> str:
        following = self.tokens[self.at + 1][1] if self.at + 1 < len(self.tokens) else ""
        if following == "=":
            name = self._take("word")
            self._take("=")
        else:  # by position, as in memix(ttt3r)
            name = next((field for field in fields if field not in given), "")
        if name not in fields:
            raise RuleError(f"{rule} has no parameter {name!r}; it has {', '.join(fields) or 'none'}.")
        if name in given:
            raise RuleError(f"{rule} is given {name} twice.")
        return name

    def _value(self, depth: int) -> Any:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if kind == "number":
            self.at += 1
            return int(text) if text.isdigit() and len(text) < 16 else float(text)
        if text in ("true", "false", "True", "False"):
            self.at += 1
            return text.lower() == "true"
        return self._rule(depth + 1)
