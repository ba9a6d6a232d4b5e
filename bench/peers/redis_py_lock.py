"""A command under redis-py's Lock, TURNS times in one process. usage: SOCKET KEY TTL_S TURNS CMD..."""
import os
import subprocess
import sys
import time

import redis

socket, key, ttl, turns, *command = sys.argv[1:]
client = redis.Redis(unix_socket_path=socket)
for _ in range(int(turns)):
    asked = os.environ.get("BENCH_ASKED") if turns == "1" else str(time.monotonic_ns())
    with client.lock(key, timeout=float(ttl)):
        status = subprocess.call(command, env=dict(os.environ, BENCH_ASKED=asked or "0"))
    if status:
        sys.exit(status)
