"""Rowmill inside Celery: tasks that drain queues, compare inventories and delete old rows, and a schedule for beat.

    from celery import Celery
    from rowmill.integrations.celery import beat_schedule, drain_task

    app = Celery("shop", broker="redis://localhost")
    drain_orders = drain_task(app, "shop:mill", queue="orders", seconds=30)
    app.conf.beat_schedule = beat_schedule({drain_orders: 10})

A task is only a tick: rows keep their own attempts, waits and leases. A tick that is lost, comes twice or overlaps
with another does no harm. For the pools prefork, solo and threads.
"""

from rowmill.integrations.celery.beat import beat_schedule
from rowmill.integrations.celery.call import call_task
from rowmill.integrations.celery.drain import drain_task
from rowmill.integrations.celery.prune import prune_task
from rowmill.integrations.celery.reconcile import reconcile_task

__all__ = ["beat_schedule", "call_task", "drain_task", "prune_task", "reconcile_task"]
