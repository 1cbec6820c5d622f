"""Messages as Protocol Buffers encode them (protobuf.dev/programming-guides/encoding), without the package of that name,
of which frameworks need versions of their own.

A message is a dataclass whose fields say their number in the proto: `name: str = text(1)`. Fields that a class does not
have are left out, so that a newer coordinator may send more.
"""

import dataclasses
import datetime
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar, Union

Message = TypeVar("Message")
# A number, or the bytes of a text or a message.
Value = Union[int, bytes]
Reader = Callable[[Value], Any]


def _field(
    number: int, read: Reader, default: Any = dataclasses.MISSING, is_list: bool = False, is_packed: bool = False
) -> Any:
    """`is_packed`: `read` gives several values of a list."""
    metadata = {"number": number, "read": read, "is_list": is_list, "is_packed": is_packed}
    if is_list:
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _whole(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise ValueError("a number is wanted, and the message has bytes there")


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("bytes are wanted, and the message has a number there")


def _signed(value: Value) -> int:
    number = _whole(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def _double(value: Value) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", _whole(value)))[0])


def _moment(value: Value) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(_signed(value) / 1000, datetime.timezone.utc)


def _text(value: Value) -> str:
    return _bytes(value).decode(errors="replace")


def text(number: int) -> Any:
    """A string."""
    return _field(number, _text, "")


def texts(number: int) -> Any:
    """A list of strings."""
    return _field(number, _text, is_list=True)


def raw(number: int) -> Any:
    """Bytes."""
    return _field(number, _bytes, b"")


def digest(number: int) -> Any:
    """Bytes, in hexadecimal digits."""
    return _field(number, lambda value: _bytes(value).hex(), "")


def whole(number: int) -> Any:
    """An integer."""
    return _field(number, _signed, 0)


def zigzag(number: int) -> Any:
    """A sint64."""
    return _field(number, lambda value: (_whole(value) >> 1) ^ -(_whole(value) & 1), 0)


def optional_whole(number: int) -> Any:
    """An integer, or None where the message has none."""
    return _field(number, _signed, None)


def flag(number: int) -> Any:
    """A bool."""
    return _field(number, lambda value: _whole(value) != 0, False)


def real(number: int) -> Any:
    """A double."""
    return _field(number, _double, 0.0)


def optional_real(number: int) -> Any:
    """A double, or None where the message has none."""
    return _field(number, _double, None)


def real_micros(number: int) -> Any:
    """A double of microseconds, as seconds."""
    return _field(number, lambda value: _double(value) / 1_000_000, 0.0)


def seconds(number: int) -> Any:
    """Milliseconds, as seconds."""
    return _field(number, lambda value: _signed(value) / 1000, 0.0)


def seconds_of_micros(number: int) -> Any:
    """Microseconds, as seconds."""
    return _field(number, lambda value: _signed(value) / 1_000_000, 0.0)


def moment(number: int) -> Any:
    """Milliseconds since 1970 as a time in UTC; None where the message has none."""
    return _field(number, _moment, None)


def choice(number: int, make: Callable[[int], Any], default: Any) -> Any:
    """A value of an enum, as `make` makes it of its number."""
    return _field(number, lambda value: make(_whole(value)), default)


def message(number: int, kind: Type[Any], default: Any = None) -> Any:
    """Another message; `default` where the message has none."""
    return _field(number, lambda value: decode(kind, _bytes(value)), default)


def messages(number: int, kind: Type[Any]) -> Any:
    """A list of messages."""
    return _field(number, lambda value: decode(kind, _bytes(value)), is_list=True)


def wholes(number: int) -> Any:
    """A list of integers that are not negative."""
    return _field(number, _packed, is_list=True, is_packed=True)


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 64:
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number & ((1 << 64) - 1), at
        shift += 7
    raise ValueError("the message ends within a number")


def _fields(data: bytes) -> Iterator[Tuple[int, Value]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"the message has a field of the kind {kind}")
        if at + size > len(data):
            raise ValueError(f"the message ends within field {tag >> 3}")
        part, at = data[at : at + size], at + size
        yield tag >> 3, part if kind == 2 else int.from_bytes(part, "little")


def decode(kind: Type[Message], data: bytes) -> Message:
    """Reads a message. ValueError: the bytes are none."""
    known = {field.metadata["number"]: field for field in dataclasses.fields(kind) if "number" in field.metadata}  # type: ignore[arg-type]
    values: Dict[str, Any] = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        read = field.metadata["read"](value)
        if field.metadata["is_list"]:
            values.setdefault(field.name, []).extend(read if field.metadata["is_packed"] else [read])
        else:
            values[field.name] = read
    return kind(**values)


def _packed(value: Value) -> List[int]:
    """A part of a repeated integer: one, or several in bytes."""
    if isinstance(value, int):
        return [value]
    found: List[int] = []
    at = 0
    while at < len(value):
        each, at = _varint(value, at)
        found.append(each)
    return found


def numbers(data: bytes, number: int) -> List[int]:
    """A repeated integer, of a message that has nothing else to read."""
    return [each for field, value in _fields(data) if field == number for each in _packed(value)]


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode(fields: Dict[int, Optional[Union[int, str, bytes]]]) -> bytes:
    """A message of these fields by their numbers; None and "" are left out, as a proto takes them for granted. Bytes are
    never left out."""
    encoded = b""
    for number, value in fields.items():
        data = value.encode() if isinstance(value, str) and value else value
        if isinstance(data, bytes):
            encoded += _encode_varint(number << 3 | 2) + _encode_varint(len(data)) + data
        elif isinstance(value, int):
            encoded += _encode_varint(number << 3) + _encode_varint(value)
    return encoded
