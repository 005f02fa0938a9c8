import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { widthOf } from '../../src/cli/output/text-width.ts'
import { Events } from '../../src/cli/run/events.ts'
import { frame, type RunView } from '../../src/cli/run/view.ts'
import type { WatchedNode } from '../../src/engine/streams/tree-watch.ts'
import type { FanoutCounts } from '../../src/engine/views/tree.ts'

const plain = (_: unknown, text: string) => text
const AT = new Date('2026-01-01T00:00:10Z')
const before = (seconds: number) => new Date(AT.getTime() - seconds * 1000)

function node(name: string, more: Partial<WatchedNode> = {}): WatchedNode {
  const status = more.status ?? 'running'
  return {
    id: name,
    name,
    kind: 'task',
    status,
    retrying: false,
    needs: [],
    error: null,
    attempt: 1,
    progress: null,
    message: null,
    readyAt: undefined,
    startedAt: status === 'pending' ? undefined : before(4),
    finishedAt: status === 'completed' || status === 'failed' ? before(1) : undefined,
    counts: undefined,
    children: [],
    ...more,
  }
}

function fanOut(
  state: Partial<FanoutCounts>,
  children: WatchedNode[],
  more: Partial<WatchedNode> = {},
): WatchedNode {
  const whole = {
    total: 20,
    completed: 5,
    failed: 0,
    cancelled: 0,
    window: 4,
    inFlight: children.length,
    ...state,
  }
  return node('count', { id: '7', kind: 'fanout', counts: whole, children, ...more })
}

function viewOf(children: WatchedNode[], note?: string): RunView {
  const root = node('pipeline', { kind: 'workflow', children })
  return { workflow: 'pipeline', id: '1', tree: { root, at: AT }, sinceMs: 0, tick: 0, note }
}

function lines(view: RunView, size = { columns: 80, rows: 24 }): string[] {
  return frame(view, size, plain)
}

