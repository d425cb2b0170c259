"""DBOS doing what the Loom ``ticks`` does: reads a number of workflows from each line, prints the seconds they took."""

from __future__ import annotations

import sys
import time

from dbos import DBOS

DBOS(config={"name": "ticks", "system_database_url": sys.argv[1], "run_admin_server": False, "log_level": "ERROR"})


@DBOS.step()
def tick() -> str:
    return "done"


@DBOS.workflow()
def ticks() -> None:
    for _ in range(5):
        tick()


DBOS.launch()
print("ready", flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for handle in [DBOS.start_workflow(ticks) for _ in range(int(line))]:
        handle.get_result()
    print(time.perf_counter() - began, flush=True)
