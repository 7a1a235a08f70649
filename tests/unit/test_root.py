"""What `import rowmill` offers, and what it says of names that are elsewhere."""

import importlib
import inspect

import pytest

import rowmill as rm

MOVED = {
    "Alerts": "observe", "Answer": "typing", "BadRequest": "errors", "BatchAnswer": "typing", "Breaker": "limits",
    "Budget": "limits", "Call": "limits", "ColumnNotLoaded": "errors", "DatabaseUnreachable": "errors",
    "DeclarationError": "errors", "Event": "outbox", "Inbox": "outbox", "InboxColumns": "outbox",
    "InventoryError": "errors", "LeaseLost": "errors", "Limit": "limits", "LimitState": "limits", "Limited": "errors",
    "Message": "outbox", "Outbox": "outbox", "OutboxColumns": "outbox", "OutboxMixin": "outbox",
    "OutboxStats": "outbox", "ProviderDown": "errors", "ProviderRefused": "errors", "Publisher": "outbox",
    "Rate": "limits", "ReconciliationBusy": "errors", "Report": "worker", "RowCounts": "operator",
    "RowView": "operator", "SchemaMismatch": "errors", "Tick": "schedules", "TransactionMisused": "errors",
    "UnknownOption": "errors", "UnknownQueue": "errors", "UnknownRow": "errors", "Why": "operator",
    "WorkError": "errors", "Worker": "worker", "WorkerSettings": "worker", "outbox_table": "outbox",
    "together": "limits",
}  # fmt: skip
"""Names that `rowmill` itself had once, and the module that has them now."""


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"rowmill\.{name} is now rowmill\.{MOVED[name]}\.{name}$"):
        getattr(rm, name)
    assert hasattr(importlib.import_module(f"rowmill.{MOVED[name]}"), name)


@pytest.mark.parametrize("name", rm.RENAMED)
def test_a_name_that_was_changed_says_the_new_one(name: str) -> None:
    new = rm.RENAMED[name]
    with pytest.raises(AttributeError, match=rf"rowmill\.{name} is called rowmill\.{new} now"):
        getattr(rm, name)
    assert new in rm.__all__


def test_any_other_name_is_just_missing() -> None:
    with pytest.raises(AttributeError, match="module 'rowmill' has no attribute 'Qeue'"):
        rm.Qeue  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(rm, "__wrapped__"), "tools that look for attributes must get a plain answer"


def test_every_exported_name_is_there_and_explained() -> None:
    assert len(rm.__all__) <= 30
    assert [name for name in rm.__all__ if not hasattr(rm, name)] == []
    classes = [name for name in rm.__all__ if inspect.isclass(getattr(rm, name))]
    assert [name for name in classes if not getattr(rm, name).__doc__] == []
