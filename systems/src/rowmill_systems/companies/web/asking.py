"""What every endpoint needs: the companies system of the application."""

from typing import Annotated

from fastapi import Depends, Request

from rowmill_systems.companies.companies import Companies


def the_companies(request: Request) -> Companies:
    found: Companies = request.app.state.companies
    return found


GivenCompanies = Annotated[Companies, Depends(the_companies)]
