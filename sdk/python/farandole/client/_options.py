"""Where a coordinator is, and how this program proves that it may speak to it."""

import dataclasses
import os
from typing import Callable, Optional

from ..exceptions import InvalidRequest


@dataclasses.dataclass(frozen=True)
class TLS:
    """The files, in PEM, by which both sides know each other. Client() reads them."""

    ca_file: str = ""
    """Certificates that the coordinator's must descend from; "": those of the system."""
    cert_file: str = ""
    """The certificate by which this program proves itself to the coordinator where it has no token, or to a proxy that
    wants one; "": none. A new one in the file counts from the next call on."""
    key_file: str = ""
    """The key of that certificate, which not every user of the host may read."""
    server_name: str = ""
    """The name in the coordinator's certificate; "": the host of the address."""


class TokenSource:
    """Gives the token to each call, so that a new one counts from the next call on."""

    def __init__(self, read: Callable[[], str], origin: str = "") -> None:
        """`read` is called for each call, on its thread. `origin` is for people, who read it in errors: "Vault"."""
        self._read = read
        self.origin = origin

    @classmethod
    def file(cls, path: str) -> "TokenSource":
        """One that reads a file."""

        def read() -> str:
            with open(path, encoding="utf-8") as file:
                return file.read()

        return cls(read, str(path))

    @classmethod
    def variable(cls, name: str) -> "TokenSource":
        """One that reads a variable of the environment."""

        def read() -> str:
            found = os.environ.get(name)
            if found is None:
                raise LookupError(f"the variable {name}, which is to hold a token, is not set")
            return found

        return cls(read, f"the variable {name}")

    def get(self, address: str) -> str:
        """The token without blanks around it. PermissionError: it is empty; else what reading it has raised."""
        what = f"the token{f' in {self.origin}' if self.origin else ''} for coordinator {address}"
        try:
            token = self._read().strip()
        except OSError as error:
            raise type(error)(error.errno, f"{what} cannot be read ({error.strerror})") from error
        if not token:
            raise PermissionError(f"{what} is empty")
        return token


@dataclasses.dataclass(frozen=True)
class Environment:
    """The variables that workers and `farandole run` read as well."""

    address: str
    token: Optional[TokenSource]
    tls: Optional[TLS]
    coordinator_users: str

    @classmethod
    def read(cls) -> "Environment":
        """FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE, FARANDOLE_CA_FILE, and with that FARANDOLE_CERT_FILE and
        FARANDOLE_KEY_FILE; FARANDOLE_COORDINATOR_USERS. InvalidRequest: the first one is not set."""
        address = os.environ.get("FARANDOLE_COORDINATOR", "")
        if not address:
            raise InvalidRequest("FARANDOLE_COORDINATOR is not set: it is HOST:PORT of the coordinator")
        token, authorities = os.environ.get("FARANDOLE_TOKEN_FILE"), os.environ.get("FARANDOLE_CA_FILE")
        own = [os.environ.get(name, "") for name in ("FARANDOLE_CERT_FILE", "FARANDOLE_KEY_FILE")]
        source, tls = TokenSource.file(token) if token else None, TLS(authorities, *own) if authorities else None
        return cls(address, source, tls, os.environ.get("FARANDOLE_COORDINATOR_USERS", ""))
