"""One frame: the only loop body in the project.

B streams · N state tokens · P patches · C decoder width
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from recal3r.engine.session import Session, all_finite, choose, map_tensors, where_sound
from recal3r.errors import RuleError
from recal3r.model.cut3r import Cut3r, Tokens, View
from recal3r.model.decoder import Decoded
from recal3r.model.heads import Head, ReadOut
from recal3r.model.probe import FusedProbe, PlainProbe, Probe, Stat
from recal3r.rules.base import Decision, Evidence, UpdateRule

ProbeKind = Callable[[frozenset[Stat]], Probe]

PROBES: dict[bool, ProbeKind] = {True: FusedProbe, False: PlainProbe}


class Outcome(NamedTuple):
    read: ReadOut
    rate: Tensor | None  # β [B, N]; None where no rule was asked
    signals: dict[str, Tensor]
    reliability: Tensor | None = None  # [B, h, w], where it was asked for and the rule knows it
    sound: Tensor | None = None  # [B]: whether all that was to be written is finite, so that it was


RELIABILITY = "reliability"  # the signal of that name: ρ [B, N] in [0, 1]


def step(
    model: Cut3r,
    rule: UpdateRule[Any],
    session: Session,
    view: View,
    *,
    wanted: frozenset[Head],
    write: Sequence[bool],
    probe_kind: ProbeKind = FusedProbe,
    reliability: bool = False,
) -> Outcome:
    """Reads `view` against the session and, in the streams whose `write` is up, writes it there.

    `reliability`: also say, patch by patch, how reliable the tokens are that it was read from.
    """
    starts = session.starts

    # 1. The view as tokens, and a first guess of its pose from the pose memory.
    tokens = model.encode(view)
    pose_token = _pose_token(model, session, tokens, starts)

    # 2. State and image look at each other; what the rule needs is measured meanwhile.
    probe = probe_kind(rule.needs) if any(write) and rule.needs else None
    decoded = model.decode(tokens, session.state, pose_token, probe)

    # 3. Pose, points, colours: what was asked for.
    read = model.read_out(tokens, decoded, wanted)
    if not any(write):
        return Outcome(read, None, {})

    # 4. The rule says how far each token moves.
    decision = _decide(rule, _evidence(session, tokens, decoded, probe), session.rule_memory, starts)

    # 5. S ← S + β ⊙ (Ŝ - S). The pose memory is gated by no rule.
    candidate = decoded.candidate.to(session.state.dtype)
    state = torch.lerp(session.state, candidate, decision.rate)
    pose_memory = model.pose_memory.write(tokens.summary, decoded.pose, session.pose_memory)

    # 6. A stream that is not to be written keeps all it had, and so does one that would get numbers that are none.
    old, new = session.rule_memory, map_tensors(torch.Tensor.contiguous, decision.memory)
    sound = all_finite(state, pose_memory, new)
    new = where_sound(sound, new, old)
    session.rule_memory = new if old is None else choose(write, new, old)
    session.state = choose(write, where_sound(sound, state, session.state), session.state)
    session.pose_memory = choose(write, where_sound(sound, pose_memory, session.pose_memory), session.pose_memory)
    if any(starts):  # the one time that the device is waited for
        landed = cast("list[bool]", sound.tolist())
        for place, asked, finite in zip(session.places, write, landed, strict=True):
            place.starts = place.starts and not (asked and finite)
    rho = decision.signals.get(RELIABILITY) if reliability else None
    patches = None if rho is None else decoded.reading.of(rho).view(-1, *tokens.grid)
    return Outcome(read, decision.rate[..., 0], dict(decision.signals), patches, sound)


def _pose_token(model: Cut3r, session: Session, tokens: Tokens, starts: Sequence[bool]) -> Tensor:  # [B, 1, C]
    """The learned token on the first frame of a segment, later what the pose memory recalls."""
    learned = model.pose_token.expand(len(starts), -1, -1)
    return (
        learned if all(starts) else choose(starts, learned, model.pose_memory.read(tokens.summary, session.pose_memory))
    )


def _evidence(session: Session, tokens: Tokens, decoded: Decoded, probe: Probe | None) -> Evidence:
    dtype = session.state.dtype
    return Evidence(
        state=session.state,
        candidate=decoded.candidate.to(dtype),
        initial_state=session.initial_state.expand_as(session.state),
        image_tokens=tokens.tokens.to(dtype),
        image_embedding=decoded.embedding.to(dtype),
        image_readout=decoded.final.to(dtype),
        grid=tokens.grid,
        stats={} if probe is None else probe.result(),
    )


def _decide(rule: UpdateRule[Any], evidence: Evidence, memory: Any, starts: Sequence[bool]) -> Decision[Any]:
    """`start` for streams at the first frame of a segment, `step` for the others."""
    if all(starts):
        return _checked(rule, evidence, rule.start(evidence))
    if memory is None:  # a rule that takes over in mid-stream remembers this frame, as if it had come twice
        memory = rule.start(evidence).memory
    later = _checked(rule, evidence, rule.step(evidence, memory))
    if not any(starts):
        return later
    first = _checked(rule, evidence, rule.start(evidence))
    unknown = {name: torch.full_like(value, torch.nan) for name, value in later.signals.items()}
    return Decision(
        choose(starts, first.rate, later.rate),
        choose(starts, first.memory, later.memory),
        {name: choose(starts, first.signals.get(name, unknown[name]), value) for name, value in later.signals.items()},
    )


def _checked(rule: UpdateRule[Any], evidence: Evidence, decision: Decision[Any]) -> Decision[Any]:
    expected = (*evidence.candidate.shape[:2], 1)
    if decision.rate.shape != expected:
        raise RuleError(
            f"{type(rule).__name__} gave a rate of shape {list(decision.rate.shape)}; it must be {list(expected)}."
        )
    return decision
