"""What can go wrong. One base class; each child says which rule of the world was broken.

A message is one sentence: what was given, which rule it broke, what would work.
"""


class Recal3rError(Exception):
    """The base of every error that recal3r raises on purpose."""


class ConfigError(Recal3rError):
    """A configuration describes no network that exists."""


class WeightsError(Recal3rError):
    """A weights file is missing, damaged, hostile, or belongs to another network."""


class RuleError(Recal3rError):
    """A rule has an unknown name, a parameter out of range, or a rate that is none."""


class ImageError(Recal3rError):
    """An image has a shape, type or size that no network can read."""


class SessionError(Recal3rError):
    """A saved session is damaged, or belongs to another network or rule."""


class StreamError(Recal3rError):
    """A stream was used in a way its batch, segment or camera does not allow."""


class GeometryError(Recal3rError):
    """Points or poses do not fit together."""


class OutputError(Recal3rError):
    """A result cannot be written where it was asked for."""


class EvalError(Recal3rError):
    """An evaluation would mix what does not belong together, or lacks what it needs."""
