import { task } from '../../../worker/task.ts'
import { keepActive, type Scene } from './scene.ts'
import { pretend } from './work.ts'

const deploy = task({
  name: 'tour.deploy',
  approval: true,
  run: async ({ service, version }: { service: string; version: string }, ctx) => {
    await pretend(ctx, 4000, ['draining', 'copying', 'starting', 'checking'])
    ctx.log.info(`${service} ${version} is live`)
    return { service, version }
  },
})

/** A job that waits for approval. Once one has been approved or rejected and has ended, the next one waits. */
export const deployment: Scene = {
  program: { tasks: [deploy] },
  tend: (app) =>
    keepActive(app, deploy, 1, () => ({
      service: 'shop',
      version: '2.4.0',
      replaces: '2.3.9',
      customers: 'all',
    })),
}
