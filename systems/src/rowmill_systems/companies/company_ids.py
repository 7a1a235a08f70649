"""What is a company id."""

import rowmill as rm
from rowmill_systems.companies.temp_ids import is_temp_id
from rowmill_systems.parts.values import storable

LONGEST_COMPANY_ID = 100


def is_company_id(text: str) -> bool:
    """Tell whether a text can be the id of a company: not blank, not too long, storable, and no temporary id."""
    return 0 < len(text.strip()) <= LONGEST_COMPANY_ID and text == storable(text) and not is_temp_id(text)


def checked_id(company_id: str | None) -> str:
    """Return a company id without spaces around it. Raises BadRequest if it is none."""
    found = (company_id or "").strip()
    if not is_company_id(found):
        raise rm.errors.BadRequest(
            f"a company id has 1 to {LONGEST_COMPANY_ID} characters that can be stored, and is no temporary id"
        )
    return found
