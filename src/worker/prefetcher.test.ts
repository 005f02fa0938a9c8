import { beforeEach, describe, expect, test } from 'vitest'
import { AssignedCells } from '../model/assigned-cells.ts'
import type { Assignment, EndedAttempt } from '../model/assignment.ts'
import { Pace } from './pace.ts'
import { Prefetcher } from './prefetcher.ts'

/** Runs jobs until they are ended by hand. */
class Running {
  readonly pace = new Pace()
  readonly ids: string[] = []
  get size(): number {
    return this.ids.length
  }
  countIn(): number {
    return this.ids.length
  }
  start({ id }: Assignment): void {
    this.ids.push(id)
  }
}

const assignment = (id: number): Assignment => ({
  ...{
    id: String(id),
    attempt: 1,
    task: 'act',
    lane: 'narrow',
    failures: 0,
    priority: 0,
    key: null,
    tags: [],
  },
  ...{ submittedAt: '', input: null, prefetched: { rank: 0 } },
})

describe('a worker with two slots in use and four jobs assigned', () => {
  let running: Running
  let prefetcher: Prefetcher
  let returned: EndedAttempt[]

  beforeEach(() => {
    running = new Running()
    returned = []
    prefetcher = new Prefetcher({
      source: { staleByLane: new Map([['narrow', 15_000]]) },
      assignedCells: new AssignedCells(),
      attempts: running,
      prefetchable: new Set(['act']),
      mayStart: () => true,
      onHandedBack: (ended) => void returned.push(...ended),
      onDoubt: () => {},
    })
    prefetcher.begin(false)
    for (const id of [1, 2]) {
      prefetcher.grant('narrow')
      running.start(assignment(id))
    }
    for (const id of [3, 4, 5, 6]) prefetcher.accept(assignment(id), performance.now())
  })

  /** One of the running jobs ends. */
  function end(): void {
    running.ids.shift()
    prefetcher.fill()
  }

  test('starts one for each that ends, and keeps all slots in use', () => {
    end()
    expect(running.ids).toEqual(['2', '3'])
    prefetcher.begin(false)
    expect([prefetcher.request.slots('narrow'), prefetcher.reserved]).toEqual([2, 0])
    expect(prefetcher.keepsSlotsBusy).toBe(true)
  })

  test('leaves the slots free that it yields, and reports them as unused', () => {
    prefetcher.yieldSlots({ narrow: 1 })
    expect(prefetcher.keepsSlotsBusy).toBe(false)
    end()
    expect(running.ids).toEqual(['2'])
    prefetcher.begin(false)
    expect([prefetcher.request.slots('narrow'), prefetcher.reserved]).toEqual([1, 0])
  })

  test('yields slots that become free while the next cycle is under way', () => {
    prefetcher.yieldSlots({ narrow: 1 })
    prefetcher.begin(false)
    expect(prefetcher.request.slots('narrow')).toBe(2)
    end()
    expect(running.ids).toEqual(['2'])
  })

  test('starts jobs again in the slots that it has once nothing comes first', () => {
    prefetcher.yieldSlots({ narrow: 2 })
    end()
    end()
    expect(running.ids).toEqual([])
    prefetcher.yieldSlots(undefined)
    prefetcher.fill()
    expect(running.ids).toEqual(['3', '4'])
    expect(returned).toEqual([])
    prefetcher.close()
  })

  test('yields the slots of the lanes that are named and no others', () => {
    prefetcher.yieldSlots({ other: 2 })
    end()
    expect(running.ids).toEqual(['2', '3'])
  })
})
