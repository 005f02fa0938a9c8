#!/usr/bin/env python3
"""A complete worker for Sluice in Python's standard library; docs/reference/worker-protocol.md describes the protocol.

SLUICE_SERVER=http://127.0.0.1:8080 SLUICE_KEY=slk_... python3 worker.py

The key has the role worker. Ctrl-C or SIGTERM: finishes what runs and leaves; a second one: at once, and others take it over.
"""
import http.client, json, os, signal, socket, sys, threading, time, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

SERVER = os.environ.get("SLUICE_SERVER", "http://127.0.0.1:8080").rstrip("/") + "/api/v1"
KEY = os.environ.pop("SLUICE_KEY", "")  # programs that tasks start must not see it
CAPACITY = int(os.environ.get("SLUICE_CAPACITY", "4"))
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FAILED = (OSError, http.client.HTTPException)  # refused, no answer, or half an answer

def post(path, body=None, timeout=30):
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    data = b"" if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(SERVER + path, data, headers), timeout=timeout) as answer:
        return json.load(answer)

def reason_of(error):
    """What went wrong, in the server's own words where there are some."""
    if isinstance(error, urllib.error.HTTPError):
        try:
            return f"{error.code} {json.load(error)['detail']}"
        except (ValueError, KeyError, TypeError, *FAILED):
            pass
    return str(getattr(error, "reason", error))

class Job:
    """What a task gets beside its input. Once the job is to stop, `progress` raises: a long task calls it now and then."""
    def __init__(self, worker, given):
        self.worker, self.given, self.stopped = worker, given, None
        self.lease = {"id": given["id"], "attempt": given["attempt"]}

    def log(self, line, level="info"):
        at = datetime.now(timezone.utc).isoformat()
        self.worker.send("logs", {"lines": [{**self.lease, "at": at, "level": level, "line": line}]})

    def progress(self, fraction, message=""):
        if self.stopped:
            raise InterruptedError(self.stopped)
        self.worker.send("progress", {"notes": [{**self.lease, "progress": fraction, "message": message}]})

    def run(self, task):
        try:
            result = task(json.loads(self.given["input"] or "null"), self)
            ending = {"ending": "completed", "result": json.dumps(result)}
        except Exception as error:
            ending = {"ending": "failed", "error": f"{type(error).__name__}: {error}"}
            failures = self.given.get("failures", 0) + 1
            if self.stopped == "cancelled":
                ending = {"ending": "cancelled", "error": "cancelled: on request"}
            elif failures < 3:
                ending.update(ending="retry", delayMs=1000 * 2**failures)
        if self.worker.running.get(self.given["id"]) is self:  # not a job of an earlier registration of this worker
            self.worker.ended.append({**self.lease, **ending})
        self.worker.wake.set()

class Worker:
    def __init__(self, tasks):
        self.tasks, self.stopping, self.wake = tasks, False, threading.Event()
        self.register()

    def register(self):
        facts = {"name": f"python-{socket.gethostname()}-{os.getpid()}", "cores": os.cpu_count() or 1}
        about = post("/workers", {**facts, "capacity": CAPACITY, "tasks": [{"name": name} for name in self.tasks]})
        self.id, self.running, self.ended, self.resync = about["id"], {}, [], False
        self.beat_s, self.stale_s = about["heartbeatMs"] / 1000, min(about["staleMs"].values()) / 1000
        self.good_at = time.monotonic()

    def send(self, path, body=None, timeout=30):
        return post(f"/workers/{self.id}/{path}", body, timeout)

    def stop(self, ids, why):
        for job in [self.running[each] for each in ids if each in self.running]:
            job.stopped = job.stopped or why

    def beat(self):
        """In a thread of its own: renews the leases, and stops everything in time when that fails."""
        while True:
            sent_at = time.monotonic()
            try:
                orders = self.send("heartbeat", timeout=self.beat_s)
                self.good_at, self.stopping = sent_at, self.stopping or orders["stop"]
                self.stop(orders["cancel"], "cancelled")
            except FAILED:
                if time.monotonic() - self.good_at > self.stale_s - self.beat_s:
                    self.stop(list(self.running), "lost")
            time.sleep(self.beat_s * 0.8)

    def cycle(self, pool):
        """Reports what has ended and takes what there is room for. Sending it again after a failure does no harm."""
        if self.id is None:
            self.register()
        ended = list(self.ended)
        reported = {each["id"] for each in ended}
        running = [job.lease for id, job in self.running.items() if id not in reported]
        free = 0 if self.stopping else CAPACITY - len(running)
        wait_ms = 0 if ended or running or self.stopping else 5000  # do not wait while there is something to report
        body = {"ended": ended, "running": running, "free": free, "waitMs": wait_ms, "resync": self.resync}
        self.resync = True  # until a response arrives: a lost one may have contained jobs
        answer = self.send("cycle", body)
        self.resync = False
        del self.ended[: len(ended)]
        for id in reported:
            self.running.pop(id, None)
        self.stop(answer.get("lost", []), "lost")
        self.stop(answer.get("cancel", []), "cancelled")
        for given in answer["jobs"]:
            job = self.running[given["id"]] = Job(self, given)
            pool.submit(job.run, self.tasks[given["task"]])

    def ask_to_stop(self, *_):
        self.stopping = True
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)  # a second signal ends the process, and other workers take over its jobs

    def run(self):
        threading.Thread(target=self.beat, daemon=True).start()
        for each in SIGNALS:
            signal.signal(each, self.ask_to_stop)
        print(f"ready to take jobs: {', '.join(self.tasks)}", flush=True)
        with ThreadPoolExecutor(CAPACITY) as pool:
            while not self.stopping or self.running:
                try:
                    self.cycle(pool)
                    self.wake.wait(0.2 if self.running else 0)
                    self.wake.clear()
                except FAILED as error:
                    print("a cycle failed:", reason_of(error), flush=True)
                    time.sleep(1)
                    if isinstance(error, urllib.error.HTTPError) and error.code == 404:  # declared dead: register again
                        self.stop(list(self.running), "lost")
                        self.id = None
        try:
            self.send("close", {"why": "stopped"})
        except FAILED as error:  # nothing runs any more: the server notices by the missing heartbeats
            print("could not say goodbye:", reason_of(error), flush=True)
        print("stopped", flush=True)

def start(tasks):
    """Runs a worker until it is told to stop; ends the program with a line where the server cannot be reached or refuses."""
    try:
        worker = Worker(tasks)
    except FAILED as error:
        sys.exit(f"cannot register at {SERVER}: {reason_of(error)}")
    except KeyboardInterrupt:
        sys.exit(130)
    worker.run()

def count_words(text, job):
    words = text.split()
    job.log(f"counting {len(words)} words")
    job.progress(1, "done")
    return {word: words.count(word) for word in sorted(set(words))}

if __name__ == "__main__":
    start({"count_words": count_words})
