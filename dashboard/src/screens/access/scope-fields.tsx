import type { Key } from '../../../../src/client/index.ts'
import { Field, Input } from '../../parts/controls.tsx'

/** What the workers of a key may run. */
type Runs = NonNullable<Key['runs']>

/** The same as somebody types it. */
export interface ScopeTexts {
  readonly tasks: string
  readonly lanes: string
  readonly pools: string
  readonly maxCapacity: string
}

export const NOTHING: ScopeTexts = { tasks: '', lanes: '', pools: '', maxCapacity: '100' }

export function scopeTexts({ tasks, lanes, pools, maxCapacity }: Runs): ScopeTexts {
  const text = (patterns: readonly string[]) => patterns.join(', ')
  return {
    tasks: text(tasks),
    lanes: text(lanes),
    pools: text(pools),
    maxCapacity: maxCapacity === null ? '' : String(maxCapacity),
  }
}

export function readScope({ tasks, lanes, pools, maxCapacity }: ScopeTexts): Partial<Runs> {
  const list = (text: string) => text.split(/[\s,]+/).filter((each) => each !== '')
  const most = maxCapacity.trim()
  return {
    tasks: list(tasks),
    lanes: list(lanes),
    pools: list(pools),
    maxCapacity: most === '' ? null : Number(most),
  }
}

/** In a table: tasks, and lanes where not all of them. */
export function scopeInWords({ tasks, lanes, pools }: Runs): string {
  if (tasks.length === 0 || lanes.length === 0) return 'runs no jobs'
  const where = lanes.includes('*') ? '' : ` in ${lanes.join(', ')}`
  const of = pools.length === 0 ? '' : `, pools ${pools.join(', ')}`
  return `runs ${tasks.includes('*') ? 'all tasks' : tasks.join(', ')}${where}${of}`
}

/** Fields for what the workers of a key may run. */
export function ScopeFields({
  scope,
  onChange,
}: {
  scope: ScopeTexts
  onChange: (scope: ScopeTexts) => void
}) {
  const input = (name: keyof ScopeTexts, more: object = {}) => (
    <Input
      value={scope[name]}
      onChange={(event) => onChange({ ...scope, [name]: event.target.value })}
      {...more}
    />
  )
  return (
    <>
      <Field
        label="Tasks its workers may run"
        hint="Names separated by commas; * matches any characters. Empty: none."
      >
        {input('tasks', { placeholder: 'mail.*, resize' })}
      </Field>
      <Field label="Lanes its workers may take jobs from">{input('lanes', { placeholder: '*' })}</Field>
      <Field
        label="Pools its workers may join"
        hint="A pool's worker must present the request that started it."
      >
        {input('pools')}
      </Field>
      <Field label="Maximum capacity of a worker" hint="Empty: no limit.">
        {input('maxCapacity', { inputMode: 'numeric', pattern: '[0-9]*' })}
      </Field>
    </>
  )
}
