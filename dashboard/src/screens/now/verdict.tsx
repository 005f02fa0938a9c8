import { type Now, sentenceOf } from '../../../../src/client/index.ts'
import { useLink } from '../../live/page-stream.ts'
import { count } from '../../parts/count.ts'
import { To } from '../../parts/link.tsx'
import { Note } from '../../parts/notes.tsx'
import { useHasScreen } from '../../shell/navigation.tsx'

type Finding = Now['findings'][number]

/** One sentence with the numbers of the lists below, and a line for each thing that needs attention. */
export function Verdict({ now }: { now: Now }) {
  const { findings } = now
  // Of a picture that is old nobody can tell.
  const { state } = useLink()
  const retrying = now.states.retrying + now.steps.retrying
  return (
    <>
      <p>
        {jobsAndSteps(now, 'running')} running, {jobsAndSteps(now, 'queued')} queued
        {retrying > 0 && `, ${jobsAndSteps(now, 'retrying')} retrying`}
        {findings.length === 0 && state !== 'stale' && '. Nothing needs attention.'}
      </p>
      {findings.length > 0 && (
        <ul className="findings">
          {findings.map((finding) => (
            <li key={`${finding.rule} ${finding.subject}`}>
              <Note kind="warn">
                <FindingLink finding={finding} />
              </Note>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function FindingLink({ finding }: { finding: Finding }) {
  const { advice, link } = finding
  const has = useHasScreen()
  const words = sentenceOf(finding)
  const { pathname, searchParams } = new URL(link, location.origin)
  if (!has(pathname)) return <span title={advice}>{words}</span>
  return (
    <To path={pathname} search={Object.fromEntries(searchParams)} title={advice}>
      {words}
    </To>
  )
}

/** `6 jobs and 3 steps`: as the tiles below count them. */
function jobsAndSteps({ states, steps, more }: Now, state: 'running' | 'queued' | 'retrying'): string {
  const jobs = `${states[state].toLocaleString()}${more.includes(state) ? '+' : ''} ${states[state] === 1 ? 'job' : 'jobs'}`
  return steps[state] === 0 ? jobs : `${jobs} and ${count(steps[state], 'step')}`
}
