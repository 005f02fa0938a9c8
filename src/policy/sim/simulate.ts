import { LEARNING } from '../plan-input.ts'
import { EventQueue } from './event-queue.ts'
import { type Move, type SimCopy, Stage } from './stage.ts'
import type { Loss, SimJob, Workload } from './workload.ts'

/** A way to decide, for one simulation: it may remember. */
export interface SimPolicy {
  /** Asked again at the same time until it has no more moves. */
  decide(stage: Stage): readonly Move[]
  /** A job came, or came back. */
  arrived?(stage: Stage, job: SimJob): void
  /** When to ask again though nothing happens; milliseconds from now. */
  lookAgainMs?(): number
}

/** What happened. */
export interface Course {
  readonly jobs: readonly SimJob[]
  readonly loads: readonly Span[]
  readonly runs: readonly Span[]
  /** From the start of the load until the memory is free. */
  readonly stays: readonly (Span & { readonly memory: number })[]
  /** Times at which more was charged to a device than it has. */
  readonly overcommits: number
  readonly outOfMemory: number
  /** It loaded on and on and no job started. The simulation ended there. */
  readonly livelock: boolean
  /** Jobs that never started though nothing was left to happen. */
  readonly stuck: number
}

export interface Span {
  readonly copy: string
  readonly model: string
  readonly device: string
  readonly from: number
  readonly to: number
}

type Event =
  | { readonly kind: 'arrived'; readonly job: SimJob }
  | { readonly kind: 'loaded'; readonly copy: SimCopy }
  | { readonly kind: 'unloaded'; readonly copy: SimCopy }
  | { readonly kind: 'ended'; readonly copy: SimCopy; readonly job: SimJob; readonly startedAt: number }
  | { readonly kind: 'lost' | 'back'; readonly loss: Loss }
  | { readonly kind: 'look' }

/** A policy that looked so often, with nothing else to come, will not find anything to do. */
const MAX_LOOKS = 1000

/** Plays a workload under a policy in virtual time. The same arguments give the same course. */
export function simulate(workload: Workload, policy: SimPolicy): Course {
  return new Simulation(workload, policy).run()
}

class Simulation {
  readonly #stage: Stage
  readonly #policy: SimPolicy
  readonly #events = new EventQueue<Event>()
  readonly #jobs: SimJob[]
  readonly #loads: Span[] = []
  readonly #runs: Span[] = []
  readonly #stays: Course['stays'][number][] = []
  /** Loads one after another without a job in between that make a livelock: far more than devices and models need. */
  readonly #patience: number
  #loadsInVain = 0
  #looksInVain = 0
  #copies = 0
  #overcommits = 0
  #outOfMemory = 0
  #unfinished: number
  #lookAt = Number.POSITIVE_INFINITY

