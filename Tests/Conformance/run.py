#!/usr/bin/env python3
"""Runs programs that share no code with TalkNode against it: check_gateway.py and websockets' client against
`talknode dev-gateway`, and drive_node.py against `talknode run`, over ws and wss, paired silently and by approval.

  run.py --program .build/debug/talknode [--only WORD] [--verbose]

Every run has a gateway, a state folder and a port of its own, so they go in parallel. Ends with the line
'conformance: N passed, N failed'.
"""

import argparse, concurrent.futures, contextlib, json, os, queue, re, signal, socket, subprocess, sys, tempfile, threading

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 240  # seconds for one run, many times what it takes
TOKEN = "conformance-token-of-this-run-only"
NOTIFICATION = {"title": "Conformance", "body": "Grüße aus dem Test"}


class Failure(Exception):
    """A run that could not be carried out; the text says why."""


def end(process):
    """Ends a process with its group, gently at first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return


def first_line(process, what):
    """The first line a process prints, or a Failure: it must come within 20 s."""
    lines = queue.Queue()
    threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
    try:
        line = lines.get(timeout=20)
    except queue.Empty:
        line = ""
    if not line:
        raise Failure(f"{what} did not start (exit {process.poll()})")
    return line


@contextlib.contextmanager
def running(command, what, **options):
    """A process that prints a line when it is ready; gives that line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        yield first_line(process, what)
    finally:
        end(process)
        process.stdout.close()


@contextlib.contextmanager
def gateway(program, folder, *options):
    """`talknode dev-gateway`; gives what it printed about itself."""
    log = open(os.path.join(folder, "gateway.log"), "w")
    command = [program, "dev-gateway", "--json", "--token", TOKEN, "--state", os.path.join(folder, "gateway"), *options]
    with log, running(command, "dev-gateway", stderr=log) as line:
        yield json.loads(line)


@contextlib.contextmanager
def notification_bus(folder):
    """A private session bus with a notification server; gives the environment to use it and the server's record."""
    record = os.path.join(folder, "notifications.jsonl")
    address = f"unix:path={folder}/bus"
    bus = ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", f"--address={address}"]
    with running(bus, "dbus-daemon", stderr=subprocess.DEVNULL) as line:
        environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": line.strip()}
        server = [sys.executable, os.path.join(HERE, "notification_server.py"), record]
        with running(server, "notification server", env=environment):
            yield environment, record


def client(name, *arguments, env=None):
    """Runs one of the client programs to its end; gives exit code and output."""
    command = [sys.executable, os.path.join(HERE, name), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    )
    try:
        return process.communicate(timeout=LIMIT)[0], process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        return process.communicate()[0] + f"\nended after {LIMIT} s\n", 1


def counted(output, code):
    """(passed, failed) of a client that ends with 'N passed, N failed'; one that ended otherwise has failed."""
    match = re.search(r"^(\d+) passed, (\d+) failed$", output, re.M)
    if not match or int(match[1]) == 0:
        return 0, 1
    return int(match[1]), max(int(match[2]), 1 if code else 0)


def flow(program, folder, secure, allowed):
    """check_gateway.py flow: the life of a node, with every refusal on the way."""
    options = (["--tls"] if secure else []) + (["--allow", "device.info,device.status"] if allowed else [])
    declared = ["--commands", "device.info,device.status", "--caps", "device"]
    if not allowed:  # without an allow entry a gateway leaves a Linux node one command of ours
        declared = ["--commands", "system.notify", "--caps", "system"]
    with gateway(program, folder, *options) as facts:
        pin = ["--fingerprint", re.sub("[^0-9a-fA-F]", "", facts["fingerprint"])] if secure else []
        identity = os.path.join(folder, "identity.json")
        output, code = client(
            "check_gateway.py", "flow", facts["url"], "--token", facts["token"], "--identity", identity, *declared, *pin
        )
    return *counted(output, code), output


