import type { Queryable } from '../../db/database.ts'
import { findDrift } from '../../store/find-drift.ts'
import { listLanes } from '../../store/list-lanes.ts'
import { listWorkers, type WorkerView } from '../../store/list-workers.ts'
import { type Finding, ok } from './finding.ts'

/** How many are alive, names used twice, and slots that do not match what runs. */
export async function checkWorkers({ db }: { db: Queryable }): Promise<Finding[]> {
  const workers = await listWorkers(db)
  const staleMs = Math.min(...(await listLanes(db)).map((lane) => lane.staleMs))
  const alive = workers.filter((worker) => worker.silentMs <= staleMs).length
  return [
    ok('workers', alive === 0 ? 'none is running' : `${alive} alive`),
    ...twice(workers),
    ...(await drift(db)),
  ]
}

function twice(workers: readonly WorkerView[]): Finding[] {
  const names = workers.map((worker) => worker.name)
  return [...new Set(names)]
    .filter((name) => names.indexOf(name) !== names.lastIndexOf(name))
    .map((name) => ({
      check: `worker ${name}`,
      level: 'note' as const,
      found: `${names.filter((each) => each === name).length} workers have this name`,
      advice: 'they work, but drain and undrain apply to all of them: give each its own name',
    }))
}

async function drift(db: Queryable): Promise<Finding[]> {
  const found = await findDrift(db)
  if (found.length === 0) return [ok('holdings', 'a worker holds a slot for every running job')]
  return found.map(({ worker, lane, held, running }) => ({
    check: 'holdings',
    level: 'problem' as const,
    found:
      worker === null
        ? `${running} jobs in lane ${lane} run without a worker`
        : `worker ${worker} runs ${running} jobs in lane ${lane} and holds ${held} slots`,
    advice: 'any worker repairs it within 30 s and logs DRIFT; this is a bug, please report that log',
  }))
}
