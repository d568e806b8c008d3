"""Configurations of runs: YAML, TOML, JSON, shell and Slurm scripts, Python files that are parsed and never run."""
