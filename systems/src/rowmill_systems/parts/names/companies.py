"""Names of companies: one normal form, and a comparison that gives its reasons.

    from rowmill_systems.parts.names.companies import MatchVerdict, compare_companies, normalize_company

    assert normalize_company("ＡＣＭＥ  Ltd.") == normalize_company("Acme Limited") == "acme ltd"
    assert normalize_company("Siemens AG") != normalize_company("Siemens GmbH")
    assert normalize_company("---") == normalize_company("N/A") == ""
    assert compare_companies("ПАО «Газпром нефть»", "Gazprom Neft PJSC").verdict is MatchVerdict.SAME
    assert compare_companies("Gazprom PJSC", "Gazprom Neft PJSC").verdict is MatchVerdict.DIFFERENT

Many comparisons with one name: take it apart once with `analyze_company`, and use `compare_analyzed`.
"""

from rowmill_systems.parts.names.company_analysis import CompanyName, CompanyWord, analyze_company
from rowmill_systems.parts.names.company_matching import (
    CompanyMatch,
    MatchReason,
    MatchVerdict,
    compare_analyzed,
    compare_companies,
)
from rowmill_systems.parts.names.company_normal import normal_form

__all__ = [
    "CompanyMatch",
    "CompanyName",
    "CompanyWord",
    "MatchReason",
    "MatchVerdict",
    "analyze_company",
    "compare_analyzed",
    "compare_companies",
    "normalize_company",
]


def normalize_company(name: str) -> str:
    """Return the normal form of a company's name: the same for all its spellings.

    Empty for a name that names nothing: blank, punctuation, or a placeholder such as "N/A". The normal form keeps which
    legal form a name has, its numbers, regions and branches: it does not bring two companies together. It stays the
    same in every version, because temporary ids are derived from it.
    """
    return normal_form(name)
