#!/usr/bin/env python3
"""A complete worker for Sluice in Python's standard library; docs/reference/worker-protocol.md describes the protocol.

SLUICE_SERVER=http://127.0.0.1:8080 SLUICE_KEY=slk_... python3 worker.py
"""
import json, os, signal, socket, threading, time, traceback, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

SERVER = os.environ["SLUICE_SERVER"].rstrip("/") + "/api/v1"
KEY = os.environ.pop("SLUICE_KEY")  # out of the environment of whatever tasks start
CAPACITY = int(os.environ.get("SLUICE_CAPACITY", "4"))


class Gone(Exception):
    """The server says that this worker has ended: it must register anew."""


def post(path, body=None, timeout=30):
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    data = b"" if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(SERVER + path, data, headers, method="POST")
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        problem = json.loads(error.read() or b"{}")
        if problem.get("code") == "WORKER_NOT_FOUND":
            raise Gone() from None
        raise OSError(f"{error.code} {problem.get('code')}: {problem.get('detail')}") from None


class Context:
    """What a task gets beside its input. A task that takes long looks at `stopped` now and then."""

    def __init__(self, worker, job):
        self.worker, self.job, self.stopped = worker, job, None
        self.lease = {"id": job["id"], "attempt": job["attempt"]}

    def log(self, line, level="info"):
        at = datetime.now(timezone.utc).isoformat()
        self.worker.send("logs", {"lines": [{**self.lease, "at": at, "level": level, "line": line}]})

    def progress(self, fraction, message=""):
        self.worker.send("progress", {"notes": [{**self.lease, "progress": fraction, "message": message}]})

    def step(self, name, work):
        """Runs `work` once per job: later attempts get the result that was stored."""
        stored = self.worker.send("steps/load", {**self.lease, "name": name})
        if "result" not in stored:
            body = {**self.lease, "name": name, "result": json.dumps(work())}
            stored = self.worker.send("steps/save", body)
        return json.loads(stored["result"])


class Worker:
    def __init__(self, tasks):
        self.tasks, self.running, self.ended = tasks, {}, []
        self.stopping, self.wake = False, threading.Event()

    def register(self):
        tasks = [{"name": name} for name in self.tasks]
        facts = {"name": f"python-{socket.gethostname()}-{os.getpid()}", "capacity": CAPACITY}
        about = post("/workers", {**facts, "cores": os.cpu_count() or 1, "tasks": tasks})
        self.id, self.beat_s = about["id"], about["heartbeatMs"] / 1000
        self.stale_s, self.good_at = min(about["staleMs"].values()) / 1000, time.monotonic()

    def send(self, path, body=None):
        return post(f"/workers/{self.id}/{path}", body)

    def beat(self):
        """In a thread of its own: renews the leases, and stops everything when that fails for too long."""
        while True:
            sent_at = time.monotonic()
            try:
                orders = post(f"/workers/{self.id}/heartbeat", timeout=self.beat_s)
                self.good_at = sent_at
                self.stopping = self.stopping or orders["stop"]
                self.stop_jobs(orders["cancel"], "cancelled")
            except (OSError, Gone):
                if time.monotonic() - self.good_at > self.stale_s - self.beat_s:
                    self.stop_jobs(list(self.running), "lost")
            time.sleep(self.beat_s * 0.8)

    def stop_jobs(self, ids, why):
        for context in [self.running[each] for each in ids if each in self.running]:
            context.stopped = context.stopped or why

    def work(self, context):
        job, ending = context.job, {}
        try:
            result = self.tasks[job["task"]](json.loads(job["input"] or "null"), context)
            ending = {"ending": "completed", "result": json.dumps(result)}
        except Exception as error:
            tries = job.get("failures", 0) + 1
            text = traceback.format_exception_only(error)[-1].strip()
            ending = {"ending": "retry", "error": text, "delayMs": 1000 * 2**tries} if tries < 3 else {"ending": "failed", "error": text}
        if context.stopped == "cancelled":
            ending = {"ending": "cancelled", "error": "cancelled: on request"}
        self.ended.append({**context.lease, **ending})
        self.wake.set()

    def cycle(self, pool):
        """Reports what has ended and takes what there is room for. Sending it again after a failure does no harm."""
        ended = list(self.ended)
        running = [c.lease for c in list(self.running.values()) if all(c.lease["id"] != e["id"] for e in ended)]
        free = 0 if self.stopping else CAPACITY - len(running)
        # Only a worker with nothing to report waits at the server; the others come back soon.
        wait_ms = 0 if ended or running or self.stopping else 5000
        body = {"ended": ended, "running": running, "free": free, "waitMs": wait_ms}
        answer = self.send("cycle", body)
        for each in ended:
            self.ended.remove(each)
            self.running.pop(each["id"], None)
        self.stop_jobs(answer.get("lost", []), "lost")
        self.stop_jobs(answer.get("cancel", []), "cancelled")
        for job in answer["jobs"]:
            self.running[job["id"]] = Context(self, job)
            pool.submit(self.work, self.running[job["id"]])

    def run(self):
        self.register()
        threading.Thread(target=self.beat, daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        with ThreadPoolExecutor(CAPACITY) as pool:
            while not self.stopping or self.running:
                try:
                    self.cycle(pool)
                except Gone:
                    self.stop_jobs(list(self.running), "lost")
                    self.running, self.ended = {}, []
                    self.register()
                except OSError as error:
                    print("the server is away:", error, flush=True)
                    time.sleep(1)
                if self.running:
                    self.wake.wait(0.2)
                    self.wake.clear()
        self.send("close", {"why": "stopped"})


def count_words(text, context):
    words = context.step("split", lambda: text.split())
    context.log(f"counting {len(words)} words")
    context.progress(1, "done")
    return {word: words.count(word) for word in sorted(set(words))}


if __name__ == "__main__":
    Worker({"count_words": count_words}).run()