describe('a frame', () => {
  test('has a line per step: what it does, and how long', () => {
    const shown = lines(
      viewOf([
        node('split', { status: 'completed' }),
        node('align', { progress: 0.5, message: 'reading' }),
        node('merge', { status: 'pending', needs: ['split', 'align'] }),
        node('report', { status: 'failed', error: 'no disk' }),
      ]),
    )
    expect(shown[0]).toMatch(/^pipeline {2}job 1 {2}running +2 of 4 steps +4\.0s$/)
    expect(shown[1]).toMatch(/^ ✓ split +3\.0s$/)
    expect(shown[2]).toMatch(/^ ⠋ align +█{14}░{14} {2}50% {2}reading +4\.0s$/)
    expect(shown[3]).toMatch(/^ ○ merge +after split, align +$/)
    expect(shown[4]).toMatch(/^ ✗ report +no disk +3\.0s$/)
  })

  test('draws a window as a window: a sign per place, rising with its progress', () => {
    const children = [
      node('[5]', { progress: 0.99 }),
      node('[6]', { progress: 0 }),
      node('[7]', { status: 'queued', retrying: true }),
    ]
    const [, line] = lines(viewOf([fanOut({ inFlight: 3 }, children)]))
    expect(line).toMatch(/^ ⠋ count +█+\[█▁↻ \]░+ {2}5 of 20, window 4 \(job 7\) +4\.0s$/)
  })

  test('tells a wide window, a paused one and none in words', () => {
    const line = (state: Partial<FanoutCounts>) => lines(viewOf([fanOut(state, [])]))[1]
    expect(line({ window: 100, inFlight: 87, total: 5000 })).toMatch(/\[87 of 100\]/)
    expect(line({ window: 0, inFlight: 2 })).toMatch(/\[paused, 2 left\]/)
    expect(line({ window: null, inFlight: 15 })).toMatch(/ {2}5 of 20, 15 in flight/)
    expect(line({ failed: 2 })).toMatch(/ {2}5 of 20, 2 failed, window 4/)
  })

  test('counts what was cancelled of a fan-out, and keeps its error apart from the counts', () => {
    const ended = { finishedAt: before(1) }
    const text = lines(
      viewOf([
        fanOut({ completed: 0, cancelled: 6 }, [], { status: 'cancelled', ...ended }),
        fanOut({ failed: 1 }, [], { status: 'failed', error: 'one is too many', ...ended }),
      ]),
    ).join('\n')
    expect(text).toMatch(/0 of 20, 6 cancelled +3.0s/)
    expect(text).toContain('1 failed  one is')
  })

  test('leaves out what has ended where there is no room, and never what runs', () => {
    const many = Array.from({ length: 40 }, (_, i) => node(`done${i}`, { status: 'completed' }))
    const shown = lines(viewOf([...many, node('busy'), node('later', { status: 'pending' })]), {
      columns: 80,
      rows: 10,
    })
    expect(shown).toHaveLength(9)
    expect(shown.join('\n')).toMatch(/busy/)
    expect(shown.at(-1)).toMatch(/… \d+ more not shown/)
  })

  test('of a deep recursion shows where it began and where it is', () => {
    let deepest = node('tick')
    for (let level = 0; level < 60; level++)
      deepest = node(`next${level}`, { kind: 'workflow', children: [deepest] })
    const text = lines(viewOf([deepest]), { columns: 60, rows: 12 }).join('\n')
    expect(text).toContain('next59')
    expect(text).toContain('tick')
  })

  test('never has a line wider than the terminal, nor as many lines as it has', () => {
    const text = fc.constantFrom('a', 'wide 漢字 🎉', 'x'.repeat(200), 'bad \u001b[2J control')
    const leaf = fc
      .record({
        name: text,
        status: fc.constantFrom(
          'pending',
          'queued',
          'running',
          'completed',
          'failed',
          'skipped',
          'cancelled',
        ),
        error: fc.option(text),
        message: fc.option(text),
        progress: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
        retrying: fc.boolean(),
        total: fc.nat(3000),
        window: fc.option(fc.nat(300)),
        inFlight: fc.nat(300),
        completed: fc.nat(3000),
        failed: fc.nat(3000),
        isFanOut: fc.boolean(),
      })
      .map(({ total, window, inFlight, completed, failed, isFanOut, ...more }) =>
        node(more.name, {
          id: '3',
          ...(more as Partial<WatchedNode>),
          ...(isFanOut && {
            kind: 'fanout',
            counts: { total, window, inFlight, completed, failed, cancelled: 0 },
          }),
        }),
      )
    fc.assert(
      fc.property(
        fc.array(leaf, { maxLength: 30 }),
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 2, max: 40 }),
        (children, columns, rows) => {
          const group = node('group', { kind: 'group', children: children.slice(0, 5) })
          const shown = lines(viewOf([...children, group], 'a note'), { columns, rows })
          expect(shown.length).toBeLessThan(rows)
          for (const line of shown) {
            expect(widthOf(line)).toBeLessThanOrEqual(columns)
            expect(line).not.toContain('\u001b')
          }
        },
      ),
    )
  })
})

describe('events', () => {
  test('tell each change once, and a fan-out how far it is now and then', () => {
    const events = new Events()
    const told = (children: WatchedNode[], at = AT) =>
      events.since({ root: node('pipeline', { kind: 'workflow', children }), at })
    expect(told([node('split')])).toEqual(['split started (job split)'])
    expect(told([node('split')])).toEqual([])
    const split = node('split', { status: 'completed' })
    const counting = (completed: number) =>
      fanOut({ completed }, [node('[5]', { kind: 'workflow', children: [node('x')] })])
    expect(told([split, counting(0)])).toEqual([
      'split completed in 3.0s',
      'count started (job 7): 20 items, 4 at once',
    ])
    expect(told([split, counting(1)])).toEqual([])
    expect(told([split, counting(3)], new Date(AT.getTime() + 2500))).toEqual(['count 3 of 20, 1 in flight'])
    const failed = node('[6]', { status: 'failed', error: 'bad' })
    expect(told([split, fanOut({ completed: 3 }, [failed])], new Date(AT.getTime() + 2600))).toEqual([
      'count[6] failed in 3.0s: bad',
    ])
  })
})
