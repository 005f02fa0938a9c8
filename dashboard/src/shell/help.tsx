import { Dialog } from '../parts/dialog.tsx'
import { type ShownState, StateBadge } from '../parts/state-badge.tsx'

const KEYS: readonly (readonly [keys: readonly string[], what: string])[] = [
  [['/'], 'Search jobs by ID, key, tag, task or error'],
  [['Ctrl K', '⌘ K'], 'Search, screens and commands'],
  [['?'], 'Show this help'],
  [['j', 'k'], 'Move down and up in the first list of the page'],
  [['↓', '↑'], 'Move down and up in the focused list'],
  [['Enter'], 'Open the row'],
  [['x', 'Space'], 'Select the row'],
  [['Esc'], 'Close a dialog'],
]

const STATES: readonly (readonly [state: ShownState, what: string])[] = [
  ['awaiting_approval', 'waits until someone approves it'],
  ['scheduled', 'has a start time in the future'],
  ['queued', 'could start, and waits for its turn'],
  ['retrying', 'waits for another attempt after one that failed or was lost'],
  ['running', 'runs on a worker; a workflow runs while any step does'],
  ['completed', 'ended with a result'],
  ['failed', 'ended with an error, with no attempts left'],
  ['cancelled', 'was cancelled or rejected'],
  ['skipped', 'a step whose condition was false'],
]

/** Keys, and what the states of jobs mean. */
export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Help" wide onClose={onClose}>
      <div className="help">
        <section aria-label="Keyboard shortcuts">
          <h3>Keyboard shortcuts</h3>
          <dl>
            {KEYS.map(([keys, what]) => (
              <div key={what}>
                <dt>
                  {keys.map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section aria-label="States of jobs">
          <h3>States of jobs</h3>
          <dl>
            {STATES.map(([state, what]) => (
              <div key={state}>
                <dt>
                  <StateBadge state={state} />
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
      <p className="soft in-text">
        The <a href="/docs">HTTP reference</a> describes the API behind this page.
      </p>
    </Dialog>
  )
}
