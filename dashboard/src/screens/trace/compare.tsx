import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { differences, type Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { JobLink } from '../../parts/link.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import type { Level } from './level-name.ts'

const MOST = 50

interface Difference {
  readonly path: string
  readonly here?: unknown
  readonly there?: unknown
}

/** Where a level differs from a good one: the one that was found by itself, or any other job. */
export function Compare({ level, job }: { level: Level; job: Job | undefined }) {
  const [other, setOther] = useState<string>()
  return (
    <Panel title="Comparison with a completed job" aside={<OtherJob onChoose={setOther} />}>
      {other !== undefined && job !== undefined ? (
        <WithJob job={job} other={other} />
      ) : (
        <WithFound level={level} />
      )}
    </Panel>
  )
}

function WithFound({ level: { comparison } }: { level: Level }) {
  if (comparison === undefined)
    return (
      <p className="soft">
        No sibling and no earlier run of this step has completed. Enter a job to compare with.
      </p>
    )
  const good =
    comparison.how === 'sibling' ? `Sibling [${comparison.index}]` : 'The same step of the last completed run'
  return (
    <>
      <p className="in-text">
        {good}, <JobLink id={comparison.with} />:{' '}
        {comparison.differences.length === 0 ? 'the inputs are equal.' : 'the inputs differ.'}
      </p>
      <Differences label="Differences between inputs" found={comparison.differences} more={comparison.more} />
    </>
  )
}

function WithJob({ job, other }: { job: Job; other: string }) {
  const { data: there, error } = useQuery({
    queryKey: ['job', other, 'itself'],
    queryFn: () => client.getJob(other),
  })
  if (there === undefined)
    return error === null ? (
      <p className="soft" data-loading="">
        Loading…
      </p>
    ) : (
      <Problem error={error} />
    )
  const inputs = differences(job.input as never, there.input as never, MOST + 1)
  const results = differences(job.result as never, there.result as never, MOST + 1)
  return (
    <>
      <p className="in-text">
        {there.task} <JobLink id={there.id} />, {there.status}:{' '}
        {inputs.length === 0 ? 'the inputs are equal.' : 'the inputs differ.'}
      </p>
      <Differences
        label="Differences between inputs"
        found={inputs.slice(0, MOST)}
        more={inputs.length > MOST}
      />
      {results.length > 0 && <p>The results differ:</p>}
      <Differences
        label="Differences between results"
        found={results.slice(0, MOST)}
        more={results.length > MOST}
      />
    </>
  )
}

function Differences({ label, found, more }: { label: string; found: readonly Difference[]; more: boolean }) {
  if (found.length === 0) return null
  return (
    <>
      <table className="differences" aria-label={label}>
        <thead>
          <tr>
            <th scope="col">Path</th>
            <th scope="col">This job</th>
            <th scope="col">Other job</th>
          </tr>
        </thead>
        <tbody>
          {found.map((each) => (
            <tr key={each.path}>
              <th scope="row">
                <code>{each.path === '' ? '(all)' : each.path}</code>
              </th>
              <td data-side="here" data-label="This job">
                <Value value={each.here} />
              </td>
              <td data-side="there" data-label="Other job">
                <Value value={each.there} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && <p className="soft">More differences are not shown.</p>}
    </>
  )
}

/** Long values are cut: the panels below have all of them. */
function Value({ value }: { value: unknown }) {
  if (value === undefined) return <span className="soft">missing</span>
  const text = JSON.stringify(value)
  return <code>{text.length > 300 ? `${text.slice(0, 300)}…` : text}</code>
}

function OtherJob({ onChoose }: { onChoose: (id: string | undefined) => void }) {
  const [text, setText] = useState('')
  const id = text.replace(/^#/, '')
  const wrong = id === '' || /^[1-9]\d{0,18}$/.test(id) ? undefined : 'Enter a job ID'
  return (
    <form
      className="compare-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (wrong === undefined) onChoose(id === '' ? undefined : id)
      }}
    >
      <Field label="Compare with job" error={wrong}>
        <Input
          inputMode="numeric"
          placeholder="#42"
          value={text}
          onChange={(event) => setText(event.target.value.trim())}
        />
      </Field>
      <Button type="submit" small disabled={wrong !== undefined}>
        Compare
      </Button>
    </form>
  )
}
