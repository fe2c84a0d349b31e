"""A sweep, from recipe to result files. What is there is not done again; what is of other settings is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from recal3r.engine.snapshot import fingerprint
from recal3r.errors import EvalError
from recal3r.eval.contestants import Contestant, slug
from recal3r.eval.datasets import dataset
from recal3r.eval.predict import Speed
from recal3r.eval.protocol import Protocol
from recal3r.eval.results import Result, place_of, read_result, write_result
from recal3r.eval.score import Job, key_of, lost, run_job
from recal3r.eval.sweep.executors import Executor, ThisProcess
from recal3r.eval.sweep.recipe import Sweep
from recal3r.eval.sweep.roll import roll_of, write_roll
from recal3r.eval.walks import write_walk
from recal3r.model.load import load_model

TRAJECTORIES, SPEED = "trajectories", "speed"
Said = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """A sweep, and where its parts lie."""

    sweep: Sweep
    weights: str
    roots: Mapping[str, Path]
    """The folder of each dataset, by the dataset's name."""
    output: Path
    store: Path
    keep: bool = True
    threads: int = 1
    again: bool = False
    """Whether sequences that failed before are tried once more."""


class Summary(NamedTuple):
    results: list[Result]
    done_before: int


def run_sweep(plan: Plan, executor: Executor | None = None, said: Said = lambda _: None) -> Summary:
    """All results of the sweep, of which those that were missing are made now."""
    weights = fingerprint(load_model(plan.weights, device="cpu", dtype="float32"))
    folder = plan.output / "results"
    chosen = _sequences(plan)
    write_roll(roll_of(plan.sweep, weights, chosen), plan.output)
    results: list[Result] = []
    jobs: list[Job] = []
    for job in _jobs(plan, chosen):
        there = _there(job, folder, weights)
        if there is None or (plan.again and any(one.error for one in there)):
            jobs.append(job)
        else:
            results += there
    before = len(results)
    for number, (job, done) in enumerate((executor or ThisProcess()).run(run_job, jobs), 1):
        found, speed, walks = done or lost(
            job, weights, "The workers that had this sequence died, one after the other."
        )
        for walk in walks:
            write_walk(walk, plan.output / TRAJECTORIES)
        if speed is not None:
            _write_speed(plan.output, job, speed)
        for result in found:  # last: a job whose results are there is done
            write_result(result, folder)
        results += found
        failed = sum(one.error is not None for one in found)
        said(f"{number}/{len(jobs)} {job.contestant.name}, {job.sequence}" + (f": {failed} failed" if failed else ""))
    return Summary(results, before)


def _sequences(plan: Plan) -> dict[Protocol, list[str]]:
    """What every protocol takes of its dataset."""
    chosen: dict[Protocol, list[str]] = {}
    for name, protocols in _by_dataset(plan.sweep.protocols).items():
        if name not in plan.roots:
            raise EvalError(
                f"The sweep needs the dataset {name}, and no folder of it was given; add --data {name}=FOLDER."
            )
        known = dataset(name, plan.roots[name]).names()
        chosen |= {protocol: protocol.sequences.of(known) for protocol in protocols}
        if not any(chosen[protocol] for protocol in protocols):
            raise EvalError(
                f"{plan.roots[name]} holds no sequence of {name}; `recal3r data verify {name}` says what is missing."
            )
    return chosen


def _jobs(plan: Plan, chosen: Mapping[Protocol, list[str]]) -> Iterable[Job]:
    """By sequence, so that a cluster has something for everyone from the beginning."""
    for name, protocols in _by_dataset(plan.sweep.protocols).items():
        for sequence in dict.fromkeys(sequence for protocol in protocols for sequence in chosen[protocol]):
            asked = tuple(protocol for protocol in protocols if sequence in chosen[protocol])
            for contestant in plan.sweep.contestants:
                yield _job(plan, contestant, asked, plan.roots[name], sequence)


def _job(plan: Plan, contestant: Contestant, protocols: tuple[Protocol, ...], root: Path, sequence: str) -> Job:
    return Job(
        weights=plan.weights,
        contestant=contestant,
        protocols=protocols,
        lengths=plan.sweep.lengths,
        root=root,
        sequence=sequence,
        store=plan.store,
        keep=plan.keep,
        threads=plan.threads,
    )


def _by_dataset(protocols: Iterable[Protocol]) -> dict[str, list[Protocol]]:
    found: dict[str, list[Protocol]] = {}
    for protocol in protocols:
        found.setdefault(protocol.dataset, []).append(protocol)
    return found


def _there(job: Job, folder: Path, weights: str) -> list[Result] | None:
    """The job's results, if all are there."""
    found: list[Result] = []
    for protocol in job.protocols:
        for length in job.lengths:
            path = folder / place_of(protocol.name, job.contestant.name, length, job.sequence)
            if not path.is_file():
                return None
            result = read_result(path)
            if result.key != key_of(weights, job.contestant, protocol):
                raise EvalError(f"{path} is of other weights, settings or version; write into another folder.")
            found.append(result)
    return found


def _write_speed(output: Path, job: Job, speed: Speed) -> None:
    """Beside the results, not among them: no two runs are equally fast."""
    path = output / SPEED / slug(job.contestant.name) / f"{slug(job.sequence)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"contestant": job.contestant.name, **speed._asdict()}, indent=1) + "\n")
