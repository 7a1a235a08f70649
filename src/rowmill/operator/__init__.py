"""What people and dashboards ask about rows and do to them: filters, lists, counts, why, requeue, cancel, prune."""
