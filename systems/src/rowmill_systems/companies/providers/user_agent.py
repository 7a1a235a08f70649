"""How requests name the application."""

import httpx2

import rowmill as rm


def user_agent(contact: str) -> str:
    """Return the User-Agent, with a mail address or a page if there is one."""
    about = f"companies; {contact}" if contact else "companies"
    return f"Rowmill/{rm.__version__} ({about}) python-httpx2/{httpx2.__version__}"
