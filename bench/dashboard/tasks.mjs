// What the system that the dashboard is measured on runs. Both processes of the benchmark know it.
import { setTimeout as pause } from 'node:timers/promises'
import { task, workflow } from '../../dist/index.js'

/** From this share of the fan-out on an item takes its time: the window stays full while somebody looks. */
const QUICK_SHARE = 0.6
/** 100 in flight, 40 a second: the 40,000 that are left last longer than any measurement. */
const ITEM_MS = 2500

export const LANES = {
  thumbs: { slots: 150, perWorker: null },
  batch: { slots: 2000, perWorker: null },
  imports: { slots: 100, perWorker: null },
  mail: { slots: 6, perWorker: null },
  nightly: { slots: 4, perWorker: null },
  releases: {},
}

/** Tasks of finished jobs, with their lanes. */
export const PAST = {
  'thumbs.render': 'thumbs',
  'videos.transcode': 'batch',
  'search.reindex': 'batch',
  'invoices.render': 'batch',
  'mail.send': 'mail',
  'mail.digest': 'mail',
  'reports.monthly': 'nightly',
  'payments.capture': 'thumbs',
}

/** @param counted Called with each job of the traffic that has run. */
export function tasksOf(counted = () => {}) {
  const plain = Object.entries(PAST)
    .filter(([name]) => name !== 'thumbs.render')
    .map(([name, lane]) => task({ name, lane, run: () => null }))
  const thumb = task({
    name: 'thumbs.render',
    lane: 'thumbs',
    retry: { attempts: 1 },
    run: ({ n }) => {
      counted()
      if (n % 500 === 0)
        throw new Error(`picture ${n} cannot be read: unexpected end of file at byte ${n * 3}`)
      return { n }
    },
  })
  const deploy = task({ name: 'releases.deploy', lane: 'releases', approval: true, run: () => null })
  const fetchFeed = task({
    name: 'catalogue.fetch',
    lane: 'batch',
    run: ({ count }) => Array.from({ length: count }, (_, item) => ({ item, of: count })),
  })
  const importItem = task({
    name: 'catalogue.import-item',
    lane: 'imports',
    retry: { attempts: 1 },
    run: async ({ item, of }, ctx) => {
      // None of these fails: a list of failures that grows is memory that grows.
      if (item >= of * QUICK_SHARE) await pause(ITEM_MS, undefined, { signal: ctx.signal })
      else if (item % 997 === 5) throw new Error(`supplier ${item % 13} answered 503 for item ${item}`)
      return { item }
    },
  })
  const catalogue = workflow({
    name: 'catalogue.import',
    steps: (flow) => {
      const feed = flow.step('fetch', fetchFeed, { count: flow.input.count })
      const items = flow.each('items', feed.result, importItem, (item) => item, {
        concurrency: 100,
        strategy: 'ignore',
      })
      flow.step(
        'reindex',
        plain.find(({ name }) => name === 'search.reindex'),
        {},
        { needs: [items] },
      )
    },
  })
  return { tasks: [...plain, thumb, deploy, fetchFeed, importItem], workflows: [catalogue] }
}
