import { setTimeout as delay } from 'node:timers/promises'
import { InvalidArgumentError } from 'commander'
import type { Sluice } from '../../app/app.ts'
import type { Log } from '../../engine/log.ts'
import { isFinal } from '../../model/job.ts'
import type { Lane } from '../../store/list-lanes.ts'
import type { QueueSample } from '../../store/sample-queues.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired } from '../interrupts.ts'
import { dataFolderOf } from '../operate.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Display, LiveDisplay, NoDisplay, PlainDisplay } from '../tour/display.ts'
import { Picture } from '../tour/picture.ts'
import { Scoreboard } from '../tour/scoreboard.ts'
import { Showing } from '../tour/showing.ts'
import { type TourSummary, writeSummary } from '../tour/summary.ts'
import { LANES, type LaneName, tourTasks } from '../tour/tasks.ts'
import type { LaneView, TourView } from '../tour/view.ts'

interface TourOptions extends CommonOptions {
  readonly speed: number
}

const LOOK_MS = 300
const STALLED_MS = 60_000
const RATE_MS = 3000

/** `sluice tour` */
export const declareTour: Declare = (command, act) => {
  command
    .option('--speed <factor>', 'speed of the sample jobs', factor, 1)
    .addHelpText(
      'after',
      '\nRuns about 290 sample jobs in three lanes on the embedded PostgreSQL, even if DATABASE_URL is set.' +
        '\nCtrl-C stops it. The next tour continues with the remaining jobs.',
    )
    .action((options: TourOptions) => act((world) => tour(world, options)))
}

function factor(text: string): number {
  const number = Number(text)
  if (!(number > 0 && number <= 1000)) throw new InvalidArgumentError('Write a number above 0, at most 1000.')
  return number
}

async function tour(world: World, options: TourOptions): Promise<ExitCode> {
  const { soon, now } = world.interrupts.take()
  const guide = new Guide(world, options)
  try {
    const summary = await Promise.race([guide.run(soon), fired(soon)])
    if (summary !== undefined) {
      guide.display.stop()
      if (options.json === true) writeJson(world.out, summary)
      else writeSummary(world.out, summary, guide.picture, world.program)
      return EXIT.done
    }
    const tell = (text: string) => (options.json === true ? undefined : world.err.line(text))
    if (!guide.isOpen) tell('stopping as soon as PostgreSQL is up; once more to leave at once')
    await Promise.race([guide.close(), fired(now)])
    guide.display.stop()
    tell(`\nstopped; ${guide.left}`)
    return world.interrupts.code ?? EXIT.failed
  } finally {
    guide.display.stop()
    await Promise.race([guide.close(), fired(now)])
  }
}

/** Leads through one showing of the tour. */
class Guide {
  readonly display: Display
  readonly #world: World
  readonly #options: TourOptions
  readonly #board = new Scoreboard()
  readonly #picture = new Picture()
  readonly #events: string[] = []
  #opening: Promise<Sluice> | undefined
  #app: Sluice | undefined
  #showing: Showing | undefined
  #lanes: readonly Lane[] = []
  #samples: readonly QueueSample[] = []
  #beganAt = 0
  /** When how many were done, for the rate. */
  #history: (readonly [at: number, done: number])[] = []

  constructor(world: World, options: TourOptions) {
    this.#world = world
    this.#options = options
    this.display =
      options.json === true
        ? new NoDisplay()
        : world.out.isTerminal && world.environment.TERM !== 'dumb'
          ? new LiveDisplay(world.out)
          : new PlainDisplay(world.out)
  }

