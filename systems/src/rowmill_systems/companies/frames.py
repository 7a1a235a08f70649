"""Resolve a column of company names in a frame of pandas or Polars.

    resolver = CompanyIdResolver(connection, settings, salt=salt)
    frame = resolve_frame(frame, column="customer", plan_code="plan", resolver=resolver)
    frame["company_id"], frame["company_id_rung"], frame["company_id_confidence"]

Neither library is imported here: a caller who has a frame has imported the one that it is of.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

from rowmill_systems.companies.resolver import CompanyIdResolver, CompanyRow, GivenRow

Frame = TypeVar("Frame")


class FrameRefused(ValueError):
    """The frame can't be resolved. The message says what to change."""


def resolve_frame(
    frame: Frame,
    *,
    column: str,
    resolver: CompanyIdResolver,
    plan_code: str | None = None,
    account_number: str | None = None,
    account_name: str | None = None,
    into: str = "company_id",
) -> Frame:
    """Return a new frame with the columns `into`, `into`_rung and `into`_confidence, in the order of the rows.

    The other arguments name columns. Rows that are equal in all of them are resolved once.
    """
    columns = {"name": column, "plan_code": plan_code, "account_number": account_number, "account_name": account_name}
    wanted = {role: name for role, name in columns.items() if name is not None}
    library = _library(frame)
    there = [str(each) for each in frame.columns]  # type: ignore[attr-defined]
    _check(there, list(wanted.values()), [into, f"{into}_rung", f"{into}_confidence"])
    add = _add_to_pandas if library == "pandas" else _add_to_polars
    result: Frame = add(frame, wanted, resolver, into)
    return result


def _library(frame: object) -> str:
    kind = type(frame)
    library = kind.__module__.partition(".")[0]
    if library in ("pandas", "polars") and kind.__name__ == "DataFrame":
        return library
    if kind.__name__ == "LazyFrame":
        raise FrameRefused("it is a LazyFrame. Call collect() first")
    raise FrameRefused(f"it is a {kind.__name__}, and no DataFrame of pandas or Polars")


def _check(there: Sequence[str], wanted: Sequence[str], new: Sequence[str]) -> None:
    has = f"The frame has: {', '.join(there) or 'no columns'}"
    if missing := [name for name in wanted if name not in there]:
        raise FrameRefused(f"there is no column {', '.join(missing)}. {has}")
    if double := [name for name in wanted if there.count(name) > 1]:
        raise FrameRefused(f"there is more than one column {', '.join(double)}. Rename the others. {has}")
    if taken := [name for name in new if name in there]:
        raise FrameRefused(
            f"there is a column {', '.join(taken)} already. Drop it, or name another: into='resolved_id'"
        )


def _add_to_pandas(frame: Any, wanted: dict[str, str], resolver: CompanyIdResolver, into: str) -> Any:
    pandas: Any = sys.modules["pandas"]
    names = list(dict.fromkeys(wanted.values()))
    rows: Iterable[GivenRow]
    if len(wanted) == 1:
        places, distinct = pandas.factorize(frame[names[0]])  # a missing value has the place -1
        rows = chain(map(_text, distinct.tolist()), [None] if (places == -1).any() else [])  # the last one is at -1
    else:
        given = frame[names]
        places = given.groupby(names, sort=False, dropna=False, observed=True).ngroup().to_numpy()
        distinct = given.iloc[sys.modules["numpy"].unique(places, return_index=True)[1]]
        rows = _rows(wanted, (distinct[name].tolist() for name in wanted.values()))
    answers = pandas.DataFrame(_columns(resolver, rows, into)).take(places)
    answers.index = frame.index
    return frame.assign(**{name: answers[name] for name in answers.columns})


def _add_to_polars(frame: Any, wanted: dict[str, str], resolver: CompanyIdResolver, into: str) -> Any:
    polars: Any = sys.modules["polars"]
    names = list(dict.fromkeys(wanted.values()))
    distinct = frame.select(names).unique(maintain_order=True)
    rows = _rows(wanted, (distinct[name].to_list() for name in wanted.values()))
    kinds = {into: polars.String, f"{into}_rung": polars.String, f"{into}_confidence": polars.Float64}
    answers = distinct.hstack(polars.DataFrame(_columns(resolver, rows, into), schema=kinds))
    return frame.join(answers, on=names, how="left", nulls_equal=True, maintain_order="left")


def _columns(resolver: CompanyIdResolver, rows: Iterable[GivenRow], into: str) -> dict[str, list[Any]]:
    """Resolve distinct rows. Only the columns are kept: a million objects would keep the garbage collector busy."""
    ids: list[str | None] = []
    rungs: list[str] = []
    confidences: list[float | None] = []
    for some in resolver.resolve_batches(rows):
        ids += [each.company_id for each in some]
        rungs += [each.rung for each in some]
        confidences += [each.confidence for each in some]
    return {into: ids, f"{into}_rung": rungs, f"{into}_confidence": confidences}


def _rows(wanted: dict[str, str], columns: Iterable[Sequence[Any]]) -> Iterable[GivenRow]:
    if len(wanted) == 1:
        return map(_text, next(iter(columns)))
    return (
        CompanyRow(**dict(zip(wanted, map(_text, values), strict=True))) for values in zip(*columns, strict=True)
    )  # fmt: skip


def _text(value: Any) -> str | None:
    """Return a cell as text. A missing value of any kind is None; a whole number has no decimals, as codes had none
    before a missing value made their column one of floats."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
