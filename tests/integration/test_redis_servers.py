#!/usr/bin/env python3
"""Every kind of Redis server: unix socket, user with password, database, TLS, a cluster whose slots move. Also tenants,
encryption, and the log lines at the start about a Redis that cannot be used or never evicts."""

import contextlib
import pathlib
import random
import signal
import tempfile
import time
import zlib

import redis_rig
from redis_rig import PASSWORD, USER, Redis, Worker, loaded, tokens

PREFIX = 1820  # tokens of seven blocks
KEY_LINE = "7 " + "00112233445566778899aabbccddeeff" * 2 + "\n"


class Test:
    def __init__(self, options, stack, folder):
        self.options, self.folder, self.count = options, folder, 0
        self.broker = stack.enter_context(redis_rig.fleet.Broker(options))
        self.plain = stack.enter_context(self.worker())

    def worker(self, *flags):
        self.count += 1
        return Worker(self.options, self.broker, f"w{self.count}", "--kv-memory", "64MiB", *flags)

    @contextlib.contextmanager
    def pair(self, *flags):
        """Starts two workers and waits until they are connected and have measured how fast they compute."""
        with self.worker(*flags) as one, self.worker(*flags) as two:
            for worker in (one, two):
                worker.wait_up()
                worker.warm(worker.serve.process.pid, times=2)
            yield one, two

    def check_shared(self, what, one, two, salt, times=20):
        """One worker computes a prompt, the other loads it, and both answer like the worker without Redis. Returns the
        number of loaded tokens. Retries, because on a busy machine a load may exceed its timeout once."""
        for turn in range(times):
            prefix = tokens(salt + 10 * turn, PREFIX)
            first, second = (prefix + tokens(salt + 10 * turn + ending, 30) for ending in (1, 2))
            results = [one.ask(first)]
            one.wait_stored()
            results.append(two.ask(second))
            for prompt, result in zip((first, second), results):
                assert result["token_ids"] == self.plain.ask(prompt)["token_ids"], what
            if loaded(results[1]):
                print(f"{what}: {loaded(results[1])} tokens loaded", flush=True)
                return loaded(results[1])
        raise AssertionError(f"{what}: nothing was ever loaded\n{two.log()}")

    def check_refused(self, what, reason, *flags, secret=None):
        """The worker must log one clear line and run without Redis."""
        with self.worker(*flags) as worker:
            worker.wait_for("refused", lambda: worker.logged("Redis"))
            prompt = tokens(77, 300)
            assert worker.ask(prompt)["token_ids"] == self.plain.ask(prompt)["token_ids"], what
            time.sleep(0.5)
            lines = worker.logged("Redis")
            assert len(lines) == 1 and reason in lines[0], f"{what}: {lines}"
            assert not secret or not worker.logged(secret), f"{what}: a secret is in the log"
            print(f"{what}: {lines[0].strip()}", flush=True)


def check_socket(test):
    """A unix socket, the user of the worker, and a database number."""
    with Redis(unix=True) as redis, test.pair("--redis", f"unix://{USER}:{PASSWORD}@{redis.address}?db=3") as pair:
        test.check_shared("unix socket, user, database 3", *pair, 100)
        assert redis.keys() == [], "keys in database 0"
        redis("SELECT", 3)
        assert len(redis.keys()) >= PREFIX // 256, "no keys in database 3"


def check_tls(test):
    (test.folder / "right").write_text(PASSWORD + "\n")
    (test.folder / "wrong").write_text("millstone\n")
    with Redis("--tls-auth-clients", "yes", tls=True) as redis:
        url = f"rediss://{USER}@127.0.0.1:{redis.port}/2"
        ours = ["--redis-cert", redis.folder / "worker.pem", "--redis-cert-key", redis.folder / "worker.key"]
        right = ["--redis-ca", redis.folder / "ca.pem", "--redis-password-file", test.folder / "right"]
        with test.pair("--redis", url, *right, *ours) as pair:
            test.check_shared("TLS with certificates on both sides, password from a file", *pair, 700)
        test.check_refused("wrong password", "WRONGPASS", "--redis", url, "--redis-password-file",
                           test.folder / "wrong", *right[:2], *ours, secret="millstone")
        test.check_refused("another authority", "certificate", "--redis", url, "--redis-ca",
                           redis.folder / "other-ca.pem", *ours)
        test.check_refused("no certificate of ours", "is not reachable", "--redis", url, *right)


