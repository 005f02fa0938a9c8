import { expect, test } from 'vitest'
import { Cli } from './cli.ts'

const cli = new Cli()

test('check shows budgets and pools, and warns of amounts without a unit, of models that are nearly known or not the same for all, and of programs that load a model each', async () => {
  await cli.write(
    'budgets.yaml',
    `budgets: { vram: { gpu0: 24GB, gpu1: 8GB, maxWait: 5m }, seats: 3, cards: { devices: auto } }
models: { llama: { load: 4s } }
fleet: { pools: { burst: { max: 5, labels: { gpu: true } }, base: { min: 1, capacity: 0, provisioner: command, options: { argv: [/bin/true] } } } }
tasks:
  bare: { exec: [/bin/true], uses: { vram: 10 } }
  slip: { exec: [/bin/true], model: lama, uses: { vram: 10GB } }
  other: { exec: [/bin/true], model: flux, uses: { vram: 10GB, seats: 1 } }
  same: { exec: [/bin/true], model: flux, uses: { vram: 10GB } }
  smaller: { exec: [/bin/true], model: flux, uses: { vram: 5GB } }
  chat: { exec: [/bin/true], model: llama, uses: { vram: 9GB }, parallel: 4 }
`,
  )
  const { code, stdout, stderr } = await cli.run(['check', 'budgets.yaml'])
  expect([code, stderr.trim().split('\n').sort()]).toEqual([
    0,
    [
      'warning: task bare: uses 10 bytes of budget vram, whose amounts are sizes: write a unit, such as 10GB',
      'warning: task chat: runs 4 programs of model llama at once, but counts its memory once; let them share one model server, or set perJob to what each program loads',
      'warning: task slip: names model lama, which models does not have; did you mean llama?',
      'warning: task smaller: differs from task other in how much of vram model flux uses, and will be rejected when it starts, because a model is loaded once for both',
    ],
  ])
  expect(stdout).toMatch(/\nBUDGET +CAPACITY +QUANTUM +MAX WAIT +TASKS\n/)
  expect(stdout).toMatch(
    /\nvram +gpu0 24GB, gpu1 8GB on each machine +12 +5m +bare slip other same smaller chat\n/,
  )
  expect(stdout).toMatch(/\nseats +3 +12 +3m +other\ncards +the GPUs of each machine +12 +3m *\n/)
  expect(stdout).toMatch(
    /\nPOOL +PROVISIONER +WORKERS +CAPACITY\nburst +local +up to 5 +1\nbase +command +1 to 3 +none\n/,
  )
  expect(await cli.json('check', 'budgets.yaml')).toMatchObject({
    budgets: [
      { name: 'vram', kind: 'device', devices: { gpu0: 24 * 1024 ** 3 } },
      { name: 'seats', capacity: 3, tasks: ['other'] },
      { name: 'cards', auto: true },
    ],
    pools: [
      { name: 'burst', max: 5, labels: { gpu: true } },
      { name: 'base', min: 1 },
    ],
  })
})

test('check refuses perJob without uses, and says where it is written', async () => {
  await cli.write(
    'alone.yaml',
    `budgets: { vram: { gpu0: 24GB } }
tasks:
  alone:
    exec: [/bin/true]
    perJob: { vram: 1GB }
`,
  )
  const { code, stderr } = await cli.run(['check', 'alone.yaml'])
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining(
      'alone.yaml:5:5: tasks.alone.perJob: requires uses, because perJob alone is not counted; add uses, with 0 for budgets that only perJob uses',
    ),
  ])
})

test('check refuses options of pools that a server would not start with, all of them, where they are written', async () => {
  await cli.write(
    'pools.yaml',
    `fleet:
  pools:
    started:
      provisioner: command
      options: { start: [/bin/true] }
    empty: { provisioner: ecs }
    typed:
      provisioner: kubernetes
      options:
        image: worker
        args: run
`,
  )
  const { code, stderr } = await cli.run(['check', 'pools.yaml'])
  const lines = stderr.split('\n').map((line) => line.trim())
  expect([code, lines]).toEqual([
    2,
    expect.arrayContaining([
      'pools.yaml:5:18: fleet.pools.started.options: unknown option "start"; known options: argv',
      expect.stringMatching(/^pools\.yaml:6:5: fleet\.pools\.empty\.options\.\w+: /),
      'pools.yaml:11:9: fleet.pools.typed.options.args: "run" must be a list',
    ]),
  ])
})
