"""What a worker and a beat of Celery run, as processes of their own. The broker is a folder."""

import os

from celery import Celery

from rowmill.integrations.celery import beat_schedule, drain_task
from tests.integrations.parcels import mill_of_environment

FOLDER = "CELERY_FOLDER"

app = Celery("shop", broker="filesystem://", set_as_current=False)
folder = os.environ.get(FOLDER, "")
app.conf.update(
    broker_transport_options={
        "data_folder_in": folder, "data_folder_out": folder, "control_folder": folder, "polling_interval": 0.05
    },
    beat_schedule_filename=f"{folder}/beat",
    beat_max_loop_interval=0.2,
    worker_hijack_root_logger=False,
)  # fmt: skip
drain_parcels = drain_task(app, mill_of_environment, queue="parcel", seconds=None)
app.conf.beat_schedule = beat_schedule({drain_parcels: 1})
