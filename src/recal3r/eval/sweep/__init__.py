"""Many jobs: recipes say which, executors say where, and the results are the same bit for bit."""

from recal3r.eval.sweep.executors import Executor, OnRay, Processes, ThisProcess
from recal3r.eval.sweep.recipe import Group, Sweep, read_recipe
from recal3r.eval.sweep.run import Plan, run_sweep

__all__ = ["Executor", "Group", "OnRay", "Plan", "Processes", "Sweep", "ThisProcess", "read_recipe", "run_sweep"]
