import { Empty } from './notes.tsx'

/** In place of a job that is not there, or not for whoever asks. `command` lists those that are. */
export function NoSuchJob({ id, command = 'sluice ps --all' }: { id: string; command?: string }) {
  return (
    <Empty whole title={`Job ${id} not found`} command={command}>
      It may have been deleted, pruned after the retention period, or belong to someone else.
    </Empty>
  )
}
