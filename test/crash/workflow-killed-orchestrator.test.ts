import { expect, test, vi } from 'vitest'
import { killOnTheWay, ORCHESTRATION, Orchestration } from '../support/orchestrators.ts'
import { completedIn, isCycle } from '../support/request-proxy.ts'
import { readTree } from '../support/trees.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 90_000 })

// Every single request instead of the second one of each statement: test/long/workflow-killed-orchestrator.test.ts.
for (const name of ORCHESTRATION) {
  for (const when of ['before', 'after'] as const) {
    test.concurrent(`kill -9 ${when} ${name} leaves nothing stuck and nothing done twice`, async () => {
      let sent = 0
      const nth = name === 'load_graphs' ? 1 : 2
      await killOnTheWay(when, (request) => {
        const isMeant =
          name === 'run_cycle'
            ? isCycle(request) && completedIn(request).length > 0
            : request.statement === name
        return isMeant && ++sent === nth
      })
    })
  }
}

test('the items of a fan-out become children once each, though two processes are killed half-way', async () => {
  const count = 4500
  const scene = await Orchestration.open([
    {
      name: 'wide',
      definition: {
        steps: {
          all: {
            task: 'act',
            with_items: '${{ range(input.n) }}',
            concurrency: 100,
            with: { n: '${{ item }}' },
          },
        },
        output: '${{ steps.all.results.size() }}',
      },
    },
  ])
  try {
    const makesChunk = (first: number) => (request: { statement: string; text: string }) =>
      request.statement === 'apply_advances' && request.text.includes(`"chunk":${first},`)
    const one = await scene.start()
    const killed = scene.killAt(one, 'before', makesChunk(1000))
    const job = await scene.app.submit('wide', { n: count })
    await killed
    const children = async () =>
      (await readTree(scene.database.sql, job.id)).filter(({ kind }) => kind === null)
    expect(await children()).toHaveLength(1000)

    const next = scene.start()
    const again = scene.killAt(await next, 'after', makesChunk(2000))
    await scene.database.sql(`update sluice.composites set taken_until = null`)
    await again
    expect(await children()).toHaveLength(3000)

    await scene.survive()
    expect(await job.result()).toBe(count)
    const made = await children()
    expect(made.map(({ place }) => place)).toEqual(Array.from({ length: count }, (_, n) => n))
    expect(made.map(({ input }) => (input as { n: number }).n)).toEqual(made.map(({ place }) => place))
    await scene.expectDone(job.id)
  } finally {
    await scene.close()
  }
})

test('what a stopped process decided is refused once another one has gone on', async () => {
  const scene = await Orchestration.open()
  try {
    const stopped = await scene.start()
    const taking = scene.proxy.hold(({ statement }) => statement === 'take_composites')
    const job = await scene.app.submit('journey', null)
    let take = await taking
    for (;;) {
      await take.deliver()
      const taken = await scene.database.sql(
        'select 1 from sluice.composites where taken_until > clock_timestamp()',
      )
      if (taken.length > 0) break
      const next = scene.proxy.hold(({ statement }) => statement === 'take_composites')
      take.pass()
      take = await next
    }
    await stopped.pause()
    take.pass()
    const late = scene.proxy.hold(({ statement }) => statement === 'apply_advances')

    await scene.app.work({ capacity: 20 })
    await until(
      async () =>
        (await scene.database.sql('select 1 from sluice.composites where taken_until > clock_timestamp()'))
          .length === 1,
      'the stopped process to be the only one that has taken something',
    )
    expect(await readTree(scene.database.sql, job.id)).toHaveLength(1)
    await scene.database.sql(
      `update sluice.composites set taken_until = clock_timestamp() - interval '1 second'`,
    )
    expect(await job.result()).toBe(6)
    const before = await readTree(scene.database.sql, job.id)

    stopped.resume()
    const refused = await late
    expect(refused.text).toContain(`"job":"${job.id}"`)
    expect(await refused.deliver()).toBe(true)
    refused.pass()
    expect(await readTree(scene.database.sql, job.id)).toEqual(before)
    await scene.expectDone(job.id)
  } finally {
    await scene.close()
  }
})
