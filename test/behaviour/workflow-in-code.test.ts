import { describe, expect, test } from 'vitest'
import {
  expr,
  type Flow,
  type JobFailedError,
  type JobView,
  type Sluice,
  type StrategyOption,
  task,
  taskNamed,
  workflow,
} from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

/** The children of a job by their places. */
async function childrenOf(app: Sluice, id: string): Promise<JobView[]> {
  const children = await app.listJobs({ parent: id, limit: 100 })
  return children.sort((a, b) => a.index! - b.index!)
}

async function child(app: Sluice, id: string, step: string): Promise<JobView> {
  return until(
    async () => (await childrenOf(app, id)).find((each) => each.step === step),
    `step ${step} to be there`,
  )
}

test('of 5 items with a window of 3 the next starts as each ends, in order, and the workflow goes on once', async () => {
  const gates = Array.from({ length: 5 }, () => new Gate())
  const after = new Gate()
  const item = task({
    name: 'item',
    lane: 'wide',
    run: async (input: { place: number; of: string }) => {
      await gates[input.place]!.pass()
      return input.place * 10
    },
  })
  const join = task({
    name: 'join',
    run: (input: { all: number[] }) => {
      void after.pass('joined')
      return input.all.length
    },
  })
  const trace = workflow({
    name: 'trace',
    steps: (flow: Flow<{ names: string[] }>) => {
      const items = flow.each(
        'items',
        flow.input.names,
        item,
        (name, index) => ({ place: index, of: name }),
        {
          concurrency: 3,
        },
      )
      const joined = flow.step('join', join, { all: items.results })
      return { all: items.results, count: joined.result }
    },
  })
  const app = await apps.open({
    tasks: [item, join],
    workflows: [trace],
    // Wider than the window on any machine.
    lanes: { wide: { perWorker: null } },
  })
  await app.work({ capacity: 10 })
  const job = await app.submit(trace, { names: ['a', 'b', 'c', 'd', 'e'] })
  const fanOut = await child(app, job.id, 'items')
  const states = async () => (await childrenOf(app, fanOut.id)).map((each) => each.state)
  const ends = async (place: number) => {
    gates[place]!.open()
    await until(async () => (await states())[place] === 'completed', `item ${place} to complete`)
  }

  await Promise.all([0, 1, 2].map((place) => gates[place]!.arrived()))
  expect(await states()).toEqual(['running', 'running', 'running', 'waiting', 'waiting'])
  expect((await childrenOf(app, fanOut.id)).map((each) => each.input)).toEqual(
    ['a', 'b', 'c', 'd', 'e'].map((of, place) => ({ place, of })),
  )
  await ends(0)
  await gates[3]!.arrived()
  expect(await states()).toEqual(['completed', 'running', 'running', 'running', 'waiting'])
  await ends(1)
  await gates[4]!.arrived()
  expect(await states()).toEqual(['completed', 'completed', 'running', 'running', 'running'])
  await ends(2)
  expect(await states()).toEqual(['completed', 'completed', 'completed', 'running', 'running'])
  await ends(3)
  expect((await app.getJob(fanOut.id)).status).toBe('running')
  expect(after.arrivals).toEqual([])
  gates[4]!.open()
  after.open()
  expect(await job.result()).toEqual({ all: [0, 10, 20, 30, 40], count: 5 })
  expect(after.arrivals).toEqual(['joined'])
})

