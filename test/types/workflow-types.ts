// Not run: compiled by `tsc --noEmit`. Each `@ts-expect-error` fails the build when the line below it compiles.

import { z } from 'zod'
import type { FanOutHandle, Flow, JobHandle, Ref, Sluice, StepHandle, Workflow } from '../../src/index.ts'
import { expr, task, taskNamed, workflow, workflowNamed } from '../../src/index.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never
declare function same<A, B>(proof: Equal<A, B>): void
declare const app: Sluice

interface Parts {
  chunks: string[]
  made: Date
  note?: string
  origin: { path: string } | null
}

const split = task({ name: 'split', run: async (_: { file: string }): Promise<Parts> => ({}) as Parts })
const align = task({ name: 'align', run: (input: { chunk: string; width?: number }) => input.chunk.length })
const tick = task({ name: 'tick', run: (_: number) => {} })
const nothing = task({ name: 'nothing', run: () => {} })
const checked = task({ name: 'checked', input: z.object({ n: z.number().default(1) }), run: ({ n }) => n })
const count = task({
  name: 'count',
  run: (input: { items: readonly string[]; index: number }) => input.items.length,
})
const sum = task({ name: 'sum', run: (_: { numbers: number[] }) => 1 })

const pipeline = workflow({
  name: 'pipeline',
  steps: (flow: Flow<{ file: string; tags: string[] }>) => {
    const parts = flow.step('split', split, { file: flow.input.file })
    same<typeof parts, StepHandle<Parts>>(true)
    const aligned = flow.each('align', parts.result.chunks, align, (chunk, index) => {
      same<typeof chunk, Ref<string>>(true)
      same<typeof index, Ref<number>>(true)
      return { chunk, width: index }
    })
    same<typeof aligned, FanOutHandle<number>>(true)
    const total = flow.step('sum', sum, { numbers: aligned.results }, { needs: [parts], timeout: '1m' })
    const group = flow.group('publish', (inner) => {
      inner.step('again', split, { file: `${flow.input.file}.gz` })
      return { total: total.result, literal: 'x' }
    })
    same<typeof group, StepHandle<{ total: number; literal: string }>>(true)
    return { sum: total.result, files: aligned.results, made: parts.result.made, list: [group.result.total] }
  },
})

export async function inputsAndResultsAreTyped(): Promise<void> {
  same<
    typeof pipeline,
    Workflow<{ file: string; tags: string[] }, { sum: number; files: number[]; made: string; list: number[] }>
  >(true)
  const job = await app.submit(pipeline, { file: 'a', tags: [] }, { key: 'k' })
  same<typeof job, JobHandle<{ sum: number; files: number[]; made: string; list: number[] }>>(true)
  const many = await app.submitMany(pipeline, [{ file: 'a', tags: ['b'] }])
  same<(typeof many)[number], typeof job>(true)
  // @ts-expect-error a field is missing
  await app.submit(pipeline, { file: 'a' })
  // @ts-expect-error a field has another type
  await app.submit(pipeline, { file: 7, tags: [] })
  // @ts-expect-error one of many
  await app.submitMany(pipeline, [{ file: 'a' }])
}

export const wrongInputs = workflow({
  name: 'wrong-inputs',
  steps: (flow: Flow<{ file: string; n: number; maybe?: string }>) => {
    const parts = flow.step('split', split, { file: flow.input.file })
    // @ts-expect-error a number where a text is taken
    flow.step('a', split, { file: flow.input.n })
    // @ts-expect-error a literal of another type
    flow.step('b', split, { file: 7 })
    // @ts-expect-error a field is missing
    flow.step('c', align, { width: 7 })
    // @ts-expect-error a field is unknown
    flow.step('d', split, { file: 'a', files: 'b' })
    // @ts-expect-error no input where one is needed
    flow.step('e', split)
    // @ts-expect-error what may be missing is null where a text is taken
    flow.step('f', split, { file: flow.input.maybe })
    // @ts-expect-error a list where a text is taken
    flow.step('g', split, { file: parts.result.chunks })
    flow.step('h', split, flow.input)
    flow.step('i', tick, flow.input.n)
    flow.step('j', tick, expr<number>`${flow.input.n} - 1`)
    // @ts-expect-error an expression of another type
    flow.step('k', tick, expr<string>`"a" + "b"`)
    flow.step('l', nothing)
    flow.step('m', nothing, undefined, { needs: [parts] })
    flow.step('n', checked)
    flow.step('o', checked, { n: flow.input.n })
    // @ts-expect-error the schema takes a number
    flow.step('p', checked, { n: flow.input.file })
  },
})

