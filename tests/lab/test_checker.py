"""The checker finds what is wrong with a forged history, names the rule and the row, and nothing else."""

from dataclasses import replace

import pytest

from faults.ledger import Entry, What
from tests.lab.forged import Forger, found, good


def test_a_good_history_passes() -> None:
    assert found(good()) == []


def test_a_row_that_is_gone() -> None:
    forger = good()
    del forger.rows["job", 3]
    assert (1, 3) in found(forger)


def test_a_row_that_nobody_put_in() -> None:
    forger = good()
    forger.entries = [
        entry for entry in forger.entries if entry.key != 3 or entry.what not in (What.INSERT, What.INSERTED)
    ]
    assert found(forger) == [(1, 3)]


def test_a_row_whose_commit_was_never_answered_may_be_there_or_not() -> None:
    forger = good()
    forger.entries = [entry for entry in forger.entries if entry.key != 3 or entry.what is not What.INSERTED]
    assert found(forger) == []
    forger.entries.append(Entry(What.INSERT, "job", 4))
    assert found(forger) == []


def test_a_row_of_a_transaction_that_was_rolled_back() -> None:
    forger = good()
    forger.entries = [
        replace(entry, what=What.UNDONE) if entry.key == 3 and entry.what is What.INSERT else entry
        for entry in forger.entries
        if not (entry.key == 3 and entry.what is What.INSERTED)
    ]
    assert (1, 3) in found(forger)


def test_two_results_of_a_row() -> None:
    forger = good()
    forger.change("job", 3, "ready", lease=None)
    forger.claim("job", 3, 16)
    forger.finish("job", 3)
    assert (2, 3) in found(forger)


def test_done_without_a_result() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.rows["job", 4] = replace(forger.rows["job", 4], state="done")
    assert (2, 4) in found(forger)


def test_an_effect_that_was_written_twice_or_never_or_by_another() -> None:
    about = {"with_effect": frozenset({("job", 3)})}
    assert found(good(), effects=[(3, 15)], **about) == []
    assert found(good(), effects=[(3, 15), (3, 15)], **about) == [(2, 3)]
    assert found(good(), effects=[], **about) == [(2, 3), (2, 3)]
    assert found(good(), effects=[(3, 99)], **about) == [(2, 3)]


def test_a_settlement_of_a_lease_that_was_gone() -> None:
    """Worker 13 was rescued from and wakes: its result is written on the lease of worker 14."""
    forger = Forger()
    forger.insert("job", 2)
    forger.claim("job", 2, 13)
    forger.rescue("job", 2)
    forger.claim("job", 2, 14)
    forger.say(What.ASK, "job", 2, 13, "done")
    forger.change("job", 2, "done", lease=None, mark=13)
    forger.say(What.KEPT, "job", 2, 13, "done")
    forger.counted["job", "done"] = 1
    assert {(3, 2), (4, 2)} <= set(found(forger))


def test_a_settlement_that_was_confirmed_and_never_written() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    forger.rescue("job", 4)
    forger.say(What.ASK, "job", 4, 21, "done")
    forger.say(What.KEPT, "job", 4, 21, "done")
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert (3, 4) in found(forger)
    assert found(forger, forgotten=[(0.0, 1000.0)]) == []


def test_a_release_by_a_lease_that_was_gone() -> None:
    forger = Forger()
    forger.insert("job", 2)
    forger.claim("job", 2, 13)
    forger.rescue("job", 2)
    forger.claim("job", 2, 14)
    forger.say(What.ASK, "job", 2, 13, "release")
    forger.change("job", 2, "ready", lease=None, attempts=1)
    forger.say(What.KEPT, "job", 2, 13, "release")
    forger.claim("job", 2, 15)
    forger.finish("job", 2)
    assert {(3, 2), (4, 2)} <= set(found(forger))


def test_a_row_that_waited_for_a_limit_has_not_failed() -> None:
    forger = Forger()
    forger.insert("job", 2)
    forger.claim("job", 2, 13)
    forger.hold("job", 2)
    forger.claim("job", 2, 14)
    forger.finish("job", 2)
    assert found(forger) == []


def test_a_row_that_waited_for_a_limit_and_paid_for_it() -> None:
    forger = Forger()
    forger.insert("job", 2)
    forger.claim("job", 2, 13)
    forger.say(What.ASK, "job", 2, 13, "hold")
    forger.change("job", 2, "ready", lease=None, error="limit_rate: eqc")
    forger.say(What.KEPT, "job", 2, 13, "hold")
    forger.claim("job", 2, 14)
    forger.finish("job", 2)
    assert {(3, 2), (5, 2)} <= set(found(forger))


@pytest.mark.parametrize(("after", "expected"), [(-0.5, []), (0.1, []), (0.5, [(3, 2)])])
def test_a_renewal_of_a_lease_that_was_gone(after: float, expected: list[tuple[int, int]]) -> None:
    forger = good()
    gone = next(change.at for change in forger.changes if change.old_lease == 14)
    forger.entries.append(Entry(What.RENEWED, "job", 2, gone + after, 14, "work"))
    assert found(forger) == expected


