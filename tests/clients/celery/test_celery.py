# SPDX-License-Identifier: BSD-3-Clause
"""Task queues with Celery, Redis as broker and result store. Usage: test_celery.py PORT

Workers are separate processes, as in production. Every check raises on failure; the last line is
"N checks passed". Run by tests/clients/main.rs.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from celery import Celery, chain, chord, group
from celery.exceptions import TimeLimitExceeded

PORT = os.environ.get("CELERY_TEST_PORT") or sys.argv[1]
URL = f"redis://127.0.0.1:{PORT}/"
app = Celery("test_celery", broker=URL + "0", backend=URL + "1")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3},
    worker_prefetch_multiplier=1,
    result_expires=600,
)
CHECKS = 0


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def third_time(self, key):
    if app.backend.client.incr(key) < 3:
        raise self.retry(countdown=0.05)
    return self.request.retries


@app.task
def fail():
    raise ValueError("on purpose")


@app.task
def slow(key):
    app.backend.client.incr(key)
    time.sleep(2)
    return "finished"


def check(got, expected, what):
    global CHECKS
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")
    CHECKS += 1


def start_worker(folder, number):
    environment = dict(os.environ, CELERY_TEST_PORT=str(PORT), PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
    arguments = [sys.executable, "-m", "celery", "-A", "test_celery", "worker", "-c", "2", "-n", f"worker{number}@test",
                 "--loglevel", "WARNING", "--without-mingle", "-B" if number == 0 else "-E"]
    if number == 0:
        arguments += ["-s", os.path.join(folder, "schedule")]
    log = open(os.path.join(folder, f"worker{number}.log"), "w", encoding="utf-8")
    return subprocess.Popen(arguments, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def until(what, condition):
    end = time.time() + 60
    while not condition():
        if time.time() > end:
            raise AssertionError(f"timed out waiting for {what}")
        time.sleep(0.05)


def scenario(workers, folder):
    until("two workers", lambda: len(app.control.ping(timeout=1) or []) == 2)
    check(add.delay(20, 22).get(timeout=30), 42, "a task")
    results = [add.delay(number, number) for number in range(200)]
    check([result.get(timeout=60) for result in results], [2 * number for number in range(200)], "200 tasks")
    check(group(add.s(number, 1) for number in range(20))().get(timeout=30), list(range(1, 21)), "a group")
    check(chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=30), 10, "a chain")
    check(chord((add.s(number, number) for number in range(30)), total.s())().get(timeout=60), 870, "a chord")
    check(third_time.delay("tries").get(timeout=30), 2, "retries")
    failed = fail.delay()
    try:
        failed.get(timeout=30)
        raise AssertionError("the task must fail")
    except ValueError as error:
        check(str(error), "on purpose", "the error")
    check(failed.state, "FAILURE", "state of the failed task")
    start = time.time()
    check(add.apply_async((1, 1), countdown=0.5).get(timeout=30), 2, "a delayed task")
    check(time.time() - start >= 0.5, True, "the delay is kept")
    revoked = add.apply_async((1, 1), countdown=3600)
    app.control.revoke(revoked.id)
    until("a revoked task", lambda: any(revoked.id in ids for ids in (app.control.inspect().revoked() or {}).values()))
    check(sorted(app.control.inspect().stats() or {}), ["worker0@test", "worker1@test"], "statistics of both workers")
    # After a worker is killed with its processes, its unacknowledged tasks are handed out again to a
    # worker that starts after their visibility timeout.
    began = app.backend.client
    taken = [slow.delay("begun") for _ in range(4)]
    until("four running tasks", lambda: int(began.get("begun") or 0) >= 4)
    os.killpg(workers[1].pid, signal.SIGKILL)
    workers[1].wait()
    killed = time.time()
    until("the visibility timeout", lambda: time.time() - killed > app.conf.broker_transport_options["visibility_timeout"] + 0.5)
    workers.append(start_worker(folder, 2))
    check([result.get(timeout=60) for result in taken], ["finished"] * 4, "no task is lost with a killed worker")
    check(int(began.get("begun")) >= 6, True, "at least two tasks are started again")


def main():
    app.control.purge()
    with tempfile.TemporaryDirectory() as folder:
        workers = [start_worker(folder, number) for number in range(2)]
        try:
            scenario(workers, folder)
        except BaseException:
            for number in range(len(workers)):
                print(open(os.path.join(folder, f"worker{number}.log"), encoding="utf-8").read())
            raise
        finally:
            for worker in workers:
                if worker.poll() is None:
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
    print(f"{CHECKS} checks passed")


if __name__ == "__main__":
    main()
