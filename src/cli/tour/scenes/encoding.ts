import { task } from '../../../worker/task.ts'
import { keepActive, type Scene } from './scene.ts'
import { pretend } from './work.ts'

const LANE = 'tour-encoding'
const BACKLOG = 40

const encode = task({
  name: 'tour.encode-video',
  lane: LANE,
  run: async ({ video, minutes }: { video: string; minutes: number }, ctx) => {
    await pretend(ctx, 4000, ['scene 1 of 5', 'scene 2 of 5', 'scene 3 of 5', 'scene 4 of 5', 'scene 5 of 5'])
    return { video, minutes }
  },
})

/** An overloaded lane: as soon as a job starts, another one joins the end of the line. */
export const encoding: Scene = {
  program: { tasks: [encode], lanes: { [LANE]: { slots: 2, perWorker: null } } },
  tend: (app) =>
    keepActive(app, encode, BACKLOG, (index) => ({ video: `talk-${100 + index}.mov`, minutes: 20 + index })),
}