describe('scope', () => {
  const echo = task({ name: 'echo', run: (input: { text: string }) => ({ text: input.text }) })

  test('a group reads what is around it, and only what it returns can be read outside', async () => {
    const scopes = workflow({
      name: 'scopes',
      steps: (flow: Flow<{ greeting: string }>) => {
        const first = flow.step('first', echo, { text: flow.input.greeting })
        const group = flow.group('group', (inner) => {
          const own = inner.step('own', echo, { text: `${first.result.text}, ${flow.input.greeting}` })
          const deep = inner.group('deep', (deepest) => {
            deepest.step('own', echo, { text: `${flow.input.greeting} from below` })
          })
          return { own: own.result.text, deep: deep.result }
        })
        const last = flow.step('last', echo, { text: group.result.own })
        return { last: last.result.text, group: group.result }
      },
    })
    const app = await apps.open({ tasks: [echo], workflows: [scopes] })
    await app.work({ capacity: 2 })
    const job = await app.submit(scopes, { greeting: 'hello' })
    expect(await job.result()).toEqual({
      last: 'hello, hello',
      group: { own: 'hello, hello', deep: { own: { text: 'hello from below' } } },
    })
  })

  test('a sub-workflow sees its input alone, and need not be listed', async () => {
    const shout = workflow({
      name: 'shout',
      steps: (flow: Flow<{ text: string }>) => {
        // The step has the name of one in the workflow that runs this one.
        const said = flow.step('first', echo, { text: `${flow.input.text}!` })
        return said.result.text
      },
    })
    const caller = workflow({
      name: 'caller',
      steps: (flow: Flow<{ text: string; secret: string }>) => {
        const first = flow.step('first', echo, { text: flow.input.text })
        const loud = flow.step('loud', shout, { text: first.result.text })
        const each = flow.each('each', ['a', 'b'], shout, (text) => ({ text }), { concurrency: 1 })
        return [loud.result, each.results]
      },
    })
    const app = await apps.open({ tasks: [echo], workflows: [caller] })
    await app.work({ capacity: 2 })
    const job = await app.submit(caller, { text: 'hello', secret: 'none of its business' })
    expect(await job.result()).toEqual(['hello!', ['a!', 'b!']])
    expect((await child(app, job.id, 'loud')).input).toEqual({ text: 'hello' })
    expect(await (await app.submit(shout, { text: 'by itself' })).result()).toBe('by itself!')
  })

  test('a group for each item, and one for each chunk, know their own item', async () => {
    const add = task({
      name: 'add',
      run: (input: { numbers: number[] }) => input.numbers.reduce((a, b) => a + b, 0),
    })
    const sums = workflow({
      name: 'sums',
      steps: (flow: Flow<{ rows: number[][] }>) => {
        const rows = flow.eachGroup('rows', flow.input.rows, (group, row, index) => {
          const sum = group.step('sum', add, { numbers: row })
          return { index, sum: sum.result }
        })
        const chunks = flow.batchGroup('chunks', { items: [1, 2, 3, 4, 5], size: 2 }, (group, chunk) => {
          const sum = group.step('sum', add, { numbers: chunk })
          return sum.result
        })
        const batches = flow.batch(
          'batches',
          { items: flow.input.rows, size: 2 },
          taskNamed<{ items: number[][]; index: number; tag: string }, string>('describe'),
          (_, index) => ({ tag: `batch ${index}` }),
          { concurrency: 1 },
        )
        return { rows: rows.results, chunks: chunks.results, batches: batches.results }
      },
    })
    const describeBatch = task({
      name: 'describe',
      run: (input: { items: number[][]; index: number; tag: string }) =>
        `${input.tag}: ${input.items.length} from ${input.index}`,
    })
    const app = await apps.open({ tasks: [add, describeBatch], workflows: [sums] })
    await app.work({ capacity: 4 })
    const job = await app.submit(sums, { rows: [[1, 2], [3], []] })
    expect(await job.result()).toEqual({
      rows: [
        { index: 0, sum: 3 },
        { index: 1, sum: 3 },
        { index: 2, sum: 0 },
      ],
      chunks: [3, 7, 5],
      batches: ['batch 0: 2 from 0', 'batch 1: 1 from 1'],
    })
  })
})

test('a workflow runs itself, with one slot in all', async () => {
  const ticks: number[] = []
  const tick = task({
    name: 'tick',
    lane: 'single',
    run: (input: { n: number }) => {
      ticks.push(input.n)
      return input.n
    },
  })
  const countdown = workflow({
    name: 'countdown',
    steps: (flow: Flow<{ n: number }>) => {
      const ticked = flow.step('tick', tick, { n: flow.input.n })
      const next = flow.step(
        'next',
        flow.self,
        { n: expr<number>`${flow.input.n} - 1` },
        { needs: [ticked], when: expr`${flow.input.n} > 1` },
      )
      return { n: ticked.result, next: next.status }
    },
  })
  const app = await apps.open({ tasks: [tick], workflows: [countdown], lanes: { single: { slots: 1 } } })
  await app.work({ capacity: 1 })
  const job = await app.submit(countdown, { n: 6 })
  expect(await job.result()).toEqual({ n: 6, next: 'completed' })
  expect(ticks).toEqual([6, 5, 4, 3, 2, 1])
  let deepest = await app.getJob(job.id)
  for (let n = 6; n > 1; n--) deepest = await child(app, deepest.id, 'next')
  expect(deepest.result).toEqual({ n: 1, next: 'skipped' })
})

