import { expect, test } from 'vitest'
import { Cli } from './cli.ts'

const cli = new Cli()

test('check warns of amounts without a unit, of models that are nearly known or not the same for all, of perJob without uses, and of programs that load a model each', async () => {
  await cli.write(
    'budgets.yaml',
    `budgets: { vram: { gpu0: 24GB }, seats: 3 }
models: { llama: { load: 4s } }
tasks:
  bare: { exec: [/bin/true], uses: { vram: 10 } }
  slip: { exec: [/bin/true], model: lama, uses: { vram: 10GB } }
  alone: { exec: [/bin/true], perJob: { vram: 1GB } }
  other: { exec: [/bin/true], model: flux, uses: { vram: 10GB, seats: 1 } }
  same: { exec: [/bin/true], model: flux, uses: { vram: 10GB } }
  smaller: { exec: [/bin/true], model: flux, uses: { vram: 5GB } }
  chat: { exec: [/bin/true], model: llama, uses: { vram: 9GB }, parallel: 4 }
`,
  )
  const { code, stderr } = await cli.run(['check', 'budgets.yaml'])
  expect(code).toBe(0)
  expect(stderr.trim().split('\n').sort()).toEqual([
    'warning: task alone: perJob is given without uses: it is not counted; write uses',
    'warning: task bare: uses 10 bytes of budget vram, whose amounts are sizes: write a unit, such as 10GB',
    'warning: task chat: runs 4 programs of model llama at once, but its memory is counted once: let them share one model server, or put what each loads into perJob',
    'warning: task slip: names model lama, which models does not have; did you mean llama?',
    'warning: task smaller: differs from task other in what model flux uses of vram, and is refused when it starts: a model is loaded once for both',
  ])
})