def check_changed_password(test):
    """After SIGHUP the next login uses the new password in the file. Removing the file has no effect."""
    file = test.folder / "changing"
    file.write_text(PASSWORD + "\n")
    with Redis() as redis, test.worker("--redis", f"redis://{USER}@127.0.0.1:{redis.port}", "--redis-password-file",
                                       file) as worker:
        def hang_up():
            redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        def hup(text):
            count = len(worker.logged(text))
            worker.serve.process.send_signal(signal.SIGHUP)
            worker.wait_for(text, lambda: len(worker.logged(text)) > count)

        worker.wait_up()
        file.rename(test.folder / "moved")
        hup("the password for Redis is unchanged")
        redis("ACL", "SETUSER", USER, "resetpass", ">sandstone")
        hang_up()
        worker.wait_up(0)
        failures = worker.figure("connection_failures_total")
        worker.wait_for("refused", lambda: worker.figure("connection_failures_total") > failures + 2)
        file.write_text("sandstone\n")
        hup("the next login to Redis")
        worker.wait_up()
        assert not worker.logged("sandstone"), "a secret is in the log"
        print("a changed password: refused, then accepted after SIGHUP", flush=True)


def check_failover(test):
    """The master becomes a replica and keeps its connections open. Later connections to its address reach the new
    master."""
    with Redis() as old, Redis() as new, redis_rig.Link(old.port) as link, test.worker(
            "--redis", old.url(link.port)) as worker:
        worker.wait_up()
        worker.ask(tokens(6000, PREFIX))
        worker.wait_stored()
        assert old.keys() and not new.keys()
        old("REPLICAOF", "127.0.0.1", new.port)
        link.target = new.port
        begun, seeds = time.monotonic(), iter(range(6001, 7000))

        def followed():
            worker.ask(tokens(next(seeds), 300))
            return new.keys()

        worker.wait_for("at the new master", followed)
        assert worker.logged("READONLY") and not worker.logged("not reachable"), worker.log()
        print(f"failover: at the new master after {time.monotonic() - begun:.1f} s", flush=True)


# ---- a cluster ----


