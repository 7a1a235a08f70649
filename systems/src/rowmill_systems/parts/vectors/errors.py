"""Why vectors could not be stored or found. Each error has a stable `code` and is `retryable` or not.

PermanentError
├── CollectionMissing       collection_missing: there is no such collection, or no longer
├── WrongDimensions         wrong_dimensions: the collection has vectors of another length
└── WrongVector             wrong_vector: it has values that are no numbers
TransientError
└── VectorsUnavailable      vectors_unavailable: says nothing about what is stored
    └── VectorsRefused      vectors_refused: the key, its rights or the set-up of the store is wrong
"""

import rowmill as rm


class CollectionMissing(rm.PermanentError):
    """There is no such collection, or no longer."""

    code = "collection_missing"


class WrongDimensions(rm.PermanentError):
    """The collection has vectors of another length."""

    code = "wrong_dimensions"


class WrongVector(rm.PermanentError):
    """A vector has values that are no numbers, or infinite ones."""

    code = "wrong_vector"


class VectorsUnavailable(rm.TransientError):
    """The store can't be reached, does not answer, or can't do it now. Says nothing about what is stored."""

    code = "vectors_unavailable"


class VectorsRefused(VectorsUnavailable):
    """The store answers, but refuses us until somebody corrects its key, its rights or its set-up."""

    code = "vectors_refused"
