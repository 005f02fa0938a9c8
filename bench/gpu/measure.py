"""What Sluice's accounting of GPU memory rests on, measured on a real GPU.

    python3 bench/gpu/measure.py [FOLDER]

writes measurements.json and the raw output of nvidia-smi (gpus.csv, apps.csv, list.txt) into FOLDER, else $OUT, else here.
Needs PyTorch with CUDA. Models are stood in for by plain allocations: no weights are needed. Takes about three minutes and
up to 80 GB of the first GPU and 45 GB of host memory.
"""

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time

GB = 1024**3
FIELDS = "index,uuid,name,pci.bus_id,memory.total,memory.used,memory.free,mig.mode.current"
MORE_FIELDS = FIELDS + ",memory.reserved,utilization.gpu,driver_version,temperature.memory,ecc.mode.current,fan.speed"
SIZES = [1, 2.5, 5, 10, 20, 40, 80]
LOADS = [1, 2.5, 5, 10, 20, 40]
REPEATS = 5


def smi(query):
    done = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, timeout=20)
    return done.stdout


def read_used():
    """MiB in use and free on the first GPU, as nvidia-smi tells, and when the answer was there."""
    text = smi(["--query-gpu=memory.used,memory.free", "--format=csv,noheader,nounits"])
    used, free = text.splitlines()[0].split(",")
    return int(used), int(free), time.perf_counter()


def settled():
    """The memory in use once it stands still: three equal readings."""
    last = []
    while True:
        last = [*last[-2:], read_used()[0]]
        if len(last) == 3 and len(set(last)) == 1:
            return last[0]
        time.sleep(0.1)


class Holder:
    """A process that holds GPU memory, as a model's process does."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--hold"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started = self.ask({"do": "start"})

    def ask(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line == "":
            raise RuntimeError("the holder has died")
        return json.loads(line)

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


def hold():
    """The holder's side: one order a line."""
    import torch

    held = {}

    def start(order):
        begun = time.perf_counter()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        return {"contextSeconds": time.perf_counter() - begun, "torch": torch.__version__, "cuda": torch.version.cuda}

    def allocate(order):
        held[order["name"]] = torch.zeros(int(order["bytes"]), dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        return {}

    def load(order):
        size = int(order["bytes"])
        host = torch.full((size,), 1, dtype=torch.uint8, pin_memory=order["pinned"])
        torch.cuda.synchronize()
        begun = time.perf_counter()
        held[order["name"]] = host.to("cuda")
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - begun}

    def free(order):
        del held[order["name"]]
        begun = time.perf_counter()
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - begun}

    def too_much(order):
        try:
            torch.zeros(int(order["bytes"]), dtype=torch.uint8, device="cuda")
        except Exception as error:
            return {"class": type(error).__name__, "message": str(error)}
        return {"message": None}

    orders = {"start": start, "allocate": allocate, "load": load, "free": free, "too_much": too_much}
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(orders[order["do"]](order)), flush=True)


def detection():
    seconds = []
    for _ in range(20):
        begun = time.perf_counter()
        smi([f"--query-gpu={FIELDS}", "--format=csv"])
        seconds.append(time.perf_counter() - begun)
    return {
        "callMs": {"median": ms(statistics.median(seconds)), "max": ms(max(seconds)), "calls": len(seconds)},
        "unknownField": subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid,no.such.field", "--format=csv"], capture_output=True, text=True
        ).__dict__["stdout"].strip(),
    }


def held_against_measured():
    rows = []
    idle = settled()
    holder = Holder()
    context = settled() - idle
    for size in SIZES:
        before = settled()
        holder.ask({"do": "allocate", "name": "model", "bytes": size * GB})
        after, free, _ = read_used()
        after = settled()
        apps = smi(["--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv"])
        own = next((line for line in apps.splitlines() if line.startswith(str(holder.process.pid))), None)
        rows.append(
            {
                "heldMiB": size * 1024,
                "measuredMiB": after - before,
                "totalUsedMiB": after,
                "freeMiB": free,
                "ofProcess": own,
            }
        )
        holder.ask({"do": "free", "name": "model"})
    facts = {"idleUsedMiB": idle, "contextMiB": context, **holder.started}
    holder.end()
    return {**facts, "sizes": rows}


