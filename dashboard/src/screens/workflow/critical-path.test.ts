import { expect, test } from 'vitest'
import { criticalPath, type TimedStep } from './critical-path.ts'

function step(name: string, needs: string[], from: number | null, to: number | null, status = 'completed') {
  const at = (ms: number | null) => (ms === null ? null : new Date(ms))
  return { step: name, needs, job: { status, startedAt: at(from), finishedAt: at(to) } } satisfies TimedStep
}

test('the path leads from what ended last back through what it waited for', () => {
  const steps = [
    step('load', [], 0, 10),
    step('quick', ['load'], 10, 12),
    step('slow', ['load'], 10, 50),
    step('join', ['quick', 'slow'], 50, 60),
    step('aside', ['load'], 10, 55),
  ]
  expect(criticalPath(steps)).toEqual(['load', 'slow', 'join'])
})

test('what still runs is on the path, and what was skipped or not reached is not', () => {
  const steps: TimedStep[] = [
    step('load', [], 0, 10),
    step('work', ['load'], 10, null, 'running'),
    step('rescue', ['load'], null, 90, 'skipped'),
    { step: 'end', needs: ['work', 'rescue'] },
  ]
  expect(criticalPath(steps)).toEqual(['load', 'work'])
})

test('the way leads through a skipped step to what decided that it was skipped', () => {
  const steps = [
    step('load', [], 0, 10, 'failed'),
    step('work', ['load'], null, 10, 'skipped'),
    step('clean', ['work'], 11, 12),
  ]
  expect(criticalPath(steps)).toEqual(['load', 'work', 'clean'])
})

test('a run in which nothing has begun has no path', () => {
  expect(criticalPath([{ step: 'one', needs: [] }])).toEqual([])
})
