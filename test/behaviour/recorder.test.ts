import { expect, test } from 'vitest'
import { Recorder, type TraceStore } from '../../src/engine/leases/recorder.ts'

test('what an outage makes it drop is counted, and said in one line', async () => {
  const said: { fields: object; message: string }[] = []
  const warn = (fields: object, message: string) => said.push({ fields, message })
  const stored: number[] = []
  const traces: TraceStore = {
    appendLogs: async (lines) => {
      stored.push(lines.length)
      return []
    },
    saveProgress: async () => {},
  }
  const recorder = new Recorder(traces, { debug() {}, info() {}, warn, error() {} })

  // One attempt keeps 10,000 lines, so it takes several of them. Nothing is stored before the loop is free again.
  for (let line = 0; line < 50_007; line++) recorder.log(String(line % 10), 1, 'info', `line ${line}`)
  await recorder.flush()

  expect(said).toEqual([
    {
      fields: { dropped: 7, waiting: 50_000 },
      message: 'dropped 7 log lines: more than 50000 were waiting to be stored',
    },
  ])
  expect(stored.reduce((sum, each) => sum + each, 0)).toBe(50_000)
})
