import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Cli } from './cli.ts'

const cli = new Cli({ DATABASE_URL: 'postgres://127.0.0.1:1/none' })
const example = (name: string) => fileURLToPath(new URL(`../../examples/sim/${name}.yaml`, import.meta.url))

test('a recorded list is played once under each policy, beside the best that could have been done', async () => {
  const { code, stdout } = await cli.run(['sim', example('recorded'), '--svg', 'timeline.svg'])

  expect(code).toBe(0)
  expect(stdout).toContain('a recorded morning: 12 jobs of 3 models on 1 device, seed 1')
  expect(stdout).toMatch(/^POLICY +LOADS\/1000 +MAKESPAN\/BOUND +WAIT P50 +P95 +P99 +MAX +LOADING$/m)
  for (const policy of ['sluice', 'fifo', 'ollama', 'lru', 'llama-swap', 'no-guard', 'optimum'])
    expect(stdout).toMatch(new RegExp(`^${policy} +\\d+ +\\d\\.\\d\\d`, 'm'))
  expect(await readFile(join(cli.folder, 'timeline.svg'), 'utf8')).toMatch(/^<svg [\s\S]*<\/svg>\n$/)
})

test.each([
  'burst',
  'steady',
  'hot-and-rare',
  'big-and-small',
  'alternating',
  'diurnal',
  'gpu-loss',
  'wrong-estimates',
  'two-gpus-wide',
])('the example %s is served without over-commit or livelock', async (name) => {
  expect(await cli.json('sim', example(name), '--seeds', '2', '--policy', 'sluice')).toMatchObject({
    seeds: 2,
    policies: [{ policy: 'sluice', overcommits: 0, livelocks: 0, unserved: 0 }],
  })
})

test('a guard without a turn is said to livelock', async () => {
  const { stdout } = await cli.run(['sim', example('burst'), '--seeds', '1', '--policy', 'naive-guard'])

  expect(stdout).toContain('naive-guard: loaded on and on without starting a job, in 1 run')
})

test('reports all problems of a file at once, and names unknown policies', async () => {
  await cli.write(
    'bad.yaml',
    'devices: { a: { memory: 24GB } }\nmodels: { m: { memory: 30GB, loads: 2s } }\narrivals: { kind: bursts }\n',
  )
  await cli.write(
    'large.yaml',
    'devices: { a: { memory: 24GB } }\nmodels: { m: { memory: 30GB, load: 1s } }\n',
  )
  const { code, stderr } = await cli.run(['sim', 'bad.yaml'])

  expect(code).toBe(2)
  expect(stderr).toContain('bad.yaml:2:30: models.m.loads: unknown key; did you mean load?')
  expect(stderr).toContain('arrivals.kind: found "bursts"; write burst')
  expect(stderr).toContain('code:  INVALID_CONFIG')
  const large = await cli.run(['sim', 'large.yaml'])
  expect(large.stderr).toContain('models.m: fits on too few of the devices')
  expect(large.stderr).toContain('write either arrivals, to have jobs made up, or jobs')
  expect(await cli.run(['sim', example('burst'), '--policy', 'best'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no policy best'),
  })
})
