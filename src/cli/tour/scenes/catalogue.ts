import { task } from '../../../worker/task.ts'
import { workflow } from '../../../workflow/define/define.ts'
import type { Flow } from '../../../workflow/define/flow.ts'
import { keepActive, type Scene } from './scene.ts'
import { pretend } from './work.ts'

const ITEMS = 60
/** More than the slots of the lane, so that the fan-out shows children that wait for one. */
const WINDOW = 6
const LANE = 'tour-catalogue'

const fetchFeed = task({
  name: 'tour.fetch-feed',
  lane: LANE,
  run: async ({ supplier }: { supplier: string }, ctx) => {
    await pretend(ctx, 1500, ['connecting', 'downloading', 'unpacking'])
    ctx.log.info(`${supplier} sent ${ITEMS} items`)
    return { items: Array.from({ length: ITEMS }, (_, index) => `${supplier}-${1001 + index}`) }
  },
})

const indexItem = task({
  name: 'tour.index-item',
  lane: LANE,
  retry: { attempts: 3, backoff: 'fixed', delay: '2s' },
  run: async ({ item, position }: { item: string; position: number }, ctx) => {
    await pretend(ctx, 1000 + (position % 5) * 500, ['reading', 'translating', 'storing'])
    if (position % 17 === 5 && ctx.attempt === 1) throw new Error(`the search index was busy with ${item}`)
    return { item, words: 40 + ((position * 37) % 160) }
  },
})

const publish = task({
  name: 'tour.publish',
  lane: LANE,
  run: async ({ entries }: { entries: readonly { item: string; words: number }[] }, ctx) => {
    await pretend(ctx, 1500, ['checking', 'publishing'])
    return { published: entries.length, words: entries.reduce((sum, { words }) => sum + words, 0) }
  },
})

const importCatalogue = workflow({
  name: 'tour.import-catalogue',
  steps: (flow: Flow<{ supplier: string }>) => {
    const feed = flow.step('fetch', fetchFeed, { supplier: flow.input.supplier })
    const entries = flow.each(
      'index',
      feed.result.items,
      indexItem,
      (item, position) => ({ item, position }),
      {
        concurrency: WINDOW,
      },
    )
    return flow.step('publish', publish, { entries: entries.results }).result
  },
})

/** A workflow with a fan-out and a window: one import after the other. Some items succeed only at a second attempt. */
export const catalogue: Scene = {
  program: {
    tasks: [fetchFeed, indexItem, publish],
    workflows: [importCatalogue],
    lanes: { [LANE]: { slots: 4, perWorker: null } },
    schedules: {
      'tour-nightly-import': {
        workflow: importCatalogue.name,
        cron: '0 3 * * *',
        timezone: 'Europe/Berlin',
        input: { supplier: 'nightly' },
        overlap: 'skip',
      },
    },
  },
  tend: (app) => keepActive(app, importCatalogue, 1, () => ({ supplier: 'acme' })),
}
