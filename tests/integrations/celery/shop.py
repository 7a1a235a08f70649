"""What a worker and a beat of Celery run, as processes of their own. The broker is a folder, unless CELERY_BROKER_URL
names another."""

import os

from celery import Celery

from rowmill.integrations.celery import beat_schedule, drain_task
from tests.integrations.parcels import mill_of_environment

FOLDER = "CELERY_FOLDER"
BROKER = "CELERY_BROKER_URL"

app = Celery("shop", broker=os.environ.get(BROKER, "filesystem://"), set_as_current=False)
app.conf.beat_max_loop_interval = 0.2
app.conf.worker_hijack_root_logger = False
if folder := os.environ.get(FOLDER):
    folders = dict.fromkeys(("data_folder_in", "data_folder_out", "control_folder"), folder)
    app.conf.broker_transport_options = {**folders, "polling_interval": 0.05}

drain_parcels = drain_task(app, mill_of_environment, queue="parcel", seconds=None)
app.conf.beat_schedule = beat_schedule({drain_parcels: 1})
