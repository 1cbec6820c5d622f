"""Opens COUNT connections to ADDRESS from each SOURCE, says nothing on them, and prints how many of each are open after 3 s:

python strangers.py [HOST]:PORT COUNT SOURCE...
"""

import collections
import json
import selectors
import socket
import sys
import time

SECONDS = 3

host, _, port = sys.argv[1].rpartition(":")
open_of = collections.Counter()
waiting = selectors.DefaultSelector()
for _ in range(int(sys.argv[2])):
    for source in sys.argv[3:]:
        stranger = socket.socket(socket.AF_INET6)
        stranger.bind((source, 0))
        stranger.connect((host.strip("[]"), int(port)))
        waiting.register(stranger, selectors.EVENT_READ, source)
        open_of[source] += 1
end = time.monotonic() + SECONDS
while (left := end - time.monotonic()) > 0:
    for key, _ in waiting.select(left):
        try:
            is_open = bool(key.fileobj.recv(4096))
        except ConnectionError:
            is_open = False
        if not is_open:
            waiting.unregister(key.fileobj)
            open_of[key.data] -= 1
print(json.dumps(open_of))
