import { explainInexact, findInexactNumber } from '../../../src/client/index.ts'
import { Field } from './controls.tsx'
import './json-view.css'

/**
 * What is wrong with a text that should be JSON; `undefined` when nothing is.
 *
 * A number that loses digits is refused here: once it is parsed, the server cannot see that it was another one.
 */
export function jsonMistake(text: string): string | undefined {
  try {
    JSON.parse(text)
    const inexact = findInexactNumber(text)
    return inexact && explainInexact(inexact)
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** An input of a job, to be changed. */
export function JsonField({
  label,
  hint,
  rows,
  value,
  onChange,
}: {
  label: string
  hint: string
  rows: number
  value: string
  onChange: (text: string) => void
}) {
  return (
    <Field label={label} hint={hint} error={jsonMistake(value)}>
      <textarea
        className="input json-field"
        rows={rows}
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Field>
  )
}