def reload_seconds():
    rows = []
    holder = Holder()
    for pinned in (False, True):
        for size in LOADS:
            if pinned and size > 20:
                continue
            seconds = []
            for _ in range(3 if size <= 20 else 2):
                seconds.append(holder.ask({"do": "load", "name": "model", "bytes": size * GB, "pinned": pinned})["seconds"])
                holder.ask({"do": "free", "name": "model"})
            best = min(seconds)
            rows.append(
                {
                    "GB": size,
                    "from": "pinned host memory" if pinned else "ordinary host memory",
                    "seconds": [round(each, 3) for each in seconds],
                    "GBperSecond": round(size / best, 2),
                }
            )
    holder.end()
    return rows


def time_until_free(begun, level):
    """From `begun` until a reading shows no more than `level` MiB in use; and what the readings before it showed."""
    seen = []
    while True:
        used, _, at = read_used()
        seen.append({"ms": ms(at - begun), "usedMiB": used})
        if used <= level or at - begun > 10:
            return {"freeAfterMs": ms(at - begun), "readings": seen[:12]}


def freed_lag():
    free, exit_, kill = [], [], []
    for _ in range(REPEATS):
        holder = Holder()
        level = settled() + 64
        holder.ask({"do": "allocate", "name": "model", "bytes": 20 * GB})
        settled()
        begun = time.perf_counter()
        holder.ask({"do": "free", "name": "model"})
        free.append({"freeCallMs": ms(time.perf_counter() - begun), **time_until_free(begun, level)})
        holder.end()
    for how, rows in (("exit", exit_), ("kill", kill)):
        for _ in range(REPEATS):
            level = settled() + 64
            holder = Holder()
            holder.ask({"do": "allocate", "name": "model", "bytes": 20 * GB})
            settled()
            begun = time.perf_counter()
            if how == "kill":
                os.kill(holder.process.pid, signal.SIGKILL)
            else:
                holder.process.stdin.close()
            rows.append(time_until_free(begun, level))
            holder.process.wait()
    return {"orderlyFree": free, "orderlyExit": exit_, "killed": kill}


def side_by_side():
    idle = settled()
    holders = [Holder() for _ in range(3)]
    contexts = settled() - idle
    for holder, size in zip(holders, (20, 20, 5)):
        holder.ask({"do": "allocate", "name": "model", "bytes": size * GB})
    measured = settled() - idle
    for holder in holders:
        holder.end()
    return {"processes": 3, "heldMiB": 45 * 1024, "contextsMiB": contexts, "measuredMiB": measured}


def out_of_memory(total_mib):
    holder = Holder()
    answer = holder.ask({"do": "too_much", "bytes": (total_mib + 10240) * 1024 * 1024})
    holder.end()
    return answer


def ms(seconds):
    return round(seconds * 1000, 1)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("OUT", ".")
    for name, query in (
        ("gpus.csv", [f"--query-gpu={FIELDS}", "--format=csv"]),
        ("gpus-more.csv", [f"--query-gpu={MORE_FIELDS}", "--format=csv"]),
        ("list.txt", ["-L"]),
    ):
        with open(os.path.join(folder, name), "w") as file:
            file.write(smi(query))
    row = smi(["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]).splitlines()[0].split(", ")
    results = {
        "machine": {"gpu": row[0], "driver": row[1], "totalMiB": int(row[2]), "cores": os.cpu_count(), "system": platform.platform()},
        "at": time.strftime("%Y-%m-%d"),
    }
    parts = {
        "detection": detection,
        "heldAgainstMeasured": held_against_measured,
        "reload": reload_seconds,
        "freedLag": freed_lag,
        "sideBySide": side_by_side,
        "outOfMemory": lambda: out_of_memory(int(row[2])),
    }
    for name, measure in parts.items():
        begun = time.perf_counter()
        try:
            results[name] = measure()
        except Exception as error:
            results[name] = {"failed": repr(error)}
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
        with open(os.path.join(folder, "measurements.json"), "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    if "--hold" in sys.argv:
        hold()
    else:
        main()
