import type { ReactNode } from 'react'
import { Command } from './command.tsx'
import './notes.css'

/** Nothing to show: why, and what to do next, with the command that does it. */
export function Empty({
  title,
  whole = false,
  children,
  command,
}: {
  title: string
  /** There is nothing else on the screen: this is its heading. */
  whole?: boolean
  children?: ReactNode
  command?: string | undefined
}) {
  return (
    <div className="empty">
      {whole ? <h1 className="empty-title">{title}</h1> : <p className="empty-title">{title}</p>}
      {children !== undefined && <p className="soft">{children}</p>}
      {command !== undefined && <Command text={command} />}
    </div>
  )
}

/** A remark that stands by itself. */
export function Note({
  kind = 'plain',
  children,
}: {
  kind?: 'plain' | 'warn' | 'good'
  children: ReactNode
}) {
  return (
    <div className="note" data-kind={kind}>
      {children}
    </div>
  )
}

/**
 * Holds the place of what is being loaded, in the size it will have: nothing jumps when it comes.
 *
 * Whatever else stands in for something that comes later has `data-loading` too: a screen is complete once nothing has it.
 */
export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div className="loading" role="status" aria-label="Loading" data-loading="">
      {Array.from({ length: lines }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines without content
        <span key={at} />
      ))}
    </div>
  )
}
