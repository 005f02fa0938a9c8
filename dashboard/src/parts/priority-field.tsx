import { Field, Input } from './controls.tsx'

/** What is wrong with a priority as it was typed; `undefined` when nothing is. */
export function priorityMistake(text: string): string | undefined {
  return /^-?\d{1,7}$/.test(text.trim()) ? undefined : 'Enter a whole number, such as 10'
}

export function PriorityField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  return (
    <Field
      label="Priority"
      hint="Higher priorities start first. The default is 0."
      error={priorityMistake(value)}
    >
      <Input inputMode="numeric" value={value} onChange={(event) => onChange(event.target.value)} />
    </Field>
  )
}