def setup(program, folder, secure):
    """check_gateway.py setup: a setup code for a node, its bootstrap token, and the device tokens that came of it."""
    with gateway(program, folder, *(["--tls"] if secure else [])) as facts:
        shared = ["--identity", os.path.join(folder, "identity.json")]
        access = ["--token", facts["token"]]
        profile = '{"bootstrapProfile":"node"}'
        output, code = client("check_gateway.py", "call", facts["url"], "device.pair.setupCode", profile, *access)
        if code:
            return 0, 1, output
        setup_code = json.loads(output)["setupCode"]
        output, code = client(
            "check_gateway.py", "setup", facts["url"], "--setup-code", setup_code, "--xff", "203.0.113.9", *shared
        )
    answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    first = [a for a in answers if a.get("hello") == "hello-ok" and a.get("role") == "node"]
    again = [a for a in answers if a.get("hello") == "hello-ok" and a.get("reconnect")]
    checks = [code == 0, len(first) == 1, any(a["reconnect"] == "node" for a in again)]
    return sum(checks), len(checks) - sum(checks), output


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def drive(program, folder, secure, remote, notify):
    """drive_node.py: our node's whole life, seen from the operator's side."""
    options = (["--tls"] if secure else []) + ["--allow", "device.info"]
    with contextlib.ExitStack() as stack:
        facts = stack.enter_context(gateway(program, folder, *options))
        environment, record = stack.enter_context(notification_bus(folder))
        node = [program, "run", "--gateway", "{url}", "--token-file", "{tokenfile}"]
        node += ["--state", os.path.join(folder, "node")]
        if secure:
            node += ["--trust", facts["fingerprint"]]
        arguments = ["--url", facts["url"], "--token", facts["token"], "--proxy-port", str(free_port())]
        arguments += ["--remote"] if remote else []
        arguments += ["--invoke", "device.info={}"]
        if notify:
            arguments += ["--invoke", "system.notify=" + json.dumps(NOTIFICATION)]
        output, code = client("drive_node.py", *arguments, "--", *node, env=environment)
        passed, failed = counted(output, code)
        if notify:
            with contextlib.suppress(FileNotFoundError):
                lines = [json.loads(line) for line in open(record)]
                if any(
                    line["title"] == NOTIFICATION["title"] and line["body"] == NOTIFICATION["body"] for line in lines
                ):
                    return passed + 1, failed, output
            return passed, failed + 1, output + "FAIL the notification server was not asked to show it\n"
    return passed, failed, output


def runs():
    """Every run: its name and what to call with (program, folder)."""
    for secure in (False, True):
        scheme = "wss" if secure else "ws"
        for allowed in (False, True):
            title = f"gateway over {scheme}, {'device commands' if allowed else 'nothing'} allowed"
            yield title, lambda p, f, s=secure, a=allowed: flow(p, f, s, a)
        yield f"gateway over {scheme}, setup code of a node", lambda p, f, s=secure: setup(p, f, s)
    yield "node over ws, paired silently", lambda p, f: drive(p, f, False, False, False)
    yield "node over ws, paired by approval", lambda p, f: drive(p, f, False, True, False)
    yield "node over wss, certificate pinned", lambda p, f: drive(p, f, True, False, False)
    yield "node over ws, paired silently, notifying", lambda p, f: drive(p, f, False, False, True)
    yield "node over ws, paired by approval, notifying", lambda p, f: drive(p, f, False, True, True)


def carry_out(title, call, program):
    with tempfile.TemporaryDirectory(prefix="talknode-conformance-") as folder:
        try:
            passed, failed, output = call(program, folder)
        except (Failure, OSError, ValueError, KeyError) as error:
            passed, failed, output = 0, 1, f"{type(error).__name__}: {error}\n"
        if failed:
            with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, "gateway.log")) as log:
                output += "".join(f"gateway: {line}" for line in log.readlines()[-40:])
    return title, passed, failed, output


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="", help="only runs with this in their name")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    chosen = [(title, call) for title, call in runs() if options.only in title]
    total = [0, 0]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for work in [pool.submit(carry_out, title, call, program) for title, call in chosen]:
            title, passed, failed, output = work.result()
            total[0] += passed
            total[1] += failed
            print(
                f"{'FAIL' if failed else 'ok  '} {title}: {passed} checks passed"
                + (f", {failed} failed" if failed else "")
            )
            if failed or options.verbose:
                print("".join(f"     {line}\n" for line in output.splitlines()), end="", flush=True)
    print(f"conformance: {total[0]} passed, {total[1]} failed")
    sys.exit(1 if total[1] or not total[0] else 0)


main()