def cluster(stack):
    nodes = [stack.enter_context(Redis(cluster=True)) for _ in range(3)]
    for number, node in enumerate(nodes):
        node("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        node("CLUSTER", "ADDSLOTSRANGE", 16384 * number // 3, 16384 * (number + 1) // 3 - 1)
        node("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    until = time.monotonic() + 20
    while any(b"cluster_state:ok" not in node("CLUSTER", "INFO") or
              b"cluster_known_nodes:3" not in node("CLUSTER", "INFO") for node in nodes):
        assert time.monotonic() < until, "the cluster does not form"
        time.sleep(0.05)
    return nodes


def begin_move(nodes):
    """Moves the slots of the node with most keys to another node; first the keys, then the slots."""
    source = max(nodes, key=lambda node: len(node.keys()))
    target = nodes[nodes.index(source) - 1]
    slots = {source("CLUSTER", "KEYSLOT", key) for key in source.keys()}
    for slot in slots:
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", source("CLUSTER", "MYID"))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", target("CLUSTER", "MYID"))
        keys = source("CLUSTER", "GETKEYSINSLOT", slot, 100)
        source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    return source, target, slots


def end_move(source, target, slots):
    for slot in slots:
        for node in (target, source):
            node("CLUSTER", "SETSLOT", slot, "NODE", target("CLUSTER", "MYID"))


def check_cluster(test):
    with contextlib.ExitStack() as stack:
        nodes = cluster(stack)
        one, two = stack.enter_context(test.pair("--redis", nodes[0].url()))
        test.check_shared("cluster of three", one, two, 1000)
        assert all(node.keys() for node in nodes), "a node has nothing"
        prefix = tokens(2000, PREFIX)
        prompt = prefix + tokens(2001, 30)
        wanted = test.plain.ask(prompt)["token_ids"]
        one.ask(prefix + tokens(2002, 30))
        one.wait_stored()

        def look(kind):
            """Evicts the prompt from the worker, so that the next request needs Redis."""
            before = two.figure("redirects_total", kind=kind)
            result = two.ask(prompt, cache={"read": True, "write": False})
            seen = two.figure("redirects_total", kind=kind) - before
            assert result["token_ids"] == wanted and seen > 0, f"{kind}: seen {seen} times, {result}"
            print(f"cluster, {len(move[2])} slots: {kind} seen {seen:.0f} times, {loaded(result)} tokens loaded",
                  flush=True)

        move = begin_move(nodes)
        look("ask")
        end_move(*move)
        look("moved")
        move[1].stop()
        assert two.ask(prompt, cache={"read": True, "write": False})["token_ids"] == wanted, "a node is gone"


# ---- tenants, encryption ----


def check_tenants(test):
    """Returns the unencrypted values."""
    def of(tenant, redis):
        name = f"w{test.count + 1}"
        return test.worker("--redis", redis.url(), "--requests-topic", f"{name}.requests,tenant={tenant}")
    with Redis() as redis, of("a", redis) as one, of("a", redis) as same, of("b", redis) as other:
        for worker in (one, same, other):
            worker.wait_up()
            worker.warm(worker.serve.process.pid, times=2)
        test.check_shared("the same tenant", one, same, 3000)
        keys = set(redis.keys())
        prompt = tokens(3000, PREFIX) + tokens(3002, 30)  # a prompt of the first tenant
        result = other.ask(prompt)
        other.wait_stored()
        assert result["token_ids"] == same.ask(prompt)["token_ids"]
        assert result["usage"]["cached_tokens"] == 0, f"another tenant's: {result['usage']}"
        added = set(redis.keys()) - keys
        assert len(added) >= PREFIX // 256, "the other tenant's prompt is kept under the first one's keys"
        print(f"another tenant: nothing loaded, {len(added)} keys of its own", flush=True)
        return block_values(redis)


def shrinks(values):
    """The compression ratio of the values: unencrypted KV has repeating exponents and compresses."""
    body = b"".join(value[64:] for value in values)
    return len(zlib.compress(body, 1)) / len(body)


def reveals(values, ids):
    """Whether a value contains consecutive token ids of the prompt as 8, 16 or 32-bit numbers."""
    body = b"".join(values)
    return any(b"".join(one.to_bytes(width, "little") for one in ids[at:at + 8 // width]) in body
               for at in range(0, len(ids) - 8, 8) for width in (1, 2, 4))


def block_values(redis):
    return [value for value in redis.client.all([("GET", key) for key in redis.keys()]) if len(value) > 4096]


def check_encryption(test, values_in_the_clear):
    (test.folder / "keys").write_text(KEY_LINE)
    clear = shrinks(values_in_the_clear)
    with Redis() as redis:
        with test.pair("--redis", redis.url(), "--redis-key-file", test.folder / "keys") as (one, two):
            test.check_shared("encrypted", one, two, 4000)
            values = block_values(redis)
            sealed = shrinks(values)
            assert clear < 0.97 and sealed > 0.999, f"compressed to {clear:.3f} in the clear, {sealed:.3f} encrypted"
            assert not reveals(values, tokens(4000, PREFIX)), "token ids in a value"
            print(f"values compress to {clear:.3f} in the clear, to {sealed:.3f} encrypted", flush=True)
            drawn = random.Random(4)
            prefix = tokens(5000, PREFIX)
            one.ask(prefix + tokens(5001, 30))
            one.wait_stored()
            for key in redis.keys():
                at = drawn.randrange(redis("STRLEN", key))
                byte = redis("GETRANGE", key, at, at)
                redis("SETRANGE", key, at, bytes([byte[0] ^ 1]))
            prompt = prefix + tokens(5002, 30)
            result = two.ask(prompt)
            assert result["token_ids"] == test.plain.ask(prompt)["token_ids"] and loaded(result) == 0, result
            print("encrypted, a byte changed in each: nothing loaded", flush=True)


# ---- servers that do not suit a cache ----


def check_policy(test):
    for flags, text in ((("--maxmemory", "64mb"), "maxmemory-policy noeviction"),
                        ((), "no memory limit"),
                        (("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"), None)):
        with Redis(*flags) as redis, test.worker("--redis", redis.url()) as worker:
            worker.wait_up()
            time.sleep(0.3)
            lines = worker.logged("maxmemory")
            assert len(lines) == (1 if text else 0) and (not text or text in lines[0]), f"{flags}: {worker.log()}"
            print(f"{' '.join(flags) or 'as it comes'}: {lines[0].strip() if lines else 'nothing to say'}", flush=True)
    with Redis() as redis:
        redis("ACL", "SETUSER", USER, "-info", "-set")
        with test.worker("--redis", redis.url()) as worker:
            worker.wait_up()
            for seed in (10, 11):
                worker.ask(tokens(seed, PREFIX))
            worker.wait_for("refused", lambda: worker.logged("NOPERM"))
            time.sleep(0.3)
            assert len(worker.logged("Redis")) == 2, f"it answers and it refuses, no more: {worker.log()}"
            print(f"may not write: {worker.logged('NOPERM')[0].strip()}", flush=True)


def main():
    options = redis_rig.fleet.arguments(__doc__).parse_args()
    options.dtype, options.threads = "fp32", "1"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.model = redis_rig.write_model(folder / "model")
        test = Test(options, stack, folder)
        check_socket(test)
        check_tls(test)
        check_changed_password(test)
        check_failover(test)
        check_cluster(test)
        check_encryption(test, check_tenants(test))
        check_policy(test)


if __name__ == "__main__":
    main()
