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

/** It comes before all that wait. */
const EARLIER = { rank: -10, id: '99' }

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
    for (const id of [30, 40, 50, 60]) prefetcher.accept(assignment(id), performance.now())
  })

  /** One of the running jobs ends. */
  function end(): void {
    running.ids.shift()
    prefetcher.fill()
  }

  test('starts one for each that ends, and keeps all slots in use', () => {
    end()
    expect(running.ids).toEqual(['2', '30'])
    prefetcher.begin(false)
    expect([prefetcher.request.slots('narrow'), prefetcher.reserved]).toEqual([2, 0])
    expect(prefetcher.keepsSlotsBusy).toBe(true)
  })

  test('leaves the slots free that it yields, and reports them as unused', () => {
    prefetcher.yieldTo({ narrow: [EARLIER] })
    expect(prefetcher.keepsSlotsBusy).toBe(false)
    end()
    expect(running.ids).toEqual(['2'])
    prefetcher.begin(false)
    expect([prefetcher.request.slots('narrow'), prefetcher.reserved]).toEqual([1, 0])
  })

  test('yields slots that become free while the next cycle is under way', () => {
    prefetcher.yieldTo({ narrow: [EARLIER] })
    prefetcher.begin(false)
    expect(prefetcher.request.slots('narrow')).toBe(2)
    end()
    expect(running.ids).toEqual(['2'])
  })

  test('starts jobs again in the slots that it has once nothing comes first', () => {
    prefetcher.yieldTo({ narrow: [EARLIER, { rank: 0, id: '2' }] })
    end()
    end()
    expect(running.ids).toEqual([])
    prefetcher.yieldTo(undefined)
    prefetcher.fill()
    expect(running.ids).toEqual(['30', '40'])
    expect(returned).toEqual([])
    prefetcher.close()
  })

  test('yields no slot to a job that comes after those that are waiting', () => {
    prefetcher.yieldTo({
      narrow: [
        { rank: 0, id: '100' },
        { rank: 1, id: '1' },
      ],
    })
    end()
    expect(running.ids).toEqual(['2', '30'])
  })

  test('starts the jobs that come before, and then yields', () => {
    prefetcher.yieldTo({ narrow: [{ rank: 0, id: '45' }] })
    for (let n = 0; n < 3; n++) end()
    expect(running.ids).toEqual(['40'])
    prefetcher.begin(false)
    expect(prefetcher.request.slots('narrow')).toBe(1)
    prefetcher.close()
  })

  test('yields the slots of the lanes that are named and no others', () => {
    prefetcher.yieldTo({ other: [EARLIER] })
    end()
    expect(running.ids).toEqual(['2', '30'])
  })
})
