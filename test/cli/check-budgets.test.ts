import { expect, test } from 'vitest'
import { Cli } from './cli.ts'

const cli = new Cli()

test('check warns of amounts without a unit, of models that are nearly known, and of perJob without uses', async () => {
  await cli.write(
    'budgets.yaml',
    `budgets: { vram: { gpu0: 24GB }, seats: 3 }
models: { llama: { load: 4s } }
tasks:
  bare: { exec: [/bin/true], uses: { vram: 10 } }
  slip: { exec: [/bin/true], model: lama, uses: { vram: 10GB } }
  alone: { exec: [/bin/true], perJob: { vram: 1GB } }
  other: { exec: [/bin/true], model: flux, uses: { vram: 10GB, seats: 1 } }
`,
  )
  const { code, stderr } = await cli.run(['check', 'budgets.yaml'])
  expect(code).toBe(0)
  expect(stderr.trim().split('\n').sort()).toEqual([
    'warning: task alone: perJob is given without uses: it is not counted; write uses',
    'warning: task bare: uses 10 bytes of budget vram, whose amounts are sizes: write a unit, such as 10GB',
    'warning: task slip: names model lama, which models does not have; did you mean llama?',
  ])
})
