"""Rules as text."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recal3r.errors import RuleError
from recal3r.rules import Constant, Memix, Recal3r, Ttsa3r, Ttt3r, available, describe, get_rule, register


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("recal3r", Recal3r()),
        ("recal3r()", Recal3r()),
        (" recal3r( beta_base = 0.05 ) ", Recal3r(beta_base=0.05)),
        ("memix(ttt3r)", Memix(Ttt3r())),
        ("memix", Memix(Ttt3r())),
        ("memix(memix(ttsa3r, 0.5), keep=.25)", Memix(Memix(Ttsa3r(), 0.5), 0.25)),
        ("constant(1e-3)", Constant(0.001)),
        ("recal3r(entropy=false, mean_anchor=True,)", Recal3r(entropy=False, mean_anchor=True)),
    ],
)
def test_text_to_rule(text: str, rule: object) -> None:
    assert get_rule(text) == rule
    assert get_rule(describe(get_rule(text))) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "recal3r(",
        "recal3r)",
        "recal3r(beta=1)",
        "recal3r(beta_base=2)",
        "recal3r(beta_base=true)",
        "recal3r(beta_base=ttt3r)",
        "recal3r(entropy=0)",
        "recal3r(beta_base=0.1, beta_base=0.2)",
        "recal3r(beta_base=0.1 pressure=true)",
        "recal3r(beta_base=__import__)",
        "recal3r; ttt3r",
        "recal3r recal3r",
        "memix(0.5)",
        "memix(" * 5000,
        "constant(1e999)",
        "cut3r(1)",
    ],
)
def test_text_that_is_no_rule_is_one_sentence(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        get_rule(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@given(st.text())
def test_any_text_is_a_rule_or_an_error(text: str) -> None:
    try:
        rule = get_rule(text)
    except RuleError:
        return
    assert get_rule(describe(rule)) == rule


@pytest.mark.parametrize("bad", [object(), 3, Recal3r, None])
def test_what_is_no_rule(bad: object) -> None:
    with pytest.raises(RuleError, match="is no update rule"):
        get_rule(bad)  # type: ignore[arg-type]


def test_a_rule_of_ones_own() -> None:
    @dataclasses.dataclass(frozen=True)
    class Half(Constant):
        rate: float = 0.5

    register("half", Half)
    try:
        assert "half" in available()
        assert get_rule("memix(half)") == Memix(Half())
        assert describe(Half()) == "half(rate=0.5)"
        with pytest.raises(RuleError, match="already"):
            register("half", Recal3r)
    finally:
        from recal3r.rules import registry

        del registry._RULES["half"]
    with pytest.raises(RuleError, match="frozen dataclass"):
        register("loose", object)
    with pytest.raises(RuleError, match="has no name"):
        describe(Half())
