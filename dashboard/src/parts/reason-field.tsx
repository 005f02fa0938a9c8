import { Field, Input } from './controls.tsx'

/** Why somebody does it, for the audit. Give what was typed to `because` of `connection.ts`. */
export function ReasonField({
  value,
  required = false,
  onChange,
}: {
  value: string
  required?: boolean
  onChange: (reason: string) => void
}) {
  return (
    <Field label={required ? 'Reason' : 'Reason (optional)'}>
      <Input
        maxLength={500}
        placeholder="Recorded in the audit log"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Field>
  )
}
