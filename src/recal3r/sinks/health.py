"""How a stream was, frame by frame, and the ill frames that nobody else should be given."""

from __future__ import annotations

import json
from collections import Counter
from types import TracebackType
from typing import Any, Self

from recal3r.sinks.base import Mark, Sink
from recal3r.sinks.trajectory import LineSink
from recal3r.types import Image, Prediction

_SENTENCES_KEPT = 50


class HealthSink(LineSink):
    """`health.jsonl`: a line of JSON for each frame, those without numbers included; readable at any cut."""

    needs = frozenset({"pose", "learning_rate", "confidence_camera"})

    def _line(self, prediction: Prediction) -> str:
        return json.dumps({"frame": prediction.index, "timestamp": prediction.timestamp, **told(prediction)})


def told(prediction: Prediction) -> dict[str, Any]:
    """A prediction's health as JSON."""
    health = prediction.health
    return {
        "finite": health.finite,
        "unwell": list(health.unwell),
        "alarms": [alarm.sentence for alarm in health.alarms],
        "vitals": dict(health.vitals),
    }


class FiniteOnly:
    """A sink that is not given the frames whose numbers are NaN or infinite: of where they were taken, and of what
    they show, nothing is known."""

    def __init__(self, sink: Sink) -> None:
        self.needs = sink.needs
        self._sink = sink

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.__exit__(kind, error, trace)

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        if prediction.health.finite:
            self._sink.write(prediction, image)

    def mark(self) -> Mark:
        return self._sink.mark()

    def resume(self, mark: Mark) -> None:
        self._sink.resume(mark)


class Troubles:
    """What went wrong with a stream, counted; the first few in words. Changes with every frame."""

    def __init__(self) -> None:
        self.unwell: Counter[str] = Counter()  # frames by kind
        self.sentences: list[tuple[int, str]] = []  # with the frame's index
        self.alarms = 0

    def add(self, prediction: Prediction) -> None:
        self.unwell.update(prediction.health.unwell)
        said = [(prediction.index, alarm.sentence) for alarm in prediction.health.alarms]
        self.alarms += len(said)
        self.sentences += said[: _SENTENCES_KEPT - len(self.sentences)]

    def mark(self) -> Mark:
        return Mark({"unwell": dict(self.unwell), "sentences": list(self.sentences), "alarms": self.alarms})

    def resume(self, mark: Mark) -> None:
        self.unwell, self.alarms = Counter(mark.numbers["unwell"]), mark.numbers["alarms"]
        self.sentences = [(index, sentence) for index, sentence in mark.numbers["sentences"]]
