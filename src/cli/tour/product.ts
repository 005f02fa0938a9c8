import type { Sluice } from '../../app/app.ts'
import { catalogue } from './scenes/catalogue.ts'
import { deployment } from './scenes/deployment.ts'
import { encoding } from './scenes/encoding.ts'
import { models } from './scenes/models.ts'
import { payments } from './scenes/payments.ts'
import { reports } from './scenes/reports.ts'
import type { Program, Scene } from './scenes/scene.ts'
import { thumbnails } from './scenes/thumbnails.ts'
import { Scoreboard } from './scoreboard.ts'
import { LANES, tourTasks } from './tasks.ts'

/** What `sluice up --tour` runs: the jobs of `sluice tour`, and a scene for each other thing that there is to see. */
export class TourProduct {
  readonly program: Program
  readonly #scenes: readonly Scene[]

  /** @param config The file that was named for this process, if one was. */
  constructor(config: string | undefined) {
    // Failures come first: they need a few attempts before they are final.
    this.#scenes = [payments, deployment, encoding, catalogue, models, reports, thumbnails(config)]
    const drawing = { tasks: tourTasks({ board: new Scoreboard(), drawn: () => {}, speed: 1 }), lanes: LANES }
    this.program = [drawing, ...this.#scenes.map(({ program }) => program)].reduce(merge)
  }

  /** Submits what every scene has to have and has not. */
  async tend(app: Sluice): Promise<void> {
    for (const scene of this.#scenes) await scene.tend?.(app)
  }

  /** Schedules would go on in a database whose next program does not know their tasks. The next tour declares them again. */
  async removeSchedules(app: Sluice): Promise<void> {
    const there = new Set((await app.listSchedules()).map(({ name }) => name))
    for (const name of Object.keys(this.program.schedules ?? {}))
      if (there.has(name)) await app.removeSchedule(name)
  }
}

function merge(one: Program, other: Program): Program {
  return {
    tasks: [...(one.tasks ?? []), ...(other.tasks ?? [])],
    workflows: [...(one.workflows ?? []), ...(other.workflows ?? [])],
    lanes: { ...one.lanes, ...other.lanes },
    budgets: { ...one.budgets, ...other.budgets },
    schedules: { ...one.schedules, ...other.schedules },
    fleet: { pools: { ...one.fleet?.pools, ...other.fleet?.pools } },
  }
}
