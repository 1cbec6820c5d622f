"""Objects as text, by Horovod's name."""

import base64
from typing import Any

from farandole import _pickles


def dumps_base64(obj: Any, to_ascii: bool = True) -> Any:
    """An object as base64, as a string or as bytes."""
    encoded = base64.b64encode(_pickles.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: Any) -> Any:
    """The opposite. Only for text that is trusted: it is unpickled."""
    return _pickles.loads(base64.b64decode(encoded))
