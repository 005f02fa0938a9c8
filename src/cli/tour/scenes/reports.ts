import type { Scene } from './scene.ts'

/** A schedule that fires every few minutes. */
export const reports: Scene = {
  program: {
    schedules: {
      'tour-report': {
        task: 'tour.report',
        cron: '*/5 * * * *',
        input: { day: 'today' },
        tags: ['tour'],
        overlap: 'skip',
      },
    },
  },
}