export const wrongReferences = workflow({
  name: 'wrong-references',
  steps: (flow: Flow<{ file: string }>) => {
    // @ts-expect-error the input has no such field
    flow.step('a', split, { file: flow.input.path })
    const parts = flow.step('split', split, { file: flow.input.file })
    // @ts-expect-error the result has no such field
    flow.step('b', split, { file: parts.result.files })
    // @ts-expect-error what may be null has no fields: an expression has to ask first
    flow.step('c', split, { file: parts.result.origin.path })
    // @ts-expect-error only a fan-out has results
    void parts.results
    same<typeof parts.result.made, Ref<string>>(true)
    same<typeof parts.result.note, Ref<string | null>>(true)
    // @ts-expect-error a step is needed, not its name
    flow.step('d', nothing, undefined, { needs: ['split'] })
    // @ts-expect-error a condition is true or false
    flow.step('e', nothing, undefined, { when: flow.input.file })
    flow.step('f', nothing, undefined, { when: expr`${parts.status} == "completed"` })
  },
})

export const fanOuts = workflow({
  name: 'fan-outs',
  steps: (flow: Flow<{ files: string[]; rows: { id: number }[] }>) => {
    // @ts-expect-error the items are not what the task takes
    flow.each('a', flow.input.files, align)
    // @ts-expect-error the item has another type
    flow.each('b', flow.input.rows, align, (row) => ({ chunk: row.id }))
    // @ts-expect-error the item has no such field
    flow.each('c', flow.input.rows, tick, (row) => row.name)
    flow.each('d', flow.input.rows, tick, (row) => row.id)
    flow.each('e', [1, 2, 3], tick)
    // @ts-expect-error not a list
    flow.each('f', flow.input, tick)
    const most = flow.each('g', flow.input.files, align, (chunk) => ({ chunk }), {
      concurrency: 3,
      strategy: { percent: 95, early: true },
    })
    same<typeof most, FanOutHandle<number | null>>(true)
    const all = flow.each('h', flow.input.files, align, (chunk) => ({ chunk }), { strategy: 'all' })
    same<typeof all, FanOutHandle<number>>(true)
    // @ts-expect-error no such strategy
    flow.each('i', flow.input.files, align, (chunk) => ({ chunk }), { strategy: 'most' })
    const counted = flow.batch('j', { items: flow.input.files, size: 10 }, count)
    same<typeof counted, FanOutHandle<number>>(true)
    // @ts-expect-error the task takes chunks of other items
    flow.batch('k', { items: flow.input.rows, size: 10 }, count)
    // @ts-expect-error a chunk is not all that the task takes
    flow.batch('l', { items: flow.input.files, size: 10 }, align)
    flow.batch('m', { items: flow.input.files, size: 10 }, align, (chunk, index) => ({
      chunk: chunk[0]!,
      width: index,
    }))
    const groups = flow.eachGroup('n', flow.input.rows, (group, row) => {
      const one = group.step('tick', tick, row.id)
      return { id: row.id, status: one.status }
    })
    same<
      typeof groups,
      FanOutHandle<{ id: number; status: 'completed' | 'failed' | 'cancelled' | 'skipped' }>
    >(true)
    flow.batchGroup('o', { items: flow.input.rows, size: 2 }, (group, rows) => {
      group.each('tick', rows, tick, (row) => row.id)
    })
    // @ts-expect-error a group is not in a lane
    flow.group('p', () => {}, { lane: 'default' })
    // @ts-expect-error the window is for fan-outs
    flow.group('q', () => {}, { concurrency: 3 })
    // @ts-expect-error groups are not tried again
    flow.group('r', () => {}, { retry: { attempts: 2 } })
  },
})

export const subWorkflows = workflow({
  name: 'sub',
  steps: (flow: Flow<{ n: number }>) => {
    const done = flow.step('pipeline', pipeline, { file: 'a', tags: [] })
    // @ts-expect-error the sub-workflow takes more
    flow.step('a', pipeline, { file: 'a' })
    flow.step('b', flow.self, { n: expr<number>`${flow.input.n} - 1` }, { when: expr`${flow.input.n} > 1` })
    // @ts-expect-error it takes a number itself
    flow.step('c', flow.self, { n: 'a' })
    const program = flow.step('d', taskNamed<{ file: string }, { lines: number }>('wc'), { file: 'a' })
    const other = flow.step('e', workflowNamed<{ n: number }, string>('other'), { n: program.result.lines })
    // @ts-expect-error the program takes a text
    flow.step('f', taskNamed<{ file: string }>('wc'), { file: program.result.lines })
    flow.step('g', taskNamed('anything'), { whatever: [done.result.sum, { deep: other.result }] })
    return other.result
  },
})

export async function aWorkflowWithoutOutputGivesTheResultsOfItsSteps(): Promise<void> {
  same<typeof wrongInputs, Workflow<{ file: string; n: number; maybe?: string }, Record<string, unknown>>>(
    true,
  )
  const text = await (await app.submit(subWorkflows, { n: 1 })).result()
  same<typeof text, string>(true)
}
