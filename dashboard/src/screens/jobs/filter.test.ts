import { expect, test } from 'vitest'
import { countConditions, filterOf, filterWords } from './filter.ts'

const NOW = Date.parse('2031-05-01T08:00:00Z')

test('an address with a tab and texts asks for what it says, and leaves out what is empty or blank', () => {
  expect(filterOf({ tab: 'failed', task: 'resize', key: '42', error: '  ', lane: '' }, NOW)).toEqual({
    status: ['failed'],
    task: 'resize',
    key: '42',
  })
})

test('a span counts back from now, and a moment in the address goes before it', () => {
  expect(filterOf({ span: '1h' }, NOW)).toEqual({ submittedFrom: '2031-05-01T07:00:00.000Z' })
  const both = filterOf({ span: '1h', from: '2031-04-01T00:00:00Z', to: 'no time' }, NOW)
  expect(both).toEqual({ submittedFrom: '2031-04-01T00:00:00.000Z' })
})

test('states that a link names count where the tab says nothing of states; what is no state does not', () => {
  expect(filterOf({ status: 'queued,nonsense,running' }, NOW)).toEqual({ status: ['queued', 'running'] })
  expect(filterOf({ tab: 'failed', status: 'queued' }, NOW)).toEqual({ status: ['failed'] })
  expect(filterOf({ tab: 'nowhere' }, NOW)).toEqual({})
})

test('steps of workflows are listed where the address says so; those that need approval always', () => {
  expect(filterOf({ tab: 'scheduled', with: 'steps' }, NOW)).toEqual({ waits: 'time', children: true })
  expect(filterOf({ tab: 'running', with: 'steps' }, NOW)).toEqual({ status: ['running'], children: true })
  expect(filterOf({ tab: 'failed', with: 'steps' }, NOW)).toEqual({ status: ['failed'], children: true })
  expect(filterOf({ with: 'steps' }, NOW)).toEqual({ children: true })
  expect(filterOf({ tab: 'approval' }, NOW)).toEqual({ status: ['awaiting_approval'], children: true })
  expect(filterOf({ tab: 'failed' }, NOW)).toEqual({ status: ['failed'] })
})

test('describes a filter in words before all matching jobs are changed', () => {
  expect(filterWords({ tab: 'failed', task: 'resize', span: '1h' })).toBe(
    'jobs under “Failed”, of task “resize”, last hour',
  )
  expect(countConditions({ tab: 'failed', task: 'resize', span: '1h', key: '' })).toBe(2)
})
