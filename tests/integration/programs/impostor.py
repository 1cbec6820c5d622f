"""Has a port of this host, and greets as an HTTP/2 server, so that gRPC takes it for one. Its output is the port, and then
a line for each frame that came: "frame 1" is a call's headers (RFC 9113, section 6). Its words are the user that it
becomes, and its port (0: any)."""

import os
import socket
import sys
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
ACKNOWLEDGED = b"\0\0\0\4\1\0\0\0\0"


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def talk(connection: socket.socket) -> None:
    try:
        print("connected", flush=True)
        connection.sendall(SETTINGS)
        if receive(connection, len(PREFACE)) != PREFACE:
            print("no HTTP/2", flush=True)
            return
        while True:
            head = receive(connection, 9)
            receive(connection, int.from_bytes(head[:3], "big"))
            print(f"frame {head[3]}", flush=True)
            if head[3] == 4 and not head[4] & 1:
                connection.sendall(ACKNOWLEDGED)
    except OSError:
        print("ended", flush=True)


def main() -> None:
    user, port = map(int, sys.argv[1:])
    os.setuid(user)
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"port {listener.getsockname()[1]}", flush=True)
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


main()
