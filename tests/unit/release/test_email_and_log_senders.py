"""E-mail, against a real server on loopback, and the log."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from smtp_server import Mailbox, mail_server

from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.senders.email import EmailSender
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.alerts.senders.sender import NotDelivered

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALERT = Alert(
    channel="production", kind="rolled back", severity="critical", message="It was <worse>.", at=AT, key="production/3"
)
SECRET = "correct-horse-battery"


# By e-mail


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def mail(box: Mailbox, *to: str, **login: str) -> EmailSender:
    return EmailSender("mail", "info", to or ("ops@example.org",), "seedbed@example.org", box.url, **login)


async def test_a_letter_reaches_everybody_it_is_for() -> None:
    async with mail_server(Mailbox()) as box:
        assert await mail(box, "ops@example.org", "ann@example.org").send(ALERT) == ""
    assert box.recipients == [["ops@example.org", "ann@example.org"]]
    (letter,) = box.letters
    assert letter["Subject"] == "[critical] production: It was <worse>."
    assert (letter["From"], letter["Date"].datetime) == ("seedbed@example.org", AT)
    assert letter["Message-ID"] == f"<{ALERT.id}@example.org>"
    assert letter.get_content_type() == "text/plain"
    assert "It was <worse>." in letter.get_content()


async def test_one_refused_recipient_does_not_keep_it_from_the_others() -> None:
    async with mail_server(Mailbox(refuses={"gone@example.org": 550})) as box:
        assert await mail(box, "ops@example.org", "gone@example.org").send(ALERT) == "to[1] refused (550)"
    assert box.recipients == [["ops@example.org"]]


@pytest.mark.parametrize(("code", "again"), [(550, False), (450, True)])
async def test_a_letter_that_nobody_takes_is_not_delivered(code: int, again: bool) -> None:
    async with mail_server(Mailbox(refuses={"gone@example.org": code})) as box:
        with pytest.raises(NotDelivered, match=rf"to\[0\] refused \({code}\)") as caught:
            await mail(box, "gone@example.org").send(ALERT)
    assert (caught.value.again, box.letters) == (again, [])


async def test_a_letter_that_was_taken_is_delivered_however_the_server_says_goodbye() -> None:
    async with mail_server(Mailbox(goodbye=b"500 no")) as box:
        assert await mail(box).send(ALERT) == ""
    assert len(box.letters) == 1


async def test_a_user_logs_in_and_a_wrong_password_is_told_without_it() -> None:
    async with mail_server(Mailbox(user="seedbed", password=SECRET)) as box:
        await mail(box, user="seedbed", password=SECRET).send(ALERT)
        wrong = mail(box, user="seedbed", password="WR0NG")
        with pytest.raises(NotDelivered, match=r"SMTPAuthenticationError \(535\)") as caught:
            await wrong.send(ALERT)
    assert (box.logins[0], len(box.letters)) == ("seedbed", 1)
    assert "WR0NG" not in f"{caught.value}{wrong!r}{caught.value.__cause__}"
    assert not caught.value.again


async def test_a_password_is_never_sent_in_the_clear() -> None:
    async with mail_server(Mailbox(user="seedbed", password=SECRET, host="127.0.0.2")) as box:
        with pytest.raises(NotDelivered, match="offers no encryption"):
            await mail(box, user="seedbed", password=SECRET).send(ALERT)
        assert box.logins == []
        await mail(box).send(ALERT)  # a letter alone may go as the server takes it


async def test_it_is_encrypted_where_the_server_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(certificate(tmp_path, "127.0.0.2"))
    async with mail_server(Mailbox(user="seedbed", password=SECRET, host="127.0.0.2", tls=trusted)) as box:
        sender = mail(box, user="seedbed", password=SECRET)
        with pytest.raises(NotDelivered, match="SSLCertVerificationError"):
            await sender.send(ALERT)  # nobody vouches for it
        assert box.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        await sender.send(ALERT)
    assert (box.logins, box.encrypted) == (["seedbed"], [True])


def certificate(folder: Path, host: str) -> Path:
    """A file with a key and a certificate that vouches for itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return file


async def test_a_mail_server_that_is_not_there_may_come_back() -> None:
    sender = EmailSender("mail", "info", ("ops@example.org",), "a@b.org", f"smtp://127.0.0.1:{unused_port()}")
    with pytest.raises(NotDelivered, match="ConnectionRefusedError") as caught:
        await sender.send(ALERT)
    assert caught.value.again


# To a log


async def test_a_log_has_one_line_for_each_alert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "alerts.jsonl"
    odd = replace(ALERT, message="two\nlines", resolved=True)
    for each in (ALERT, odd):
        await LogSender("log", "info", file).send(each)
        await LogSender("log", "info").send(each)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["told"], each["resolved"]) for each in lines] == [("It was <worse>.", False), ("two lines", True)]
    assert capsys.readouterr().err == file.read_text()


async def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match="found No such file or directory"):
        await LogSender("log", "info", tmp_path / "nowhere" / "alerts.jsonl").send(ALERT)
