"""Our numbers and the published ones, side by side, for people and for programs."""

from recal3r.eval.tables.grid import Grid, grid_of
from recal3r.eval.tables.table import Cell, Table, tables_of
from recal3r.eval.tables.writers import WRITERS

__all__ = ["WRITERS", "Cell", "Grid", "Table", "grid_of", "tables_of"]
