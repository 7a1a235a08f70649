"""`rowmill systems companies review`: names that a person decides."""

from dataclasses import asdict
from typing import Annotated

import typer

from rowmill.systems.commands import Exit, JsonOption, UrlOption, emit, say
from rowmill_systems.companies.commands.loading import LARGEST_ID, load, prepared, run

app = typer.Typer()
ByOption = Annotated[str, typer.Option("--by", metavar="WHO", help="Who decides; it is kept with the decision.")]
ReviewArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=LARGEST_ID, help="Of a review, as the list shows it.")
]


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000)] = 20,
    after: Annotated[
        int, typer.Option("--after", metavar="ID", min=0, max=LARGEST_ID, help="Go on behind this review.")
    ] = 0,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List the names to decide, with their candidates and reasons.

    \b
    Example:
      rowmill systems companies review
      rowmill systems companies review choose 17 600000123 --by anna
      rowmill systems companies review none 18 --by anna
    """
    if context.invoked_subcommand is not None:
        return
    from rowmill_systems.companies.reviews import open_reviews

    companies = prepared(load(database_url))
    found = run(companies, lambda connection: open_reviews(connection, companies.tables, after=after, limit=limit))

    def tell() -> None:
        for review in found:
            print(f"{review.id}  {review.raw_name}  (asked of {review.provider})")
            for candidate in review.candidates:
                reasons = ", ".join(f"{'same' if one.agrees else 'other'} {one.code}" for one in candidate.reasons)
                print(f"    {candidate.score:.2f}  {candidate.company_id}  {candidate.name}  {reasons}".rstrip())
        if not found:
            print("nothing to decide")
        elif len(found) == limit:
            say(f"there may be more: --after {found[-1].id}")

    emit([asdict(review) for review in found], json, tell)


@app.command()
def choose(
    review: ReviewArgument,
    company_id: Annotated[str, typer.Argument(metavar="COMPANY", help="The id of the company that is meant.")],
    by: ByOption = "command line",
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Say which company is meant. Rows with the temporary id get the real one.

    \b
    Example:
      rowmill systems companies review choose 17 600000123 --by anna
    """
    _decide(review, company_id, by, database_url, json)


@app.command()
def none(
    review: ReviewArgument, by: ByOption = "command line", database_url: UrlOption = None, json: JsonOption = False
) -> None:
    """Say that none of the candidates is meant.

    \b
    Example:
      rowmill systems companies review none 18 --by anna
    """
    _decide(review, None, by, database_url, json)


def _decide(review: int, company_id: str | None, by: str, database_url: str | None, json: bool) -> None:
    from rowmill_systems.companies.deciding import decide_review
    from rowmill_systems.companies.reviews import ReviewGone

    companies = prepared(load(database_url))
    try:
        rows = run(companies, lambda connection: decide_review(connection, companies, review, company_id, by))
    except ReviewGone as error:
        say(str(error))
        raise typer.Exit(Exit.FAILED) from None
    emit(
        {"review": review, "company_id": company_id, "rows_written": rows},
        json,
        f"decided; {rows:,} rows of targets written",
    )