def test_a_claim_of_a_row_that_runs() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert (4, 4) in found(forger)


def test_a_rescue_from_a_lease_that_lives() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    forger.rescue("job", 4, after=0.1)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(4, 4)]


def test_history_and_counters() -> None:
    forger = good()
    forger.failures[("job", 1), "work", 1] = 2
    assert found(forger) == [(5, 1)]
    forger = good()
    forger.failures[("job", 1), "work", 2] = forger.failures.pop((("job", 1), "work", 1))
    assert found(forger) == [(5, 1), (5, 1)], "a failure of another attempt"
    forger = good()
    forger.counted["job", "done"] = 4
    assert found(forger) == [(5, 0)]
    forger = good()
    forger.rows["job", 3] = replace(forger.rows["job", 3], attempts=2)
    assert found(forger) == [(5, 3)]
    forger = good()
    forger.changes = [change for change in forger.changes if change.id != 2]
    assert (5, 1) in found(forger), "a change that the witness did not see"


def outbox() -> Forger:
    """Two events of one group, written with their rows, one handled after the other."""
    forger = Forger()
    for key in (1, 2):
        forger.insert("job", key)
        forger.insert("event", key, group=5)
    for key in (1, 2):
        forger.claim("job", key, 10 + key)
        forger.finish("job", key)
    for key in (1, 2):
        forger.claim("event", key, 20 + key)
        forger.finish("event", key)
    return forger


def test_events() -> None:
    pairs = {"event": "job"}
    assert found(outbox(), pairs=pairs) == []
    forger = outbox()
    forger.insert("event", 3, group=5)
    forger.claim("event", 3, 31)
    forger.finish("event", 3)
    assert found(forger, pairs=pairs) == [(6, 3)], "an event without its row"
    forger = outbox()
    forger.insert("job", 3)
    forger.claim("job", 3, 31)
    forger.finish("job", 3)
    assert found(forger, pairs=pairs) == [(6, 3)], "a row without its event"


def test_events_out_of_order() -> None:
    forger = Forger()
    for key in (1, 2):
        forger.insert("job", key)
        forger.insert("event", key, group=5)
        forger.claim("job", key, 10 + key)
        forger.finish("job", key)
    for key in (2, 1):
        forger.claim("event", key, 20 + key)
        forger.finish("event", key)
    assert found(forger, pairs={"event": "job"}) == [(6, 2)]


def test_what_is_not_final() -> None:
    forger = good()
    forger.insert("job", 4)
    assert found(forger) == [(7, 4)]


def test_more_attempts_than_can_be_explained() -> None:
    forger = good()
    forger.insert("job", 4)
    for token in (21, 22, 23):
        forger.claim("job", 4, token)
        forger.fail("job", 4)
    forger.claim("job", 4, 24)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]


def test_a_row_that_was_handed_out_under_a_lease_that_it_never_had() -> None:
    forger = good()
    forger.say(What.CLAIMED, "job", 3, 99)
    assert found(forger) == [(4, 3)]


def test_a_lease_may_be_renewed_until_its_settlement_is_committed() -> None:
    """A large settlement is under way for a second: until then, others see the lease."""
    forger = good()
    place, gone = ("job", 3), forger.changes[-1]
    forger.entries.append(Entry(What.RENEWED, *place, gone.at + 0.5, 15, "work", "", 7))
    assert found(forger) == [(3, 3)]
    forger.changes[-1] = replace(gone, committed=gone.at + 1.0)
    assert found(forger) == []


def test_a_server_that_forgot_excuses_what_is_gone_and_nothing_that_is_there() -> None:
    always = [(0.0, 1000.0)]
    forger = good()
    del forger.rows["job", 3]
    forger.changes = [change for change in forger.changes if change.key != 3]
    forger.counted["job", "done"] -= 1
    assert found(forger, forgotten=always) == []
    forger.change("job", 1, "ready", lease=None)
    forger.claim("job", 1, 16)
    forger.finish("job", 1)
    assert (2, 1) in found(forger, forgotten=always)


def test_a_server_that_forgot_is_bound_by_what_it_confirmed_before_and_after() -> None:
    forger = good()
    del forger.rows["job", 3]
    forger.changes = [change for change in forger.changes if change.key != 3]
    forger.counted["job", "done"] -= 1
    said = [entry.at for entry in forger.entries if entry.key == 3]
    assert found(forger, forgotten=[(min(said), max(said))]) == []
    assert found(forger, forgotten=[(0.0, min(said)), (max(said) + 1.0, 1000.0)]) == [(1, 3), (3, 3), (4, 3)]
    [asked] = [entry.at for entry in forger.entries if entry.key == 3 and entry.what is What.ASK]
    assert found(forger, forgotten=[(min(said), asked)]) == [], "it was answered later"
