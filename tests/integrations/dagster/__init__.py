"""Rowmill inside Dagster. Its import takes more than a second: these tests share one worker of xdist."""
