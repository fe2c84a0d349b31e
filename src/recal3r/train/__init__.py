"""Training: footage in, weights out. The same network, the same loop body and the same rule as everywhere else."""
