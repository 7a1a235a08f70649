"""Products of matrices in the calling thread alone.

A BLAS shares larger products among threads that spin while they wait. On a busy machine, or beside a web server, that
is many times slower than one thread: training took 84 s instead of 8. So products are cut into blocks that it does
alone.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]
SMALL = 200_000
"""Multiplications of one block. OpenBLAS uses one thread up to 262,144."""


def dot(one: Vector, other: Vector) -> float:
    """Return the sum of the products of two vectors."""
    return float(np.einsum("i,i->", one, other))


def product(left: Array, right: Array) -> Array:
    """Return left @ right."""
    rows, depth = left.shape
    step = max(1, SMALL // max(1, depth * right.shape[1]))
    if rows <= step:
        return left @ right
    result = np.empty((rows, right.shape[1]), np.result_type(left, right))
    for start in range(0, rows, step):
        np.matmul(left[start : start + step], right, out=result[start : start + step])
    return result


def transposed_product(left: Array, right: Array) -> Array:
    """Return left.T @ right."""
    depth, width = left.shape
    step = max(1, SMALL // max(1, width * right.shape[1]))
    result = np.zeros((width, right.shape[1]), np.result_type(left, right))
    for start in range(0, depth, step):
        result += left[start : start + step].T @ right[start : start + step]
    return result
