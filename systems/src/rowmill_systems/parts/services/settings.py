"""Settings of services."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How services are called. Limits hold for each service, across all workers."""

    application: str
    """Sent in the User-Agent, so that a service knows who calls."""
    contact: str = ""
    """A mail address or a page, sent in the User-Agent, so that a service can write before it blocks."""
    contact_setting: str = "contact"
    """The name of the setting that an error message asks to set when a service refuses."""
    calls_per_second: float = 5.0
    concurrent_calls: int = 1
    call_seconds: float = 20.0
    """The longest that one call may take."""
    wait_seconds: float = 5.0
    """How long a caller waits for its turn before `Limited` is raised."""
    cache_days: float = 7.0
    """How long answers are cached."""
    cache_no_match_days: float = 1.0
    """How long an answer that says "no match" is cached."""
