import { useMemo, useState } from 'react'
import { CopyButton } from './command.tsx'
import { Button } from './controls.tsx'
import './json-view.css'

/** Characters that are shown before somebody asks for more: a page with megabytes of text does not scroll. */
const FIRST = 4000

/** Any JSON as text, never as markup. Long ones are cut until asked for. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? 'null', [value])
  return <LongText text={text} label={label} />
}

/** Text as it is, in the letters of a terminal. */
export function LongText({ text, label }: { text: string; label: string }) {
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
        <CopyButton text={text} />
      </div>
    </div>
  )
}
