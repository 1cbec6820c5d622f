"""An OpenID provider over HTTPS, which knows whoever comes; its keys and its certificate are made for the test."""

import base64
import hashlib
import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import time
import urllib.parse
from typing import Dict, Tuple


def encode(data: bytes) -> str:
    """Unpadded base64url."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*words: object, data: bytes = b"") -> bytes:
    """The output of the command."""
    return subprocess.run(["openssl", *map(str, words)], input=data, check=True, capture_output=True).stdout


def make_certificate(directory: pathlib.Path) -> Tuple[pathlib.Path, pathlib.Path]:
    """A certificate for localhost and its key."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-out", certificate, "-keyout", key),
    )
    return certificate, key


def raw_signature(der: bytes) -> bytes:
    """The two numbers of an ECDSA signature, as tokens have them."""
    numbers, at = b"", 2
    for _ in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + length
    return numbers


class Issuer:
    """Serves until close()."""

    def __init__(self, directory: pathlib.Path) -> None:
        directory.mkdir()
        self.ca, key = make_certificate(directory)
        self._signing_key = directory / "signing.pem"
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._signing_key)
        self._codes: Dict[str, Dict[str, str]] = {}
        self.subject = "alice"
        issuer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                if url.path == "/authorize":
                    self.send_response(303)
                    self.send_header("Location", issuer.authorize(dict(urllib.parse.parse_qsl(url.query))))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                pages = {"/.well-known/openid-configuration": issuer.document, "/keys": issuer.keys}
                self.reply(200, pages[url.path]())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.reply(*issuer.token(dict(urllib.parse.parse_qsl(body))))

            def reply(self, status: int, answer: Dict[str, object]) -> None:
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def document(self) -> Dict[str, object]:
        places = {"jwks_uri": "/keys", "authorization_endpoint": "/authorize", "token_endpoint": "/token"}
        return {"issuer": self.url, **{name: self.url + path for name, path in places.items()}}

    def keys(self) -> Dict[str, object]:
        point = openssl("ec", "-in", self._signing_key, "-pubout", "-outform", "DER")[-64:]
        key = {"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "x": encode(point[:32]), "y": encode(point[32:])}
        return {"keys": [key]}

    def sign(self, **claims: object) -> str:
        """A token of the subject, for 10 minutes unless the claims say otherwise."""
        now = int(time.time())
        said = {"iss": self.url, "sub": self.subject, "aud": "farandole", "iat": now, "exp": now + 600, **claims}
        parts = [{"alg": "ES256", "kid": "k1"}, said]
        text = ".".join(encode(json.dumps(part).encode()) for part in parts)
        return f"{text}.{encode(raw_signature(openssl('dgst', '-sha256', '-sign', self._signing_key, data=text.encode())))}"

    def authorize(self, asked: Dict[str, str]) -> str:
        """Where the browser is led back to."""
        code = f"code{len(self._codes)}"
        self._codes[code] = asked
        back = urllib.parse.urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{back}"

    def token(self, asked: Dict[str, str]) -> Tuple[int, Dict[str, object]]:
        begun = self._codes.pop(asked["code"], None)
        verifier = encode(hashlib.sha256(asked["code_verifier"].encode()).digest())
        if begun is None or begun["code_challenge"] != verifier or begun["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"id_token": self.sign(aud=asked["client_id"], nonce=begun["nonce"]), "token_type": "Bearer"}
