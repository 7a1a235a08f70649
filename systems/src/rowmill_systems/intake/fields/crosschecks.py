"""Check candidates against each other: amounts add up, nothing is due before it is issued, rows sum up to the net
amount."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from typing import Any

from rowmill_systems.intake.fields.amounts import find_amounts
from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.catalogue import FieldType

CENT = Decimal("0.02")
TOP = 6
Found = dict[str, list[FieldCandidate]]


def cross_check(found: Found) -> Found:
    """Return the same candidates with changed scores."""
    return _rows(_rate(_dates(_sums(found))))


def _key(found: Found, kind: FieldType, scheme: str) -> str | None:
    for key, candidates in found.items():
        if candidates[0].field.type is kind and candidates[0].field.scheme == scheme:
            return key
    return None


def _amount(candidate: FieldCandidate) -> Decimal:
    return Decimal(candidate.value["amount"])


def _sums(found: Found) -> Found:
    """Confirm net, tax and total if the first two sum up to the third."""
    keys = [_key(found, FieldType.AMOUNT, scheme) for scheme in ("net", "tax", "total")]
    if None in keys[:1] or None in keys[2:]:
        return found
    net, tax, total = (found[key][:TOP] if key else [] for key in keys)
    best: tuple[float, tuple[FieldCandidate, ...]] | None = None
    for parts in product(net, tax, total):
        if (
            len({part.spans for part in parts}) == 3
            and abs(_amount(parts[0]) + _amount(parts[1]) - _amount(parts[2])) <= CENT
        ):
            weight = sum(part.score for part in parts)
            if _amount(parts[1]) and (best is None or weight > best[0]):
                best = weight, parts
    if best is None:
        return _lift_largest(found, keys[2])
    # That they add up may be chance, if no label says what they are.
    labelled = max(part.score for part in best[1]) > 0.8
    return _favour(found, best[1], 0.985 if labelled else 0.85, 0.6)


def _lift_largest(found: Found, key: str | None) -> Found:
    """Prefer the largest of several totals."""
    if key is None or len(found[key]) < 2:
        return found
    largest = max(found[key], key=lambda each: (_amount(each), each.score))
    others = [each if each is largest else each.times(0.9) for each in found[key]]
    return found | {key: sorted(others, key=lambda each: -each.score)}


def _favour(found: Found, winners: Sequence[FieldCandidate], least: float, others: float) -> Found:
    """Raise the scores of the winners, and lower those of other values of their fields."""
    changed = dict(found)
    for winner in winners:
        key = winner.field.key
        rest = [
            each if each.value == winner.value else each.times(others) for each in found[key] if each is not winner
        ]  # fmt: skip
        raised = FieldCandidate(winner.field, winner.value, max(winner.score, least), winner.spans)
        changed[key] = [raised, *rest]
    return changed


def _dates(found: Found) -> Found:
    """Lower the scores of due dates and ends before the date of issue."""
    changed = dict(found)
    for early, late in (("issue", "due"), ("start", "end")):
        first, second = _key(found, FieldType.DATE, early), _key(found, FieldType.DATE, late)
        if first and second and (day := found[first][0].value):
            changed[second] = sorted(
                (each if each.value >= day else each.times(0.5) for each in found[second]), key=lambda each: -each.score
            )
    return changed


def _rate(found: Found) -> Found:
    """Confirm a tax rate that yields the tax from the net amount."""
    keys = [_key(found, FieldType.AMOUNT, scheme) for scheme in ("net", "tax")]
    rate = _key(found, FieldType.NUMBER, "percent")
    if not rate or None in keys:
        return found
    net, tax = (_amount(found[key][0]) for key in keys if key)
    for candidate in found[rate]:
        if net and abs(net * Decimal(candidate.value) / 100 - tax) <= max(CENT, abs(tax) / 200):
            return _favour(found, [candidate], 0.97, 0.6)
    return found


def _rows(found: Found) -> Found:
    """Confirm an amount that is the sum of the rows."""
    changed = dict(found)
    amounts = {_amount(found[key][0]) for scheme in ("net", "total") if (key := _key(found, FieldType.AMOUNT, scheme))}
    for key, candidates in found.items():
        if candidates[0].field.type is FieldType.TABLE:
            total = _column_sum(candidates[0].value)
            right = total is not None and any(abs(total - amount) <= CENT * 5 for amount in amounts)
            changed[key] = [each.times(1.12 if right else 0.85 if amounts else 1.0) for each in candidates]
    return changed


def _column_sum(rows: list[dict[str, Any]]) -> Decimal | None:
    readings = [find_amounts(row.get("total", "")) for row in rows]
    return sum((reading[0].amount for reading in readings), Decimal(0)) if all(readings) and readings else None
