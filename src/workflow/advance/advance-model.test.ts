import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SeededRandom } from '../../../test/support/seeded-random.ts'
import { type Model, models, toDefinition } from '../../../test/support/workflow-model.ts'
import {
  drawnEndings,
  interpret,
  type LeafEnding,
  type Outcome,
  type Told,
  tellOutcome,
} from '../../../test/support/workflow-oracle.ts'
import { type RunNode, resultOf, WorkflowRun } from '../../../test/support/workflow-run.ts'
import type { JsonValue } from '../../model/json.ts'
import { compileWorkflows } from '../compile/compile.ts'
import type { Graph } from '../graph.ts'

// More by a flag, as in SLUICE_RUNS=100000. A failure prints its seed; give that back with SLUICE_SEED.
const numRuns = Number(process.env.SLUICE_RUNS ?? 500)
const seed = process.env.SLUICE_SEED === undefined ? undefined : Number(process.env.SLUICE_SEED)
const settings = seed === undefined ? { numRuns } : { numRuns, seed }
const START = 1

function compile(model: Model): Graph {
  const { graphs, problems } = compileWorkflows(toDefinition(model), { tasks: new Set(['work']) })
  expect(problems).toEqual([])
  return graphs.main!
}

function tellRun(node: RunNode): Told {
  const { kind, state, input, children } = node
  const below = [...children].map(([name, child]) => [name, tellRun(child)])
  return {
    state,
    result: resultOf(node),
    ...(kind === 'leaf' ? { input } : {}),
    ...(kind === 'leaf' || kind === 'unstarted' ? {} : { below: Object.fromEntries(below) }),
  }
}

/** Without what an early end cut off: below it, and in it, nothing is comparable. */
function expectSameStates(node: RunNode, outcome: Outcome): void {
  expect(`${node.address} ${node.state}`).toBe(`${node.address} ${outcome.state}`)
  const children = [...node.children]
  if (children.some(([, child]) => child.state === 'cancelled' && child.kind !== 'leaf')) return
  for (const [name, child] of children) {
    const expected = outcome.steps?.[name] ?? outcome.children?.[Number(name)]
    if (expected !== undefined && child.state !== 'cancelled') expectSameStates(child, expected)
  }
}

const run = (graph: Graph, seed: number, ending: LeafEnding) =>
  new WorkflowRun(graph, { n: START }, new SeededRandom(seed), ending).runToEnd()

describe('random workflows', () => {
  test('end as the oracle says, with its results and inputs, in any order of endings', () => {
    fc.assert(
      fc.property(models({ early: false }), fc.integer(), fc.integer(), (model, choice, order) => {
        const graph = compile(model)
        const ending = drawnEndings(choice)
        const expected = tellOutcome(interpret(model, 'main', START, ending))
        expect(tellRun(run(graph, order, ending))).toEqual(expected)
        expect(tellRun(run(graph, order + 1, ending))).toEqual(expected)
      }),
      settings,
    )
  })

  test('that may end early have the verdict they would have had in the end', () => {
    fc.assert(
      fc.property(models({ early: true }), fc.integer(), fc.integer(), (model, choice, order) => {
        const ending = drawnEndings(choice)
        expectSameStates(run(compile(model), order, ending), interpret(model, 'main', START, ending))
      }),
      settings,
    )
  })

  test('keep their graph through storage', () => {
    fc.assert(
      fc.property(models({ early: false }), fc.integer(), fc.integer(), (model, choice, order) => {
        const graph = compile(model)
        const stored = JSON.parse(JSON.stringify(graph)) as Graph & JsonValue
        expect(stored).toEqual(graph)
        const ending = drawnEndings(choice)
        expect(tellRun(run(stored, order, ending))).toEqual(tellRun(run(graph, order, ending)))
      }),
      { ...settings, numRuns: numRuns / 10 },
    )
  })
})
