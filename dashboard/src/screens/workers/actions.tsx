import { useCallback } from 'react'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import type { StatusWorker } from './state.tsx'

type Action = 'drain' | 'undrain' | 'stop'
export type WorkerActions = (action: Action, worker: StatusWorker) => void

const WORDS: Readonly<Record<Action, { title: string; effect: string; action: string; done: string }>> = {
  drain: {
    title: 'Drain',
    effect:
      'The worker takes no new jobs. Running jobs finish, and the worker stays alive until you stop it.',
    action: 'Drain worker',
    done: 'is draining',
  },
  undrain: {
    title: 'Undrain',
    effect: 'The worker takes jobs again, from its next poll on.',
    action: 'Undrain worker',
    done: 'takes jobs again',
  },
  stop: {
    title: 'Stop',
    effect:
      'The worker takes no new jobs and exits. Running jobs may finish within its grace period; the rest are requeued, which costs no attempt.',
    action: 'Stop worker',
    done: 'was asked to stop',
  },
}

/** Asks, and does it. Workers are told by name: all that are alive under it are meant, and counted. */
export function useWorkerActions(workers: readonly StatusWorker[]): WorkerActions {
  const ask = useAsk()
  return useCallback(
    (action, { name }) => {
      const { title, effect, action: verb, done } = WORDS[action]
      const named = workers.filter((each) => each.name === name)
      const running = named.reduce((sum, each) => sum + each.running, 0)
      ask({
        title: `${title} worker ${name}`,
        effect: (
          <>
            <p>{effect}</p>
            {action !== 'undrain' && (
              <p>
                {running === 0
                  ? 'No jobs are running on it.'
                  : `${count(running, 'job is', 'jobs are')} running on it.`}
              </p>
            )}
            {named.length > 1 && (
              <p>{named.length} workers have this name. The action applies to all of them.</p>
            )}
          </>
        ),
        count: named.length,
        action: verb,
        danger: action === 'stop',
        run: async (reason) => {
          const voice = because(reason)
          if (action === 'stop') await voice.stopWorker(name)
          else await voice.drainWorker(name, action === 'drain')
          await queries.invalidateQueries({ queryKey: ['workers'] })
          return `${name} ${done}`
        },
      })
    },
    [ask, workers],
  )
}

/** What can be done with it in the state it is in. */
export function WorkerButtons({ worker, act }: { worker: StatusWorker; act: WorkerActions }) {
  const { draining, stopping, name } = worker
  return (
    <span className="worker-buttons">
      {!stopping && (
        <Button
          small
          aria-label={`${draining ? 'Undrain' : 'Drain'} ${name}`}
          onClick={() => act(draining ? 'undrain' : 'drain', worker)}
        >
          {draining ? 'Undrain…' : 'Drain…'}
        </Button>
      )}
      {!stopping && (
        <Button small kind="danger" aria-label={`Stop ${name}`} onClick={() => act('stop', worker)}>
          Stop…
        </Button>
      )}
    </span>
  )
}
