/** Fields that say when and by whom, which the line says already. */
const LEFT_OUT: ReadonlySet<string> = new Set(['updatedAt', 'updatedBy', 'operatorSet', 'name'])

/** A line of the audit: `slots 4 → 6, paused`. */
export function changeWords(action: string, before: unknown, after: unknown): string {
  const [from, to] = [fieldsOf(before), fieldsOf(after)]
  if (action === 'lane.create') return `created, slots ${show(to.slots)}`
  if (action === 'lane.delete') return 'deleted'
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])].filter((name) => !LEFT_OUT.has(name))
  const changes = names
    .filter((name) => JSON.stringify(from[name]) !== JSON.stringify(to[name]))
    .map((name) =>
      name === 'enabled'
        ? to[name] === false
          ? 'paused'
          : 'resumed'
        : name in from
          ? `${name} ${show(from[name])} → ${show(to[name])}`
          : `${name} ${show(to[name])}`,
    )
  return changes.length === 0 ? action : changes.join(', ')
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function show(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
