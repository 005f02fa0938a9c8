import type { Now } from '../../../../src/client/index.ts'
import { useLink } from '../../live/page-stream.ts'
import { count } from '../../parts/count.ts'
import { To } from '../../parts/link.tsx'
import { Note } from '../../parts/notes.tsx'
import { useHasScreen } from '../../shell/navigation.tsx'
import { findingsOf } from './findings.ts'

/** One sentence on how it goes, and a line for each thing that is not as it should be. */
export function Verdict({ now }: { now: Now }) {
  const findings = findingsOf(now)
  const has = useHasScreen()
  // Of a picture that is old nobody can tell.
  const { state } = useLink()
  // As lanes count them, steps of workflows too; a workflow itself takes no slot.
  const running = now.lanes.reduce((sum, lane) => sum + lane.running, 0)
  const waiting = now.lanes.reduce((sum, lane) => sum + lane.depth, 0)
  const retrying = now.states.retrying + now.steps.retrying
  return (
    <>
      <p>
        {count(running, 'job')} running on workers, {waiting.toLocaleString()} waiting for a slot
        {retrying > 0 && `, ${retrying.toLocaleString()} retrying`}
        {findings.length === 0 && state !== 'stale' && '. Nothing needs attention.'}
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
