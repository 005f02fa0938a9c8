import '../../parts/state-badge.css'
import type { client } from '../../connection.ts'

export type StatusWorker = Awaited<ReturnType<typeof client.status>>['workers'][number]

type Shown = 'silent' | 'stopping' | 'broken' | 'draining' | 'busy' | 'idle'

const LOOKS: Readonly<Record<Shown, { word: string; tone: string; shape: string }>> = {
  silent: {
    word: 'Silent',
    tone: 'failed',
    shape: 'M8 1.5 15 14H1Z M8 6v4 M8 12v.2',
  },
  stopping: { word: 'Stopping', tone: 'ended', shape: 'M3.5 3.5h9v9h-9Z' },
  broken: { word: 'Broken', tone: 'failed', shape: 'M4 4l8 8 M12 4l-8 8' },
  draining: { word: 'Draining', tone: 'retrying', shape: 'M8 2v9 M4.5 7.5 8 11l3.5-3.5 M3 14h10' },
  busy: { word: 'Working', tone: 'running', shape: 'M4 2.5v11l9-5.5Z' },
  idle: { word: 'Idle', tone: 'waiting', shape: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z' },
}

export function shownWorker(worker: StatusWorker): Shown {
  if (worker.silent) return 'silent'
  if (worker.stopping) return 'stopping'
  if (worker.broken !== null) return 'broken'
  if (worker.draining) return 'draining'
  return worker.running > 0 ? 'busy' : 'idle'
}

/** What a worker is doing, as shape, colour and word: the same look as states of jobs. */
export function WorkerState({ worker }: { worker: StatusWorker }) {
  const { word, tone, shape } = LOOKS[shownWorker(worker)]
  return (
    <span className="state" data-tone={tone}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={shape} />
      </svg>
      {word}
    </span>
  )
}

/** Labels as `name=value`; a value that is not a text as JSON. */
export function labelWords(labels: StatusWorker['labels']): string[] {
  return Object.entries(labels).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
}
