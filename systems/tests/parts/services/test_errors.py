"""How long a service asks to wait."""

import httpx2
import pytest

from rowmill_systems.parts.services.errors import retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"Retry-After": "7"}, 7.0), ({"Retry-After": "0.2"}, 1.0), ({}, 60.0), ({"Retry-After": "soon"}, 60.0),
     ({"Retry-After": "nan"}, 60.0), ({"Retry-After": "inf"}, 3600.0), ({"Retry-After": "-5"}, 1.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:29 GMT"}, 30.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 1.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:29 -0000"}, 60.0)],
)  # fmt: skip
def test_how_long_to_wait(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(httpx2.Headers(headers)) == seconds
