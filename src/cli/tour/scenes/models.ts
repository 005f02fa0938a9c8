import { setTimeout as delay } from 'node:timers/promises'
import { model } from '../../../worker/models/model.ts'
import { type AnyTask, task } from '../../../worker/task.ts'
import { keepActive, type Scene } from './scene.ts'
import { pretend } from './work.ts'

const BUDGET = 'tour-vram'
/** It has no hardware behind it, and its name says so wherever it is shown. */
const DEVICE = 'simulated-gpu'
const LANE = 'tour-models'

/** A task of a model. Loading takes time and holds memory of the simulated device, and nothing else. */
function taskOn(name: string, weights: string, memory: string, part: string): AnyTask {
  return task({
    name,
    lane: LANE,
    model: model({
      name: weights,
      load: ({ signal }) => delay(2000, weights, { signal }),
      unload: () => delay(500),
    }),
    uses: { [BUDGET]: memory },
    run: async ({ about }: { about: string }, ctx) => {
      await pretend(ctx, 2500, [part, part, part])
      return { about, with: weights }
    },
  })
}

const answer = taskOn('tour.answer', 'llama-13b', '16GB', 'writing')
const draw = taskOn('tour.draw', 'flux', '12GB', 'drawing')
const transcribe = taskOn('tour.transcribe', 'whisper', '4GB', 'listening')

/** A budget with models on a simulated device: two of them do not fit side by side and take turns, the third fits beside each. */
export const models: Scene = {
  program: {
    tasks: [answer, draw, transcribe],
    lanes: { [LANE]: { slots: null, perWorker: null } },
    budgets: { [BUDGET]: { [DEVICE]: '24GB' } },
  },
  async tend(app) {
    await keepActive(app, answer, 5, () => ({ about: 'boats' }))
    await keepActive(app, draw, 5, () => ({ about: 'birds' }))
    await keepActive(app, transcribe, 2, () => ({ about: 'bees' }))
  },
}
