"""A mail server on loopback, small enough to read: it takes letters, knows one user, refuses some recipients."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default


@dataclass
class Mailbox:
    """What a server was told, and how it behaves."""

    user: str = ""
    password: str = ""
    refuses: dict[str, int] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    goodbye: bytes = b"221 bye"
    host: str = "127.0.0.1"
    port: int = 0
    letters: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"smtp://{self.host}:{self.port}"


@asynccontextmanager
async def mail_server(box: Mailbox) -> AsyncIterator[Mailbox]:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _converse(box, reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(converse, box.host, 0)
    box.port = server.sockets[0].getsockname()[1]
    async with server:
        yield box


async def _converse(box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    to: list[str] = []
    secure = False
    writer.write(b"220 here\r\n")
    while line := (await reader.readline()).decode().strip():
        match line.upper().split()[0]:
            case "EHLO":
                offers = ["here", *(["STARTTLS"] if box.tls and not secure else []), *(["AUTH PLAIN"] * bool(box.user))]
                marks = ["-"] * (len(offers) - 1) + [" "]
                said = "\r\n".join(f"250{mark}{offer}" for mark, offer in zip(marks, offers, strict=True)).encode()
            case "STARTTLS":
                writer.write(b"220 go on\r\n")
                assert box.tls
                await writer.start_tls(box.tls)
                secure = True
                continue
            case "AUTH":
                _, user, password = base64.b64decode(line.split()[2]).decode().split("\0")
                box.logins.append(user)
                known = (user, password) == (box.user, box.password)
                said = b"235 welcome" if known else f"535 {user} {password} is wrong".encode()
            case "RCPT":
                address = line.partition("<")[2].rstrip(">")
                code = box.refuses.get(address, 250)
                to += [address] if code == 250 else []
                said = f"{code} {address}".encode()
            case "DATA":
                writer.write(b"354 go on\r\n")
                letter = await reader.readuntil(b"\r\n.\r\n")
                box.letters.append(message_from_bytes(letter.removesuffix(b".\r\n"), policy=default))  # type: ignore[arg-type]
                box.recipients.append(to)
                box.encrypted.append(secure)
                said, to = b"250 taken", []
            case "QUIT":
                said = box.goodbye
            case _:  # MAIL, RSET
                said = b"250 fine"
        writer.write(said + b"\r\n")
        await writer.drain()
