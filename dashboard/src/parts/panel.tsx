import { type ReactNode, useId } from 'react'
import './panel.css'

/** The head of a screen: its name, what it is about in a line, and what can be done here. */
export function PageHead({
  title,
  about,
  children,
}: {
  title: ReactNode
  about?: ReactNode
  children?: ReactNode
}) {
  return (
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {about !== undefined && <div className="page-about">{about}</div>}
      </div>
      {children !== undefined && <div className="page-actions">{children}</div>}
    </header>
  )
}

/** A part of a screen, with a heading. */
export function Panel({
  title,
  aside,
  flush = false,
  children,
}: {
  title?: ReactNode
  /** Beside the heading. */
  aside?: ReactNode
  /** Without an inner margin: for tables. */
  flush?: boolean
  children: ReactNode
}) {
  const id = useId()
  return (
    <section
      className="panel"
      data-flush={flush || undefined}
      aria-labelledby={title === undefined ? undefined : id}
    >
      {title !== undefined && (
        <div className="panel-head">
          <h2 id={id}>{title}</h2>
          {aside !== undefined && <div className="panel-aside">{aside}</div>}
        </div>
      )}
      <div className="panel-body">{children}</div>
    </section>
  )
}

/** Names and values, one below the other, in as many columns as fit. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
