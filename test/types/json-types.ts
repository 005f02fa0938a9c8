// Not run: compiled by `tsc --noEmit`. What comes out of JSON is typed as it is there.

import type { SluiceClient } from '../../src/client/index.ts'
import type { Flow, JobHandle, Jsonified, Ref, Sluice } from '../../src/index.ts'
import { retryAt, snooze, task, workflow } from '../../src/index.ts'
import type { JsonValue } from '../../src/model/json.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never
declare function same<A, B>(proof: Equal<A, B>): void
declare const app: Sluice
declare const client: SluiceClient

interface Order {
  id: number
  placed: Date
  note?: string
  shipped: Date | undefined
  lines: { sku: string; at: Date }[]
  pair: [Date, number, (() => void)?]
  total(): number
  tags: Set<string>
  by: Map<string, number>
  origin: { path: string } | null
  anything: unknown
  // biome-ignore lint/suspicious/noExplicitAny: that is what is tested
  any: any
  never: undefined
  [Symbol.iterator]: () => Iterator<number>
}

interface StoredOrder {
  id: number
  placed: string
  note?: string
  shipped?: string
  lines: { sku: string; at: string }[]
  pair: [string, number, null?]
  tags: Record<string, never>
  by: Record<string, never>
  origin: { path: string } | null
  anything: unknown
  // biome-ignore lint/suspicious/noExplicitAny: that is what is tested
  any: any
}

export function aTypeComesOutOfJsonAsItsValuesDo(): void {
  const order: Jsonified<Order> = {} as StoredOrder
  const back: StoredOrder = {} as Jsonified<Order>
  void [order, back]
  same<keyof Jsonified<Order>, keyof StoredOrder>(true)
  same<Jsonified<Date>, string>(true)
  same<Jsonified<void>, null>(true)
  same<Jsonified<undefined>, null>(true)
  same<Jsonified<string | undefined>, string | null>(true)
  same<Jsonified<unknown>, unknown>(true)
  // biome-ignore lint/suspicious/noExplicitAny: that is what is tested
  same<Jsonified<any>, any>(true)
  same<Jsonified<never>, never>(true)
  same<Jsonified<JsonValue>, JsonValue>(true)
  same<Jsonified<'a' | 1 | true | null>, 'a' | 1 | true | null>(true)
  same<Jsonified<readonly Date[]>, readonly string[]>(true)
  same<Jsonified<[a: Date, b?: number]>, [a: string, b?: number | null]>(true)
  same<Jsonified<(Date | undefined)[]>, (string | null)[]>(true)
  same<Jsonified<{ toJSON(): { at: Date } }>, { at: string }>(true)
  same<Jsonified<URL>, string>(true)
  same<Jsonified<Record<string, Date>>, { [x: string]: string }>(true)
  same<Jsonified<{ a?: string }>, { a?: string }>(true)
  same<Jsonified<{ a: string | (() => void) }>, { a?: string }>(true)
  same<Jsonified<{ kind: 'a'; at: Date } | { kind: 'b' }>, { kind: 'a'; at: string } | { kind: 'b' }>(true)
  same<Jsonified<bigint>, never>(true)
}

const place = task({
  name: 'place',
  run: async (_: { sku: string }, ctx) => {
    const made = await ctx.step('made', () => ({ at: new Date(), nothing: undefined }))
    same<typeof made, { at: string }>(true)
    const none = await ctx.step('none', () => {})
    same<typeof none, null>(true)
    // @ts-expect-error a date is a text once it was stored
    made.at.getTime()
    return { at: new Date(), maybe: undefined as Date | undefined }
  },
})

export async function resultsAreAsTheyComeOutOfJson(): Promise<void> {
  const job = await app.submit(place, { sku: 'a' })
  same<typeof job, JobHandle<{ at: string; maybe?: string }>>(true)
  const [one] = await app.submitMany(place, [{ sku: 'a' }])
  same<typeof one, JobHandle<{ at: string; maybe?: string }> | undefined>(true)
  const { at } = await app.job<{ at: Date }>('7').result()
  same<typeof at, string>(true)
  const remote = await (await client.submit<{ at: Date }>('place', {})).result()
  same<typeof remote, { at: string }>(true)
}

const ship = task({ name: 'ship', run: (_: { at: Date }) => {} })
const note = task({ name: 'note', run: (_: { at: string }) => {} })

export const references = workflow({
  name: 'references',
  steps: (flow: Flow<{ due: Date }>) => {
    same<typeof flow.input.due, Ref<string>>(true)
    const placed = flow.step('place', place, { sku: 'a' })
    same<typeof placed.result.at, Ref<string>>(true)
    flow.step('note', note, placed.result)
    // @ts-expect-error what is stored is a text, not a date
    flow.step('ship', ship, placed.result)
    const each = flow.each('each', [{ sku: 'a' }], place)
    same<(typeof each.results)[number]['at'], Ref<string>>(true)
  },
})

export function verdictsTakeDurations(): void {
  throw [retryAt('30s'), retryAt(5000), retryAt(new Date()), snooze('1h30m'), snooze(0)]
}
