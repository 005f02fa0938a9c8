import type { SimJob, SimModel } from './workload.ts'

/** Jobs that wait, by model: highest priority first, then in the order in which they came. */
export class SimQueues {
  readonly #queues: ReadonlyMap<SimModel, { jobs: SimJob[]; first: number; size: number }>

  constructor(models: readonly SimModel[]) {
    this.#queues = new Map(models.map((model) => [model, { jobs: [], first: 0, size: 0 }]))
  }

  add(job: SimJob): void {
    const queue = this.#queues.get(job.model)!
    queue.size += 1
    // One that comes back may not have been skipped yet.
    const before = job.returned ? queue.jobs.indexOf(job, queue.first) : -1
    if (before >= 0) queue.jobs.splice(before, 1)
    let place = queue.jobs.length
    while (place > queue.first && goesBefore(job, queue.jobs[place - 1]!)) place -= 1
    if (place === queue.jobs.length) queue.jobs.push(job)
    else queue.jobs.splice(place, 0, job)
  }

  /** A job was placed. It is skipped from now on. */
  taken(job: SimJob): void {
    this.#queues.get(job.model)!.size -= 1
  }

  depth(model: SimModel): number {
    return this.#queues.get(model)!.size
  }

  head(model: SimModel): SimJob | undefined {
    return this.first(model, 1)[0]
  }

  first(model: SimModel, count: number): SimJob[] {
    const queue = this.#queues.get(model)!
    while (queue.first < queue.jobs.length && queue.jobs[queue.first]!.placed) queue.first += 1
    if (queue.first > 1000 && queue.first > queue.jobs.length / 2) {
      queue.jobs = queue.jobs.slice(queue.first)
      queue.first = 0
    }
    const found: SimJob[] = []
    for (let index = queue.first; index < queue.jobs.length && found.length < count; index++)
      if (!queue.jobs[index]!.placed) found.push(queue.jobs[index]!)
    return found
  }

  /** The heads of all queues that have one, in the order in which they should go. */
  heads(): SimJob[] {
    const heads: SimJob[] = []
    for (const model of this.#queues.keys()) {
      const head = this.head(model)
      if (head !== undefined) heads.push(head)
    }
    return heads.sort((one, other) => (goesBefore(one, other) ? -1 : 1))
  }
}

function goesBefore(one: SimJob, other: SimJob): boolean {
  return one.priority === other.priority ? one.index < other.index : one.priority > other.priority
}