describe('strategies', () => {
  const attempted: boolean[] = []
  const maybe = task({
    name: 'maybe',
    retry: { attempts: 5, delay: 0 },
    run: (input: { ok: boolean }) => {
      attempted.push(input.ok)
      if (!input.ok) throw new Error('it was not to be')
      return 'ok'
    },
  })
  const fate = (strategy: StrategyOption) =>
    workflow({
      name: 'fate',
      steps: (flow: Flow<{ oks: boolean[] }>) => {
        const all = flow.each('all', flow.input.oks, maybe, (ok) => ({ ok }), {
          strategy,
          retry: { attempts: 1 },
        })
        return all.results
      },
    })

  test.each<[strategy: StrategyOption, oks: boolean[], outcome: unknown]>([
    ['all', [true, true], ['ok', 'ok']],
    ['all', [true, false], 'step all failed: 1 of 2 children failed'],
    ['any', [false, true, false], [null, 'ok', null]],
    ['any', [false, false], 'step all failed: '],
    [{ atLeast: 2 }, [true, false, true], ['ok', null, 'ok']],
    [{ atLeast: 3 }, [true, false, true], 'step all failed: '],
    [{ percent: 66 }, [true, false, true], ['ok', null, 'ok']],
    [{ percent: 67 }, [true, false, true], 'step all failed: '],
    ['ignore', [false, false], [null, null]],
  ])('%j of %j', async (strategy, oks, outcome) => {
    attempted.length = 0
    const judged = fate(strategy)
    const app = await apps.open({ tasks: [maybe], workflows: [judged] })
    await app.work({ capacity: 3 })
    const job = await app.submit(judged, { oks })
    const ended = await job.result().catch((error: JobFailedError) => error.error)
    if (typeof outcome === 'string') expect(String(ended).slice(0, outcome.length)).toBe(outcome)
    else expect(ended).toEqual(outcome)
    expect(attempted.length, 'attempts: the step allows one where the task has five').toBe(oks.length)
  })

  test('of leaves counts the jobs below', async () => {
    const judged = workflow({
      name: 'leaves',
      steps: (flow: Flow<{ oks: boolean[] }>) => {
        const groups = flow.eachGroup(
          'groups',
          flow.input.oks,
          (group, ok) => {
            group.step('sure', maybe, { ok: true })
            group.step('perhaps', maybe, { ok }, { retry: { attempts: 1 } })
          },
          { strategy: { percent: 75, of: 'leaves' } },
        )
        return groups.results
      },
    })
    const app = await apps.open({ tasks: [maybe], workflows: [judged] })
    await app.work({ capacity: 3 })
    const three = await app.submit(judged, { oks: [true, false] })
    expect(await three.result()).toEqual([{ sure: 'ok', perhaps: 'ok' }, null])
    const two = await app.submit(judged, { oks: [false, false] })
    await expect(two.result()).rejects.toThrow('step groups failed')
  })

  test('early ends with the verdict and stops the rest', async () => {
    const gate = new Gate()
    const race = task({
      name: 'race',
      lane: 'wide',
      run: async (input: { wins: boolean }, ctx) => {
        if (input.wins) await gate.pass()
        else
          await new Promise((_, reject) =>
            ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)),
          )
        return 'won'
      },
    })
    const first = workflow({
      name: 'first',
      steps: (flow: Flow<{ wins: boolean[] }>) => {
        const runners = flow.each('runners', flow.input.wins, race, (wins) => ({ wins }), {
          concurrency: 2,
          strategy: { rule: 'any', early: true },
        })
        return runners.results
      },
    })
    const app = await apps.open({
      tasks: [race],
      workflows: [first],
      lanes: { wide: { perWorker: null } },
    })
    await app.work({ capacity: 3 })
    const job = await app.submit(first, { wins: [false, true, false] })
    await gate.arrived()
    gate.open()
    expect(await job.result()).toEqual([null, 'won', null])
    const { id } = await child(app, job.id, 'runners')
    const states = async () => (await childrenOf(app, id)).map((each) => each.state).join(' ')
    // The running one has been told to stop, and its worker may still be at it.
    await until(
      async () => (await states()) === 'cancelled completed cancelled',
      'the others to be cancelled',
    )
  })
})

