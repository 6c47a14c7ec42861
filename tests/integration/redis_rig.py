"""Shared by tests and measurements with Redis: servers of every kind, a relay that fails on demand, a model whose blocks
take longer to compute than to load, and workers that get requests through pipes. Uses only Python's standard library."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import fleet  # noqa: E402

USER, PASSWORD = "mill", "grindstone"
# The permissions that a worker needs: its keys, INFO (whether Redis evicts), and the slots of a cluster.
WORKER_ACL = (f"user {USER} on >{PASSWORD} ~mr1:* ~mr:p:* +get +set +strlen +del +expire +rpush +rpushx +lrange +ping "
              "+echo +select +info +asking +cluster|slots").split()


def tokens(seed, count, vocabulary=250):
    drawn = random.Random(seed)
    return [drawn.randrange(20, vocabulary) for _ in range(count)]


def write_model(folder, context=8192, layers=4, width=128, feed=1024, head=32):
    """Writes a Llama model with random weights. A KV block is 256 KiB in fp32 and takes milliseconds to compute."""
    shutil.copytree(ROOT / "tests/golden/models/grouped_tied", folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_size=width, intermediate_size=feed, num_hidden_layers=layers, head_dim=head,
                  num_attention_heads=width // head, num_key_value_heads=1, max_position_embeddings=context)
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{name}.{norm}.weight"] = (width,)
        for part, shape in {"q": (width, width), "k": (head, width), "v": (head, width), "o": (width, width)}.items():
            shapes[f"{name}.self_attn.{part}_proj.weight"] = shape
        for part, shape in {"gate": (feed, width), "up": (feed, width), "down": (width, feed)}.items():
            shapes[f"{name}.mlp.{part}_proj.weight"] = shape
    drawn, header, body = random.Random(1), {}, bytearray()
    signs = bytes(0x3D | (byte & 0x80) for byte in range(256))  # bf16 numbers of random sign between 1/32 and 1/8
    for name, shape in sorted(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = bytearray(2 * count)
        values[0::2] = drawn.randbytes(count) if len(shape) > 1 else b"\x80" * count
        values[1::2] = drawn.randbytes(count).translate(signs) if len(shape) > 1 else b"\x3f" * count
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    return folder


# ---- Redis ----


class Refused(Exception):
    """An error reply of Redis."""


class Client:
    """One connection to Redis. Commands are lists of words; replies are bytes, integers, lists or None."""

    def __init__(self, address, context=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(10)
        self.socket.connect(address)
        if context:
            self.socket = context.wrap_socket(self.socket)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
        self.socket.sendall(b"".join(parts))

    def reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("Redis hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Refused(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        count = int(rest)
        if count < 0:
            return None
        if kind == b"*":
            return [self.reply() for _ in range(count)]
        value = self.file.read(count)
        self.file.read(2)
        return value

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

    def all(self, commands):
        """Sends many commands at once and returns their replies."""
        for words in commands:
            self.send(*words)
        return [self.reply() for _ in commands]


def certificates(folder):
    """Creates ca.pem, server.pem for 127.0.0.1 signed by it, and other-ca.pem of another authority, with their keys. The
    certificates have the extensions that Python 3.13 requires (VERIFY_X509_STRICT)."""
    def openssl(*words, text=None):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, input=text, text=True)
    elliptic = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "other-ca"):
        openssl("req", "-x509", *elliptic, "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-days",
                "2", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name in ("server", "worker"):
        openssl("req", *elliptic, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                "2", "-extfile", "/dev/stdin", "-out", f"{name}.pem",
                text="subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")


class Redis:
    """Starts a Redis server: on a free port, on a unix socket (unix), with TLS (tls) or as a cluster node (cluster). It
    has the user of WORKER_ACL for workers; tests use the default user, which has no password unless closed is set."""

    def __init__(self, *flags, unix=False, tls=False, cluster=False):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.port = fleet.free_port()
        self.address = str(self.folder / "redis.sock") if unix else ("127.0.0.1", self.port)
        self.context = None
        self.flags = ["--dir", self.folder, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile",
                      self.folder / "log", "--port", 0 if unix or tls else self.port, "--" + WORKER_ACL[0],
                      *WORKER_ACL[1:]]
        if unix:
            self.flags += ["--unixsocket", self.address]
        if tls:
            certificates(self.folder)
            self.context = ssl.create_default_context(cafile=self.folder / "ca.pem")
            self.context.load_cert_chain(self.folder / "worker.pem", self.folder / "worker.key")
            self.context.check_hostname = False
            self.flags += ["--tls-port", self.port, "--tls-cert-file", self.folder / "server.pem", "--tls-key-file",
                           self.folder / "server.key", "--tls-ca-cert-file", self.folder / "ca.pem"]
        if cluster:
            self.bus = fleet.free_port()
            self.flags += ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port", self.bus]
        self.flags += flags
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", *map(str, self.flags)])
        for _ in range(500):
            with contextlib.suppress(OSError):
                self.client = Client(self.address, self.context)
                self.client("PING")
                return
            time.sleep(0.01)
        self.stop()
        raise RuntimeError(f"redis-server does not answer: {(self.folder / 'log').read_text()[-1000:]}")

    def __call__(self, *words):
        return self.client(*words)

    def url(self, port=None):
        return f"redis://{USER}:{PASSWORD}@127.0.0.1:{port or self.port}/0"

    def keys(self):
        return self("KEYS", "mr1:*")

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Link:
    """A relay to a Redis. Its mode: "pass" forwards; "garbage" replaces replies by other bytes once a connection is set
    up; "split" forwards one byte at a time; "freeze" forwards nothing; "cut" closes every connection.
    when(direction, count, action) runs an action once after `count` more bytes; directions are "up" (to Redis) and
    "down"."""

    def __init__(self, port):
        self.mode, self.target, self.random = "pass", port, random.Random(5)
        self.lock = threading.Lock()
        self.left, self.direction, self.action = 0, None, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                self.tune(end)
            threading.Thread(target=self.relay, args=(near, far, "up"), daemon=True).start()
            threading.Thread(target=self.relay, args=(far, near, "down"), daemon=True).start()

    def tune(self, end):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def when(self, direction, count, action):
        with self.lock:
            self.direction, self.left, self.action = direction, count, action

    def count(self, direction, length):
        with self.lock:
            if self.action is None or direction != self.direction:
                return None
            self.left -= length
            if self.left > 0:
                return None
            action, self.action = self.action, None
            return action

    def relay(self, source, sink, direction):
        buffer = bytearray(1 << 18)
        try:
            while length := source.recv_into(buffer):
                data = memoryview(buffer)[:length]
                action = self.count(direction, length)
                if action and length > 1:
                    sink.sendall(data[:length // 2])
                    data = data[length // 2:]
                if action:
                    action()
                while self.mode == "freeze":
                    time.sleep(0.005)
                if self.mode == "cut":
                    break
                self.forward(sink, data, direction)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def forward(self, sink, data, direction):
        greeting = len(data) < 32 and data[:1] == b"+"
        if self.mode == "garbage" and direction == "down" and not greeting:
            data = self.random.randbytes(len(data))
        if self.mode == "split" and direction == "down":
            for at in range(len(data)):
                sink.sendall(data[at:at + 1])
        else:
            sink.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.mode = "cut"


# ---- workers ----


class Worker:
    """One `serve` with its own topics. Its producer and consumer stay connected, so a request starts no process."""

    def __init__(self, options, broker, name, *flags):
        self.name, self.count = name, 0
        self.serve = fleet.Worker(options, broker, "--prefix", name, "--group", name, *flags)
        tools = pathlib.Path(os.environ.get("MILLRACE_TOOLS", pathlib.Path(options.millrace).parent))
        self.producer = subprocess.Popen([str(tools / "produce"), broker.address, f"{name}.requests"],
                                         stdin=subprocess.PIPE, text=True)
        self.tail = subprocess.Popen([str(options.millrace), "tail", "--brokers", broker.address, "--prefix", name,
                                      "--json", "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     text=True)

    def ask(self, ids, **fields):
        self.count += 1
        fields = {"prompt_token_ids": ids, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "stream": False,
                  **fields}
        self.producer.stdin.write(f"{self.name}-{self.count}\t{json.dumps(fields)}\n")
        self.producer.stdin.flush()
        line = self.tail.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} does not answer:\n{self.log()}")
        result = json.loads(line)
        if result["id"] != f"{self.name}-{self.count}" or result["finish_reason"] != "length":
            raise RuntimeError(f"{self.name}: {line}\n{self.log()}")
        return result

    def warm(self, seed, count=700, times=3):
        """Sends uncached requests until the worker has measured how fast it computes."""
        for turn in range(times):
            self.ask(tokens(seed * 1000 + turn, count), cache={"read": False, "write": False})

    def figure(self, name, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return self.serve.metrics()[f"millrace_tier_{name}" + (f"{{{text}}}" if text else "")]

    def wait_for(self, what, good, seconds=20):
        until = time.monotonic() + seconds
        while not good():
            if time.monotonic() > until:
                raise AssertionError(f"{self.name}: not {what} in {seconds} s\n{self.log()}")
            time.sleep(0.005)

    def wait_up(self, up=1):
        self.wait_for("up" if up else "down", lambda: self.figure("up") == up)

    def wait_stored(self):
        """Waits until the stores that follow an answer are complete."""
        self.wait_for("stored", lambda: self.figure("stores_total") > 0 and self.figure("waiting_store_bytes") == 0)

    def log(self):
        return "".join(self.serve.log)

    def logged(self, text):
        return [line for line in self.serve.log if text in line]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Kills the worker: leaving its group would take seconds, and other tests cover that."""
        self.producer.stdin.close()
        for process in (self.serve.process, self.tail):
            process.kill()
            process.wait()
        self.producer.wait()
        self.tail.stdout.close()
        self.serve.__exit__()


def first(result):
    return result["timings_ms"]["first_token"]


def loaded(result):
    return result["usage"]["cached_tokens_redis"]
