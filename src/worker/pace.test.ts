import { describe, expect, test } from 'vitest'
import { Pace } from './pace.ts'

/** Jobs that end one after the other, each after `ms`. */
function run(pace: Pace, jobs: number, ms: number, from = 0): number {
  let now = from
  for (let i = 0; i < jobs; i++) {
    pace.started('act', now)
    now += ms
    pace.ended('act', ms, now)
  }
  return now
}

describe('how many jobs are assigned ahead', () => {
  test('assigns none until three jobs have ended', () => {
    const pace = new Pace()
    expect(pace.ahead('act', 0)).toBe(0)
    run(pace, 2, 1)
    expect(pace.ahead('act', 2)).toBe(0)
    run(pace, 1, 1, 2)
    expect(pace.ahead('act', 3)).toBeGreaterThan(0)
  })

  test('as many as end in 20 ms', () => {
    const pace = new Pace()
    expect(pace.ahead('act', run(pace, 10, 5))).toBe(4)
  })

  test('time in which none of them runs does not count', () => {
    const pace = new Pace()
    const busy = run(pace, 5, 5)
    run(pace, 5, 5, busy + 10_000)
    expect(pace.ahead('act', busy + 10_025)).toBe(4)
  })

  test('jobs side by side count by how many end, not by how long one takes', () => {
    const pace = new Pace()
    for (let i = 0; i < 10; i++) pace.started('act', 0)
    for (let i = 0; i < 10; i++) pace.ended('act', 10, 10)
    expect(pace.ahead('act', 10)).toBe(20)
  })

  test('starts with a window of 64', () => {
    const pace = new Pace()
    expect(pace.ahead('act', run(pace, 100, 0.01))).toBe(64)
  })

  test('none of jobs that run for longer than 20 ms', () => {
    const pace = new Pace()
    for (let i = 0; i < 100; i++) pace.started('act', 0)
    for (let i = 0; i < 100; i++) pace.ended('act', 50, 50)
    expect(pace.ahead('act', 50)).toBe(0)
  })

  test('more while they start soon, fewer once they wait for too long', () => {
    const pace = new Pace()
    let now = run(pace, 100, 0.01)
    let before = pace.ahead('act', now)
    for (const most of [128, 256, 512]) {
      for (let i = 0; i < before; i++) pace.waited('act', 12)
      now = run(pace, 100, 0.01, now)
      before = pace.ahead('act', now)
      expect(before).toBe(most)
    }
    pace.waited('act', 40)
    now = run(pace, 100, 0.01, now)
    expect(pace.ahead('act', now)).toBe(204)
  })

  test('none after a reset, until it has been measured again', () => {
    const pace = new Pace()
    const now = run(pace, 10, 1)
    expect(pace.ahead('act', now)).toBeGreaterThan(0)
    pace.reset('act', now)
    expect(pace.ahead('act', now)).toBe(0)
    expect(pace.ahead('act', run(pace, 10, 1, now))).toBeGreaterThan(0)
  })

  test('a quarter of the window after a reset, until jobs have started in time', () => {
    const pace = new Pace()
    let now = run(pace, 100, 0.01)
    expect(pace.ahead('act', now)).toBe(64)
    // Several jobs are late.
    for (let i = 0; i < 3; i++) pace.reset('act', now)
    now = run(pace, 100, 0.01, now)
    expect(pace.ahead('act', now)).toBe(16)
    for (let i = 0; i < 16; i++) pace.waited('act', 5)
    now = run(pace, 100, 0.01, now)
    expect(pace.ahead('act', now)).toBe(32)
  })
})
