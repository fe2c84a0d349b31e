"""Errors of poses, depth and clouds. A metric that cannot be computed is NaN, never a default."""