  constructor(workload: Workload, policy: SimPolicy) {
    this.#stage = new Stage(workload)
    this.#policy = policy
    this.#jobs = workload.arrivals.map(({ at, model, runMs, priority }, index) => ({
      index,
      at,
      model: workload.models[model]!,
      runMs,
      priority,
      placed: false,
      returned: false,
      startedAt: null,
      endedAt: null,
    }))
    this.#unfinished = this.#jobs.length
    this.#patience = 20 + 4 * workload.devices.length * workload.models.length
    for (const job of this.#jobs) this.#events.add(job.at, { kind: 'arrived', job })
    for (const loss of workload.losses) {
      this.#events.add(loss.at, { kind: 'lost', loss })
      if (loss.back !== null) this.#events.add(loss.back, { kind: 'back', loss })
    }
  }

  run(): Course {
    let at = this.#events.nextAt()
    while (at !== undefined && this.#unfinished > 0 && !this.#isLivelock() && this.#looksInVain < MAX_LOOKS) {
      this.#stage.now = at
      while (this.#events.nextAt() === at) this.#happen(this.#events.take()!)
      this.#decide()
      at = this.#events.nextAt()
    }
    for (const copy of this.#stage.copies.values()) this.#end(copy)
    return {
      jobs: this.#jobs,
      loads: this.#loads,
      runs: this.#runs,
      stays: this.#stays,
      overcommits: this.#overcommits,
      outOfMemory: this.#outOfMemory,
      livelock: this.#isLivelock(),
      stuck: this.#isLivelock() ? 0 : this.#unfinished,
    }
  }

  #isLivelock(): boolean {
    return this.#loadsInVain > this.#patience
  }

  #decide(): void {
    for (let moves = this.#policy.decide(this.#stage); moves.length > 0 && !this.#isLivelock(); ) {
      this.#looksInVain = 0
      const before = this.#rooms()
      for (const move of moves) this.#apply(move)
      this.#checkRooms(before)
      moves = this.#policy.decide(this.#stage)
    }
    const { now } = this.#stage
    const again = now + (this.#policy.lookAgainMs?.() ?? Number.POSITIVE_INFINITY)
    if (again === Number.POSITIVE_INFINITY || (this.#lookAt > now && this.#lookAt <= again)) return
    this.#lookAt = again
    this.#events.add(again, { kind: 'look' })
  }

  #happen(event: Event): void {
    const { now } = this.#stage
    this.#looksInVain = event.kind === 'look' ? this.#looksInVain + 1 : 0
    if (event.kind === 'arrived') this.#arrive(event.job)
    else if (event.kind === 'loaded') this.#loaded(event.copy)
    else if (event.kind === 'unloaded') this.#end(event.copy)
    else if (event.kind === 'back') this.#stage.lost.delete(event.loss.device)
    else if (event.kind === 'lost') this.#lose(event.loss.device)
    else if (event.kind === 'ended' && !event.copy.gone) {
      const { copy, job, startedAt } = event
      job.endedAt = now
      this.#unfinished -= 1
      this.#forget(copy, job)
      this.#span(this.#runs, copy, startedAt)
      this.#learn(copy, 'runMs', now - startedAt)
      this.#rested(copy, now - startedAt)
    }
  }

  #arrive(job: SimJob): void {
    job.placed = false
    this.#stage.queues.add(job)
    this.#policy.arrived?.(this.#stage, job)
  }

  #apply(move: Move): void {
    const { now, workload } = this.#stage
    if (move.kind === 'unload') {
      move.copy.unloading = true
      this.#events.add(now + workload.unloadMs, { kind: 'unloaded', copy: move.copy })
      return
    }
    const copy = move.kind === 'load' ? this.#load(move) : move.copy
    for (const job of move.jobs) {
      if (job.placed) throw new Error(`job ${job.index} was started twice`)
      job.placed = true
      this.#stage.queues.taken(job)
      copy.jobs.add(job)
      copy.idleSince = null
      copy.lastUsed = now
      if (copy.loadedAt !== null) this.#run(copy, job)
    }
  }

  #load({ model, devices }: Extract<Move, { kind: 'load' }>): SimCopy {
    const { now, workload } = this.#stage
    const copy: SimCopy = {
      id: `${model.name}/${this.#copies++}`,
      model,
      worker: workload.devices.find(({ key }) => key === devices[0])?.worker ?? '',
      devices,
      charged: this.#stage.memoryOf(model),
      createdAt: now,
      loadedAt: null,
      unloading: false,
      gone: false,
      jobs: new Set(),
      idleSince: null,
      lastUsed: now,
    }
    this.#stage.copies.set(copy.id, copy)
    this.#loadsInVain += 1
    this.#events.add(now + model.loadMs, { kind: 'loaded', copy })
    return copy
  }

  #loaded(copy: SimCopy): void {
    if (copy.gone) return
    const { now } = this.#stage
    this.#span(this.#loads, copy, copy.createdAt)
    this.#learn(copy, 'loadMs', now - copy.createdAt)
    // What a load really took is seen once it is there; it is the largest that counts from then on.
    const known = this.#stage.known.get(copy.model.name)!
    known.memory = Math.max(known.memory, copy.model.memory)
    if (this.#isOutOfMemory(copy)) {
      this.#outOfMemory += 1
      this.#drop(copy)
      return
    }
    copy.loadedAt = now
    // A device is measured: from here on what the copy really takes counts.
    copy.charged = Math.max(copy.charged, copy.model.memory)
    if (copy.jobs.size === 0) copy.idleSince = now
    for (const job of copy.jobs) this.#run(copy, job)
  }

  #isOutOfMemory(copy: SimCopy): boolean {
    return this.#stage.workload.devices
      .filter(({ key }) => copy.devices.includes(key))
      .some(({ key, memory }) => {
        let used = 0
        for (const other of this.#stage.copies.values()) {
          if (other.devices.includes(key) && (other === copy || other.loadedAt !== null))
            used += other.model.memory + other.jobs.size * other.model.perJob
        }
        return used > memory
      })
  }

  #run(copy: SimCopy, job: SimJob): void {
    const { now } = this.#stage
    job.startedAt = now
    this.#loadsInVain = 0
    this.#events.add(now + job.runMs, { kind: 'ended', copy, job, startedAt: now })
  }

  #forget(copy: SimCopy, job: SimJob): void {
    copy.jobs.delete(job)
    copy.lastUsed = this.#stage.now
    if (copy.jobs.size === 0) copy.idleSince = this.#stage.now
  }

  #lose(device: string): void {
    this.#stage.lost.add(device)
    for (const copy of [...this.#stage.copies.values()]) if (copy.devices.includes(device)) this.#drop(copy)
  }

  /** The copy is gone at once and its jobs wait again, in their old places. */
  #drop(copy: SimCopy): void {
    this.#end(copy)
    for (const job of copy.jobs) {
      job.startedAt = null
      job.returned = true
      this.#arrive(job)
    }
  }

  #end(copy: SimCopy): void {
    if (copy.gone) return
    copy.gone = true
    this.#stage.copies.delete(copy.id)
    const { now } = this.#stage
    for (const device of copy.devices)
      this.#stays.push({ ...spanOf(copy, device, copy.createdAt, now), memory: copy.charged })
  }

  #span(list: Span[], copy: SimCopy, from: number): void {
    list.push(spanOf(copy, copy.devices[0]!, from, this.#stage.now))
  }

  #learn(copy: SimCopy, what: 'loadMs' | 'runMs', seen: number): void {
    const known = this.#stage.known.get(copy.model.name)!
    known[what] += (seen - known[what]) * LEARNING
  }

  #rested(copy: SimCopy, ranMs: number): void {
    const { now } = this.#stage
    const known = this.#stage.known.get(copy.model.name)!
    if (known.endedAt !== null) {
      const seen = Math.max(0, now - known.endedAt - ranMs)
      known.restMs = known.restMs === null ? seen : known.restMs + (seen - known.restMs) * LEARNING
    }
    known.endedAt = now
  }

  #rooms(): number[] {
    return this.#stage.workload.devices.map((device) => this.#stage.room(device))
  }

  /** Copies that turn out larger than thought may fill a device beyond what it has. Only a decision over-commits it. */
  #checkRooms(before: readonly number[]): void {
    const least = this.#stage.workload.devices.map(({ memory }) => -1e-6 * memory)
    this.#rooms().forEach((room, at) => {
      if (room < least[at]! && room < before[at]!) this.#overcommits += 1
    })
  }
}

function spanOf(copy: SimCopy, device: string, from: number, to: number): Span {
  return { copy: copy.id, model: copy.model.name, device, from, to }
}
