"""What can be shown of accelerators without one: a step is one graph, and nothing in it looks at a number.

After the first frame of a segment, that is: where a segment begins is the host's to know.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from networks import seeded_network
from recal3r.engine.session import Session, flatten, map_tensors
from recal3r.engine.step import Outcome, step
from recal3r.model.cut3r import Cut3r, View
from recal3r.model.heads import Head
from recal3r.rules import get_rule
from recal3r.rules.base import UpdateRule

RULES = ["cut3r", "constant", "ttt3r", "memix(ttt3r)", "ttsa3r", "recal3r", "recal3r-release"]
# Dynamo says that it traces through `grid_positions`, whose results it cannot take from the cache.
through_the_cache = pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")


def frame(model: Cut3r, rule: UpdateRule[Any], session: Session, image: Tensor) -> Outcome:
    with torch.no_grad():
        return step(model, rule, session, View(image), wanted=frozenset(Head), write=[True])


def images(count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [2 * torch.rand(1, 3, 48, 64, generator=draw) - 1 for _ in range(count)]


@through_the_cache
@pytest.mark.parametrize("rule", ["memix(ttt3r)", "ttsa3r", "recal3r"])  # every statistic and kind of memory
def test_a_step_is_one_graph(rule: str) -> None:
    """`fullgraph=True` fails at a graph break."""
    torch._dynamo.reset()
    rule = get_rule(rule)
    model = seeded_network("mini-linear").requires_grad_(requires_grad=False)
    plain, compiled = Session.fresh(model), Session.fresh(model)
    compiled_frame = torch.compile(frame, fullgraph=True, backend="eager")
    for at, image in enumerate(images(3)):
        expected = frame(model, rule, plain, image)
        found = (compiled_frame if at else frame)(model, rule, compiled, image)
        torch.testing.assert_close(found.read.world.points, expected.read.world.points, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.rate, expected.rate, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(compiled.state, plain.state, rtol=1e-4, atol=1e-5)


def on_meta(model: Cut3r) -> tuple[Cut3r, Session]:
    ghost = copy.deepcopy(model).to("meta")
    session = Session.fresh(ghost)
    session.places[0].starts = False
    return ghost, session


@pytest.mark.parametrize("name", ["mini-linear", "mini-dpt"])
@pytest.mark.parametrize("rule", RULES)
def test_a_step_needs_no_numbers(name: str, rule: str) -> None:
    """On `meta`, tensors have shapes and no values: whoever looks at one fails. Shapes come out as on a CPU."""
    model, rule = seeded_network(name).requires_grad_(requires_grad=False), get_rule(rule)
    ghost, ghostly = on_meta(model)
    session = Session.fresh(model)
    for image in images(2):
        real = frame(model, rule, session, image)
    ghostly.rule_memory = map_tensors(lambda x: x.to("meta"), session.rule_memory)
    found = frame(ghost, rule, ghostly, images(1)[0].to("meta"))
    for a, b in zip(
        (*found.read.world, found.rate, found.read.rgb), (*real.read.world, real.rate, real.read.rgb), strict=True
    ):
        assert a.device.type == "meta"
        assert a.shape == b.shape
    assert ghostly.state.shape == session.state.shape
    before, after = (flatten(memory, "m") for memory in (session.rule_memory, ghostly.rule_memory))
    assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}


def test_looking_at_a_number_would_fail() -> None:
    """What the tests above stand on."""
    with pytest.raises(RuntimeError):
        torch.empty(1, device="meta").item()
