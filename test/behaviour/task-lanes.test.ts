import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type LoadedConfig, loadConfig, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { deleteLaneIn, waitingSessions } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

async function configOf(text: string): Promise<LoadedConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-placed-'))
  try {
    await writeFile(join(folder, 'sluice.yaml'), text)
    return await loadConfig({ folder })
  } finally {
    await rm(folder, { recursive: true })
  }
}

const named = (name: string, lane?: string) =>
  task({ name, run: () => {}, ...(lane !== undefined && { lane }) })

async function laneOf(name: string): Promise<string | null | undefined> {
  const app = await apps.open({ publish: false })
  return (await app.listTasks()).find((each) => each.name === name)?.lane
}

describe('a task that a config file places in a lane', () => {
  test('stays there when a program without a file starts whose code names no lane', async () => {
    const config = await configOf('lanes: { limited: { slots: 1, tasks: [sharp] } }')
    await apps.open({ tasks: [named('sharp')], config })
    const plain = await apps.open({ tasks: [named('sharp')] })
    expect(await laneOf('sharp')).toBe('limited')
    expect(await plain.getJob((await plain.submit('sharp', null)).id)).toMatchObject({ lane: 'limited' })
    // What else that program says of the task applies.
    await apps.open({ tasks: [task({ name: 'sharp', priority: 4, run: () => {} })] })
    expect(await plain.getJob((await plain.submit('sharp', null)).id)).toMatchObject({
      lane: 'limited',
      priority: 4,
    })
  })

  test('leaves it for the lane that code names, and for default when the file no longer has it', async () => {
    const placed = await configOf('lanes: { first: { tasks: [roving] }, second: {} }')
    await apps.open({ tasks: [named('roving')], config: placed })
    await apps.open({ tasks: [named('roving', 'second')] })
    expect(await laneOf('roving')).toBe('second')
    // Nobody says so any more: only what a file says outlives that.
    await apps.open({ tasks: [named('roving')] })
    expect(await laneOf('roving')).toBe('default')

    await apps.open({ tasks: [named('roving')], config: placed })
    expect(await laneOf('roving')).toBe('first')
    await apps.open({ tasks: [named('roving')], lanes: { second: { tasks: ['roving'] } } })
    expect(await laneOf('roving')).toBe('second')
    await apps.open({ tasks: [named('roving')], config: placed })
    await apps.open({ tasks: [named('roving')], config: await configOf('lanes: { first: {}, second: {} }') })
    expect(await laneOf('roving')).toBe('default')
  })

  test('goes back to the lane of the file when an operator’s move is reset', async () => {
    const config = await configOf('lanes: { filed: { tasks: [carried] }, chosen: {} }')
    const app = await apps.open({ tasks: [named('carried')], config })
    await app.moveTask('carried', 'chosen')
    await apps.open({ tasks: [named('carried')] })
    expect(await laneOf('carried')).toBe('chosen')
    expect(await app.moveTask('carried', null)).toEqual({ task: 'carried', lane: 'filed', moved: false })
  })
})

test('a program that starts while its lane is deleted places its task where the jobs of the lane go', async () => {
  const lanes = { doomed: {}, refuge: {} }
  const app = await apps.open({ tasks: [named('settler', 'doomed')], lanes })
  const operator = new pg.Client(database.directUrl)
  await operator.connect()
  onTestFinished(() => operator.end())
  await deleteLaneIn(operator, 'doomed', 'refuge')
  // It declares no lane, so that the first thing it waits for is the deletion's hold of the names.
  const starting = apps.open({ tasks: [named('settler', 'doomed'), named('newcomer', 'doomed')] })
  starting.catch(() => {})
  await until(async () => (await waitingSessions(database.sql)) > 0, 'the program to wait for the deletion')
  await operator.query('commit')
  await starting
  expect(await laneOf('settler')).toBe('refuge')
  expect(await laneOf('newcomer')).toBe('refuge')
  expect(await app.getJob((await app.submit('newcomer', null)).id)).toMatchObject({ lane: 'refuge' })
})
