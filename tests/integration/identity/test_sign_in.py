"""A coordinator with an identity provider: its dashboard over HTTPS in a real Chromium, and its calls."""

import pathlib
import re
import socket
from typing import Callable, Iterator

import harness
import pytest
from browsers import PATIENCE_MS, browsers, require_clean
from issuer import Issuer, make_certificate
from playwright.sync_api import Browser, expect
from programs_run import Program


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


@pytest.fixture
def issuer(tmp_path: pathlib.Path) -> Iterator[Issuer]:
    made = Issuer(tmp_path / "issuer")
    yield made
    made.close()


def free_port() -> int:
    """Nobody had it a moment ago: the provider must know the dashboard's address before it is there."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def dashboard(start: Callable[..., Program], issuer: Issuer, tmp_path: pathlib.Path) -> str:
    """The address of a coordinator's dashboard, where alice of the issuer is a viewer."""
    address = f"https://localhost:{free_port()}"
    (tmp_path / "identity.yaml").write_text(
        f"""issuers:
  - name: corp
    issuer: {issuer.url}
    audience: farandole
    ca_file: {issuer.ca}
    roles:
      - {{claims: {{sub: alice}}, tenant: default, role: viewer}}
    sign_in: {{client_id: dashboard, address: "{address}"}}
""",
        encoding="utf-8",
    )
    (tmp_path / "tls").mkdir()
    certificate, key = make_certificate(tmp_path / "tls")
    program = start(
        *(str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--state-dir", str(tmp_path / "state")),
        *("--https", address[len("https://") :], "--tls-cert", str(certificate), "--tls-key", str(key)),
        *("--identity-file", str(tmp_path / "identity.yaml")),
    )
    program.expect(r"HTTPS on (\S+)")
    program.expect(r"issuer corp: 1 keys are taken")
    return address


def test_a_person_signs_in_with_the_provider_and_signs_out(dashboard: str, browser: Browser) -> None:
    context = browser.new_context(locale="en-GB", ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(dashboard)
    expect(page).to_have_url(re.compile("/login"))
    require_clean(page)
    page.get_by_role("link", name="Sign in with corp").click()
    expect(page.locator("header")).to_be_visible()
    session = next(cookie for cookie in context.cookies() if cookie["name"] == "farandole_session")
    assert session["httpOnly"] and session["secure"] and session["sameSite"] == "Strict", session
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/login"))
    page.goto(dashboard)
    expect(page).to_have_url(re.compile("/login"))
    context.close()


def test_whoever_has_no_role_is_told_so(dashboard: str, issuer: Issuer, browser: Browser) -> None:
    issuer.subject = "mallory"
    context = browser.new_context(locale="en-GB", ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(dashboard + "/login")
    page.get_by_role("link", name="Sign in with corp").click()
    expect(page.get_by_role("alert")).to_have_text("no row of the roles fits the claims of mallory of issuer corp")
    assert not [cookie for cookie in context.cookies() if cookie["name"] == "farandole_session"]
    context.close()


def test_commands_take_a_signed_token(
    dashboard: str, issuer: Issuer, start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    address = (tmp_path / "state" / "address").read_text(encoding="utf-8").strip()
    token = tmp_path / "signed"
    ask = [str(harness.CLI), "checkpoint", "list", "--coordinator", address, "--token-file", str(token)]
    ask += ["--ca", str(tmp_path / "tls" / "cert.pem")]
    token.write_text(issuer.sign(), encoding="utf-8")
    listed = start(*ask)
    listed.require_end(0)
    assert listed.output == "no checkpoints\n"
    token.write_text(issuer.sign(aud="another"), encoding="utf-8")
    refused = start(*ask)
    refused.require_end(1)
    assert "the signed token is not for audience farandole" in refused.output, refused.output