describe('paths', () => {
  const work = task({
    name: 'work',
    retry: { attempts: 1 },
    run: (input: { fails: boolean }) => {
      if (input.fails) throw new Error('broken')
      return 'fine'
    },
  })
  const note = task({ name: 'note', run: (input: { error: string | null; status: string }) => input })
  const guarded = workflow({
    name: 'guarded',
    steps: (flow: Flow<{ fails: boolean; rescue: boolean }>) => {
      const group = flow.group('group', (inner) => {
        inner.step('work', work, { fails: flow.input.fails })
      })
      const rescue = flow.step(
        'rescue',
        note,
        { error: group.error, status: group.status },
        { on: 'failure', when: flow.input.rescue },
      )
      const always = flow.step('always', work, { fails: false }, { needs: [group, rescue], on: 'always' })
      const next = flow.step('next', work, { fails: false }, { needs: [group] })
      return {
        group: group.status,
        rescued: rescue.result,
        rescue: rescue.status,
        always: always.status,
        next: next.status,
      }
    },
  })

  test.each([
    [
      'what succeeds leads to the steps on success and always',
      { fails: false, rescue: true },
      { group: 'completed', rescued: null, rescue: 'skipped', always: 'completed', next: 'completed' },
    ],
    [
      'what fails leads to the steps on failure and always, and is handled when one of them completes',
      { fails: true, rescue: true },
      {
        group: 'failed',
        rescued: { error: 'step work failed: broken', status: 'failed' },
        rescue: 'completed',
        always: 'completed',
        next: 'skipped',
      },
    ],
  ])('%s', async (_, input, output) => {
    const app = await apps.open({ tasks: [work, note], workflows: [guarded] })
    await app.work({ capacity: 2 })
    expect(await (await app.submit(guarded, input)).result()).toEqual(output)
  })
})

test('many runs of a workflow are submitted at once, by object or by name', async () => {
  const double = task({ name: 'double', run: (input: { n: number }) => input.n * 2 })
  const quadruple = workflow({
    name: 'quadruple',
    steps: (flow: Flow<{ n: number }>) => {
      const once = flow.step('once', double, { n: flow.input.n })
      const twice = flow.step('twice', double, { n: once.result })
      return twice.result
    },
  })
  const app = await apps.open({ tasks: [double], workflows: [quadruple] })
  await app.work({ capacity: 4 })
  const jobs = await app.submitMany(quadruple, [{ n: 1 }, { n: 2 }, { n: 3 }])
  expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([4, 8, 12])
  expect(await (await app.submit('quadruple', { n: 5 })).result()).toBe(20)
})

describe('a program is refused when it opens', () => {
  const missing = task({ name: 'missing', run: () => {} })
  const needy = workflow({ name: 'needy', steps: (flow: Flow<object>) => void flow.step('a', missing) })

  test('without a task that a workflow runs, or a workflow that one runs', async () => {
    const around = workflow({ name: 'around', steps: (flow: Flow<object>) => void flow.step('b', needy) })
    await expect(apps.open({ workflows: [around] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message:
        'workflow needy runs task missing, which is not among the tasks passed to sluice(); add it there',
    })
  })

  test('with another task of the same name', async () => {
    const other = task({ name: 'missing', run: () => 1 })
    await expect(apps.open({ tasks: [other], workflows: [needy] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('but another task of that name is among the tasks'),
    })
  })

  test('with two workflows of one name, or something that is none', async () => {
    const twin = workflow({ name: 'needy', steps: (flow: Flow<object>) => void flow.step('b', missing) })
    await expect(apps.open({ tasks: [missing], workflows: [needy, twin] })).rejects.toMatchObject({
      message: 'two workflows are named needy: rename one',
    })
    await expect(apps.open({ workflows: ['needy'] as never })).rejects.toMatchObject({
      message: 'workflows[0]: "needy" must be a workflow made with workflow()',
    })
  })

  test('with a name that nothing has', async () => {
    const vague = workflow({
      name: 'vague',
      steps: (flow: Flow<object>) => void flow.step('a', taskNamed('mising'), {}),
    })
    await expect(apps.open({ tasks: [missing], workflows: [vague] })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('no task is called "mising"; did you mean missing?'),
    })
  })
})
