import type {
  BudgetsView,
  BudgetView,
  DeviceView,
  ModelView,
  QueueView,
} from '../../engine/views/budget-view.ts'
import { formatQuantity } from '../../model/amount.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { bar } from '../output/bar.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import type { Output } from '../output/output.ts'
import { painter } from '../output/style.ts'
import { type Column, writeTable } from '../output/table.ts'
import { cut, printable, widthOf } from '../output/text-width.ts'

/** Beyond these a device has more models or queues than anybody reads. */
const MOST_LINES = 12

/** `sluice devices`: devices, the models on them, and the jobs that wait for them, with reasons. */
export const declareDevices: Declare = (command, act) => {
  command.action((options: CommonOptions) => act((world) => showDevices(world, options)))
}

function showDevices(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const view = await system.budgets()
    if (options.json === true) writeJson(world.out, view)
    else write(world.out, view, world.now().getTime())
    return EXIT.done
  })
}

function write(out: Output, { budgets, models, queues }: BudgetsView, now: number): void {
  if (budgets.length === 0) {
    out.line('there are no budgets; a config file names them under budgets:, such as vram: { devices: auto }')
    return
  }
  for (const budget of budgets) {
    if (budget.devices.length === 0) {
      out.line(`${painter(out)('bold', budget.name)}  no worker has offered a device yet`)
      out.line()
    }
    for (const device of budget.devices) {
      new DeviceLines(out, budget, device, now).write()
      out.line()
    }
  }
  if (models.length > 0) {
    writeTable(out, MODEL_COLUMNS, models)
    out.line()
  }
  if (queues.length === 0) out.line('no jobs are waiting')
  else writeTable(out, QUEUE_COLUMNS, queues)
  if (models.length > 0) {
    out.line()
    out.line(summary(models))
  }
}

/** What one device has, as lines with a word in front. */
class DeviceLines {
  readonly #out: Output
  readonly #budget: BudgetView
  readonly #device: DeviceView
  readonly #now: number

  constructor(out: Output, budget: BudgetView, device: DeviceView, now: number) {
    this.#out = out
    this.#budget = budget
    this.#device = device
    this.#now = now
  }

  write(): void {
    const { copies, next } = this.#device
    this.#title()
    this.#held()
    this.#measured()
    const names = [...copies.map(({ model }) => model), ...next.map(({ model, task }) => model ?? task)].map(
      (name) => widthOf(printable(name)),
    )
    const most = this.#out.columns === undefined ? Number.POSITIVE_INFINITY : 40
    const width = Math.min(most, Math.max(0, ...names))
    for (const copy of copies.slice(0, MOST_LINES)) {
      const jobs = copy.running === 0 ? 'idle' : count(copy.running, 'job')
      const parts = [
        this.#size(copy.amount),
        jobs,
        `for ${roughly(this.#now - copy.since.getTime())}`,
        `worker ${copy.worker}`,
        ...(copy.devices.length > 1 ? [`over ${copy.devices.length} devices`] : []),
        ...(copy.pinned ? ['pinned'] : []),
      ]
      this.#line(copy.state, `${padded(copy.model, width)}  ${parts.join(', ')}`)
    }
    next.slice(0, MOST_LINES).forEach((each, index) => {
      const name = padded(each.model ?? each.task, width)
      this.#line(index === 0 ? 'next' : '', `${name}  ${this.#shortly(each)}`)
    })
    const left = next.length - MOST_LINES
    if (left > 0) this.#line('', `and ${left} more`)
  }

