"""Open a storage by its URL."""

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import rowmill as rm
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.objects.port import Storage

FORMS = "./files, file:///var/lib/files or s3://bucket/prefix?endpoint_url=https://host:9000&region=eu-central-1"
OPTIONS = ("endpoint_url", "region")


def open_storage(
    url: str, *, access_key: str | None = None, secret_key: str | None = None, spool: str | None = None
) -> Storage:
    """Open `./files`, `file:///var/lib/files` or `s3://bucket/prefix?endpoint_url=…&region=…`.

    Does not connect: a storage that is unavailable fails when it is used. The keys are for S3; without them boto3 looks
    in its usual places. `spool` is the folder for files on their way to S3.
    """
    if "://" not in url:
        if not url.strip():
            raise wrong("", f"its URL is empty. Give one of {FORMS}")
        return FolderStorage(Path(url))
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise wrong("", f"its URL can't be read. Give one of {FORMS}") from None
    match parts.scheme:
        case "file":
            return FolderStorage(folder_of(parts))
        case "s3":
            return bucket_of(parts, access_key, secret_key, spool)
        case scheme:
            raise wrong(scheme, f"it is neither a folder nor S3. Give one of {FORMS}")


def folder_of(parts: SplitResult) -> Path:
    if parts.netloc not in ("", "localhost"):
        raise wrong("file", "it is a folder of another machine. Mount it, and write file:/// with three slashes")
    if parts.path in ("", "/") or parts.query or parts.fragment:
        raise wrong("file", "it names no folder of its own. Write file:///var/lib/files")
    return Path(unquote(parts.path))


def bucket_of(parts: SplitResult, access_key: str | None, secret_key: str | None, spool: str | None) -> Storage:
    problems = []
    if "@" in parts.netloc:
        problems.append("keys do not belong into a URL, which is logged. Pass access_key and secret_key")
    elif not parts.netloc or ":" in parts.netloc:
        problems.append(
            "it names no bucket. Write s3://bucket/prefix, and the server as ?endpoint_url=https://host:9000"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := len(options.keys() - set(OPTIONS)):
        problems.append(f"{unknown} of its options are not known. There are {' and '.join(OPTIONS)}")
    endpoint = options.get("endpoint_url")
    if endpoint is not None and not is_server(endpoint):
        problems.append("endpoint_url is not the address of a server. Write http:// or https://, a host and a port")
    if (access_key is None) != (secret_key is None):
        problems.append("an access key and its secret go together. Pass both, or none")
    if problems:
        raise wrong("s3", *problems)
    try:
        from rowmill_systems.parts.objects.s3 import S3Storage
    except ModuleNotFoundError as error:
        raise wrong("s3", "boto3 is not installed. Run: pip install 'rowmill-systems[intake,s3]'") from error
    return S3Storage(
        parts.netloc, unquote(parts.path), endpoint_url=endpoint, region=options.get("region") or None,
        access_key=access_key, secret_key=secret_key, spool=spool,
    )  # fmt: skip


def is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain


def wrong(scheme: str, *problems: str) -> rm.errors.DeclarationError:
    """Return the error without the URL, which may have secrets in it."""
    return rm.errors.DeclarationError(f"{scheme}://…" if scheme else "of files", problems, "storage")
