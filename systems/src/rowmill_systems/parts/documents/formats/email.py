"""Mail: headers as lines, the body, and attachments as further pages."""

import email
import email.policy
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage, MIMEPart
from itertools import count

from rowmill_systems.parts.documents.document import Page
from rowmill_systems.parts.documents.errors import CorruptFile, EmptyFile, EncryptedFile, FileTooLarge, UnsupportedFile
from rowmill_systems.parts.documents.formats import html
from rowmill_systems.parts.documents.reading import Contents, Facts, ReadingState, known, plain_lines
from rowmill_systems.parts.texts import declared_charset, decode

HEADERS = ("From", "To", "Cc", "Subject", "Date")


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    """Read a mail. Attachments that can't be read are left out, and counted in the facts."""
    reading.limits.check("mails in mails", reading.depth + 1, reading.limits.mail_depth)
    message = email.message_from_bytes(file_bytes, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    headers = [f"{name}: {value}" for name in HEADERS if (value := _header(message, name))]
    if not headers:
        raise CorruptFile("a mail without headers")
    numbers = count(1)
    pages = [reading.page(next(numbers), plain_lines([*headers, *_body(message)]))]
    unread = 0
    for number, part in enumerate(_attachments(message), 1):
        reading.limits.check("attachments", number, reading.limits.attachments)
        found = _attached(part, reading)
        unread += found is None
        pages += [replace(page, number=next(numbers)) for page in found or ()]
    return Contents(tuple(pages), _facts(message, unread))


def _header(message: EmailMessage, name: str) -> str:
    """Return a header, or an empty text if it can't be parsed."""
    try:
        return " ".join(str(message.get(name, "")).split())
    except Exception:  # the parser of headers fails in many ways, on headers that nobody needs to be right
        return ""


def _body(message: EmailMessage) -> list[str]:
    part = message.get_body(("plain", "html"))
    if part is None:
        return []
    content = _bytes(part)
    charset = declared_charset(f"charset={part.get_content_charset()}")
    if part.get_content_type() == "text/html":
        return html.visible(decode(content, charset) if charset else html.decode_html(content))[0]
    return [decode(content, charset)]


def _bytes(part: MIMEPart) -> bytes:
    if part.is_multipart():  # a mail in a mail
        return b"".join(inside.as_bytes() for inside in part.iter_parts())
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _attachments(message: EmailMessage) -> Iterator[MIMEPart]:
    """Yield attachments, without images inside the text, which are logos.

    Some programs send other files inline, too.
    """
    for part in message.iter_attachments():
        if part.get_content_disposition() != "inline" or part.get_content_maintype() != "image":
            yield part


def _attached(part: MIMEPart, reading: ReadingState) -> list[Page] | None:
    is_mail = part.get_content_type() == "message/rfc822"
    name = (part.get_filename() or ("mail.eml" if is_mail else "attachment"))[:200]
    assert reading.inner is not None
    reading.depth += 1
    try:
        found = reading.inner(_bytes(part), name, part.get_content_type(), reading)
    except FileTooLarge:
        raise
    except (CorruptFile, EmptyFile, EncryptedFile, UnsupportedFile):
        return None
    finally:
        reading.depth -= 1
    return [replace(page, title=f"{name}: {page.title}" if page.title else name) for page in found.pages]


def _facts(message: EmailMessage, unread: int) -> Facts:
    return known({"title": _header(message, "Subject"), "unread_attachments": unread or None})