  #title(): void {
    const { key, name, workers, lostAt } = this.#device
    const paint = painter(this.#out)
    const title = paint('bold', printable(key === '' ? this.#budget.name : `${this.#budget.name} on ${key}`))
    if (key === '') {
      this.#out.line(title)
      return
    }
    const called = key === name || key.endsWith(`/${name}`) ? '' : `${printable(name)}  `
    const offered =
      workers.length === 0
        ? paint('yellow', 'no live worker offers it')
        : paint('dim', `offered by ${printable(workers.join(', '))}`)
    const lost =
      lostAt === null
        ? ''
        : paint('red', `  lost ${roughly(this.#now - lostAt.getTime())} ago: it gets no work`)
    this.#out.line(`${title}  ${called}${offered}${lost}`)
  }

  #held(): void {
    const { capacity, held, heldByModels, limit, total, key } = this.#device
    const models = heldByModels > 0 ? `, ${this.#size(heldByModels)} of it by models` : ''
    if (capacity === null) {
      this.#line('held', `${this.#size(held)}${models}; without bounds`)
      return
    }
    const limited =
      limit !== null && limit === capacity && total !== null && key !== ''
        ? ` (an operator's limit; it has ${this.#size(total)})`
        : ''
    const drawn = painter(this.#out)('blue', bar(held, capacity))
    this.#line('held', `${drawn}  ${this.#size(held)} of ${this.#size(capacity)}${models}${limited}`)
  }

  #measured(): void {
    const { measuredUsed: used, measuredFree: free, ageMs, fresh } = this.#device
    if (used === null || free === null || ageMs === null) return
    const drawn = painter(this.#out)('cyan', bar(used, used + free))
    const old = fresh ? '' : ', too old to count'
    this.#line(
      'measured',
      `${drawn}  ${this.#size(used)} used, ${this.#size(free)} free, read ${roughly(ageMs)} ago${old}`,
    )
  }

  #line(word: string, text: string): void {
    const head = `  ${painter(this.#out)('dim', word.padEnd(9))} `
    // Bars have colours, whose codes take no room: only plain text is cut.
    const room = (this.#out.columns ?? Number.POSITIVE_INFINITY) - 12
    this.#out.line(`${head}${text.includes('\u001b') ? text : cut(printable(text), room)}`.trimEnd())
  }

  /** Why it waits, without what stands on the lines above. */
  #shortly({ why, reason, need, room, heldBy, holder, until }: DeviceView['next'][number]): string {
    const who = heldBy.length === 0 ? 'running jobs' : heldBy.join(', ')
    const due = until === null ? '' : `; estimated start in ${roughly(until.getTime() - this.#now)}`
    if (why === 'held' && need !== null && room !== null && holder !== null)
      return `needs ${this.#size(need)}, ${this.#size(room)} is free; ${holder}${due}`
    if (why === 'shared-full' && need !== null && room !== null)
      return `needs ${this.#size(need)}, ${this.#size(room)} is left`
    if (why === 'parallel') return 'as its jobs end: it serves as many as it may'
    if (why === 'next') return `comes next: ${who} ${heldBy.length === 1 ? 'makes' : 'make'} room`
    return reason
  }

  #size(amount: number): string {
    return formatQuantity(Math.round(amount * 1000) / 1000, this.#budget.bytes)
  }
}

function padded(name: string, width: number): string {
  const shown = cut(printable(name), Math.max(1, width))
  return shown + ' '.repeat(Math.max(0, width - widthOf(shown)))
}

const MODEL_COLUMNS: readonly Column<ModelView>[] = [
  { title: 'MODEL', value: (model) => model.name, shrinks: true },
  { title: 'WAITING', value: (model) => String(model.depth), align: 'right' },
  { title: 'OLDEST', value: ({ depth, waitedMs }) => (depth === 0 ? '' : roughly(waitedMs)), align: 'right' },
  { title: 'RUNNING', value: (model) => String(model.running), align: 'right' },
  { title: 'COPIES', value: (model) => String(model.copies), align: 'right' },
  { title: 'LOAD', value: ({ loadMs }) => (loadMs === null ? '' : roughly(loadMs)), align: 'right' },
  { title: 'JOB', value: ({ runMs }) => (runMs === null ? '' : roughly(runMs)), align: 'right' },
  { title: 'LOADS', value: (model) => String(model.loads), align: 'right' },
  { title: 'SWAPS AVOIDED', value: (model) => String(model.swapsAvoided), align: 'right' },
  {
    title: 'OUT OF MEMORY',
    value: ({ outOfMemory }) => (outOfMemory === 0 ? '' : String(outOfMemory)),
    align: 'right',
    optional: true,
    colour: () => 'red',
  },
]

const QUEUE_COLUMNS: readonly Column<QueueView>[] = [
  { title: 'TASK', value: (queue) => queue.task },
  { title: 'MODEL', value: (queue) => queue.model ?? '', optional: true },
  { title: 'WAITING', value: (queue) => String(queue.depth), align: 'right' },
  { title: 'OLDEST', value: (queue) => roughly(queue.waitedMs), align: 'right' },
  { title: 'BLOCKED BY', value: (queue) => queue.reason, shrinks: true },
]

function summary(models: readonly ModelView[]): string {
  const sum = (of: (model: ModelView) => number) => models.reduce((all, model) => all + of(model), 0)
  const loads = sum((model) => model.loads)
  // Programs load their models themselves, and nobody knows how long that takes.
  const total = sum((model) => model.loadTotalMs)
  const took = total === 0 ? '' : `, ${roughly(total)} in all`
  const avoided = sum((model) => model.swapsAvoided)
  return `${count(loads, 'load')} so far${took}; ${count(avoided, 'job')} served without the swap that strict order would have made first`
}
