"""redis-py's Lock, as a program beside lk would use it: other_lock.py SOCKET NAME TTL|never TOKEN|- VERB...

Each verb's answer is one line on stdout. `wait` is for the end of a line on stdin.
"""
import sys

import redis
from redis.exceptions import LockError

socket, name, ttl, token, *verbs = sys.argv[1:]
lock = redis.Redis(unix_socket_path=socket).lock(name, timeout=None if ttl == "never" else float(ttl), thread_local=False)
if token != "-":
    lock.local.token = token.encode()


def answer(text):
    print(text, flush=True)


for verb in verbs:
    try:
        if verb == "try":
            answer("got it" if lock.acquire(blocking=False) else "busy")
        elif verb == "block":
            answer("got it" if lock.acquire(blocking_timeout=20) else "busy")
        elif verb == "token":
            answer(lock.local.token.decode())
        elif verb == "owned":
            answer("owned" if lock.owned() else "not owned")
        elif verb == "extend":
            lock.extend(60, replace_ttl=True)
            answer("extended")
        elif verb == "release":
            lock.release()
            answer("released")
        elif verb == "wait":
            sys.stdin.readline()
        else:
            sys.exit(f"unknown verb {verb}")
    except LockError as error:
        answer(type(error).__name__)
