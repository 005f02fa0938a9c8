import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { type Sluice, task } from '../../src/index.ts'
import type { JsonValue } from '../../src/model/json.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { settled } from '../support/persistent-caller.ts'
import { SeededRandom } from '../support/seeded-random.ts'
import { readTree, type StoredNode } from '../support/trees.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { type Model, models, toDefinition } from '../support/workflow-model.ts'
import {
  drawnEndings,
  interpret,
  type LeafEnding,
  type Outcome,
  type Told,
  tellOutcome,
} from '../support/workflow-oracle.ts'

vi.setConfig({ testTimeout: 300_000 })

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

// More by a flag, as in SLUICE_REAL_RUNS=2000. A failure prints its seed; give that back with SLUICE_SEED.
const RUNS = Number(process.env.SLUICE_REAL_RUNS ?? 40)
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 1e9))
const START = 1

/** The workflows of the n-th model, with windows here and there, under names of their own. */
function workflowsOf(model: Model, n: number, random: SeededRandom): { name: string; definition: unknown }[] {
  const rewrite = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(rewrite)
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).map(([key, each]) =>
      key === 'workflow' && typeof each === 'string' ? [key, `${each}_${n}`] : [key, rewrite(each)],
    )
    const isFanOut = 'with_items' in value || ('batch' in value && typeof value.batch === 'object')
    if (isFanOut && random.chance(0.6)) entries.push(['concurrency', random.whole(1, 3)])
    return Object.fromEntries(entries)
  }
  return Object.entries(toDefinition(model)).map(([name, body]) => ({
    name: `${name}_${n}`,
    definition: rewrite(body),
  }))
}

/** Where a leaf job is in its tree, as the oracle writes it. */
async function addressOf(id: string): Promise<{ root: string; address: string }> {
  const path = await database.sql<{ id: string; step: string; idx: number; parentKind: string | null }>(
    `with recursive up as (
       select j.id, j.parent_id, j.step, j.idx, 0 as height from sluice.jobs j where j.id = $1
       union all
       select k.id, k.parent_id, k.step, k.idx, u.height + 1 from up u join sluice.jobs k on k.id = u.parent_id
     )
     select u.id::text, u.step, u.idx, p.composite as "parentKind" from up u left join sluice.jobs p on p.id = u.parent_id
      order by u.height desc`,
    [id],
  )
  const parts = path
    .slice(1)
    .map(({ step, idx, parentKind }) => (parentKind === 'fanout' ? `[${idx}]` : `/${step}`))
  return { root: path[0]!.id, address: `main${parts.join('')}` }
}

/** Leaves end as their addresses say, whoever runs them and in whatever order. */
class Leaves {
  readonly endings = new Map<string, LeafEnding>()
  app: Sluice | undefined

  readonly task = task({
    name: 'work',
    retry: { attempts: 1 },
    run: async (_: unknown, ctx) => {
      const { root, address } = await addressOf(ctx.job.id)
      const ending = await until(() => this.endings.get(root), `the endings of workflow ${root}`)
      const state = ending(address)
      if (state === 'failed') throw new Error('ended so')
      if (state === 'completed') return address
      await this.app!.cancel(ctx.job.id).catch(() => {})
      return new Promise<never>((_, reject) => {
        if (ctx.signal.aborted) reject(ctx.signal.reason)
        ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
      })
    },
  })
}

function tellStored(nodes: readonly StoredNode[]): Told {
  const children = new Map<string | null, StoredNode[]>()
  for (const node of nodes) children.set(node.parent, [...(children.get(node.parent) ?? []), node])
  const tell = (node: StoredNode): Told => {
    const below = (children.get(node.id) ?? []).map((child) => ({ child, told: tell(child) }))
    const list = below.map(({ told }) => told.result)
    const { state, kind, began } = node
    const result =
      kind === 'fanout' && began ? list : state === 'completed' ? (node.result as JsonValue) : null
    const nameOf = (child: StoredNode) => (kind === 'fanout' ? String(child.place) : child.step!)
    return {
      state,
      result,
      ...(kind === null && began ? { input: node.input as JsonValue } : {}),
      ...(kind !== null && began
        ? { below: Object.fromEntries(below.map(({ child, told }) => [nameOf(child), told])) }
        : {}),
    }
  }
  return tell(nodes[0]!)
}

async function runAll(early: boolean): Promise<{ stored: StoredNode[]; expected: Outcome; model: Model }[]> {
  const drawn = fc.sample(fc.tuple(models({ early }), fc.integer()), { seed, numRuns: RUNS })
  const random = new SeededRandom(seed)
  const leaves = new Leaves()
  const workflows = drawn.flatMap(([model], n) => workflowsOf(model, n, random))
  const options = { tasks: [leaves.task], workflows, lanes: { default: { perWorker: null } } }
  const [first, second] = await Promise.all([apps.open(options), apps.open(options)])
  leaves.app = first
  const jobs = await Promise.all(drawn.map((_, n) => first!.submit(`main_${n}`, { n: START })))
  jobs.forEach((job, n) => {
    leaves.endings.set(job.id, drawnEndings(drawn[n]![1]))
  })
  await Promise.all([first!.work({ capacity: 8 }), second!.work({ capacity: 8 })])
  await Promise.all(jobs.map((job) => settled(job)))
  await until(
    async () =>
      (await database.sql(`select 1 from sluice.jobs where state < 'completed' limit 1`)).length === 0,
    'every job below to end',
    60_000,
  )
  const ends: { stored: StoredNode[]; expected: Outcome; model: Model }[] = []
  for (const [n, [model, choice]] of drawn.entries()) {
    const stored = await readTree(database.sql, jobs[n]!.id)
    ends.push({ stored, expected: interpret(model, 'main', START, drawnEndings(choice)), model })
  }
  return ends
}

test(`random workflows end as the oracle says, with its results and inputs (seed ${seed})`, async () => {
  for (const { stored, expected } of await runAll(false))
    expect(tellStored(stored)).toEqual(tellOutcome(expected))
})

test(`random workflows that may end early have the verdict they would have had in the end (seed ${seed})`, async () => {
  for (const { stored, expected } of await runAll(true)) expect(stored[0]!.state).toBe(expected.state)
})
