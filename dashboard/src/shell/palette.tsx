import { Dialog } from 'radix-ui'
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { Input } from '../parts/controls.tsx'
import '../parts/dialog.css'
import { describeError } from '../parts/problem.tsx'
import { useReturnFocus } from '../parts/return-focus.ts'
import { useCommands } from './commands.ts'
import { useJobSearch } from './job-search.ts'
import { type Finding, rank } from './rank.ts'

/** Entries of a group that are shown. */
const MOST = 12

/**
 * Finds anything from anywhere: screens, actions, lanes, tasks, schedules, and jobs by id, key, tag or error. Arrow keys move,
 * Enter goes there.
 */
export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const list = useId()
  const box = useRef<HTMLDivElement>(null)
  const returnFocus = useReturnFocus()
  const commands = useCommands(onHelp)
  const jobs = useJobSearch(text)
  const groups = group([...rank(commands, text), ...jobs.found])
  const shown = groups.flatMap(({ entries }) => entries)
  const current = shown[Math.min(at, shown.length - 1)]
  const run = (entry: Finding | undefined) => {
    if (entry === undefined) return
    onClose()
    entry.run()
  }
  const pressed = (event: KeyboardEvent) => {
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: Math.max(0, Math.min(at + 1, shown.length - 1)),
      ArrowUp: Math.max(at - 1, 0),
    }
    if (event.key === 'Enter') run(current)
    else if (Object.hasOwn(moves, event.key)) setAt(moves[event.key]!)
    else return
    event.preventDefault()
  }
  useEffect(() => {
    box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  })
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="dialog-veil" />
        <Dialog.Content className="palette" aria-describedby={undefined} onCloseAutoFocus={returnFocus}>
          <Dialog.Title className="hidden-visually">Search and commands</Dialog.Title>
          <Input
            className="palette-input"
            role="combobox"
            aria-label="Search"
            aria-expanded={shown.length > 0}
            aria-controls={list}
            aria-activedescendant={current === undefined ? undefined : `${list}-${current.id}`}
            placeholder="Job ID, key, tag, task, error, or a command"
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setAt(0)
            }}
            onKeyDown={pressed}
          />
          <div className="palette-list" role="listbox" id={list} aria-label="Results" ref={box}>
            {groups.map(({ name, entries }) => (
              // biome-ignore lint/a11y/useSemanticElements: a group of options has no element of its own
              <div key={name} role="group" aria-label={name}>
                <p className="palette-group" aria-hidden="true">
                  {name}
                </p>
                {entries.map((entry) => (
                  // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field, which keeps the focus
                  <div
                    key={entry.id}
                    id={`${list}-${entry.id}`}
                    role="option"
                    tabIndex={-1}
                    aria-selected={entry === current}
                    className="palette-entry"
                    onPointerMove={() => setAt(shown.indexOf(entry))}
                    onClick={() => run(entry)}
                  >
                    <span>{entry.label}</span>
                    {entry.hint !== undefined && <span className="soft">{entry.hint}</span>}
                  </div>
                ))}
              </div>
            ))}
          </div>
          <p className="palette-foot soft" role="status" data-loading={jobs.busy ? '' : undefined}>
            {footOf(jobs, shown.length)}
          </p>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

function footOf({ busy, error }: { busy: boolean; error: unknown }, shown: number): string {
  if (busy) return 'Searching jobs…'
  if (error !== null) return `The search for jobs failed. ${describeError(error).words}`
  return shown === 0 ? 'Nothing found' : 'Enter opens, Esc closes'
}

function group(found: readonly Finding[]): { name: string; entries: Finding[] }[] {
  const groups = new Map<string, Finding[]>()
  for (const each of found) {
    const entries = groups.get(each.group) ?? []
    if (entries.length < MOST) groups.set(each.group, [...entries, each])
  }
  return [...groups].map(([name, entries]) => ({ name, entries }))
}
