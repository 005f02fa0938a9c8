import type { Now } from '../../../../src/client/index.ts'
import { To } from '../../parts/link.tsx'
import { Note } from '../../parts/notes.tsx'
import { useHasScreen } from '../../shell/navigation.tsx'

interface Finding {
  readonly words: string
  readonly path: string
  readonly search?: Record<string, string>
}

/** What an operator should look at first, worst first; nothing when all is well. */
export function findingsOf(now: Now): Finding[] {
  const { admission, lanes, workers, devices } = now
  const waiting = lanes.reduce((sum, { depth }) => sum + depth, 0)
  const paused = lanes.filter(({ enabled, depth }) => !enabled && depth > 0)
  const lost = devices.filter(({ lostAt }) => lostAt !== null)
  return [
    ...(workers.live === 0 && waiting > 0
      ? [{ words: `No worker is alive, and ${count(waiting, 'job')} could start`, path: '/workers' }]
      : []),
    ...(admission.retryAfter !== null
      ? [
          {
            words: `New work is refused: the ceiling of ${admission.maxActive} is reached`,
            path: '/jobs',
            search: { status: 'queued,running' },
          },
        ]
      : []),
    ...lost.map(({ name, budget }) => ({ words: `Device ${name} of ${budget} is gone`, path: '/gpu' })),
    ...(workers.silent > 0
      ? [{ words: `${count(workers.silent, 'worker')} not heard of for two heartbeats`, path: '/workers' }]
      : []),
    ...paused.map(({ name, depth }) => ({
      words: `Lane ${name} is paused while ${count(depth, 'job')} wait`,
      path: '/lanes',
      search: { lane: name },
    })),
    ...(now.driftLastHour > 0
      ? [
          {
            words: `The reconciler put right ${count(now.driftLastHour, 'thing')} in the last hour`,
            path: '/recovery',
          },
        ]
      : []),
  ]
}

/** One sentence on how it goes, and a line for each thing that is not as it should be. */
export function Verdict({ now }: { now: Now }) {
  const findings = findingsOf(now)
  const has = useHasScreen()
  const { running, queued, retrying } = now.states
  return (
    <>
      <p>
        {count(running, 'job')} running, {queued.toLocaleString()} queued
        {retrying > 0 && `, ${retrying.toLocaleString()} retrying`}
        {findings.length === 0 && '. Nothing needs attention.'}
      </p>
      {findings.length > 0 && (
        <ul className="findings">
          {findings.map(({ words, path, search }) => (
            <li key={words}>
              <Note kind="warn">
                {has(path) ? (
                  <To path={path} {...(search !== undefined && { search })}>
                    {words}
                  </To>
                ) : (
                  words
                )}
              </Note>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function count(number: number, thing: string): string {
  return `${number.toLocaleString()} ${thing}${number === 1 ? '' : 's'}`
}
