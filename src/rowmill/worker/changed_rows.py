"""Finds changes that a handler made to `lease.row` and that nobody writes."""

from sqlalchemy import inspect

from rowmill.model.judge import Verdict, refuse
from rowmill.observe.events import Events


class ChangedRows:
    """Warns of such changes once per queue, or fails the row if the worker is strict."""

    def __init__(self, events: Events, *, strict: bool) -> None:
        self._events, self._strict = events, strict

    def check(self, verdict: Verdict) -> Verdict:
        """Return the verdict, or the failure that replaces it in a strict worker."""
        lease = verdict.lease
        if not lease.loaded or lease.queue.mapper is None or verdict.move.failed:
            return verdict
        columns = unsaved_columns(verdict)
        if not columns:
            return verdict
        if self._strict:
            message = (
                f"the handler changed {', '.join(columns)} of lease.row, which is a copy: nothing writes it. Return "
                f"the values instead: return {{{columns[0]!r}: ...}}"
            )
            return refuse(lease, "row_changed", message)
        self._events.row_changed(lease.queue.name, lease.stage, columns)
        return verdict


def unsaved_columns(verdict: Verdict) -> list[str]:
    """Return the columns that the handler assigned on the row and did not return. A row that was added to the session
    of a `settling()` block is written by that session."""
    state = inspect(verdict.lease.row)
    if not state.modified or state.session is not None:
        return []
    mapper = state.mapper
    changed = {
        column.name
        for attribute in mapper.column_attrs
        if state.attrs[attribute.key].history.has_changes()
        for column in attribute.columns
    }
    return sorted(changed - verdict.values.keys())
