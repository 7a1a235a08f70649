"""Read model files that other packages carry, without importing those packages."""

import json
import mmap
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
DTYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32}
LARGEST_HEADER = 100 * 1024 * 1024


class ModelMissing(LookupError):
    """The package that carries the model's files is not installed. The message has the command that installs it."""


def package_file(package: str, *path: str, install: str) -> Path:
    """Return the path of a file in an installed package. The package is not imported: some ask a server for models."""
    spec = find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        if (file := Path(folder, *path)).is_file():
            return file
    raise ModelMissing(f"{'/'.join((package, *path))} is not installed. Run: {install}")


def read_safetensors(file: Path) -> dict[str, Array]:
    """Map the tensors of a safetensors file into memory, read-only. Pages are loaded when they are used.

    The format: 8 bytes with the length of a JSON header, the header, then the bytes of all tensors.
    """
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(mapped[:8], "little")
    if not 0 < length <= min(LARGEST_HEADER, len(mapped) - 8):
        raise ValueError(f"{file.name} is not a safetensors file")
    header = json.loads(mapped[8 : 8 + length])
    tensors: dict[str, Array] = {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            dtype = np.dtype(DTYPES[about["dtype"]])
            tensor = np.frombuffer(mapped, dtype, (end - start) // dtype.itemsize, 8 + length + start)
            tensors[name] = tensor.reshape(about["shape"])
    return tensors
