import { Empty } from './notes.tsx'

/** In place of a job that is not there, or not for whoever asks. `command` lists those that are. */
export function NoSuchJob({ id, command = 'sluice ps --all' }: { id: string; command?: string }) {
  return (
    <Empty whole title={`There is no job ${id}`} command={command}>
      It was deleted, has been pruned after the retention, or belongs to somebody else.
    </Empty>
  )
}
