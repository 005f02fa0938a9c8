import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { findDrift } from '../../store/find-drift.ts'
import { listLanes } from '../../store/list-lanes.ts'
import { listWorkers, type WorkerView } from '../../store/list-workers.ts'
import { type Finding, ok } from '../finding.ts'

/** Workers that have gone silent or are broken, names used twice, and slots that do not match what runs. */
export async function checkWorkers({ db }: { db: Queryable }): Promise<Finding[]> {
  const workers = await listWorkers(db)
  const staleMs = Math.min(...(await listLanes(db)).map((lane) => lane.staleMs))
  const silent = workers.filter((worker) => worker.silentMs > staleMs)
  const alive = workers.length - silent.length
  return [
    ok('workers', alive === 0 ? 'none is running' : `${alive} alive`),
    ...silent.map((worker) => silence(worker, alive)),
    ...workers.flatMap(brokenness),
    ...twice(workers),
    ...(await drift(db)),
  ]
}

function silence(worker: WorkerView, alive: number): Finding {
  const jobs =
    worker.running === 0
      ? 'it ran nothing'
      : `it ran ${worker.running} ${worker.running === 1 ? 'job' : 'jobs'}`
  return {
    check: `worker ${worker.name}`,
    level: worker.running > 0 ? 'warning' : 'note',
    found: `no sign of life for ${formatDuration(Math.round(worker.silentMs / 1000) * 1000)}; ${jobs}`,
    advice:
      alive === 0
        ? 'start a worker: it takes over what this one ran'
        : 'a live worker takes over what it ran within seconds; if this stays, look at its log',
  }
}

function brokenness({ name, broken }: WorkerView): Finding[] {
  if (broken === null) return []
  return [
    {
      check: `worker ${name}`,
      level: 'problem',
      found: `it cannot start jobs: ${broken}`,
      advice: `mend that, then sluice workers undrain ${name} lets it try again`,
    },
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
      advice: 'they work; but drain and undrain reach all of them: give each a name of its own',
    }))
}

async function drift(db: Queryable): Promise<Finding[]> {
  const found = await findDrift(db)
  if (found.length === 0) return [ok('holdings', 'what runs is held by a worker, slot by slot')]
  return found.map(({ worker, lane, held, running }) => ({
    check: 'holdings',
    level: 'problem' as const,
    found:
      worker === null
        ? `${running} jobs run in lane ${lane} under no worker`
        : `worker ${worker} runs ${running} jobs in lane ${lane} and holds ${held} slots`,
    advice: 'any worker repairs it within 30 s and logs DRIFT; please report that log, it is a bug',
  }))
}
