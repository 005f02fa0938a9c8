import { type ReactNode, useMemo, useState } from 'react'
import { CopyButton } from './command.tsx'
import { Button } from './controls.tsx'
import { foldJson, formatJson } from './fold-json.ts'
import './json-view.css'

/** Characters that are shown before somebody asks for more: a page with megabytes of text does not scroll. */
const FIRST = 4000

/** Any JSON as text, never as markup. Wide lists are folded to a line, and long texts are cut, until asked for. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  const [unfolded, setUnfolded] = useState(false)
  const { text, folded } = useMemo(() => foldJson(value), [value])
  const whole = useMemo(() => (folded ? formatJson(value) : text), [value, text, folded])
  return (
    <LongText
      text={unfolded ? whole : text}
      copied={whole}
      label={label}
      tools={
        folded && (
          <Button small onClick={() => setUnfolded(!unfolded)}>
            {unfolded ? 'Fold lists' : 'Unfold lists'}
          </Button>
        )
      }
    />
  )
}

/** Text as it is, in the letters of a terminal. */
export function LongText({
  text,
  copied = text,
  label,
  tools,
}: {
  text: string
  /** What the button copies, where it is more than what is shown. */
  copied?: string
  label: string
  tools?: ReactNode
}) {
  const [whole, setWhole] = useState(false)
  const shown = whole || text.length <= FIRST ? text : text.slice(0, FIRST)
  return (
    <div className="long-text">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section className="long-text-box" tabIndex={0} aria-label={`${label} as text`}>
        <pre>{shown}</pre>
      </section>
      <div className="long-text-tools">
        {shown.length < text.length && (
          <Button small onClick={() => setWhole(true)}>
            Show all {text.length.toLocaleString()} characters
          </Button>
        )}
        {tools}
        <CopyButton text={copied} />
      </div>
    </div>
  )
}
