import { useState } from 'react'
import type { Trace } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { useGo } from '../../parts/link.tsx'
import { hasEnded } from '../../parts/state-badge.tsx'
import { useSession } from '../../session.tsx'
import { RerunDialog } from '../workflow/rerun-dialog.tsx'
import { levelName } from './level-name.ts'

/** Runs the tree again from this level on, where whoever is signed in may do that and all of it has ended. */
export function RunAgain({
  trace: { levels, root },
  at,
  submittedBy,
}: {
  trace: Trace
  at: number
  /** `undefined` while that is not known. */
  submittedBy: string | null | undefined
}) {
  const { session, may } = useSession()
  const [open, setOpen] = useState(false)
  const ask = useAsk()
  const go = useGo()
  const level = levels[at]!
  const parent = levels[at + 1]
  const theirs = submittedBy !== undefined && (submittedBy === session.name || may('workers:manage'))
  if (!theirs || !may('jobs:submit')) return null
  if (!hasEnded(levels.at(-1)!))
    return <span className="soft">You can rerun this step once the whole workflow has ended.</span>
  const away = () => go(levels.length === 1 ? `/jobs/${root}` : `/workflows/${root}`)
  if (parent !== undefined && parent.kind !== 'fanout')
    return (
      <>
        <Button kind="primary" small onClick={() => setOpen(true)}>
          Rerun from here…
        </Button>
        {open && (
          <RerunDialog
            workflow={parent.id}
            step={{ name: level.step ?? '', id: level.id, kind: level.kind ?? 'task' }}
            onClose={() => setOpen(false)}
            onDone={away}
          />
        )}
      </>
    )
  if (level.status !== 'failed' && level.status !== 'cancelled') return null
  const name = levelName(level, parent)
  const retry = () =>
    ask({
      title: `Retry ${name}`,
      effect:
        level.kind === null
          ? 'The job runs again with the same input, and everything above it is evaluated again. Its history is kept.'
          : 'Failed steps run again, and so do the steps that depend on them. Completed steps are kept.',
      action: 'Retry',
      run: async (reason) => {
        const voice = because(reason)
        const { jobs } = await voice.retry(level.id, level.kind === null ? {} : { failed: true })
        await queries.invalidateQueries()
        away()
        return `${count(jobs, 'job runs', 'jobs run')} again`
      },
    })
  return (
    <Button kind="primary" small onClick={retry}>
      {level.kind === null ? 'Retry job…' : 'Retry failed steps…'}
    </Button>
  )
}
