"""A small data set in the files that the demo reads."""

import gzip
import pathlib
import random
import struct


def _write_idx(path: pathlib.Path, shape: tuple, content: bytes) -> None:
    """A gzipped IDX file of bytes, as read_idx of the demo reads it."""
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    path.write_bytes(gzip.compress(header + content))


def write_small_images(directory: pathlib.Path) -> None:
    """512 images to train with and 64 to test, in ten classes that are easily told apart."""
    numbers = random.Random(1)
    for prefix, count in (("train", 512), ("t10k", 64)):
        labels = bytes(numbers.randrange(10) for _ in range(count))
        # An image is a shade of its class.
        images = b"".join(bytes([25 * label]) * (28 * 28) for label in labels)
        _write_idx(directory / f"{prefix}-images-idx3-ubyte.gz", (count, 28, 28), images)
        _write_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", (count,), labels)