  /** What an interrupted showing leaves behind, in words. */
  get left(): string {
    if (this.#showing === undefined) return 'nothing had begun'
    const jobs = this.#showing.jobs.filter((job) => !isFinal(job.state)).length
    return jobs === 0
      ? 'nothing was left to do'
      : `${count(jobs, 'job')} left in the database: run it again to go on`
  }

  get isOpen(): boolean {
    return this.#app !== undefined
  }

  get picture(): string[] {
    return this.#picture.text()
  }

  async run(stop: AbortSignal): Promise<TourSummary> {
    const app = await this.#open()
    const showing = await Showing.find(app, this.#world.now(), (event) => this.#tell(event))
    this.#showing = showing
    if (showing.continued > 0) this.#tell(`continuing with ${count(showing.continued, 'job')} queued earlier`)
    await showing.submit()
    this.#beganAt = performance.now()
    await this.#look()
    this.display.start(() => this.#view())
    await this.#tellOfSilentWorkers(app)
    await app.work({ capacity: 0, name: `tour-${process.pid}` })
    await this.#watch(showing, stop)
    return this.#summary(showing)
  }

  /**
   * Hands back what runs and lets the database stop. May be called at any time, and twice. Waits for an opening that is
   * under way: a database that is being made would otherwise outlive this process by a second or two.
   */
  async close(): Promise<void> {
    const app = await this.#opening?.catch(() => undefined)
    await this.#showing?.refresh().catch(() => {})
    await app?.close({ now: true })
  }

  async #open(): Promise<Sluice> {
    if ((this.#world.environment.DATABASE_URL ?? '') !== '')
      this.#tell('DATABASE_URL is set, but the tour uses an embedded PostgreSQL')
    const dataFolder = dataFolderOf(this.#world, this.#options)
    this.#tell(`starting the embedded PostgreSQL in ${dataFolder}`)
    const tasks = tourTasks({
      board: this.#board,
      drawn: (number, shades) => this.#picture.draw(number, shades),
      speed: this.#options.speed,
    })
    this.#opening = this.#world.open({
      dataFolder,
      log: this.#log(),
      program: { tasks, lanes: LANES, database: '' },
    })
    this.#app = await this.#opening
    return this.#app
  }

  async #watch(showing: Showing, stop: AbortSignal): Promise<void> {
    let done = -1
    let movedAt = performance.now()
    while (!stop.aborted) {
      await this.#look()
      if (showing.finished) return
      if (showing.done !== done) movedAt = performance.now()
      done = showing.done
      if (performance.now() - movedAt > STALLED_MS) throw await showing.stalled()
      await delay(LOOK_MS, undefined, { signal: stop }).catch(() => {})
    }
  }

  async #look(): Promise<void> {
    const app = this.#app!
    const showing = this.#showing!
    await showing.refresh()
    this.#lanes = await app.listLanes()
    this.#samples = await app.sampleQueues()
    for (const { task, result } of showing.jobs) {
      const tile = result as { number: number; shades: string } | null
      if (task === 'tour.tile' && tile !== null) this.#picture.draw(tile.number, tile.shades)
    }
    this.#history.push([performance.now(), showing.done])
    while (this.#history.length > 2 && this.#history[0]![0] < performance.now() - RATE_MS)
      this.#history.shift()
  }

  async #tellOfSilentWorkers(app: Sluice): Promise<void> {
    const others = (await app.listWorkers()).filter((worker) => worker.name.startsWith('tour-'))
    if (others.length > 0)
      this.#tell('another tour runs or was killed; what a killed one held is taken over in about 15 s')
  }

  #tell(event: string): void {
    // Before that they are lines above the view.
    if (this.#beganAt > 0) this.#events.push(event)
    this.display.tell(event)
  }

  /** What the worker warns of is part of the show; the rest is not. */
  #log(): Log {
    const quiet = () => {}
    const loud = (_: object, message: string) => this.#tell(message)
    return { debug: quiet, info: quiet, warn: loud, error: loud }
  }

  #view(): TourView {
    const [firstAt, first] = this.#history[0] ?? [0, 0]
    const [lastAt, last] = this.#history.at(-1) ?? [0, 0]
    return {
      elapsedMs: performance.now() - this.#beganAt,
      perSecond: lastAt > firstAt ? ((last - first) * 1000) / (lastAt - firstAt) : 0,
      done: this.#showing?.done ?? 0,
      total: this.#showing?.total ?? 0,
      lanes: laneNames().map((name) => this.#laneView(name)),
      picture: this.#picture,
      events: this.#events,
    }
  }

  #laneView(name: LaneName): LaneView {
    const samples = this.#samples.filter((sample) => sample.lane === name)
    const oldest = samples.flatMap(({ oldestAt }) => (oldestAt === null ? [] : [oldestAt.getTime()]))
    return {
      name,
      slots: this.#slots(name),
      seats: this.#board.seats(name),
      waiting: samples.reduce((sum, { depth }) => sum + depth, 0),
      oldestMs: oldest.length === 0 ? undefined : this.#world.now().getTime() - Math.min(...oldest),
      done: this.#completed(name),
    }
  }

  #slots(name: LaneName): number | null {
    const lane = this.#lanes.find((each) => each.name === name)
    return lane === undefined ? LANES[name].slots : lane.slots
  }

  #completed(name: LaneName): number {
    return this.#showing?.jobs.filter((job) => job.lane === name && job.state === 'completed').length ?? 0
  }

  #summary(showing: Showing): TourSummary {
    return {
      jobs: showing.total - showing.earlier,
      earlier: showing.earlier,
      seconds: (performance.now() - this.#beganAt) / 1000,
      continued: showing.continued,
      lanes: laneNames().map((name) => ({
        name,
        slots: this.#slots(name),
        most: this.#board.most(name),
        completed: this.#completed(name),
      })),
      stories: showing.stories,
    }
  }
}

function laneNames(): LaneName[] {
  return Object.keys(LANES) as LaneName[]
}
