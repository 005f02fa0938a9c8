import type { Queryable } from '../../db/database.ts'
import { countOwners } from '../../store/count-owners.ts'
import { readAdmission } from '../../store/read-admission.ts'
import { type Finding, ok } from './finding.ts'

/** Enough to see who submits, and few enough to read in milliseconds. */
const LATEST_JOBS = 2000

/** Whether one of several owners could use up the ceiling. */
export async function checkOwners({ db }: { db: Queryable }): Promise<Finding[]> {
  const { maxPerOwner } = await readAdmission(db)
  if (maxPerOwner !== null) return [ok('owners', `each may have ${maxPerOwner} jobs`)]
  const owners = await countOwners(db, LATEST_JOBS)
  if (owners < 2) return [ok('owners', owners === 0 ? 'no owner has submitted jobs' : 'one submits jobs')]
  return [
    {
      check: 'owners',
      level: 'note',
      found: `${owners} submit jobs, and any of them may use the whole ceiling`,
      advice: 'limit each owner with: sluice admission --max-per-owner NUMBER',
    },
  ]
}
