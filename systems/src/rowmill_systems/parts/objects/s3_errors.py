"""Errors of an S3 server, and of the way to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions as boto  # type: ignore[import-untyped]

import rowmill as rm
from rowmill_systems.parts.objects.errors import (
    ForbiddenObject,
    MissingObject,
    NetworkFailed,
    ObjectTooLarge,
    StorageFailed,
    StorageTimedOut,
)

PASSING = {"RequestTimeTooSkewed", "ExpiredToken", "TokenRefreshRequired", "RequestTimeout", "NoSuchUpload"}
"""Refusals that are not about the object: a wrong clock, a token that is being renewed, a lost response."""
NO_CREDENTIALS = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)
TIMED_OUT = (boto.ConnectTimeoutError, boto.ReadTimeoutError)


@contextmanager
def translated(missing: type[MissingObject | StorageFailed] = MissingObject) -> Iterator[None]:
    try:
        yield
    except boto.ClientError as error:
        raise said(error, missing) from error
    except NO_CREDENTIALS as error:
        raise ForbiddenObject("there are no credentials for the bucket: give an access key and its secret") from error
    except TIMED_OUT as error:
        raise StorageTimedOut("the S3 server takes too long") from error
    except boto.ParamValidationError:
        raise
    except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
        raise NetworkFailed(f"the S3 server can't be reached, or broke off: {type(error).__name__}") from error


def said(error: boto.ClientError, missing: type[MissingObject | StorageFailed]) -> rm.errors.WorkError:
    """Return the error for a response, by its status and code, never by its text."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in PASSING:
        return NetworkFailed(f"the S3 server answers {code}")
    if code == "NoSuchBucket":
        return StorageFailed("the bucket is not there: create it, or name another")
    if code == "EntityTooLarge" or status == 413:
        return ObjectTooLarge("it has more bytes than the S3 server takes")
    if status == 404:
        return missing("the object, or its bucket, is not there")
    if status in (401, 403):
        return ForbiddenObject(f"the S3 server answers {code or status}: look at the key, its secret and its rights")
    return NetworkFailed(f"the S3 server answers {code or status}")
