import type { ButtonHTMLAttributes, ComponentProps, ReactNode, SelectHTMLAttributes } from 'react'
import './controls.css'

type Kind = 'plain' | 'primary' | 'danger' | 'quiet'

/** A button. `danger` is for what takes something away; it still asks first. */
export function Button({
  kind = 'plain',
  small = false,
  className = '',
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: Kind; small?: boolean }) {
  return (
    <button
      type="button"
      className={`button ${className}`}
      data-kind={kind}
      data-small={small || undefined}
      {...rest}
    />
  )
}

/** A labelled field. The hint says what is expected; the error takes its place, so nothing jumps. */
export function Field({
  label,
  hint,
  error,
  children,
}: {
  label: string
  hint?: ReactNode
  error?: string | undefined
  children: ReactNode
}) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child that every caller gives
    <label className="field">
      <span className="field-label">{label}</span>
      {children}
      {error !== undefined ? (
        <span className="field-error" role="alert">
          {error}
        </span>
      ) : (
        hint !== undefined && <span className="field-hint">{hint}</span>
      )}
    </label>
  )
}

export function Input({ className = '', ...rest }: ComponentProps<'input'>) {
  return <input className={`input ${className}`} autoComplete="off" spellCheck={false} {...rest} />
}

export function Select({ className = '', ...rest }: SelectHTMLAttributes<HTMLSelectElement>) {
  return <select className={`input ${className}`} {...rest} />
}

/** A few choices side by side, of which one holds. Arrow keys move between them. */
export function Choice<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: T
  options: readonly { readonly value: T; readonly label: ReactNode }[]
  onChange: (value: T) => void
}) {
  return (
    <fieldset className="choice">
      <legend className="hidden-visually">{label}</legend>
      {options.map((each) => (
        <label key={each.value} data-chosen={each.value === value || undefined}>
          <input
            type="radio"
            className="hidden-visually"
            name={label}
            checked={each.value === value}
            onChange={() => onChange(each.value)}
          />
          {each.label}
        </label>
      ))}
    </fieldset>
  )
}
