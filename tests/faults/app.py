"""`rowmill work tests.faults.app:mill`: the jobs, on the database and in the folder that the environment names."""

import os
from pathlib import Path

from tests.faults.jobs import FOLDER, LEASE, build, register

mill, jobs, effect = build(os.environ["ROWMILL_DATABASE_URL"], float(os.environ.get(LEASE, "1.0")))
register(jobs, effect, Path(os.environ[FOLDER]))
