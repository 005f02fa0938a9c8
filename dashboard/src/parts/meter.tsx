import './meter.css'

export interface MeterPart {
  readonly label: string
  readonly value: number
  readonly tone: 'running' | 'held' | 'waiting' | 'failed' | 'accent'
}

/**
 * A bar of parts against a limit. Without one, the parts fill it in proportion. Parts differ in pattern besides colour, and
 * the numbers are described to screen readers.
 */
export function Meter({
  label,
  parts,
  limit,
}: {
  label: string
  parts: readonly MeterPart[]
  limit: number | null
}) {
  const sum = parts.reduce((total, { value }) => total + value, 0)
  const whole = Math.max(limit ?? sum, sum, 1)
  const described = parts.map((part) => `${part.value} ${part.label}`).join(', ')
  return (
    <div
      className="meter"
      role="img"
      aria-label={`${label}: ${described}${limit === null ? ', no limit' : `, limit ${limit}`}`}
      data-full={(limit !== null && sum >= limit) || undefined}
    >
      {parts.map((part) => (
        <span
          key={part.label}
          data-tone={part.tone}
          title={`${part.label}: ${part.value.toLocaleString()}`}
          style={{ width: `${(part.value / whole) * 100}%` }}
        />
      ))}
    </div>
  )
}
