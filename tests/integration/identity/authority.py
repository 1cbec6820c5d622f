"""A certificate authority of the test's own, for coordinators and their clients."""

import datetime
import pathlib
from typing import NamedTuple

from issuer import openssl

CONFIG = """[ca]
default_ca = own
[own]
database = {directory}/index.txt
new_certs_dir = {directory}
default_md = sha256
rand_serial = yes
unique_subject = no
policy = any
[any]
commonName = optional
"""
EXTENSIONS = """basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = {names}
"""


class Pair(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class Authority:
    """Signs what it is asked to sign."""

    def __init__(self, directory: pathlib.Path, name: str = "CA") -> None:
        directory.mkdir()
        self._directory = directory
        self._made = 0
        self.ca, self._key = directory / "ca.pem", directory / "ca-key.pem"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-out", self.ca, "-keyout", self._key),
        )
        (directory / "index.txt").touch()
        (directory / "ca.conf").write_text(CONFIG.format(directory=directory), encoding="utf-8")

    def issue(self, *uris: str, seconds: int = 3600) -> Pair:
        """A certificate for localhost and for these URIs, until so many seconds from now."""
        self._made += 1
        start = self._directory / f"{self._made}"
        request, extensions = start.with_suffix(".csr"), start.with_suffix(".ext")
        certificate, key = start.with_suffix(".pem"), start.with_suffix(".key")
        names = ",".join(["DNS:localhost", "IP:127.0.0.1", *(f"URI:{uri}" for uri in uris)])
        extensions.write_text(EXTENSIONS.format(names=names), encoding="utf-8")
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test"),
            *("-out", request, "-keyout", key),
        )
        now = datetime.datetime.now(datetime.timezone.utc)
        times = [now - datetime.timedelta(days=1), now + datetime.timedelta(seconds=seconds)]
        first, last = (time.strftime("%y%m%d%H%M%SZ") for time in times)
        openssl(
            *("ca", "-batch", "-notext", "-config", self._directory / "ca.conf"),
            *("-cert", self.ca, "-keyfile", self._key, "-startdate", first, "-enddate", last),
            *("-in", request, "-out", certificate, "-extfile", extensions),
        )
        return Pair(str(certificate), str(key))
