import { expect, test } from 'vitest'
import { mostWorthy } from './most-worthy.ts'
import type { GraphStep } from './use-workflow.ts'

const step = (name: string, status?: string) =>
  ({ step: name, ...(status !== undefined && { job: { status } }) }) as unknown as GraphStep

test('what failed comes first, then what runs, then the last that completed', () => {
  expect(mostWorthy([step('a', 'running'), step('b', 'failed')])?.step).toBe('b')
  expect(mostWorthy([step('a', 'completed'), step('b', 'running')])?.step).toBe('b')
  expect(mostWorthy([step('a', 'completed'), step('b', 'completed'), step('c')])?.step).toBe('b')
  expect(mostWorthy([step('a'), step('b')])?.step).toBe('a')
})

test('a step that is retried stays in sight until it has completed', () => {
  const around = [step('a', 'completed'), step('other', 'running')]
  expect(mostWorthy([...around, step('b')], 'b')?.step).toBe('b')
  expect(mostWorthy([...around, step('b', 'queued')], 'b')?.step).toBe('b')
  expect(mostWorthy([...around, step('b', 'completed')], 'b')?.step).toBe('other')
})
